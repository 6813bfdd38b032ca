"""The filter bank of a matrix by shifts, a few samples at a time: products and passes over the matrix in turn.

The reference is ``CovarianceOperator._reference_filter``, which shifts by torch's own sparse product. Forward and
backward take 0.35 to 0.95 of its time, the less the more values each node has (68 to 1000 nodes, 1 to 128 values,
densities of 0.05 and 1, one core of an x86 server).
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from svnn.operators._buffers import empty


class ShiftPasses(Protocol):
    """The two passes of a filter bank, each the other's adjoint, and memory for a chunk of samples."""

    @property
    def chunk_bytes(self) -> int:
        """Bytes of shifted signals to make at a time."""

    def krylov(self, x: Tensor, order: int, out: Tensor) -> Tensor:
        """Write [x, Cx, …, C^order x] of x (B, N, F) to ``out`` (B, N, order + 1, F)."""

    def horner(self, u: Tensor, out: Tensor) -> Tensor:
        """Write the sum over k of C^k u_k for u (B, N, order + 1, F) to ``out`` (B, N, F)."""

    def widen(self, x: Tensor, weight: Tensor, bias: Tensor | None, keep: bool, out: Tensor) -> Tensor | None:
        """Write the bank of x (B, N, in) to ``out`` (B, N, out); return the shifts (B, N, K + 1, in) where asked to."""

    def workspace(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory for a chunk; the next call may return the same."""


def shift_filter_bank(matrix: ShiftPasses, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Return :math:`\sum_k C^k x W_k + b` for x (B, N, in) and weight (K + 1, in, out)."""
    learns = torch.is_grad_enabled() and weight.requires_grad
    result: Tensor = _ShiftFilterBank.apply(x, weight, bias, matrix, learns)
    return result


class _ShiftFilterBank(torch.autograd.Function):
    """The bank with its gradients; both ways the narrower of the two sides is shifted.

    From few values to many, ``Z = [x, Cx, …]`` is kept where the weight learns, and ``dW = Zᵀ dY``. From many to
    few, one Krylov pass ``D = [dY, C dY, …]`` gives both ``dW_k = xᵀ D_k`` and ``dx = Σ D_k W_kᵀ``. The matrix is
    symmetric: its transpose is never needed.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, matrix: ShiftPasses, learns: bool) -> Tensor:
        taps, n_in, n_out = weight.shape
        batch, n, _ = x.shape
        y = empty(x, batch, n, n_out)
        z = None
        if n_in < n_out:
            z = matrix.widen(x, weight, bias, learns, y)
        else:
            side = weight.transpose(0, 1).reshape(n_in, taps * n_out)
            for rows in chunks(batch, n * taps * n_out * x.element_size(), matrix.chunk_bytes):
                part = x[rows]
                u = matrix.workspace((len(part), n, taps, n_out), x.dtype)
                torch.mm(part.view(-1, n_in), side, out=u.view(-1, taps * n_out))
                matrix.horner(u, y[rows])
                if bias is not None:
                    y[rows].add_(bias)
        ctx.save_for_backward(x, weight, z)
        ctx.matrix = matrix
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        dy = gradients[0].contiguous()
        x, weight, z = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # these gradients will be differentiated again
            dx = shift_filter_bank(ctx.matrix, dy, weight.transpose(1, 2), None) if wants_x else None
            dw = None
            if wants_weight:
                dw = torch.einsum("bnki,bno->kio", _Krylov.apply(x, ctx.matrix, len(weight) - 1), dy)
        elif weight.shape[1] < weight.shape[2]:
            dx, dw = _backward_widening(ctx.matrix, z, weight, dy, wants_x, wants_weight)
        else:
            dx, dw = backward_narrowing(ctx.matrix, x, weight, dy, wants_x, wants_weight)
        return dx, dw, dy.sum((0, 1)) if wants_bias else None, None, None


class _Krylov(torch.autograd.Function):
    """[x, Cx, …] of x (B, N, F), of shape (B, N, order + 1, F)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: ShiftPasses, order: int) -> Tensor:
        ctx.matrix = matrix
        return matrix.krylov(x, order, empty(x, *x.shape[:2], order + 1, x.shape[2]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _Horner.apply(gradients[0].contiguous(), ctx.matrix), None, None


class _Horner(torch.autograd.Function):
    """The sum over k of C^k u_k for u (B, N, order + 1, F), of shape (B, N, F)."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, matrix: ShiftPasses) -> Tensor:
        ctx.matrix, ctx.order = matrix, u.shape[2] - 1
        return matrix.horner(u, empty(u, *u.shape[:2], u.shape[3]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Krylov.apply(gradients[0].contiguous(), ctx.matrix, ctx.order), None


def _backward_widening(
    matrix: ShiftPasses, z: Tensor | None, weight: Tensor, dy: Tensor, wants_x: bool, wants_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    taps, n_in, n_out = weight.shape
    batch, n, _ = dy.shape
    dw = None
    if wants_weight and z is not None:
        dw = torch.mm(z.view(-1, taps * n_in).T, dy.view(-1, n_out)).view_as(weight)
    if not wants_x:
        return None, dw
    dx = empty(dy, batch, n, n_in)
    side = weight.reshape(taps * n_in, n_out).T
    for rows in chunks(batch, n * taps * n_in * dy.element_size(), matrix.chunk_bytes):
        part = dy[rows]
        g = matrix.workspace((len(part), n, taps, n_in), dy.dtype)
        torch.mm(part.view(-1, n_out), side, out=g.view(-1, taps * n_in))
        matrix.horner(g, dx[rows])
    return dx, dw


def backward_narrowing(
    matrix: ShiftPasses, x: Tensor, weight: Tensor, dy: Tensor, wants_x: bool, wants_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the signals and of the weight of a bank from many values to few."""
    taps, n_in, n_out = weight.shape
    batch, n, _ = dy.shape
    dx = empty(x, *x.shape) if wants_x else None
    dw = x.new_zeros(n_in, taps * n_out) if wants_weight else None
    side = weight.transpose(1, 2).reshape(taps * n_out, n_in)
    for rows in chunks(batch, n * taps * n_out * dy.element_size(), matrix.chunk_bytes):
        part = dy[rows]
        d = matrix.workspace((len(part), n, taps, n_out), dy.dtype)
        d = matrix.krylov(part, taps - 1, d).view(-1, taps * n_out)
        if dx is not None:
            torch.mm(d, side, out=dx[rows].view(-1, n_in))
        if dw is not None:
            dw.addmm_(x[rows].view(-1, n_in).T, d)
    return dx, None if dw is None else dw.view(n_in, taps, n_out).transpose(0, 1)


def mix(z: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, chunk_bytes: int) -> Tensor:
    """Write shifted signals (B, N, K + 1, in) times the weights, plus the bias, to ``out`` (B, N, out)."""
    side = weight.reshape(-1, weight.shape[2])
    for rows in chunks(len(z), out[0].numel() * out.element_size(), chunk_bytes):
        part, target = z[rows].view(-1, len(side)), out[rows].view(-1, weight.shape[2])
        if bias is None:
            torch.mm(part, side, out=target)
        else:
            torch.addmm(bias, part, side, out=target)
    return out


def chunks(batch: int, sample_bytes: int, chunk_bytes: int) -> list[slice]:
    """Cut a batch into runs of samples of about ``chunk_bytes``, with work for every thread."""
    rows = max(chunk_bytes // max(sample_bytes, 1), torch.get_num_threads())
    return [slice(i, min(i + rows, batch)) for i in range(0, batch, rows)]
