"""Finding data files: in a folder, or inside the zip that they were published in, which stays packed."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from pathlib import Path

PathLike = str | os.PathLike[str]

#: Environment variable that names the data folder.
VARIABLE = "SVNN_DATA"
#: The errors, besides OSError, that reading a damaged zip may raise.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)
#: Every official file is far smaller than this (bytes); a zip that claims to hold a larger one is damaged or hostile.
LARGEST_FILE = 4 * 2**30


def data_root(root: PathLike | None, title: str, where: str) -> Path:
    """Return the data folder: ``root``, or else the folder that the environment variable ``SVNN_DATA`` names.

    Without either, the error names the data set by its ``title`` and says ``where`` to get it.
    """
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    raise FileNotFoundError(
        f"Where are the files of {title}? Give their folder as root=, or name it in the environment variable "
        f"{VARIABLE} (not set). {where}"
    )


def find_file(root: PathLike | None, names: tuple[str, ...], title: str, where: str) -> Path:
    """Return the file in the data folder that matches one of ``names``, which are glob patterns.

    The first pattern that any file matches decides. ``root`` may also be the file itself.
    """
    folder = data_root(root, title, where)
    if folder.is_file():
        return folder
    for name in names:
        found = sorted(path for path in folder.glob(name) if path.is_file())
        if found:
            return found[-1]  # where names end in a date, this is the newest
    raise FileNotFoundError(
        f"{title}: no {' or '.join(names)} in {folder}{'' if folder.is_dir() else ' (no such folder)'}. {where} "
        f"Put it there, or name its folder with root= or the environment variable {VARIABLE}."
    )


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read one file of a zip into memory; raise a ``ValueError`` if it is damaged or absurdly large."""
    size = archive.getinfo(name).file_size
    if size > LARGEST_FILE:
        raise ValueError(
            f"{name} in {archive.filename} claims to unpack to {size} bytes; this is not an official archive."
        )
    try:
        return archive.read(name)
    except (*UNREADABLE, OSError) as error:
        raise ValueError(f"{name} in {archive.filename} cannot be read ({error}); download the zip again.") from error
