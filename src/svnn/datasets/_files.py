"""Finding data files: in a folder, or inside the zip they were published in, without unpacking it."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from svnn.datasets._sources import Source

PathLike = str | os.PathLike[str]

#: Environment variable that names the data folder.
VARIABLE = "SVNN_DATA"
#: What reading a damaged zip may raise, besides an OSError.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)
#: No single official file comes near this size (bytes); a zip that claims one is damaged or hostile.
LARGEST_FILE = 4 * 2**30
#: An archive inside an archive is held in memory up to this size (bytes), and in a temporary file beyond it.
_SPOOL = 256 * 2**20


@dataclass
class Members:
    """The files of one data set: where they were found, their names by number, and how to read one."""

    path: Path
    names: dict[tuple[int, ...], str]
    read: Callable[[str], bytes]

    def title(self, name: str) -> str:
        """Name one of the files for a message: with the zip that it is in."""
        return f"{name} in {self.path}" if self.path.is_file() else name


def data_root(root: PathLike | None, title: str, where: str) -> Path:
    """Return the data folder: ``root``, or else what the environment variable ``SVNN_DATA`` says."""
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    raise FileNotFoundError(
        f"Where are the files of {title}? Give their folder as root=, or name it in the environment variable "
        f"{VARIABLE} (not set). {where}"
    )


def find_file(root: PathLike | None, names: tuple[str, ...], title: str, where: str) -> Path:
    """Return the first of ``names`` (glob patterns) that is a file in the data folder; ``root`` may be the file."""
    folder = data_root(root, title, where)
    if folder.is_file():
        return folder
    for name in names:
        found = sorted(path for path in folder.glob(name) if path.is_file())
        if found:
            return found[-1]  # names with a date end in it: the newest
    raise FileNotFoundError(
        f"{title}: no {' or '.join(names)} in {folder}{'' if folder.is_dir() else ' (no such folder)'}. {where} "
        f"Put it there, or name its folder with root= or the environment variable {VARIABLE}."
    )


@contextmanager
def open_members(source: Source, root: PathLike | None) -> Iterator[Members]:
    """Find the official files of ``source`` and keep them open for reading.

    Unpacked folders and all zips of the data folder are looked at; the one with the most files is used, so
    that a complete set goes before an excerpt.
    """
    where = (
        f'It is UCI data set {source.number}, "{source.title}": {source.page} '
        f'(svnn.datasets.fetch("{source.key}") downloads it).'
    )
    place = data_root(root, source.title, where)
    with ExitStack() as stack:
        candidates, unreadable = [], []
        if place.is_dir():
            candidates = [found for name in source.folders if (found := _in_folder(source, place / name))]
        for archive in _archives(source, place):
            try:
                found = _in_zip(source, archive, archive in (place, place / source.archive), stack)
            except (*UNREADABLE, OSError) as error:
                unreadable.append(f"{archive.name} ({error})")
            else:
                candidates += [found] if found else []
        if not candidates:
            state = "" if place.exists() else " (no such file or folder)"
            damaged = f" Not a readable zip, perhaps cut short: {', '.join(unreadable)}." if unreadable else ""
            raise FileNotFoundError(
                f"{source.title}: no {source.expected} in {place}{state}, in its folders "
                f"{', '.join(name for name in source.folders if name)}, or in a zip there.{damaged} {where} "
                f"Put the zip or its unpacked folder there, or name the folder with root= or the environment "
                f"variable {VARIABLE}."
            )
        yield max(candidates, key=lambda members: len(members.names))


def require(members: Members, source: Source, missing: list[int], what: str) -> None:
    """Complain about files that should be there and are not."""
    if missing:
        raise FileNotFoundError(
            f"{source.title}: {members.path} has no {source.expected} for {what} {', '.join(map(str, missing))}. "
            f"Complete it from UCI data set {source.number} ({source.page}), or ask for fewer with subjects=."
        )


def _in_folder(source: Source, folder: Path) -> Members | None:
    names = {}
    for path in sorted(folder.glob(source.pattern)):
        match = source.member.search(path.relative_to(folder).as_posix())
        if match and path.is_file():
            names[tuple(int(number) for number in match.groups())] = str(path)
    return Members(folder, names, lambda name: Path(name).read_bytes()) if names else None


def _archives(source: Source, place: Path) -> list[Path]:
    if not place.is_dir():
        return [place] if place.is_file() else []
    # The official name first: it wins a tie.
    return sorted(place.glob("*.zip"), key=lambda path: (path.name != source.archive, path.name))


def _in_zip(source: Source, path: Path, look_inside: bool, stack: ExitStack) -> Members | None:
    archive = stack.enter_context(zipfile.ZipFile(path))
    names = _matching(source, archive)
    if not names and look_inside:
        # Some downloads wrap the original archive in another one.
        for info in archive.infolist():
            if info.filename.lower().endswith(".zip") and info.file_size <= LARGEST_FILE:
                inner = zipfile.ZipFile(stack.enter_context(_unpacked(archive, info)))
                if found := _matching(source, inner):
                    archive, names = stack.enter_context(inner), found
                    break
    return Members(path, names, lambda name: read_member(archive, name)) if names else None


def _matching(source: Source, archive: zipfile.ZipFile) -> dict[tuple[int, ...], str]:
    names: dict[tuple[int, ...], str] = {}
    for name in archive.namelist():
        if match := source.member.search(name):
            names.setdefault(tuple(int(number) for number in match.groups()), name)
    return names


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 - the caller's stack closes it
    with archive.open(info) as file:
        while block := file.read(2**20):
            spool.write(block)
    spool.seek(0)
    return spool


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read one file of a zip into memory; a damaged or absurdly large one is a ``ValueError``."""
    size = archive.getinfo(name).file_size
    if size > LARGEST_FILE:
        raise ValueError(f"{name} in {archive.filename} claims {size} bytes unpacked; this is not an official archive.")
    try:
        return archive.read(name)
    except (*UNREADABLE, OSError) as error:
        raise ValueError(f"{name} in {archive.filename} cannot be read ({error}); download the zip again.") from error
