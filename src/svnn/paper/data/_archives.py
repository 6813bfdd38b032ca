"""Unpacking zip archives from the internet: every entry is checked before anything is written."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from svnn.datasets._files import UNREADABLE

#: An archive that unpacks to more bytes than this is refused; the largest official one is much smaller.
LARGEST_ARCHIVE = 32 * 2**30


def extract_zip(archive: Path, target: Path, *, max_bytes: int = LARGEST_ARCHIVE) -> Path:
    """Unpack ``archive`` into the new folder ``target``, all of it or nothing.

    An archive is refused with a ``ValueError``, before the first byte is written, if it has names that would lead out
    of the folder, links or devices, passwords, the same name twice, or more than ``max_bytes`` in all. The files appear
    under ``target`` in one step, when all of them are unpacked.
    """
    if target.exists():
        raise FileExistsError(f"{target} is there already; remove it to unpack {archive} again.")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        opened = zipfile.ZipFile(archive)
    except UNREADABLE as error:
        raise ValueError(f"{archive} is not a readable zip ({error}); download it again.") from error
    with opened as zipped, tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        entries = zipped.infolist()
        check_entries(entries, archive, max_bytes)
        size, free = sum(info.file_size for info in entries), shutil.disk_usage(scratch).free
        if size > free:
            raise OSError(f"{archive} was not unpacked: it needs {size} bytes and {free} are free.")
        folder = Path(scratch, target.name)
        folder.mkdir()
        left = max_bytes
        for info in entries:
            path = folder.joinpath(*PurePosixPath(info.filename).parts)
            if info.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                for block in _blocks(zipped, info):
                    left -= len(block)
                    if left < 0:  # the sizes that a zip states need not be true
                        raise ValueError(f"{archive} unpacks to more than {max_bytes} bytes; nothing was kept.")
                    file.write(block)
        os.replace(folder, target)
    return target


def _blocks(zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the contents of one entry, block by block."""
    try:
        with zipped.open(info) as source:
            while block := source.read(2**20):
                yield block
    except (*UNREADABLE, OSError) as error:
        raise ValueError(
            f"{info.filename} in {zipped.filename} is damaged ({error}); nothing was kept, download the zip again."
        ) from error


def check_entries(entries: list[zipfile.ZipInfo], archive: Path, max_bytes: int) -> None:
    """Raise an error unless every entry is a plain file or folder inside the archive, and they are not too large."""
    seen: set[str] = set()
    for info in entries:
        problem = _problem(info)
        # On some systems two names that differ only in case are the same file.
        key = info.filename.rstrip("/").casefold()
        if key in seen and not info.is_dir():
            problem = "appears twice"
        seen.add(key)
        if problem:
            raise ValueError(f"{archive} was not unpacked: its entry {info.filename!r} {problem}.")
    size = sum(info.file_size for info in entries)
    if size > max_bytes:
        raise ValueError(f"{archive} was not unpacked: it holds {size} bytes, more than the {max_bytes} allowed.")


def _problem(info: zipfile.ZipInfo) -> str | None:
    """Return what is wrong with an entry, in words that follow its name, or None."""
    name = info.filename
    if not name or name.startswith("/") or PureWindowsPath(name).drive or "\\" in name:
        return "has an absolute path or a backslash"
    if ".." in PurePosixPath(name).parts:
        return "leads out of the folder"
    if any(ord(character) < 32 for character in name):
        return "has a name with control characters"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return "is a link or a special file"
    if info.flag_bits & 1:
        return "needs a password"
    return None
