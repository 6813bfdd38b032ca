"""What new rows make of the linear model that takes part in a blend."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from svnn.covariance._running_moments import Totals
from svnn.estimators._training_data import Rows
from svnn.functional._array import to_numpy

#: What is added to the variance of every feature, relative to their mean: directions in which earlier rows hardly
#: varied are not free to fit the new ones.
_FLOOR = 0.3
#: Iterations of the minimisation for classes.
_ITERATIONS = 50
#: How much the cross-entropy curves, at most, for every unit of a logit.
_CURVATURE = 0.25


def updated_linear(
    weight: Tensor, bias: Tensor, rows: Rows, before: Totals | None, prior: float
) -> tuple[Tensor, Tensor]:
    r"""Return the linear model :math:`\theta = (A, b)` that fits new rows and what is known of the earlier ones.

    .. math:: \min_\theta \sum_i w_i \, \ell(\theta z_i, y_i) + \tfrac\kappa2 \, t_0 \,
        \| (\theta - \theta_0) M^{1/2} \|^2

    with :math:`M` the second moments of earlier rows, :math:`t_0` what these count, and :math:`\kappa` the curvature of
    the loss. For the squared loss that is recursive least squares: what all rows together would give.

    Parameters
    ----------
    weight, bias : tensors of shapes (n_outputs, N F) and (n_outputs,)
    rows : Rows
        New rows; ``targets`` are numbers (t, n_outputs) or numbers of classes (t,).
    before : Totals or None
        Moments of the N features in earlier rows; None takes features of variance 1.
    prior : float
        What earlier rows count, in units of a new row of weight 1.
    """
    Z = rows.signals.reshape(len(rows.signals), -1).astype(np.float64)
    Z1 = np.column_stack([Z, np.ones(len(Z))])
    M = prior * _second_moments(before, *rows.signals.shape[1:])
    theta = np.column_stack([weight.numpy(), bias.numpy()])
    if rows.targets.ndim == 2:
        weighted = rows.weight[:, None] * Z1
        residual = rows.targets - Z1 @ theta.T
        theta = theta + np.linalg.solve(M + Z1.T @ weighted, weighted.T @ residual).T
    else:
        theta = _logistic(theta, Z1, rows.targets, rows.weight, _CURVATURE * M)
    return torch.from_numpy(theta[:, :-1].copy()), torch.from_numpy(theta[:, -1].copy())


def _second_moments(before: Totals | None, n_features: int, n_values: int) -> np.ndarray:
    """Return the mean of z z' in earlier rows, with a one behind every z; all values of a node count as alike."""
    if before is None:
        C, mean = np.eye(n_features), np.zeros(n_features)
    else:
        C, mean = to_numpy(before.covariance).astype(np.float64), to_numpy(before.location).astype(np.float64)
    C = C + _FLOOR * max(float(np.trace(C)) / n_features, np.finfo(float).tiny) * np.eye(n_features)
    mean = np.append(np.repeat(mean, n_values), 1.0)
    M = np.outer(mean, mean)
    M[:-1, :-1] += np.kron(C, np.eye(n_values))
    return M


def _logistic(theta: np.ndarray, Z: np.ndarray, labels: np.ndarray, weight: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return the logits' coefficients of the least cross-entropy, held to earlier ones by M."""
    start, inputs, y = (
        torch.from_numpy(theta),
        torch.from_numpy(Z),
        torch.from_numpy(np.asarray(labels, dtype=np.int64)),
    )
    w, metric, found = torch.from_numpy(weight), torch.from_numpy(M), start.clone().requires_grad_()
    solver = torch.optim.LBFGS([found], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        solver.zero_grad()
        losses = torch.nn.functional.cross_entropy(inputs @ found.T, y, reduction="none")
        change = found - start
        total = w @ losses + ((change @ metric) * change).sum() / 2
        total.backward()
        return total

    with torch.enable_grad():
        solver.step(objective)
    return found.detach().numpy()
