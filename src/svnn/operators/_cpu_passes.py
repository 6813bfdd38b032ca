"""The passes of a filter bank over a CSR matrix on the CPU, on torch tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn._compiled import load
from svnn.operators._buffers import empty, workspace
from svnn.operators._openmp import run
from svnn.operators._shift_bank import mix

#: Bytes of values side by side in a row of a buffer, when one sample has fewer values than a vector.
_LANE_BYTES = 256
_MIN_ROW_BLOCK = 64
#: Up to this many shifted values per node the pass that shifts them mixes them too.
_MIXED_VALUES = 16
#: A result of so many bytes, which no cache keeps until it is used, is written past the caches.
_STREAMED_BYTES = 2**23


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
        if order == 0:
            return out.copy_(x.view(out.shape))
        _run(self, x, out, order, horner=False)
        return out

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""
        if u.shape[2] == 1:
            return out.copy_(u.view(out.shape))
        _run(self, u, out, u.shape[2] - 1, horner=True)
        return out

    def widen(self, x: Tensor, weight: Tensor, bias: Tensor | None, keep: bool, out: Tensor) -> Tensor | None:
        """Write the bank of x (B, N, in) to ``out`` (B, N, out); return the shifts (B, N, K + 1, in) where asked to.

        Where a node has few values, one pass makes both.
        """
        taps, n_in, n_out = weight.shape
        shape, size = (*x.shape[:2], taps, n_in), x.element_size()
        z = empty(x, *shape) if keep else None
        if taps * n_in <= _MIXED_VALUES and n_in * size < 64 and n_out * size % 128 == 0:
            bias = weight.new_zeros(n_out) if bias is None else bias
            _run(self, x, z, taps - 1, False, (weight.contiguous(), bias.contiguous(), out))
        else:
            shifted = workspace("krylov", shape, x.dtype) if z is None else z
            mix(self.krylov(x, taps - 1, shifted), weight, bias, out, self.chunk_bytes)
        return z

    def workspace(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory for a chunk: this thread's, so that only one chunk at a time may use it."""
        return workspace("chunk", shape, dtype)


def _run(
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
    # Held until the pass is done: a buffer beyond what is kept would be freed.
    held = workspace("scratch", (slots * buffers * n * lanes + 64,), source.dtype)
    scratch = held.data_ptr()
    what = (0, 0, groups, horner, rows, 0)
    shapes = (batch, n, values, order, group, lanes, size)
    arrays = [0 if t is None else t.data_ptr() for t in (*matrix, source, out)]
    mixed = [0] * 5
    if mixing is not None:
        y = mixing[2]
        streamed = y.numel() * size >= _STREAMED_BYTES and y.data_ptr() % 64 == 0
        mixed = [*(t.data_ptr() for t in mixing), y.shape[-1] * size, streamed]
    job = np.array([*what, *shapes, *arrays, scratch + -scratch % 64, *mixed], dtype=np.int64)
    address = (module.work32 if size == 4 else module.work64).address
    if not by_rows:
        run(address, job, slots)
        return
    job[module.ITEMS] = -(-n // rows)
    for step in range(-1, order + packed):
        job[module.NEXT], job[module.STEP] = 0, step
        run(address, job, n_threads)
