"""The eigenvalue of largest absolute value of a shift, by Lanczos iterations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MAX_STEPS = 128
#: Operators of up to this many stored values are copied to double precision, so that rounding hides nothing.
_DOUBLE_VALUES = 2**25
#: What is left of a product beside the vectors found so far, relative to it, when all of it is rounding.
_NOISE = 32


def leading_eigenpair(operator: Any, tolerance: float = 1e-9) -> tuple[float, Tensor]:
    r"""Return the eigenvalue of largest absolute value of a symmetric operator, and its eigenvector (N, 1).

    Lanczos with full reorthogonalisation from a random start. The subspace of :math:`q, Cq, C^2 q, …` ends early
    where the matrix has few distinct eigenvalues (the identity has one): the next vector is then nothing but rounding,
    and the largest eigenvalue within the subspace is that of the matrix, because a random start has a part in
    every eigenspace. Otherwise the iteration ends when the eigenvalue no longer grows by more than ``tolerance``.
    """
    n = operator.shape[0]
    if operator._tensors()[0].numel() <= _DOUBLE_VALUES and operator.device.type in ("cpu", "cuda"):
        operator = operator.to(dtype=torch.float64)
    epsilon = torch.finfo(operator.dtype).eps

    def product(q: Tensor) -> Tensor:
        return (operator @ q.to(operator.device, operator.dtype)).detach().cpu().double()

    with torch.no_grad():
        q = torch.randn(n, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu")
        q /= q.norm()
        # Squares of very large or very small numbers are no longer numbers: the unit is about the matrix's own.
        unit = float(product(q).abs().max()) or 1.0
        basis: list[Tensor] = [q]
        diagonal: list[float] = []
        beside: list[float] = []
        size = estimate = 0.0
        for step in range(min(n, _MAX_STEPS)):
            r = product(basis[-1]) / unit
            size = max(size, float(r.norm()))
            diagonal.append(float((basis[-1] * r).sum()))
            Q = torch.cat(basis, 1)
            for _ in range(2):  # twice is enough to stay orthogonal to rounding
                r = r - Q @ (Q.T @ r)
            length = float(r.norm())
            last = step + 1 == min(n, _MAX_STEPS) or length <= _NOISE * epsilon * size
            if last or step % 8 == 7:  # the check grows cubically
                previous = abs(estimate)
                estimate, coordinates = _leading(diagonal, beside)
                if last or abs(estimate) - previous <= tolerance * abs(estimate):
                    break
            beside.append(length)
            basis.append(r / length)
        vector = Q @ coordinates
        return estimate * unit, vector / vector.norm()


def _leading(diagonal: list[float], beside: list[float]) -> tuple[float, Tensor]:
    """Return the leading eigenvalue of the tridiagonal matrix and its eigenvector (steps, 1)."""
    T = torch.diag(torch.tensor(diagonal, dtype=torch.float64, device="cpu"))
    if beside:
        off = torch.tensor(beside, dtype=torch.float64, device="cpu")
        T = T + torch.diag(off, 1) + torch.diag(off, -1)
    values, vectors = torch.linalg.eigh(T)
    best = int(values.abs().argmax())
    return float(values[best]), vectors[:, best : best + 1]


def differentiable_norm(operator: Any) -> Tensor:
    r"""Return the spectral norm of an operator that is being learned, with its gradient :math:`\pm v v^T`.

    ``v`` is the leading eigenvector. It moves with the matrix, which only a second derivative feels: that is refused
    rather than left out.
    """
    _, v = leading_eigenpair(operator)
    v = v.to(operator.device, operator.dtype)
    with torch.enable_grad():
        norm = (v * (operator @ v)).sum().abs()
    result: Tensor = _OnceDifferentiable.apply(norm, *operator._tensors())
    return result


class _OnceDifferentiable(torch.autograd.Function):
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
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *others: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise NotImplementedError(
            "the spectral norm of a learned covariance has no second derivative here; divide by a fixed number, "
            "operator.normalized(scale), or build the network with normalize=False."
        )
