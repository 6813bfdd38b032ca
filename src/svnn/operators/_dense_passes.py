"""The passes of a filter bank by products with a dense matrix, for signals of one value per node on the CPU.

The reference is ``CovarianceOperator._reference_filter``, whose result lies on ordinary pages and whose powers are
first made apart and then put side by side. With 1000 samples of 68 nodes or 200 of 300, to 32 values, the forward pass
takes 0.8 to 0.9 of its time, and 0.4 where the C library has no memory of that size at hand; forward and backward take
0.85 to 0.9. With two values per node it would be 1.1 (one core of an x86 server).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from svnn.operators._buffers import empty, workspace
from svnn.operators._operator import batch_product
from svnn.operators._shift_bank import mix


class DenseMatrix(NamedTuple):
    """A symmetric matrix (N, N) with the passes of :mod:`svnn.operators._shift_bank`."""

    matrix: Tensor

    @property
    def chunk_bytes(self) -> int:
        """Bytes of shifted signals to make at a time; torch works on a large piece with all threads."""
        return 2**26

    def krylov(self, x: Tensor, order: int, out: Tensor) -> Tensor:
        """Write [x, Cx, …, C^order x] of x (B, N, F) to ``out`` (B, N, order + 1, F)."""
        out[:, :, 0] = x
        for k in range(1, order + 1):
            x = batch_product(self.matrix, x)
            out[:, :, k] = x
        return out

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""
        y = u[:, :, -1]
        for k in range(u.shape[2] - 2, -1, -1):
            y = batch_product(self.matrix, y) + u[:, :, k]
        return out.copy_(y)

    def widen(self, x: Tensor, weight: Tensor, bias: Tensor | None, keep: bool, out: Tensor) -> Tensor | None:
        """Write the bank of x (B, N, in) to ``out`` (B, N, out); return the shifts (B, N, K + 1, in) where asked to."""
        shape = (*x.shape[:2], len(weight), x.shape[2])
        z = _powers_apart(shape, lambda s: empty(x, *s)) if keep else self.workspace(shape, x.dtype)
        mix(self.krylov(x, len(weight) - 1, z), weight, bias, out, self.chunk_bytes)
        return z if keep else None

    def workspace(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory for a chunk: this thread's, so that only one chunk at a time may use it."""
        return _powers_apart(shape, lambda s: workspace("chunk", s, dtype))


def _powers_apart(shape: tuple[int, ...], make: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """Return memory for shifted signals (B, N, K + 1, F); of one value, every power in a piece of its own."""
    batch, n, taps, values = shape
    return make((taps, batch, n, 1)).permute(1, 2, 0, 3) if values == 1 else make(shape)
