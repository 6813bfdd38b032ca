"""Imports without the garbage collector, and the versions of the packages that are installed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Packages that results may depend on.
_PACKAGES = (
    *("svnn", "numpy", "scipy", "scikit-learn", "torch", "numba", "torch_geometric", "pandas", "matplotlib", "pyarrow"),
)


@contextmanager
def uncollected() -> Iterator[None]:
    """Let Python look for garbage only after an import.

    torch, scikit-learn and numba make hundreds of thousands of objects and next to no garbage. Python looks at all of
    them again and again while they are imported, which takes an eighth of the time.

    Examples
    --------
    >>> import gc
    >>> with uncollected():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


def versions() -> dict[str, str]:
    """Return the versions of the packages that results may depend on, of those that are installed."""
    from importlib.metadata import PackageNotFoundError, version  # `svnn --help` does not wait for it

    installed = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
