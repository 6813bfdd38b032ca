"""numba's decorators for the functions that are kept on disk once they are compiled.

numba compiles a function anew when the file that it stands in has changed, but it does not look at the files of the
functions and constants that it uses. So every state of :data:`SOURCES` has a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba
from numba.core import config as _config

#: Files of this package whose text decides what is compiled: the kernels, and the files of all that they import.
SOURCES = (
    "_jit.py",
    "covariance/tiles/_observations.py",
    "covariance/tiles/_tile_kernels.py",
    "functional/uniforms.py",
    "nn/_norm_kernels.py",
    "operators/_cpu/elementwise.py",
    "operators/_cpu/kernels.py",
    "operators/_cpu/vectors.py",
)
#: Folders of kernels that are left: this state of the sources, and the last ones before it.
_KEPT = 3

config: Any = _config
_lock = threading.Lock()


def cached_njit(**options: Any) -> Callable[[Any], Any]:
    """Return ``numba.njit(**options)`` that keeps what it compiles on disk."""

    def decorate(function: Any) -> Any:
        with _numba_folder() as kept:
            return numba.njit(cache=kept, **options)(function)

    return decorate


def cached_cfunc(signature: Any) -> Callable[[Any], Any]:
    """Return ``numba.cfunc(signature)`` that keeps what it compiles on disk."""

    def decorate(function: Any) -> Any:
        with _numba_folder() as kept:
            return numba.cfunc(signature, cache=kept)(function)

    return decorate


@cache
def cache_folder() -> Path | None:
    """Return the folder for these sources' kernels, made where needed, or None where nothing can be written.

    It lies in numba's ``NUMBA_CACHE_DIR`` if that is set, else in the user's folder for caches (``XDG_CACHE_HOME`` or
    ``~/.cache``), and where that cannot be written among the system's temporary files.
    """
    for root in _roots():
        folder = root / "kernels" / _key()
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                os.utime(folder)  # this state of the sources is in use
            _remove_old(folder.parent)
            return folder
    return None


@contextmanager
def _numba_folder() -> Iterator[bool]:
    """Let numba keep what is decorated meanwhile in our folder; say whether there is one."""
    with _lock:
        config.reload_config()  # now, and not in the midst of it
        before = config.CACHE_DIR
        folder = cache_folder()
        config.CACHE_DIR = str(folder or before)
        try:
            yield folder is not None
        finally:
            config.CACHE_DIR = before


def _key() -> str:
    digest = hashlib.sha256(numba.__version__.encode())  # versions side by side do not throw out each other's kernels
    for name in SOURCES:
        text = files("svnn").joinpath(name).read_bytes()
        digest.update(f"{name} {len(text)} ".encode() + text)
    return digest.hexdigest()[:16]


def _roots() -> Iterator[Path]:
    user = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not user.startswith("~"):  # a user without a home
        yield Path(user) / "svnn"
    with suppress(OSError):
        yield _private(Path(tempfile.gettempdir()))


def _private(shared: Path) -> Path:
    """Return a folder of this user's in a shared one; raise where it is somebody else's: what it holds is run."""
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = shared / f"svnn-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if user is not None and (found.st_uid != user or found.st_mode & 0o077 or not stat.S_ISDIR(found.st_mode)):
        raise PermissionError(f"{folder} is not a folder of this user alone.")
    return folder


def _remove_old(parent: Path) -> None:
    with suppress(OSError):
        folders = sorted(parent.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in folders[_KEPT:]:
            shutil.rmtree(folder, ignore_errors=True)
