"""Run a C function on all of torch's threads, and give them memory that is used again.

torch's threads are OpenMP's. Calling the same OpenMP runtime means one team for the matrix products
and for our passes; a second pool would fight the first one's waiting threads for the cores.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

_HUGE_PAGE = 2**21
#: Larger workspaces are not kept.
_KEPT_BYTES = 2**28
_C_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_local = threading.local()


@cache
def _openmp() -> Any:
    """Return ``GOMP_parallel`` of the OpenMP runtime that torch has loaded, or None."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        # torch is imported, so the name finds the library it has brought.
        parallel = ctypes.CDLL("libgomp.so.1").GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads - 1, thread_name_prefix="svnn")


def run(address: int, job: np.ndarray, n_threads: int) -> None:
    """Call the C function at ``address`` with ``job`` on ``n_threads`` threads; return when all are done."""
    data = job.ctypes.data
    function = _C_FUNCTION(address)
    if n_threads == 1:
        function(data)
    elif (parallel := _openmp()) is not None:
        parallel(address, data, n_threads, 0)
    else:  # plain threads: C functions run without the interpreter's lock
        others = [_pool(n_threads).submit(function, data) for _ in range(n_threads - 1)]
        function(data)
        for other in others:
            other.result()


def workspace(role: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return this thread's memory for ``role``, grown where needed: fresh pages cost more than the work on them."""
    held: dict[Any, Tensor] = _local.__dict__
    size = int(np.prod(shape))
    key = f"{role} {dtype}"
    with torch.inference_mode(False):  # what is kept has to serve in training as well
        if size * dtype.itemsize > _KEPT_BYTES:
            return _memory(size, dtype).view(shape)
        if key not in held or held[key].numel() < size:
            held[key] = _memory(size, dtype)
        return held[key][:size].view(shape)


def _memory(size: int, dtype: torch.dtype) -> Tensor:
    """Return fresh memory, on huge pages where there are any: on small ones a gather waits for addresses too."""
    n_bytes = size * dtype.itemsize
    if n_bytes < _HUGE_PAGE // 16 or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(size, dtype=dtype, device="cpu")
    # Private: a forked process must not compute in the same pages.
    pages = mmap.mmap(-1, n_bytes + 2 * _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages: small ones serve
        pages.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(pages, dtype=torch.uint8)
    start = -whole.data_ptr() % _HUGE_PAGE
    return whole[start : start + n_bytes].view(dtype)


if hasattr(os, "register_at_fork"):  # a child has no threads but the one that forked
    os.register_at_fork(after_in_child=_pool.cache_clear)
