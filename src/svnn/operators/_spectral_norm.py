"""The spectral norm of a shift, the largest absolute value of its eigenvalues, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svnn.functional._lanczos import leading_eigenpair
from svnn.operators._tracing import compiling

if TYPE_CHECKING:
    from svnn.operators._operator import CovarianceOperator

#: Up to this size all eigenvalues are computed.
EXACT_LIMIT = 128
#: Operators of up to this many stored values are copied to double precision, so that rounding hides nothing.
_DOUBLE_VALUES = 2**25


@torch.no_grad()
def leading(operator: CovarianceOperator) -> tuple[float, Tensor]:
    """Return the eigenvalue of largest absolute value of a symmetric operator, and its eigenvector (N, 1)."""
    n = operator.shape[0]
    own = operator._tensors()[0]
    if own.numel() <= _DOUBLE_VALUES and own.device.type in ("cpu", "cuda"):
        operator = operator.to(dtype=torch.float64)
    if n <= EXACT_LIMIT:
        values, vectors = np.linalg.eigh(operator.to_dense().detach().cpu().double().numpy())
        best = int(np.abs(values).argmax())
        return float(values[best]), torch.from_numpy(vectors[:, best : best + 1].copy())
    target, unit = operator._tensors()[0], 1.0

    def product(q: np.ndarray) -> np.ndarray:
        shifted = operator @ torch.from_numpy(q)[:, None].to(target.device, target.dtype)
        return shifted.detach().cpu().double().numpy()[:, 0] / unit

    # Squares of very large or very small numbers are no longer numbers: the unit is about the size of the entries.
    unit = float(np.abs(product(np.random.default_rng(0).standard_normal(n) / n**0.5)).max()) or 1.0
    value, vector = leading_eigenpair(product, n, noise=32 * torch.finfo(target.dtype).eps)
    return value * unit, torch.from_numpy(vector)[:, None]


def differentiable_norm(operator: CovarianceOperator) -> Tensor:
    r"""Return the spectral norm of an operator that is being learned, with its gradient :math:`\pm v v^T`.

    ``v`` is the leading eigenvector. It moves with the matrix, which only a second derivative feels: that is refused
    rather than left out.
    """
    _, v = leading(operator)
    v = v.to(operator.device, operator.dtype)
    with torch.enable_grad():
        norm = (v * (operator @ v)).sum().abs()
    result: Tensor = OnceDifferentiable.apply(norm, *operator._tensors())
    return result


def traced_norm(operator: CovarianceOperator) -> Tensor:
    r"""Return the spectral norm of an operator where torch compiles, exports or transforms the code.

    Compiled code finds the leading eigenvector ``v`` once for a matrix and computes :math:`|v^T C v|`, whose gradient
    is that of the norm. Elsewhere all eigenvalues are found by torch.
    """
    if not compiling():
        return torch.linalg.eigvalsh(operator.to_dense()).abs().amax(-1)
    from svnn.operators import _compiled_ops

    known = operator.backend in ("dense", "csr", "lowrank")
    parts = [t.detach() for t in operator._tensors()] if known else [operator.to_dense().detach()]
    v = _compiled_ops.leading(parts, operator.backend if known else "dense", operator.shape[0])
    return (v * operator.forward(v)).sum().abs()  # torch.compile does not see op @ v


class OnceDifferentiable(torch.autograd.Function):
    """The first argument; its gradient cannot be differentiated again with respect to the others."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *others: Tensor) -> Tensor:
        ctx.save_for_backward(*others)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        if torch.is_grad_enabled():
            gradient = _Refusal.apply(gradient, *ctx.saved_tensors)
        return gradient, *[None] * len(ctx.saved_tensors)


class _Refusal(torch.autograd.Function):
    """The first argument; its derivative is an error that says what to do instead."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *others: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError(
            "the spectral norm of a learned covariance has no second derivative here; divide by a fixed number, "
            "operator.normalized(scale), or build the network with normalize=False."
        )
