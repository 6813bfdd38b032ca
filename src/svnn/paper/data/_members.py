"""The official files of a data set: unpacked in a folder, or inside the zip that they were published in."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from svnn.datasets._files import LARGEST_FILE, UNREADABLE, VARIABLE, PathLike, data_root, read_member
from svnn.paper.data._sources import Source

#: An archive inside an archive is held in memory up to this size (bytes), and in a temporary file beyond it.
_SPOOL = 256 * 2**20


@dataclass
class Members:
    """The files of one data set: where they were found, their names by number, and a function that reads one."""

    path: Path
    names: dict[tuple[int, ...], str]
    read: Callable[[str], bytes]

    def title(self, name: str) -> str:
        """Return the name of one of the files for a message, with the zip that it is in."""
        return f"{name} in {self.path}" if self.path.is_file() else name


@contextmanager
def open_members(source: Source, root: PathLike | None) -> Iterator[Members]:
    """Find the official files of ``source`` and keep them open for reading.

    Unpacked folders and all zips in the data folder are searched. The one with the most files is used, so that a
    complete set is preferred to an excerpt.
    """
    where = (
        f'It is UCI data set {source.number}, "{source.title}": {source.page} '
        f'(svnn.paper.fetch("{source.key}") downloads it).'
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
    """Raise an error that names the ``missing`` files, if there are any."""
    if missing:
        raise FileNotFoundError(
            f"{source.title}: {members.path} has no {source.expected} for {what} {', '.join(map(str, missing))}. "
            f"Complete it from UCI data set {source.number} ({source.page}), or ask for fewer with subjects=."
        )


def _in_folder(source: Source, folder: Path) -> Members | None:
    """Return the files of ``source`` in a folder, or None where there are none."""
    names = {}
    for path in sorted(folder.glob(source.pattern)):
        match = source.member.search(path.relative_to(folder).as_posix())
        if match and path.is_file():
            names[tuple(int(number) for number in match.groups())] = str(path)
    return Members(folder, names, lambda name: Path(name).read_bytes()) if names else None


def _archives(source: Source, place: Path) -> list[Path]:
    """Return the zips to search: those in a folder, or the file itself."""
    if not place.is_dir():
        return [place] if place.is_file() else []
    # The official name comes first, so that of two equally complete zips it is used.
    return sorted(place.glob("*.zip"), key=lambda path: (path.name != source.archive, path.name))


def _in_zip(source: Source, path: Path, look_inside: bool, stack: ExitStack) -> Members | None:
    """Return the files of ``source`` in a zip, or, with ``look_inside``, in a zip inside that zip; otherwise None."""
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
    """Return the names of the files of ``source`` in a zip, by the numbers that identify them."""
    names: dict[tuple[int, ...], str] = {}
    for name in archive.namelist():
        if match := source.member.search(name):
            names.setdefault(tuple(int(number) for number in match.groups()), name)
    return names


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """Return the contents of an entry as a file, in memory if it is small."""
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 - the caller's stack closes it
    with archive.open(info) as file:
        while block := file.read(2**20):
            spool.write(block)
    spool.seek(0)
    return spool
