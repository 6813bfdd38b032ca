"""The shift as a sparse matrix in CSR form, with the passes of a filter bank on a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from svnn.functional._matrix import numpy_values
from svnn.operators._cpu_passes import CPUMatrix, kernels
from svnn.operators._filter_banks import ShiftPasses, mix, shift_filter_bank
from svnn.operators._operator import CovarianceOperator
from svnn.operators._tracing import compiling, traced

#: Values that a program, one warp, sums at once, and the fewest side by side that make a gather worthwhile. More
#: bytes in flight do not help: the shift waits for the second-level cache, also with signals of half the size.
_TILE = 128
_MIN_WIDTH = 16


class CSROperator(CovarianceOperator):
    """Compressed sparse rows; a shift costs ``nnz`` multiply-adds per column.

    Gradients reach the values if they require them; shifts are then plain torch operations. The tensors are not copied.
    """

    backend = "csr"

    def __init__(self, values: Tensor, columns: Tensor, row_starts: Tensor) -> None:
        n = len(row_starts) - 1
        self.values, self.columns, self.row_starts = (v.contiguous() for v in (values, columns, row_starts))
        self.shape = (n, n)
        if not traced():
            self._check_tensors()

    @classmethod
    def from_scipy(cls, C: sp.sparray | sp.spmatrix) -> CSROperator:
        """Store a copy of a sparse matrix."""
        copied = sp.csr_array(C, copy=True)
        copied.sum_duplicates()
        return cls(*(torch.from_numpy(a) for a in (copied.data, copied.indices, copied.indptr)))

    @classmethod
    def from_dense(cls, C: Tensor) -> CSROperator:
        """Store the non-zero entries of a dense matrix; gradients pass through to them."""
        rows, columns = C.detach().nonzero(as_tuple=True)
        return cls(C[rows, columns], columns, _row_starts(rows, len(C)))

    @classmethod
    def from_sparse(cls, C: Tensor) -> CSROperator:
        """Store a copy of a sparse tensor, COO or CSR; gradients pass through to its values."""
        coo = C.to_sparse_coo().coalesce()
        rows, columns = coo.indices()
        return cls(coo.values().clone(), columns.clone(), _row_starts(rows, len(C)))

    def _matmul(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.float16, torch.bfloat16):  # sparse products lack these on some devices
            return self._in_dtype_of(x.float())._matmul(x.float()).to(x.dtype)
        if self.values.requires_grad or traced():
            if compiling() and not self.values.requires_grad:
                from svnn.operators import _compiled_ops

                return _compiled_ops.krylov(x[None], *self._tensors(), 1)[0, :, 1]
            (rows, columns), _ = self.edge_index()
            return torch.zeros_like(x).index_add(0, rows, self.values[:, None] * x[columns])
        product: Tensor = _SymmetricProduct.apply(x, self._torch())
        return product

    def _filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if x.device.type == "cpu" and kernels() is None:
            return self._reference_filter(x, weight, bias)
        matrix = self._cached("passes", lambda: passes(*(t.detach() for t in self._tensors())))
        return shift_filter_bank(matrix, x.contiguous(), weight, bias)

    def _traced_filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        taps, n_in, n_out = weight.shape
        known = taps > 1 and x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)
        if not known or not compiling() or self.values.requires_grad:
            return self._reference_filter(x, weight, bias)
        from svnn.operators import _compiled_ops

        if n_in < n_out:
            z = _compiled_ops.krylov(x, *self._tensors(), taps - 1)
            return torch.nn.functional.linear(z.flatten(2), weight.flatten(0, 1).T, bias)
        u = (x @ weight.transpose(0, 1).reshape(n_in, -1)).unflatten(-1, (taps, n_out))
        y = _compiled_ops.horner(u, *self._tensors())
        return y if bias is None else y + bias

    def _torch(self) -> Tensor:
        return self._cached("torch", lambda: _torch_csr(*self._tensors()))

    def _check_tensors(self) -> None:
        """Raise an error where the arrays are not a CSR matrix: the kernels trust them."""
        (values, columns, row_starts), n = self._tensors(), self.shape[0]
        counts = row_starts.diff()
        if (
            n < 1
            or len(row_starts) != n + 1
            or int(row_starts[0]) != 0
            or int(row_starts[-1]) != len(columns)
            or len(columns) != len(values)
            or bool((counts < 0).any())
            or (len(columns) > 0 and not (int(columns.min()) >= 0 and int(columns.max()) < n))
        ):
            raise ValueError("values, columns and row_starts are not the arrays of a square CSR matrix.")

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.values, self.columns, self.row_starts

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        self.values, self.columns, self.row_starts = map(function, self._tensors())
        if isinstance(factor, Tensor) or factor != 1.0:
            self.values = self.values * factor

    def to_dense(self) -> Tensor:
        (rows, columns), _ = self.edge_index()
        dense = self.values.new_zeros(self.shape)
        return dense.index_put((rows, columns), self.values, accumulate=True)

    def to_scipy(self) -> sp.csr_array:
        arrays = tuple(map(numpy_values, self._tensors()))
        return sp.csr_array(arrays, shape=self.shape, copy=True)

    def edge_index(self) -> tuple[Tensor, Tensor]:
        counts = self.row_starts.diff()
        rows = torch.arange(self.shape[0], device=self.device).repeat_interleave(counts, output_size=len(self.columns))
        return torch.stack([rows, self.columns.to(rows.dtype)]), self.values.clone()


def _row_starts(rows: Tensor, n: int) -> Tensor:
    """Return where each of n rows starts among entries sorted by row."""
    counts = torch.bincount(rows, minlength=n)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def passes(values: Tensor, columns: Tensor, row_starts: Tensor) -> ShiftPasses:
    """Return a CSR matrix with the passes of a filter bank: compiled ones where there are any for its device."""
    if values.device.type == "cpu" and kernels() is not None:
        return CPUMatrix(values, columns.to(torch.int32), row_starts.to(torch.int64))
    return GPUMatrix(_torch_csr(values, columns, row_starts))


def _torch_csr(values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    n = len(row_starts) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(row_starts, columns, values, (n, n), check_invariants=False)


class _SymmetricProduct(torch.autograd.Function):
    """``C x`` whose gradient is ``C g``: the matrix is symmetric, no transpose is built."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _SymmetricProduct.apply(gradients[0], ctx.matrix), None


# -- passes on a GPU ------------------------------------------------------------------------------


@cache
def _gpu_kernels() -> Any:
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
        module = _gpu_kernels() if x.is_cuda else None
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
