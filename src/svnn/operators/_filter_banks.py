"""The ways to compute a filter bank, and a model of their costs, fitted to measurements.

``benchmarks/auto.py`` times every backend over a grid of sizes and shows how far the choice is from the best one;
``benchmarks/fast_paths.py`` what each way gains over ``CovarianceOperator._reference_filter``. Only the ratios of the
rates matter, and they differ little between processors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from svnn.operators._operator import batch_product

#: Operations per second of two AVX-512 cores: products with the (small) weights, rotations by the eigenvectors, shifts
#: by a dense matrix, and the CSR pass on signals that fit the cache of a core or do not.
_MIXING, _PRODUCT, _SHIFT, _CSR_PASS, _FAR_CSR_PASS = 150e9, 220e9, 190e9, 105e9, 40e9
_CACHE_BYTES = 2**20
#: Bytes per second at which a matrix is read that fits no cache: what a dense shift of a few signals takes.
_MEMORY = 20e9
#: Seconds that a row of a CSR pass takes for 64 values, besides its entries, on both cores: writing and reading again.
_ROW = 30e-9
#: A matrix of this size is multiplied at half of the full rate.
_HALF_RATE = 24
#: Up to this size the eigenvectors take a fraction of a second, and the signals of a sample fit the cache.
EIGENBASIS_LIMIT = 1024
#: Up to this size a dense matrix is at most a quarter slower than the sparsest one, and mostly faster.
SMALL = 32


def bank_seconds(way: str, n: int, nnz: int, batch: int, n_in: int, n_out: int, order: int) -> float:
    """Return the modelled seconds of ``sum_k C^k x W_k`` for x (batch, N, in), by "dense", "csr" or "eigenbasis".

    Examples
    --------
    >>> work = dict(n=2000, batch=64, n_in=32, n_out=32, order=3)
    >>> bank_seconds("csr", nnz=40_000, **work) < bank_seconds("dense", nnz=40_000, **work)
    True
    """
    narrow = min(n_in, n_out)
    mixing = 2 * batch * n * n_in * n_out / _MIXING
    if way == "csr":
        # A vector holds values of one sample, or where those are few, of several samples.
        lanes = batch * (-(-narrow // 16) * 16 if narrow >= 16 else narrow)
        rate = _CSR_PASS if 4 * n * max(narrow, 16) <= _CACHE_BYTES else _FAR_CSR_PASS
        rows = n * max(batch * narrow / 64, 1)
        return (order + 1) * mixing + order * (2 * nnz * lanes / rate + rows * _ROW)
    size = n / (n + _HALF_RATE)
    if way == "eigenbasis":
        return mixing + 2 * batch * n * n * (n_in + n_out) / (_PRODUCT * size) if n <= EIGENBASIS_LIMIT else math.inf
    shift = max(2 * n * n * batch * narrow / (_SHIFT * size), (4 * n * n - _CACHE_BYTES) / _MEMORY)
    return (order + 1) * mixing + order * shift


class Eigenbasis(NamedTuple):
    """Eigenvalues (N,) and eigenvectors, the columns of an (N, N) matrix."""

    values: Tensor
    vectors: Tensor


def spectral_filter_bank(spectrum: Eigenbasis, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Return :math:`V \big[\sum_k \lambda^k (V^T x) W_k\big] + b` for x (B, N, in), weight (K + 1, in, out).

    In the eigenbasis every node has one matrix to multiply its values with: the time does not grow with the order.
    """
    values, vectors = spectrum
    powers = torch.stack([values**k for k in range(len(weight))], 1)
    response = (powers @ weight.flatten(1)).view(-1, *weight.shape[1:])
    mixed = torch.bmm(batch_product(vectors.T, x).transpose(0, 1), response).transpose(0, 1)
    y = batch_product(vectors, mixed)
    return y if bias is None else y + bias


class ShiftPasses(Protocol):
    """A matrix with the two passes of a filter bank, each the other's adjoint."""

    @property
    def chunk_bytes(self) -> int:
        """Bytes of shifted signals to make at a time."""

    def krylov(self, x: Tensor, order: int, out: Tensor) -> Tensor:
        """Write [x, Cx, …, C^order x] of x (B, N, F) to ``out`` (B, N, order + 1, F)."""

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""

    def widen(self, x: Tensor, weight: Tensor, bias: Tensor | None, keep: bool, out: Tensor) -> Tensor | None:
        """Write the bank of x (B, N, in) to ``out`` (B, N, out); return the shifts (B, N, K + 1, in) if ``keep``."""


