"""The filter bank on a CSR matrix, on the CPU: matrix products and shifts in turn, a few samples at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from svnn.operators._cpu import passes
from svnn.operators._cpu.threads import workspace

#: Bytes of shifted signals made at a time: they should still be in cache when they are used.
_CHUNK_BYTES = 2**21


def sparse_filter_bank(matrix: passes.CSR, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Return :math:`\sum_k C^k x W_k + b` for x (B, N, in) and weight (K + 1, in, out)."""
    result: Tensor = _SparseFilterBank.apply(x, weight, bias, matrix)
    return result


class _SparseFilterBank(torch.autograd.Function):
    """Shifts the narrower of the two sides, forward and backward.

    From few values to many, ``Z = [x, Cx, …]`` is kept and ``dW = Zᵀ dY``. From many to few, one
    Krylov pass ``D = [dY, C dY, …]`` gives both ``dW_k = xᵀ D_k`` and ``dx = Σ D_k W_kᵀ``. The matrix is
    symmetric: its transpose is never needed.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, matrix: passes.CSR) -> Tensor:
        taps, n_in, n_out = weight.shape
        batch, n, _ = x.shape
        widening = n_in < n_out
        y = x.new_empty(batch, n, n_out)
        kept = x
        if widening:
            kept = passes.krylov(matrix, x, taps - 1, x.new_empty(batch, n, taps, n_in))
            _mix(kept.view(-1, taps * n_in), weight.view(taps * n_in, n_out), bias, y.view(-1, n_out))
        else:
            side = weight.transpose(0, 1).reshape(n_in, taps * n_out)
            for rows in chunks(batch, n * taps * n_out * x.element_size()):
                part = x[rows]
                u = workspace("chunk", (len(part), n, taps, n_out), x.dtype)
                torch.mm(part.view(-1, n_in), side, out=u.view(-1, taps * n_out))
                passes.horner(matrix, u, y[rows])
                if bias is not None:
                    y[rows].add_(bias)
        ctx.save_for_backward(kept, weight)
        ctx.matrix, ctx.widening = matrix, widening
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        dy = gradients[0].contiguous()
        kept, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        backward = _backward_widening if ctx.widening else _backward_narrowing
        dx, dw = backward(ctx.matrix, kept, weight, dy, wants_x, wants_weight)
        return dx, dw, dy.sum((0, 1)) if wants_bias else None, None


def _backward_widening(
    matrix: passes.CSR, z: Tensor, weight: Tensor, dy: Tensor, wants_x: bool, wants_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    taps, n_in, n_out = weight.shape
    batch, n, _ = dy.shape
    dw = None
    if wants_weight:
        dw = torch.mm(z.view(-1, taps * n_in).T, dy.view(-1, n_out)).view_as(weight)
    if not wants_x:
        return None, dw
    dx = dy.new_empty(batch, n, n_in)
    side = weight.reshape(taps * n_in, n_out).T
    for rows in chunks(batch, n * taps * n_in * dy.element_size()):
        part = dy[rows]
        g = workspace("chunk", (len(part), n, taps, n_in), dy.dtype)
        torch.mm(part.view(-1, n_out), side, out=g.view(-1, taps * n_in))
        passes.horner(matrix, g, dx[rows])
    return dx, dw


def _backward_narrowing(
    matrix: passes.CSR, x: Tensor, weight: Tensor, dy: Tensor, wants_x: bool, wants_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    taps, n_in, n_out = weight.shape
    batch, n, _ = dy.shape
    dx = torch.empty_like(x) if wants_x else None
    dw = x.new_zeros(n_in, taps * n_out) if wants_weight else None
    side = weight.transpose(1, 2).reshape(taps * n_out, n_in)
    for rows in chunks(batch, n * taps * n_out * dy.element_size()):
        part = dy[rows]
        d = workspace("chunk", (len(part), n, taps, n_out), dy.dtype)
        d = passes.krylov(matrix, part, taps - 1, d).view(-1, taps * n_out)
        if dx is not None:
            torch.mm(d, side, out=dx[rows].view(-1, n_in))
        if dw is not None:
            dw.addmm_(x[rows].view(-1, n_in).T, d)
    return dx, None if dw is None else dw.view(n_in, taps, n_out).transpose(0, 1)


def _mix(z: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    if bias is None:
        torch.mm(z, weight, out=out)
    else:
        torch.addmm(bias, z, weight, out=out)


def chunks(batch: int, sample_bytes: int, chunk_bytes: int = _CHUNK_BYTES) -> list[slice]:
    """Cut a batch into runs of samples of about ``chunk_bytes``, with work for every thread."""
    rows = max(chunk_bytes // max(sample_bytes, 1), torch.get_num_threads())
    return [slice(i, min(i + rows, batch)) for i in range(0, batch, rows)]
