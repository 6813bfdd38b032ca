"""The filter bank of a dense matrix in its eigenbasis, where it is a product with one matrix a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from svnn.operators._cpu.threads import workspace
from svnn.operators._fused_bank import chunks

#: Bytes of rotated signals made at a time; every node's product should have many rows.
_CHUNK_BYTES = 2**24


class Spectrum(NamedTuple):
    """Eigenvalues (N,) and eigenvectors, the columns of an (N, N) matrix."""

    values: Tensor
    vectors: Tensor


def spectral_filter_bank(spectrum: Spectrum, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Return :math:`V \big[\sum_k \lambda^k (V^T x) W_k\big] + b` for x (B, N, in), weight (K + 1, in, out)."""
    with torch.autocast(x.device.type, enabled=False):
        result: Tensor = _SpectralFilterBank.apply(x, weight, bias, spectrum)
    return result


def spectral_pays(n: int, order: int, n_in: int, n_out: int) -> bool:
    """Say whether rotating both sides takes fewer operations than ``order`` shifts of the narrower one."""
    narrow = min(n_in, n_out)
    return n * (n_in + n_out) + n_in * n_out < order * n * narrow + (order + 1) * n_in * n_out


class _SpectralFilterBank(torch.autograd.Function):
    """Rotate, mix every node's values with its own response, rotate back; a chunk of samples at a time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, spectrum: Spectrum) -> Tensor:
        response = _response(spectrum.values, weight)
        y = x.new_empty(*x.shape[:2], weight.shape[2])
        for rows in _chunks(x, weight):
            rotated = _rotate(spectrum.vectors.T, x[rows], "x")
            torch.matmul(spectrum.vectors, _per_node(rotated, response, "mixed"), out=y[rows])
            if bias is not None:
                y[rows].add_(bias)
        ctx.save_for_backward(x, weight)
        ctx.spectrum = spectrum
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        dy = gradients[0].contiguous()
        x, weight = ctx.saved_tensors
        values, vectors = ctx.spectrum
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        response = _response(values, weight).transpose(1, 2)
        dx = torch.empty_like(x) if wants_x else None
        dw = response.new_zeros(len(values), *weight.shape[1:]) if wants_weight else None
        for rows in _chunks(x, weight):
            rotated = _rotate(vectors.T, dy[rows], "dy")
            if dx is not None:
                torch.matmul(vectors, _per_node(rotated, response, "mixed"), out=dx[rows])
            if dw is not None:
                signals = _rotate(vectors.T, x[rows], "x")
                dw.baddbmm_(signals.permute(1, 2, 0), rotated.transpose(0, 1))
        if dw is not None:
            dw = torch.einsum("kn,nio->kio", _powers(values, len(weight)), dw)
        return dx, dw, dy.sum((0, 1)) if wants_bias else None, None


def _powers(values: Tensor, taps: int) -> Tensor:
    return torch.stack([values**k for k in range(taps)])


def _response(values: Tensor, weight: Tensor) -> Tensor:
    """Return the (N, in, out) frequency responses of the bank."""
    return torch.einsum("kn,kio->nio", _powers(values, len(weight)), weight)


def _rotate(matrix: Tensor, x: Tensor, role: str) -> Tensor:
    return torch.matmul(matrix, x, out=workspace(role, tuple(x.shape), x.dtype))


def _per_node(x: Tensor, response: Tensor, role: str) -> Tensor:
    """Return the (B, N, out) products of every node's values with its own (in, out) matrix."""
    out = workspace(role, (x.shape[1], len(x), response.shape[2]), x.dtype)
    return torch.bmm(x.transpose(0, 1), response, out=out).transpose(0, 1)


def _chunks(x: Tensor, weight: Tensor) -> list[slice]:
    sample = x.shape[1] * (weight.shape[1] + weight.shape[2]) * x.element_size()
    return chunks(len(x), sample, _CHUNK_BYTES)
