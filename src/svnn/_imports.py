"""Imports without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