def shift_filter_bank(matrix: ShiftPasses, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Return :math:`\sum_k C^k x W_k + b` for x (B, N, in) and weight (K + 1, in, out).

    Products with the weights and passes over the matrix alternate, on a few samples at a time.
    """
    learns = torch.is_grad_enabled() and weight.requires_grad
    result: Tensor = _ShiftFilterBank.apply(x, weight, bias, matrix, learns)
    return result


class _ShiftFilterBank(torch.autograd.Function):
    """The bank with its gradients; in both directions the narrower of the two sides is shifted.

    From few values to many, ``Z = [x, Cx, …]`` is kept where the weight learns, and ``dW = Zᵀ dY``. From many to
    few, one Krylov pass ``D = [dY, C dY, …]`` gives both ``dW_k = xᵀ D_k`` and ``dx = Σ D_k W_kᵀ``. The matrix is
    symmetric: its transpose is never needed.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, matrix: ShiftPasses, learns: bool) -> Tensor:
        z = None
        if weight.shape[1] < weight.shape[2]:
            y = x.new_empty(*x.shape[:2], weight.shape[2])
            z = matrix.widen(x, weight, bias, learns, y)
        else:
            y = _narrowing_bank(matrix, x, weight, bias)
        ctx.save_for_backward(x, weight, z)
        ctx.matrix = matrix
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        dy = gradients[0].contiguous()
        x, weight, z = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        dx = dw = None
        if torch.is_grad_enabled():  # these gradients will be differentiated again
            if wants_x:
                dx = shift_filter_bank(ctx.matrix, dy, weight.transpose(1, 2), None)
            if wants_weight:
                dw = torch.einsum("bnki,bno->kio", _Krylov.apply(x, ctx.matrix, len(weight) - 1), dy)
        elif weight.shape[1] < weight.shape[2]:
            if wants_x:
                dx = _narrowing_bank(ctx.matrix, dy, weight.transpose(1, 2), None)
            if wants_weight:
                dw = torch.mm(z.view(-1, z.shape[2] * z.shape[3]).T, dy.flatten(0, 1)).view_as(weight)
        elif wants_x or wants_weight:
            dx, dw = _narrowing_gradients(ctx.matrix, x, weight, dy, wants_x, wants_weight)
        return dx, dw, dy.sum((0, 1)) if wants_bias else None, None, None


class _Krylov(torch.autograd.Function):
    """[x, Cx, …] of x (B, N, F), of shape (B, N, order + 1, F)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: ShiftPasses, order: int) -> Tensor:
        ctx.matrix = matrix
        return matrix.krylov(x, order, x.new_empty(*x.shape[:2], order + 1, x.shape[2]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _Horner.apply(gradients[0].contiguous(), ctx.matrix), None, None


class _Horner(torch.autograd.Function):
    """The sum over k of C^k u_k for u (B, N, order + 1, F), of shape (B, N, F)."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, matrix: ShiftPasses) -> Tensor:
        ctx.matrix, ctx.order = matrix, u.shape[2] - 1
        return matrix.horner(u, u.new_empty(*u.shape[:2], u.shape[3]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Krylov.apply(gradients[0].contiguous(), ctx.matrix, ctx.order), None


def _narrowing_bank(matrix: ShiftPasses, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the bank from many values to few: weights first, then shifts."""
    taps, n_in, n_out = weight.shape
    y = x.new_empty(*x.shape[:2], n_out)
    side = weight.transpose(0, 1).reshape(n_in, taps * n_out)
    for rows, u in _chunks(x, taps, n_out, matrix.chunk_bytes):
        torch.mm(x[rows].view(-1, n_in), side, out=u.view(-1, taps * n_out))
        matrix.horner(u, y[rows])
        if bias is not None:
            y[rows].add_(bias)
    return y


def _narrowing_gradients(
    matrix: ShiftPasses, x: Tensor, weight: Tensor, dy: Tensor, wants_x: bool, wants_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the signals and of the weight of a bank from many values to few."""
    taps, n_in, n_out = weight.shape
    dx = torch.empty_like(x) if wants_x else None
    dw = x.new_zeros(n_in, taps * n_out) if wants_weight else None
    side = weight.transpose(1, 2).reshape(taps * n_out, n_in)
    for rows, d in _chunks(dy, taps, n_out, matrix.chunk_bytes):
        shifted = matrix.krylov(dy[rows], taps - 1, d).view(-1, taps * n_out)
        if dx is not None:
            torch.mm(shifted, side, out=dx[rows].view(-1, n_in))
        if dw is not None:
            dw.addmm_(x[rows].view(-1, n_in).T, shifted)
    return dx, None if dw is None else dw.view(n_in, taps, n_out).transpose(0, 1)


def mix(z: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Write shifted signals (B, N, K + 1, in) times the weights, plus the bias, to ``out`` (B, N, out)."""
    side = weight.flatten(0, 1)
    rows, target = z.view(-1, len(side)), out.view(-1, weight.shape[2])
    if bias is None:
        torch.mm(rows, side, out=target)
    else:
        torch.addmm(bias, rows, side, out=target)


def _chunks(x: Tensor, taps: int, values: int, chunk_bytes: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield a few samples of x (B, N, F) at a time, with the same memory (…, N, taps, values) for each of them.

    A chunk has about ``chunk_bytes``, and a sample for every thread.
    """
    batch, n = x.shape[:2]
    size = max(chunk_bytes // max(n * taps * values * x.element_size(), 1), torch.get_num_threads())
    memory = x.new_empty(min(size, batch), n, taps, values)
    for start in range(0, batch, size):
        yield slice(start, start + size), memory[: batch - start]
