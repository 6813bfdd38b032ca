"""The shift as a sparse matrix in CSR form."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from svnn.operators._base import CovarianceOperator, fused
from svnn.operators._cpu.passes import CPUMatrix, kernels
from svnn.operators._fused_bank import ShiftPasses, fused_filter_bank
from svnn.operators._gpu.passes import GPUMatrix


class CSROperator(CovarianceOperator):
    """Compressed sparse rows; a shift costs ``nnz`` multiply-adds a column."""

    backend = "csr"

    def __init__(self, values: Tensor, columns: Tensor, row_starts: Tensor) -> None:
        n = len(row_starts) - 1
        _check_structure(values, columns, row_starts, n)
        self.values, self.columns, self.row_starts = (v.contiguous() for v in (values, columns, row_starts))
        self.shape = (n, n)

    @classmethod
    def from_scipy(cls, C: Any) -> CSROperator:
        C = sp.csr_array(C)
        C.sum_duplicates()
        return cls(*(torch.from_numpy(a.copy()) for a in (C.data, C.indices, C.indptr)))

    def _matmul(self, x: Tensor) -> Tensor:
        product: Tensor = _SymmetricProduct.apply(x, self._torch())
        return product

    def _filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        if not fused(x, weight) or (x.device.type == "cpu" and kernels() is None):
            return None
        return fused_filter_bank(self._passes(), x.contiguous(), weight, bias)

    def _passes(self) -> ShiftPasses:
        def make() -> ShiftPasses:
            if self.device.type != "cpu":
                return GPUMatrix(self._torch())
            return CPUMatrix(self.values.detach(), self.columns.to(torch.int32), self.row_starts.to(torch.int64))

        passes: ShiftPasses = self._cached("passes", make)
        return passes

    def _torch(self) -> Tensor:
        def make() -> Tensor:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
                return torch.sparse_csr_tensor(
                    self.row_starts, self.columns, self.values, self.shape, check_invariants=False
                )

        matrix: Tensor = self._cached("torch", make)
        return matrix

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.values, self.columns, self.row_starts

    def _map(self, function: Callable[[Tensor], Tensor], factor: float = 1.0) -> None:
        self.values, self.columns, self.row_starts = map(function, self._tensors())
        if factor != 1.0:
            self.values = self.values * factor

    def to_dense(self) -> Tensor:
        return self._torch().to_dense()

    def to_scipy(self) -> sp.csr_array:
        arrays = tuple(v.detach().cpu().numpy() for v in self._tensors())
        return sp.csr_array(arrays, shape=self.shape, copy=True)

    def edge_index(self) -> tuple[Tensor, Tensor]:
        counts = self.row_starts.diff()
        rows = torch.arange(self.shape[0], device=self.device).repeat_interleave(counts)
        return torch.stack([rows, self.columns.to(rows.dtype)]), self.values


def _check_structure(values: Tensor, columns: Tensor, row_starts: Tensor, n: int) -> None:
    """Raise where the arrays are no CSR matrix: the kernels trust them."""
    counts = row_starts.diff()
    if (
        n < 1
        or int(row_starts[0]) != 0
        or int(row_starts[-1]) != len(columns)
        or len(columns) != len(values)
        or bool((counts < 0).any())
        or (len(columns) > 0 and not (int(columns.min()) >= 0 and int(columns.max()) < n))
    ):
        raise ValueError("values, columns and row_starts are not the arrays of a square CSR matrix.")


class _SymmetricProduct(torch.autograd.Function):
    """``C x`` whose gradient is ``C g``: the matrix is symmetric, no transpose is built."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _SymmetricProduct.apply(gradients[0], ctx.matrix), None
