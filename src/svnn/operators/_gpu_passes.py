"""The passes of a filter bank over a CSR matrix on a GPU."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from svnn.operators._filter_banks import mix

#: Values that a program, one warp, sums at once, and the fewest side by side that make a gather worthwhile. More
#: bytes in flight do not help: the shift waits for the second-level cache, also with signals of half the size.
_TILE = 128
_MIN_WIDTH = 16


@cache
def _kernels() -> Any:
    try:
        return import_module("svnn.operators._gpu_kernels")
    except ImportError:
        return None


class GPUMatrix:
    """A CSR matrix on a GPU with the passes of :mod:`svnn.operators._filter_banks`; N×N is never allocated."""

    chunk_bytes = 2**30

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix  # as torch stores it
        self.parts = (matrix.values(), matrix.col_indices().int(), matrix.crow_indices())

    def krylov(self, x: Tensor, order: int, out: Tensor) -> Tensor:
        """Write [x, Cx, …, C^order x] of x (B, N, F) to ``out`` (B, N, order + 1, F)."""
        out[:, :, 0] = x
        if x.shape[2] < _MIN_WIDTH:  # gather whole batches, with the nodes first
            y = _nodes_first(x)
            for k in range(1, order + 1):
                y = self._shift(y, None, torch.empty_like(y))
                out[:, :, k] = _batch_first(y, x)
            return out
        for k in range(1, order + 1):
            self._shift(out[:, :, k - 1], None, out[:, :, k])
        return out

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""
        order = u.shape[2] - 1
        if out.shape[2] < _MIN_WIDTH:
            y = _nodes_first(u[:, :, order])
            for k in range(order - 1, -1, -1):
                y = self._shift(y, _nodes_first(u[:, :, k]), torch.empty_like(y))
            return out.copy_(_batch_first(y, out))
        y = u[:, :, order]
        for k in range(order - 1, -1, -1):
            y = self._shift(y, u[:, :, k], out if k == 0 else torch.empty_like(out))
        return y if order else out.copy_(y)

    def widen(self, x: Tensor, weight: Tensor, bias: Tensor | None, keep: bool, out: Tensor) -> Tensor | None:
        """Write the bank of x (B, N, in) to ``out`` (B, N, out); return the shifts (B, N, K + 1, in) if ``keep``."""
        z = self.krylov(x, len(weight) - 1, x.new_empty(*x.shape[:2], len(weight), x.shape[2]))
        mix(z, weight, bias, out)
        return z if keep else None

    def _shift(self, x: Tensor, add: Tensor | None, out: Tensor) -> Tensor:
        """Write C x + add to ``out``, all (B, N, F) with the last axis dense."""
        module = _kernels() if x.is_cuda else None
        batch, n, width = x.shape
        if module is None:
            y = (self.matrix @ x.movedim(1, 0).reshape(n, -1)).view(n, batch, width).movedim(0, 1)
            return out.copy_(y if add is None else y + add)
        block_f = min(_power_of_two(width), _TILE)
        block_b = min(_power_of_two(batch), _TILE // block_f)
        grid = (n, -(-batch // block_b), -(-width // block_f))
        extra = x if add is None else add
        with torch.cuda.device(x.device):
            module.shift_rows[grid](
                *self.parts, x, extra, out, batch, width, x.stride(0), x.stride(1), extra.stride(0), extra.stride(1),
                out.stride(0), out.stride(1), EVEN=batch % block_b == 0 and width % block_f == 0,
                HAS_ADD=add is not None, BLOCK_B=block_b, BLOCK_F=block_f, UNROLL=8, num_warps=1,
            )  # fmt: skip
        return out


def _nodes_first(x: Tensor) -> Tensor:
    """Return (B, N, F) signals as one wide signal, (1, N, B F)."""
    return x.transpose(0, 1).reshape(1, x.shape[1], -1).contiguous()


def _batch_first(y: Tensor, like: Tensor) -> Tensor:
    return y.view(y.shape[1], like.shape[0], like.shape[2]).transpose(0, 1)


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()
