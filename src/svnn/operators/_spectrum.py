"""The spectral norm of a shift by Lanczos iterations."""

from __future__ import annotations

from typing import Any

import torch

_MAX_STEPS = 128


def spectral_norm(operator: Any, tolerance: float = 1e-7) -> float:
    """Return the largest modulus of the eigenvalues of a symmetric operator.

    Lanczos with full reorthogonalisation: as many products as power iteration takes for two
    digits give all of them, and for N up to the number of steps the result is exact.
    """
    n = operator.shape[0]
    start = torch.Generator().manual_seed(0)
    q = torch.randn(n, 1, generator=start, dtype=torch.float64).to(operator.device)
    q /= q.norm()
    basis: list[torch.Tensor] = [q]
    diagonal: list[float] = []
    beside: list[float] = []
    estimate = 0.0
    for step in range(min(n, _MAX_STEPS)):
        # Only the product is in the operator's dtype: squares of its entries may overflow there.
        r = (operator @ basis[-1].to(operator.dtype)).detach().double()
        diagonal.append(float((basis[-1] * r).sum()))
        Q = torch.cat(basis, 1)
        for _ in range(2):  # twice is enough to stay orthogonal to rounding
            r = r - Q @ (Q.T @ r)
        length = float(r.norm())
        # Checking grows cubically; every eighth step is often enough.
        last = step + 1 == min(n, _MAX_STEPS) or length <= 1e-12 * max(estimate, 1e-300)
        if last or step % 8 == 7:
            previous, estimate = estimate, _largest_ritz(diagonal, beside)
            if last or estimate - previous <= tolerance * estimate:
                break
        beside.append(length)
        basis.append(r / length)
    return estimate


def _largest_ritz(diagonal: list[float], beside: list[float]) -> float:
    T = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        off = torch.tensor(beside, dtype=torch.float64)
        T = T + torch.diag(off, 1) + torch.diag(off, -1)
    return float(torch.linalg.eigvalsh(T).abs().max())
