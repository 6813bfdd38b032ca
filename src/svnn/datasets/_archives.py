"""Unpacking a zip that nobody here has made."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from svnn.datasets._files import UNREADABLE

#: Unpacked bytes beyond which an archive is refused; the largest official one is well below.
LARGEST_ARCHIVE = 32 * 2**30


def extract_zip(archive: Path, target: Path, *, max_bytes: int = LARGEST_ARCHIVE) -> Path:
    """Unpack ``archive`` into the new folder ``target``, all of it or nothing.

    Every entry is checked before the first byte is written: names that would lead out of the folder,
    links and devices, passwords, names given twice and more than ``max_bytes`` in all are refused with a
    ``ValueError``. The files appear under ``target`` in one step, when all of them are there.
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
                    if left < 0:  # the sizes in the directory of a zip are only claims
                        raise ValueError(f"{archive} unpacks to more than {max_bytes} bytes; nothing was kept.")
                    file.write(block)
        os.replace(folder, target)
    return target


def _blocks(zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with zipped.open(info) as source:
            while block := source.read(2**20):
                yield block
    except (*UNREADABLE, OSError) as error:
        raise ValueError(
            f"{info.filename} in {zipped.filename} is damaged ({error}); nothing was kept, download the zip again."
        ) from error


def check_entries(entries: list[zipfile.ZipInfo], archive: Path, max_bytes: int) -> None:
    """Refuse an archive of which any entry is not a plain file or folder inside it."""
    seen: set[str] = set()
    for info in entries:
        problem = _problem(info)
        # Two names that differ in case are one file on some systems.
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
