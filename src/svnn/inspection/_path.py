"""Average gradients along the straight way from a baseline to each sample."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from svnn.inspection._outputs import Outputs

#: Numbers of Gauss-Legendre nodes, tried one after the other. One node is exact for a linear network; since it may fit
#: another network by chance, it has to fit to the second of these numbers.
_NODES, _LINEAR = (1, 4, 8, 16, 32, 64, 128, 256, 512), 1e-9


@dataclass(frozen=True)
class PathIntegral:
    r"""Average gradients :math:`\bar g = \int_0^1 \nabla f(b + s (z - b)) ds` and what they are multiplied with.

    ``gradient`` has the shape (t, N, F, m), ``step`` = z - b (t, N, F), ``start`` = f(b) (m,), ``end`` = f(z) (t, m).
    ``n_nodes`` is the largest number of nodes that a sample took.
    """

    gradient: np.ndarray
    step: np.ndarray
    start: np.ndarray
    end: np.ndarray
    n_nodes: int


def integrate(outputs: Outputs, Z: np.ndarray, baseline: np.ndarray, tol: float) -> PathIntegral:
    r"""Return average gradients, by Gauss-Legendre rules of as many nodes as each sample needs.

    The exact :math:`\bar g` fulfils :math:`\bar g^\top (z - b) = f(z) - f(b)`. Nodes are doubled until that holds up to
    ``tol`` units of the output, and a warning says where 512 are not enough.
    """
    if not 0 < tol < 1:
        raise ValueError(f"tol must be a number between 0 and 1, got {tol!r}.")
    start, end = outputs.values(baseline[None])[0], outputs.values(Z)
    change = end - start
    unit = np.sqrt((change**2).mean(0)) if outputs.unit is None else np.broadcast_to(outputs.unit, start.shape)
    step = Z - baseline
    gradient = np.zeros((*Z.shape, len(start)))
    pending, most, worst = np.arange(len(Z)), 1, 0.0
    for n_nodes in _NODES:
        gradient[pending] = _average(outputs, baseline, step[pending], n_nodes, len(start))
        sums = np.einsum("tnfm,tnf->tm", gradient[pending], step[pending])
        # Rounding leaves more than nothing of a unit that is zero: a network without any effect.
        error = abs(sums - change[pending]) / np.maximum(unit, 1e-12 * (1 + abs(start)))
        short = error.max(1) > (_LINEAR if n_nodes == 1 else tol)
        most, worst = n_nodes, float(error.max(initial=0.0))
        pending = pending[short]
        if not len(pending):
            break
    else:
        warnings.warn(
            f"the contributions of {len(pending)} samples do not add up after {most} steps: they are off by up to "
            f"{worst:.1g} standard deviations of the output. Smooth activations such as silu need few steps.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return PathIntegral(gradient, step, start, end, most)


def _average(outputs: Outputs, baseline: np.ndarray, step: np.ndarray, n_nodes: int, n_outputs: int) -> np.ndarray:
    """Return the average gradients (t, N, F, m) by the rule of ``n_nodes`` nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    origin = outputs.tensor(baseline)
    parts = []
    for part in outputs.tensor(step).split(outputs.rows(step.shape[1])):
        total = part.new_zeros(n_outputs, *part.shape)
        for node, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
            total += weight * _gradients(outputs, origin + node * part)
        parts.append(total.movedim(0, -1))
    return torch.cat(parts).cpu().numpy()


def _gradients(outputs: Outputs, x: Tensor) -> Tensor:
    """Return the gradients (m, t, N, F) of every output; the rows of ``x`` do not touch one another."""
    x = x.detach().requires_grad_()
    columns = outputs(x).sum(0).unbind()
    found = [torch.autograd.grad(column, x, retain_graph=column is not columns[-1])[0] for column in columns]
    return torch.stack(found)
