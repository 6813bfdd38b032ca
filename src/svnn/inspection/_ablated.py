"""Shifts without one edge: a batch of signals, each with an edge of its own left out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from svnn.operators import CovarianceOperator


class Ablated(CovarianceOperator):
    r"""A shift for a batch of signals (B, N, F) in which every signal misses an edge.

    .. math:: x_b \mapsto C x_b - c_b (e_{i_b} e_{j_b}^\top + e_{j_b} e_{i_b}^\top) x_b

    This is exact: powers and layers of it are those of the matrix without the edge, and no such matrix is made.

    Parameters
    ----------
    shift : CovarianceOperator
        C.
    first, second : Tensor of shape (B,), integers
        i and j.
    weight : Tensor of shape (B,), double precision
        The entry of C.
    """

    backend = "ablated"

    def __init__(self, shift: CovarianceOperator, first: Tensor, second: Tensor, weight: Tensor) -> None:
        self.base, self.first, self.second, self.weight = shift, first, second, weight
        self.shape, self.scale = shift.shape, shift.scale

    def _batched_matmul(self, x: Tensor) -> Tensor:
        rows = torch.arange(len(x), device=x.device)
        lost = self.weight[:, None]
        shifted = (self.base @ x).contiguous()
        shifted[rows, self.first] -= lost * x[rows, self.second]
        shifted[rows, self.second] -= lost * x[rows, self.first]
        return shifted

    def _matmul(self, x: Tensor) -> Tensor:
        return self._batched_matmul(x[None])[0]

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.weight, self.first, self.second

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        raise NotImplementedError

    def to_dense(self) -> Tensor:
        raise NotImplementedError


class Stack(CovarianceOperator):
    """A shift for a batch of signals (B, N, F) whose E equal parts, one after the other, have matrices of their own.

    Parameters
    ----------
    matrices : Tensor of shape (E, N, N), double precision
    scale : float
    """

    backend = "stack"

    def __init__(self, matrices: Tensor, scale: float | None) -> None:
        self.matrices, self.scale = matrices, scale
        self.shape = (matrices.shape[1], matrices.shape[2])

    def _batched_matmul(self, x: Tensor) -> Tensor:
        n_values = x.shape[2]
        parts = x.view(len(self.matrices), -1, *x.shape[1:])  # (E, t, N, F)
        columns = parts.transpose(1, 2).flatten(2)  # (E, N, t F)
        shifted = torch.bmm(self.matrices, columns).unflatten(2, (-1, n_values))
        return shifted.transpose(1, 2).reshape(x.shape)

    def _matmul(self, x: Tensor) -> Tensor:
        return self._batched_matmul(x[None])[0]

    def _tensors(self) -> tuple[Tensor, ...]:
        return (self.matrices,)

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        raise NotImplementedError

    def to_dense(self) -> Tensor:
        raise NotImplementedError
