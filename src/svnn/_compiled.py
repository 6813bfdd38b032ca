"""Load the kernels that numba compiles."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import ModuleType

from svnn._progress import on_terminal


def load(module: str) -> ModuleType | None:
    """Return a module of compiled kernels, or None where torch has to do the work.

    Torch has to do the work where numba cannot be imported, which a warning says once, and where the environment
    variable ``SVNN_NUMBA`` is ``0``: set it to run, or to test, the library without the kernels although numba is
    installed. A kernel that does not compile is an error.

    The first call on a machine compiles the kernels, for some seconds. A person at a terminal is told so; programs that
    read standard error, and notebooks, are not. :mod:`svnn._jit` says where the kernels are kept.
    """
    if os.environ.get("SVNN_NUMBA") == "0" or not _has_numba():
        return None
    return _module(module)


@cache
def _module(name: str) -> ModuleType:
    from svnn._jit import cache_folder

    folder = cache_folder()
    mark = None if folder is None else folder / f"{name}.compiled"
    if (mark is None or not mark.exists()) and on_terminal():
        print("svnn: compiling kernels for this processor, which takes some seconds once ...", file=sys.stderr)
    module = import_module(name)
    if mark is not None:
        with suppress(OSError):  # the line is then shown again
            mark.touch()
    return module


@cache
def _has_numba() -> bool:
    try:
        import numba  # noqa: F401
    except ImportError as error:
        warnings.warn(
            f"numba cannot be imported ({error}): sparse filters and large covariances run on torch's own operations, "
            "several times slower. Install it (pip install numba), or set SVNN_NUMBA=0 to go without it in silence.",
            stacklevel=4,
        )
        return False
    return True
