"""The passes of a filter bank over a CSR matrix on the CPU, on torch tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn._compiled import load
from svnn.operators._buffers import workspace
from svnn.operators._openmp import run

#: Bytes of values side by side in a row of a buffer, when one sample has fewer values than a vector.
_LANE_BYTES = 256
_MIN_ROW_BLOCK = 64


def kernels() -> ModuleType | None:
    """Return the compiled kernels, or None where torch has to do the work; see :func:`svnn._compiled.load`."""
    return load("svnn.operators._cpu_kernels")


class CPUMatrix(NamedTuple):
    """A CSR matrix as the kernels read it, with the passes of :mod:`svnn.operators._shift_bank`."""

    values: Tensor
    columns: Tensor  # int32
    row_starts: Tensor  # int64

    @property
    def chunk_bytes(self) -> int:
        """Bytes of shifted signals to make at a time: they should still be in cache when they are used."""
        return 2**21

    def krylov(self, x: Tensor, order: int, out: Tensor) -> Tensor:
        """Write [x, Cx, …, C^order x] of x (B, N, F) to ``out`` (B, N, order + 1, F)."""
        return _run(self, x, out, order, horner=False)

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""
        return _run(self, u, out, u.shape[2] - 1, horner=True)

    def workspace(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory for a chunk: this thread's, so that only one chunk at a time may use it."""
        return workspace("chunk", shape, dtype)


def _run(matrix: CPUMatrix, source: Tensor, out: Tensor, order: int, horner: bool) -> Tensor:
    if order == 0:
        return out.copy_(source.view(out.shape))
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
    scratch = workspace("scratch", (slots * buffers * n * lanes + 64,), source.dtype).data_ptr()
    what = (0, 0, groups, horner, rows, 0)
    shapes = (batch, n, values, order, group, lanes, size)
    arrays = (t.data_ptr() for t in (*matrix, source, out))
    job = np.array([*what, *shapes, *arrays, scratch + -scratch % 64], dtype=np.int64)
    address = (module.work32 if size == 4 else module.work64).address
    if not by_rows:
        run(address, job, slots)
        return out
    job[module.ITEMS] = -(-n // rows)
    for step in range(-1, order + packed):
        job[module.NEXT], job[module.STEP] = 0, step
        run(address, job, n_threads)
    return out
