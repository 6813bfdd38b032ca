"""Operations that ``torch.compile`` calls as they are: passes over a CSR matrix, and decompositions of a matrix.

Torch traces everything else. The two passes are each other's adjoint, and so each other's derivative, any number of
times. The decompositions are computed once for a tensor and kept as long as it exists. This file is imported when the
first code is compiled: registering operations takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from svnn.operators._csr import passes

_kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


@torch.library.custom_op("svnn::krylov", mutates_args=())
def krylov(x: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor, order: int) -> Tensor:
    """Return [x, Cx, …, C^order x] of x (B, N, F), of shape (B, N, order + 1, F)."""
    out = x.new_empty(*x.shape[:2], order + 1, x.shape[2])
    return passes(values, columns, row_starts).krylov(x.contiguous(), order, out)


@krylov.register_fake
def _(x: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor, order: int) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], order + 1, x.shape[2])


@torch.library.custom_op("svnn::horner", mutates_args=())
def horner(u: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    """Return the sum over k of C^k u_k for u (B, N, order + 1, F), of shape (B, N, F)."""
    out = u.new_empty(*u.shape[:2], u.shape[3])
    return passes(values, columns, row_starts).horner(u.contiguous(), out)


@horner.register_fake
def _(u: Tensor, values: Tensor, columns: Tensor, row_starts: Tensor) -> Tensor:
    return u.new_empty(u.shape[0], u.shape[1], u.shape[3])


def _keep_matrix(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.matrix, ctx.order = inputs[1:4], inputs[0].shape[2] - 1


krylov.register_autograd(lambda ctx, g: (horner(g, *ctx.matrix), None, None, None, None), setup_context=_keep_matrix)
horner.register_autograd(
    lambda ctx, g: (krylov(g, *ctx.matrix, ctx.order), None, None, None), setup_context=_keep_matrix
)


@torch.library.custom_op("svnn::leading", mutates_args=())
def leading(parts: list[Tensor], backend: str, n: int) -> Tensor:
    """Return the eigenvector (N, 1) of largest absolute eigenvalue of an operator, given by its tensors."""
    from svnn.operators import _operator
    from svnn.operators._build import KINDS

    def find() -> Tensor:
        return _operator.leading(KINDS[backend](*parts))[1].to(parts[0])

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
    """Return the result of ``find``, computed again only where the tensors were changed since."""
    versions = [(id(t), None if t.is_inference() else t._version) for t in parts]
    held = _kept.setdefault(parts[0], {})
    if name not in held or held[name][0] != versions:
        held[name] = versions, find()
    return held[name][1]
