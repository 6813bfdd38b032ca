"""The one way to the kernels that numba compiles."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from types import ModuleType


def load(module: str) -> ModuleType | None:
    """Return a module of compiled kernels, or None where torch has to do the work.

    Torch has to do the work where numba cannot be imported, which a warning says once, and where the environment
    variable ``SVNN_NUMBA`` is ``0``: set it to run, or to test, the library without the kernels although numba is
    installed. A kernel that does not compile is an error.

    The first call on a machine compiles the kernels, for some seconds; :mod:`svnn._jit` says where they are kept.
    """
    if os.environ.get("SVNN_NUMBA") == "0" or not _has_numba():
        return None
    return _module(module)


_module = cache(import_module)


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
