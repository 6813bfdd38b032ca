"""Memory that is used again: fresh pages cost more than the work on them.

The C library gives large blocks back to the system and takes new ones, which the system has to map and to clear,
page by page. :func:`workspace` keeps a buffer for every purpose; :func:`empty` makes tensors that leave their pages
behind when they die.
"""

from __future__ import annotations

import math
import mmap
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

_HUGE_PAGE = 2**21
#: Tensors smaller than this are torch's own; others are rounded up to multiples of it.
_UNIT = 2**20
#: No more than this is kept for later, by either function.
_KEPT_BYTES = 2**28

_local = threading.local()
_free: dict[int, list[mmap.mmap]] = {}


def workspace(role: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return this thread's memory for ``role``, grown where needed."""
    held: dict[Any, Tensor] = _local.__dict__
    size = math.prod(shape)
    key = f"{role} {dtype}"
    with torch.inference_mode(False):  # what is kept has to serve in training as well
        if size * dtype.itemsize > _KEPT_BYTES:
            return torch.empty(shape, dtype=dtype, device="cpu")
        if key not in held or held[key].numel() < size:
            held[key] = _memory(size, dtype)
        return held[key][:size].view(shape)


def _memory(size: int, dtype: torch.dtype) -> Tensor:
    """Return fresh memory, on huge pages where there are any: on small ones a gather waits for addresses too."""
    n_bytes = size * dtype.itemsize
    if n_bytes < _HUGE_PAGE // 16:
        return torch.empty(size, dtype=dtype, device="cpu")
    whole = torch.frombuffer(_pages(n_bytes + _HUGE_PAGE), dtype=torch.uint8)
    start = -whole.data_ptr() % _HUGE_PAGE
    return whole[start : start + n_bytes].view(dtype)


def _pages(n_bytes: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, n_bytes)
    # Private: a forked process must not compute in the same pages.
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages: small ones serve
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class _Lease(np.ndarray):
    """Bytes that a tensor lives in; when it dies, their pages are free for another."""

    pages: mmap.mmap | None = None  # not passed on to views

    def __del__(self) -> None:
        if self.pages is not None:
            with suppress(Exception):  # at the interpreter's end nothing needs to be kept
                if sum(size * len(of_size) for size, of_size in _free.items()) < _KEPT_BYTES:
                    _free.setdefault(len(self.pages), []).append(self.pages)


def empty(like: Tensor, *shape: int) -> Tensor:
    """Return ``like.new_empty(shape)``, in the CPU's memory on pages that were used before."""
    n_bytes = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or n_bytes < _UNIT:
        return like.new_empty(shape)
    size = -(-n_bytes // _UNIT) * _UNIT
    try:
        pages = _free[size].pop()
    except (KeyError, IndexError):
        pages = _pages(size)
    lease = np.frombuffer(pages, np.uint8).view(_Lease)
    lease.pages = pages
    return torch.from_numpy(lease)[:n_bytes].view(like.dtype).view(shape)
