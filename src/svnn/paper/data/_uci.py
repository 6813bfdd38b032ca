"""Data sets of the UCI repository and their official files, unpacked in a folder or in a zip, which stays packed."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from svnn.datasets._files import LARGEST_FILE, UNREADABLE, VARIABLE, data_root, read_member
from svnn.sources._frames import PathLike

#: An archive inside an archive is held in memory up to this size (bytes), and in a temporary file beyond it.
_SPOOL = 256 * 2**20


@dataclass(frozen=True)
class Source:
    """A data set that the UCI repository publishes as a zip of many files.

    ``key`` is its name in svnn; ``title``, ``number`` and ``slug`` are UCI's. ``pattern`` is a glob pattern for its
    files below ``inner``, the folder of the zip that has them. Each star stands for a number; these identify the file.
    """

    key: str
    title: str
    number: int
    slug: str
    pattern: str
    inner: str

    @property
    def expected(self) -> str:
        """The names of the files in messages."""
        return self.pattern.replace("*", "<N>")

    @property
    def archive(self) -> str:
        """Name of the official zip."""
        return f"{self.slug}.zip"

    @property
    def url(self) -> str:
        """Address of the official zip."""
        return f"https://archive.ics.uci.edu/static/public/{self.number}/{self.archive}"

    @property
    def page(self) -> str:
        """Address of the page that describes the data set."""
        return f"https://archive.ics.uci.edu/dataset/{self.number}/{self.slug}"

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders below the data folder where the zip may have been unpacked."""
        around = ("", f"{self.key}/", f"{self.slug}/")
        return tuple(dict.fromkeys(f"{folder}{inner}".rstrip("/") for folder in around for inner in ("", self.inner)))

    def by_number(self, paths: Iterable[str]) -> dict[tuple[int, ...], str]:
        """Return those of the paths that are files of this data set, by the numbers that identify them."""
        member = re.escape(self.pattern).replace(r"\*", r"(\d+)")
        files: dict[tuple[int, ...], str] = {}
        for path in paths:
            if match := re.search(f"(?:^|/){member}$", path):
                files.setdefault(tuple(map(int, match.groups())), path)
        return files


MHEALTH = Source("mhealth", "MHEALTH", 319, "mhealth+dataset", "mHealth_subject*.log", "MHEALTHDATASET")
_TITLE, _SLUG = "REALDISP Activity Recognition", "realdisp+activity+recognition+dataset"
REALDISP = Source("realdisp", _TITLE, 305, _SLUG, "subject*_ideal.log", "realistic_sensor_displacement")
DSADS = Source("dsads", "Daily and Sports Activities", 256, "daily+and+sports+activities", "a*/p*/s*.txt", "data")
SOURCES = {source.key: source for source in (MHEALTH, REALDISP, DSADS)}


@dataclass
class Members:
    """The files of one data set: the folder or zip that has them, their names by number, and a function to read one."""

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
        candidates = [_in_folder(source, place / name) for name in source.folders] if place.is_dir() else []
        unreadable = []
        for archive in _archives(source, place):
            try:
                candidates.append(_in_zip(source, archive, archive in (place, place / source.archive), stack))
            except (*UNREADABLE, OSError) as error:
                unreadable.append(f"{archive.name} ({error})")
        fullest = max(candidates, key=lambda members: len(members.names), default=None)
        if fullest is None or not fullest.names:
            state = "" if place.exists() else " (no such file or folder)"
            damaged = f" Not a readable zip, perhaps cut short: {', '.join(unreadable)}." if unreadable else ""
            raise FileNotFoundError(
                f"{source.title}: no {source.expected} in {place}{state}, in its folders "
                f"{', '.join(filter(None, source.folders))}, or in a zip there.{damaged} {where} "
                f"Put the zip or its unpacked folder there, or name the folder with root= or the environment "
                f"variable {VARIABLE}."
            )
        yield fullest


def find_members(source: Source, root: PathLike | None) -> Path:
    """Return the folder or zip with the official files of ``source``."""
    with open_members(source, root) as members:
        return members.path


def require(members: Members, source: Source, missing: list[int], what: str) -> None:
    """Raise an error that names the ``missing`` files, if there are any."""
    if missing:
        raise FileNotFoundError(
            f"{source.title}: {members.path} has no {source.expected} for {what} {', '.join(map(str, missing))}. "
            f"Complete it from UCI data set {source.number} ({source.page}), or ask for fewer with subjects=."
        )


def _in_folder(source: Source, folder: Path) -> Members:
    """Return the files of ``source`` in a folder."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.glob(source.pattern))}
    names = source.by_number(name for name, path in paths.items() if path.is_file())
    return Members(folder, {key: str(paths[name]) for key, name in names.items()}, lambda name: Path(name).read_bytes())


def _archives(source: Source, place: Path) -> list[Path]:
    """Return the zips to search: those in a folder, or the file itself."""
    if not place.is_dir():
        return [place] if place.is_file() else []
    # The official name comes first, so that of two equally complete zips it is used.
    return sorted(place.glob("*.zip"), key=lambda path: (path.name != source.archive, path.name))


def _in_zip(source: Source, path: Path, look_inside: bool, stack: ExitStack) -> Members:
    """Return the files of ``source`` in a zip, or, with ``look_inside``, in a zip inside that zip."""
    archive = stack.enter_context(zipfile.ZipFile(path))
    names = source.by_number(archive.namelist())
    if not names and look_inside:
        # Some downloads wrap the original archive in another one.
        for info in archive.infolist():
            if info.filename.lower().endswith(".zip") and info.file_size <= LARGEST_FILE:
                inner = zipfile.ZipFile(stack.enter_context(_unpacked(archive, info)))
                if names := source.by_number(inner.namelist()):
                    archive = stack.enter_context(inner)
                    break
    return Members(path, names, lambda name: read_member(archive, name))


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """Return the contents of an entry as a file, in memory if it is small."""
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 - the caller's stack closes it
    with archive.open(info) as file:
        shutil.copyfileobj(file, spool)
    spool.seek(0)
    return spool
