"""Run a C function on all of torch's threads.

torch's threads are OpenMP's. Calling the same OpenMP runtime means one team for the matrix products
and for our passes; a second pool would fight the first one's waiting threads for the cores.
"""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

_C_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


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
