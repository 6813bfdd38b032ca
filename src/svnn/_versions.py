"""The versions of the installed packages that results may depend on."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    *("svnn", "numpy", "scipy", "scikit-learn", "torch", "numba", "torch_geometric", "pandas", "matplotlib", "pyarrow"),
)


def versions() -> dict[str, str]:
    """Return the versions of the packages that results may depend on, of those that are installed."""
    installed = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
