"""The passes of a filter bank over a CSR matrix on the CPU: compiled kernels on torch's own threads.

torch's threads are OpenMP's. Calling the same OpenMP runtime means one team of threads for the matrix products and for
these passes; a second pool would compete with the waiting threads of the first one for the cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_info
from torch import Tensor

from svnn._compiled import load
from svnn._threads import Crew, forked, pool
from svnn.operators._filter_banks import mix

#: Bytes of values side by side in a row of a buffer, when one sample has fewer values than a vector.
_LANE_BYTES = 256
_MIN_ROW_BLOCK = 64
#: Up to this number of shifted values per node the pass that shifts them mixes them too.
_MIXED_VALUES = 16
#: A result of this size, which no cache keeps until it is used, is written past the caches.
_STREAMED_BYTES = 2**23
_C_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def kernels() -> ModuleType | None:
    """Return the compiled kernels, or None where torch has to do the work; see :func:`svnn._compiled.load`."""
    return load("svnn.operators._cpu_kernels")


class CPUMatrix(NamedTuple):
    """A CSR matrix as the kernels read it, with the passes of :mod:`svnn.operators._filter_banks`."""

    values: Tensor
    columns: Tensor  # int32
    row_starts: Tensor  # int64

    @property
    def chunk_bytes(self) -> int:
        """Bytes of shifted signals to make at a time: they should still be in cache when they are used."""
        return 2**21

    def krylov(self, x: Tensor, order: int, out: Tensor) -> Tensor:
        """Write [x, Cx, …, C^order x] of x (B, N, F) to ``out`` (B, N, order + 1, F)."""
        if order == 0:
            return out.copy_(x.view(out.shape))
        _run_pass(self, x, out, order, horner=False)
        return out

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""
        if u.shape[2] == 1:
            return out.copy_(u.view(out.shape))
        _run_pass(self, u, out, u.shape[2] - 1, horner=True)
        return out

    def widen(self, x: Tensor, weight: Tensor, bias: Tensor | None, keep: bool, out: Tensor) -> Tensor | None:
        """Write the bank of x (B, N, in) to ``out`` (B, N, out); return the shifts (B, N, K + 1, in) if ``keep``.

        Where a node has few values, one pass makes both.
        """
        taps, n_in, n_out = weight.shape
        size = x.element_size()
        mixed = taps * n_in <= _MIXED_VALUES and n_in * size < 64 and n_out * size % 128 == 0
        z = x.new_empty(*x.shape[:2], taps, n_in) if keep or not mixed else None
        if mixed:
            bias = weight.new_zeros(n_out) if bias is None else bias
            _run_pass(self, x, z, taps - 1, False, (weight.contiguous(), bias.contiguous(), out))
        elif z is not None:
            mix(self.krylov(x, taps - 1, z), weight, bias, out)
        return z if keep else None


def _run_pass(
    matrix: CPUMatrix,
    source: Tensor,
    out: Tensor | None,
    order: int,
    horner: bool,
    mixing: tuple[Tensor, Tensor, Tensor] | None = None,
) -> None:
    """Run a pass from ``source`` to ``out``, and with ``mixing``, a weight, a bias and the result, to that."""
    module: Any = kernels()
    batch, n, values = source.shape[0], source.shape[1], source.shape[-1]
    size, n_threads = source.element_size(), torch.get_num_threads()
    group = 1 if values * size >= 64 else max(1, min(_LANE_BYTES // (values * size), batch))
    lanes = -(-group * values * size // 64) * 64 // size
    groups = -(-batch // group)
    by_rows = groups == 1 and n_threads > 1 and n >= 2 * _MIN_ROW_BLOCK
    rows = max(_MIN_ROW_BLOCK, -(-n // (8 * n_threads))) if by_rows else 0
    slots = 1 if by_rows else min(n_threads, groups)
    packed = group > 1 or lanes != values
    buffers = order + 1 if packed else 2
    held = torch.empty(slots * buffers * n * lanes + 64, dtype=source.dtype, device="cpu")  # until the pass is done
    scratch = held.data_ptr() + -held.data_ptr() % 64
    what = (0, 0, groups, horner, rows, 0)
    shapes = (batch, n, values, order, group, lanes, size)
    arrays = [0 if t is None else t.data_ptr() for t in (*matrix, source, out)]
    mixed = [0] * 5
    if mixing is not None:
        y = mixing[2]
        streamed = y.numel() * size >= _STREAMED_BYTES and y.data_ptr() % 64 == 0
        mixed = [*(t.data_ptr() for t in mixing), y.shape[-1] * size, streamed]
    job = np.array([*what, *shapes, *arrays, scratch, *mixed], dtype=np.int64)
    address = (module.work32 if size == 4 else module.work64).address
    if not by_rows:
        run(address, job, slots)
        return
    job[module.ITEMS] = -(-n // rows)
    for step in range(-1, order + packed):
        job[module.NEXT], job[module.STEP] = 0, step
        run(address, job, n_threads)


def run(address: int, job: np.ndarray, n_threads: int) -> None:
    """Call the C function at ``address`` with ``job`` on up to ``n_threads`` threads; return when all are done.

    The calling thread does all the work if the others come too late.
    """
    data = job.ctypes.data
    if n_threads == 1:
        _C_FUNCTION(address)(data)
    elif not forked() and (parallel := _gnu_parallel()) is not None:
        parallel(address, data, n_threads, 0)
    else:
        _run_on_plain_threads(_C_FUNCTION(address), data, n_threads)


@cache
def _gnu_parallel() -> Callable[[int, int, int, int], None] | None:
    """Return ``GOMP_parallel`` of the OpenMP runtime that torch has loaded, or None if it is not GNU's."""
    path = _torch_runtime()
    if path is None or not path.name.startswith("libgomp"):
        return None
    parallel = ctypes.CDLL(str(path)).GOMP_parallel
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


def _torch_runtime() -> Path | None:
    """Return the OpenMP runtime in torch's folder or, if there is none, the only one loaded."""
    loaded = [Path(library["filepath"]) for library in threadpool_info() if library["user_api"] == "openmp"]
    of_torch = [path for path in loaded if path.is_relative_to(Path(torch.__file__).resolve().parent)]
    candidates = of_torch or loaded
    return candidates[0] if len(candidates) == 1 else None


def _run_on_plain_threads(function: Callable[[int], None], data: int, n_threads: int) -> None:
    """Share the work with plain threads: C functions run without the interpreter's lock."""
    crew = Crew()
    try:
        for _ in range(n_threads - 1):
            pool(n_threads).submit(crew.work, function, data)
        function(data)
        crew.dismiss()
    finally:
        crew.dismiss()  # again: an interrupt may have come before the first; the others still write
