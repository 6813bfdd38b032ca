"""Memory for large tensors: on huge pages, and for temporary buffers used again.

The first touch of fresh memory is slow: the system maps and clears it page by page, and the C library gives large
blocks back as soon as they are freed. :func:`empty` asks for pages of 2 MB, of which there are fewer: a filter bank on
40 or 60 MB of signals takes about 0.8 of the time that it takes on ordinary pages. Its tensors are torch's own, so
nothing is kept once they are freed. :func:`workspace` keeps a buffer for each temporary purpose: with one, a filter
bank on a sparse matrix of 2000 or more nodes takes 0.8 to 0.95 of the time (one core of an x86 server).
"""

from __future__ import annotations

import ctypes
import math
import mmap
import threading
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

#: Tensors smaller than this are left on ordinary pages, which the C library reuses by itself.
_HUGE_PAGE_BYTES = 2**22
#: All workspaces of a thread together keep no more than this.
_KEPT_BYTES = 2**27

_local = threading.local()


def empty(like: Tensor, *shape: int) -> Tensor:
    """Return ``like.new_empty(shape)``, on huge pages where it is large and in the CPU's memory."""
    tensor = like.new_empty(shape)
    if tensor.device.type == "cpu":
        _advise_huge_pages(tensor)
    return tensor


def workspace(role: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return this thread's buffer for ``role``, which the next call for that role may hand out again.

    A new buffer with which all of them would exceed ``_KEPT_BYTES`` takes the place of the others; one that exceeds
    it alone is not kept at all.
    """
    held: dict[str, Tensor] = _local.__dict__
    size = math.prod(shape)
    key = f"{role} {dtype}"
    if key in held and held[key].numel() >= size:
        return held[key][:size].view(shape)
    with torch.inference_mode(False):  # what is kept has to serve in training as well
        buffer = torch.empty(size, dtype=dtype, device="cpu")
    _advise_huge_pages(buffer)
    held.pop(key, None)
    if sum(map(_bytes, held.values())) + _bytes(buffer) > _KEPT_BYTES:
        held.clear()
    if _bytes(buffer) <= _KEPT_BYTES:
        held[key] = buffer
    return buffer.view(shape)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _advise_huge_pages(tensor: Tensor) -> None:
    """Ask the system to back a large, untouched tensor by huge pages; it may decline."""
    size, madvise = _bytes(tensor), _madvise()
    if size < _HUGE_PAGE_BYTES or madvise is None:
        return
    start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (tensor.data_ptr() + size) // mmap.PAGESIZE * mmap.PAGESIZE
    madvise(start, end - start, mmap.MADV_HUGEPAGE)


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """Return the C library's ``madvise``, or None where there are no huge pages to ask for."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
