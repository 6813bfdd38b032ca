"""The filter bank of a dense matrix in its eigenbasis, where every node has one matrix to multiply its values with.

The time no longer grows with the order. The reference is ``CovarianceOperator._reference_filter``: with 32 values per
node, forward and backward take 0.7 of its time at order 2 and 0.3 at order 5 (68 nodes), or 1.1 and 0.5 (700 nodes);
with 128 values to 32, 117 nodes and order 3, 0.45. ``svnn.operators._bank_costs`` says when it is used. The same in
torch's own operations, without an autograd function, takes 1.3 of the time on signals of 60 MB and 0.9 on small ones.
All on one core of an x86 server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from svnn.operators._buffers import empty, workspace
from svnn.operators._operator import batch_product
from svnn.operators._shift_bank import chunks

#: Bytes of rotated signals made at a time; every node's product should have many rows.
_CHUNK_BYTES = 2**24


class Eigenbasis(NamedTuple):
    """Eigenvalues (N,) and eigenvectors, the columns of an (N, N) matrix."""

    values: Tensor
    vectors: Tensor


def spectral_filter_bank(spectrum: Eigenbasis, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Return :math:`V \big[\sum_k \lambda^k (V^T x) W_k\big] + b` for x (B, N, in), weight (K + 1, in, out)."""
    result: Tensor = _SpectralFilterBank.apply(x, weight, bias, spectrum)
    return result


def plain_spectral_bank(spectrum: Eigenbasis, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return what :func:`spectral_filter_bank` returns, in operations that torch compiles."""
    values, vectors = spectrum
    powers = torch.stack([values**k for k in range(len(weight))], 1)
    response = (powers @ weight.flatten(1)).view(-1, *weight.shape[1:])
    mixed = torch.bmm(batch_product(vectors.T, x).transpose(0, 1), response).transpose(0, 1)
    y = batch_product(vectors, mixed)
    return y if bias is None else y + bias


class _SpectralFilterBank(torch.autograd.Function):
    """Rotate, mix every node's values with its own response, rotate back; a chunk of samples at a time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, spectrum: Eigenbasis) -> Tensor:
        response = _response(spectrum.values, weight)
        y = empty(x, *x.shape[:2], weight.shape[2])
        kept = empty(x, *x.shape) if ctx.needs_input_grad[1] else None
        for rows in _chunks(x, weight):
            rotated = _rotate(spectrum.vectors.T, x[rows], "x" if kept is None else kept[rows])
            batch_product(spectrum.vectors, _per_node(rotated, response, "mixed"), out=y[rows])
            if bias is not None:
                y[rows].add_(bias)
        ctx.save_for_backward(x, kept, weight)
        ctx.spectrum = spectrum
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        dy = gradients[0].contiguous()
        x, kept, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # these gradients will be differentiated again
            return _differentiable_gradients(ctx, x, weight, dy)
        values, vectors = ctx.spectrum
        wants_x, _, wants_bias, _ = ctx.needs_input_grad
        response = _response(values, weight).transpose(1, 2)
        dx = empty(dy, *dy.shape[:2], weight.shape[1]) if wants_x else None
        dw = None if kept is None else response.new_zeros(len(values), *weight.shape[1:])
        for rows in _chunks(dy, weight):
            rotated = _rotate(vectors.T, dy[rows], "dy")
            if dx is not None:
                batch_product(vectors, _per_node(rotated, response, "mixed"), out=dx[rows])
            if dw is not None:
                dw.baddbmm_(kept[rows].permute(1, 2, 0), rotated.transpose(0, 1))
        if dw is not None:
            dw = (torch.linalg.vander(values, N=len(weight)).T @ dw.flatten(1)).view_as(weight)
        return dx, dw, dy.sum((0, 1)) if wants_bias else None, None


def _differentiable_gradients(
    ctx: Any, x: Tensor, weight: Tensor, dy: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
    values, vectors = ctx.spectrum
    wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
    dx = spectral_filter_bank(ctx.spectrum, dy, weight.transpose(1, 2), None) if wants_x else None
    dw = None
    if wants_weight:
        products = torch.einsum("bni,bno->nio", vectors.T @ x, vectors.T @ dy)
        dw = torch.einsum("nk,nio->kio", torch.linalg.vander(values, N=len(weight)), products)
    return dx, dw, dy.sum((0, 1)) if wants_bias else None, None


def _response(values: Tensor, weight: Tensor) -> Tensor:
    """Return the (N, in, out) frequency responses of the bank."""
    return (torch.linalg.vander(values, N=len(weight)) @ weight.flatten(1)).view(-1, *weight.shape[1:])


def _rotate(matrix: Tensor, x: Tensor, out: Tensor | str) -> Tensor:
    """Return ``matrix @ x`` in a given tensor, or in the workspace of that name."""
    return batch_product(matrix, x, workspace(out, tuple(x.shape), x.dtype) if isinstance(out, str) else out)


def _per_node(x: Tensor, response: Tensor, role: str) -> Tensor:
    """Return the (B, N, out) products of every node's values with its own (in, out) matrix."""
    out = workspace(role, (x.shape[1], len(x), response.shape[2]), x.dtype)
    return torch.bmm(x.transpose(0, 1), response, out=out).transpose(0, 1)


def _chunks(x: Tensor, weight: Tensor) -> list[slice]:
    sample = x.shape[1] * (weight.shape[1] + weight.shape[2]) * x.element_size()
    return chunks(len(x), sample, _CHUNK_BYTES)
