"""numba's decorators, for functions that are compiled once and then kept on disk.

numba compiles a function again when its own file has changed, but it does not look at the files of the functions and
constants that it uses. So the compiled functions of every version of :data:`SOURCES` are kept in a separate folder.
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
from typing import Any, Protocol, TypeVar

import numba
from numba.core import config as _config

Function = TypeVar("Function", bound=Callable[..., object])


class CFunction(Protocol):
    """A compiled function that C code can call."""

    @property
    def address(self) -> int | None:
        """The address of its machine code."""
        ...


#: Files of this package whose text decides what is compiled: the kernels, and the files of all that they import.
SOURCES = (
    "_jit.py",
    "covariance/tiles/_observations.py",
    "covariance/tiles/_tile_kernels.py",
    "estimators/training/_lanes.py",
    "estimators/training/_member_kernels.py",
    "functional/masks.py",
    "operators/_cpu_kernels.py",
)
#: How many folders of compiled functions are kept: that of the present sources, and those that were used last before.
_KEPT = 3

config: Any = _config
_lock = threading.Lock()


def cached_njit(**options: Any) -> Callable[[Function], Function]:
    """Return the decorator ``numba.njit(**options)``, which keeps what it compiles on disk."""

    def decorate(function: Function) -> Function:
        with _numba_folder() as kept:
            return numba.njit(cache=kept, **options)(function)

    return decorate


def cached_cfunc(signature: object) -> Callable[[Callable[..., None]], CFunction]:
    """Return the decorator ``numba.cfunc(signature)``, which keeps what it compiles on disk."""

    def decorate(function: Callable[..., None]) -> CFunction:
        with _numba_folder() as kept:
            return numba.cfunc(signature, cache=kept)(function)

    return decorate


@cache
def cache_folder() -> Path | None:
    """Return the folder for functions compiled from the present sources, or None where no folder can be written.

    The folder is made if it does not exist. It lies in numba's ``NUMBA_CACHE_DIR`` if that is set, otherwise in the
    user's folder for caches (``XDG_CACHE_HOME`` or ``~/.cache``). Where neither can be written, it lies among the
    system's temporary files.
    """
    for root in _roots():
        folder = root / "kernels" / _key()
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                os.utime(folder)  # marks the folder as used just now
            _remove_old(folder.parent)
            return folder
    return None


@contextmanager
def _numba_folder() -> Iterator[bool]:
    """Make numba keep what is decorated inside this context in our folder; yield whether there is such a folder."""
    with _lock:
        config.reload_config()  # numba's compiler does this too; once it is done, it does not undo the change below
        before = config.CACHE_DIR
        folder = cache_folder()
        config.CACHE_DIR = str(folder or before)
        try:
            yield folder is not None
        finally:
            config.CACHE_DIR = before


def _key() -> str:
    """Return a name for the present sources: a hash of their texts and of numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())  # so that two versions of numba do not share a folder
    for name in SOURCES:
        text = files("svnn").joinpath(name).read_bytes()
        digest.update(f"{name} {len(text)} ".encode() + text)
    return digest.hexdigest()[:16]


def _roots() -> Iterator[Path]:
    """Yield the places where our folder may lie, the best one first."""
    user = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not user.startswith("~"):  # expanduser leaves it for a user without a home
        yield Path(user) / "svnn"
    with suppress(OSError):
        yield _private(Path(tempfile.gettempdir()))


def _private(shared: Path) -> Path:
    """Return a folder in ``shared`` that belongs to this user alone: what it holds is run, so nobody else may write it.

    Raises ``PermissionError`` where the folder belongs to somebody else, or others can read or write it.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = shared / f"svnn-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if user is not None and (found.st_uid != user or found.st_mode & 0o077 or not stat.S_ISDIR(found.st_mode)):
        raise PermissionError(f"{folder} is not a folder of this user alone.")
    return folder


def _remove_old(parent: Path) -> None:
    """Remove all folders in ``parent`` but the ones that were used last."""
    with suppress(OSError):
        folders = sorted(parent.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in folders[_KEPT:]:
            shutil.rmtree(folder, ignore_errors=True)
