"""Run a C function on all of torch's threads.

torch's threads are OpenMP's. Calling the same OpenMP runtime means one team for the matrix products
and for our passes; a second pool would fight the first one's waiting threads for the cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_info

from svnn._threads import Crew, forked, pool

_C_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def _gnu_parallel() -> Callable[[int, int, int, int], None] | None:
    """Return ``GOMP_parallel`` of the OpenMP runtime that torch has loaded, or None where that is not GNU's."""
    path = _torch_runtime()
    if path is None or not path.name.startswith("libgomp"):
        return None
    parallel = ctypes.CDLL(str(path)).GOMP_parallel
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


def _torch_runtime() -> Path | None:
    """Return the OpenMP runtime that torch brought or, without one in its folder, the only one loaded."""
    loaded = [Path(library["filepath"]) for library in threadpool_info() if library["user_api"] == "openmp"]
    of_torch = [path for path in loaded if path.is_relative_to(Path(torch.__file__).resolve().parent)]
    candidates = of_torch or loaded
    return candidates[0] if len(candidates) == 1 else None


def run(address: int, job: np.ndarray, n_threads: int) -> None:
    """Call the C function at ``address`` with ``job`` on up to ``n_threads`` threads; return when all are done.

    The first one that is there does all the work if the others come too late.
    """
    data = job.ctypes.data
    if n_threads == 1:
        _C_FUNCTION(address)(data)
    elif not forked() and (parallel := _gnu_parallel()) is not None:
        parallel(address, data, n_threads, 0)
    else:
        _run_plainly(_C_FUNCTION(address), data, n_threads)


def _run_plainly(function: Callable[[int], None], data: int, n_threads: int) -> None:
    """Share the work with plain threads: C functions run without the interpreter's lock."""
    crew = Crew()
    try:
        for _ in range(n_threads - 1):
            pool(n_threads).submit(crew.work, function, data)
        function(data)
        crew.dismiss()
    finally:
        crew.dismiss()  # again: an interrupt may have come on the way into the first; the others still write
