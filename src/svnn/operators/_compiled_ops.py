"""What ``torch.compile`` calls as it is: passes over a CSR matrix, and the decompositions of a matrix.

Torch traces everything else. The two passes are each other's adjoint, so they are each other's derivative, any number
of times. The decompositions are found once for a tensor and kept as long as it is there. This file is imported when the
first code is compiled: to register operations takes time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from svnn.operators._cpu_passes import CPUMatrix, kernels
from svnn.operators._gpu_passes import GPUMatrix
from svnn.operators._shift_bank import ShiftPasses, shift_filter_bank

_kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _passes(values: Tensor, columns: Tensor, row_starts: Tensor) -> ShiftPasses:
    if values.device.type == "cpu" and kernels() is not None:
        return CPUMatrix(values, columns.to(torch.int32), row_starts.to(torch.int64))
    return GPUMatrix(_sparse(values, columns, row_starts))


def _sparse(values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    n = len(row_starts) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(row_starts, columns, values, (n, n), check_invariants=False)


@torch.library.custom_op("svnn::krylov", mutates_args=())
def krylov(x: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor, order: int) -> Tensor:
    """Return [x, Cx, …, C^order x] of x (B, N, F), of shape (B, N, order + 1, F)."""
    out = x.new_empty(*x.shape[:2], order + 1, x.shape[2])
    return _passes(values, columns, row_starts).krylov(x.contiguous(), order, out)


@krylov.register_fake
def _(x: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor, order: int) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], order + 1, x.shape[2])


@torch.library.custom_op("svnn::horner", mutates_args=())
def horner(u: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    """Return the sum over k of C^k u_k for u (B, N, order + 1, F), of shape (B, N, F)."""
    out = u.new_empty(*u.shape[:2], u.shape[3])
    return _passes(values, columns, row_starts).horner(u.contiguous(), out)


@horner.register_fake
def _(u: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    return u.new_empty(u.shape[0], u.shape[1], u.shape[3])


@torch.library.custom_op("svnn::bank", mutates_args=())
def bank(x: Tensor, weight: Tensor, bias: Tensor | None, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    """Return the sum over k of C^k x W_k, plus the bias, for x (B, N, in) and weight (order + 1, in, out)."""
    return shift_filter_bank(_passes(values, columns, row_starts), x.contiguous(), weight, bias)


@bank.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], weight.shape[2])


@torch.library.custom_op("svnn::product", mutates_args=())
def product(x: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    """Return C x for x (N, M)."""
    return (_sparse(values, columns, row_starts) @ x).contiguous()


@product.register_fake
def _(x: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _keep_matrix(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.matrix, ctx.order = inputs[1:4], inputs[0].shape[2] - 1 if inputs[0].ndim > 2 else 0


def _keep_bank(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.matrix = inputs[3:]


def _bank_gradients(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of a bank that narrows: one pass over dy gives those of x and of the weight."""
    x, weight = ctx.saved_tensors
    taps, n_in, n_out = weight.shape
    wants_x, wants_weight, wants_bias = ctx.needs_input_grad[:3]
    shifted = krylov(dy, *ctx.matrix, taps - 1).flatten(2)
    dx = shifted @ weight.transpose(1, 2).reshape(taps * n_out, n_in) if wants_x else None
    dw = x.flatten(0, 1).T @ shifted.flatten(0, 1) if wants_weight else None
    dw = None if dw is None else dw.view(n_in, taps, n_out).transpose(0, 1)
    return dx, dw, dy.sum((0, 1)) if wants_bias else None, None, None, None


bank.register_autograd(_bank_gradients, setup_context=_keep_bank)
krylov.register_autograd(lambda ctx, g: (horner(g, *ctx.matrix), None, None, None, None), setup_context=_keep_matrix)
horner.register_autograd(
    lambda ctx, g: (krylov(g, *ctx.matrix, ctx.order), None, None, None), setup_context=_keep_matrix
)
product.register_autograd(lambda ctx, g: (product(g, *ctx.matrix), None, None, None), setup_context=_keep_matrix)


@torch.library.custom_op("svnn::leading", mutates_args=())
def leading(parts: list[Tensor], backend: str, n: int) -> Tensor:
    """Return the eigenvector (N, 1) of largest absolute eigenvalue of an operator, given by its tensors."""
    from svnn.operators import _spectral_norm
    from svnn.operators._build import KINDS

    def find() -> Tensor:
        return _spectral_norm.leading(KINDS[backend](*parts))[1].to(parts[0])

    return _once("leading", parts, find).clone()


@leading.register_fake
def _(parts: list[Tensor], backend: str, n: int) -> Tensor:
    return parts[0].new_empty(n, 1)


@torch.library.custom_op("svnn::spectrum", mutates_args=())
def spectrum(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues (N,) and eigenvectors (N, N) of a symmetric matrix."""
    values, vectors = _once("spectrum", [matrix], lambda: torch.linalg.eigh(matrix))
    return values.clone(), vectors.clone(memory_format=torch.contiguous_format)


@spectrum.register_fake
def _(matrix: Tensor) -> tuple[Tensor, Tensor]:
    return matrix.new_empty(len(matrix)), matrix.new_empty(matrix.shape)


def _once(name: str, parts: list[Tensor], find: Callable[[], Any]) -> Any:
    """Return what ``find`` returns, found again only where the tensors were changed since."""
    versions = [(id(t), None if t.is_inference() else t._version) for t in parts]
    held = _kept.setdefault(parts[0], {})
    if name not in held or held[name][0] != versions:
        held[name] = versions, find()
    return held[name][1]
