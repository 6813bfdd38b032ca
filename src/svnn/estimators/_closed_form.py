r"""Linear models in closed form: ridge regression, linear discriminants, and their update by new rows.

A linear covariance network whose readout is the covariance with the target needs no training: ridge regression is

.. math:: \hat y = c_{xy}^T (C + \alpha I)^{-1} x,

a covariance filter with the response :math:`1 / (\lambda + \alpha)`, and the linear discriminant is the same filter of
the covariance within classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

#: Penalties of ridge regression to choose from, relative to the largest eigenvalue.
_PENALTIES = np.logspace(-10, 2, 25)
#: Eigenvalues below this, relative to the largest, are rounding.
_ROUNDING = 1e-12
#: The relative difference up to which errors count as equal.
_ALIKE = 1e-4
#: How far the covariance within classes is shrunk, to choose from.
SHRINKAGES = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
_TINY = 1e-12
#: What an update adds to the variance of every feature, relative to their mean: directions in which earlier rows
#: hardly varied are not free to fit the new ones.
_FLOOR = 0.3
#: The largest curvature of the cross-entropy in a logit.
_CURVATURE = 0.25


class Linear(NamedTuple):
    """The function :math:`A x + b`: A of shape (n_outputs, p), b of shape (n_outputs,)."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        outputs: np.ndarray = Z @ self.weight.T + self.bias
        return outputs


class _Spectrum(NamedTuple):
    """The singular value decomposition of a table without what is rounding: squares of the values, and vectors."""

    squares: np.ndarray
    left: np.ndarray
    right: np.ndarray


def _spectrum(A: np.ndarray) -> _Spectrum:
    """Return the decomposition of a table (t, p), from the products of its shorter side."""
    tall = A.shape[0] >= A.shape[1]
    squares, vectors = np.linalg.eigh(A.T @ A if tall else A @ A.T)
    kept = squares > _ROUNDING * max(float(squares[-1]), _TINY)
    squares, vectors = squares[kept], vectors[:, kept]
    other = (A if tall else A.T) @ vectors / np.sqrt(squares)
    return _Spectrum(squares, other, vectors) if tall else _Spectrum(squares, vectors, other)


def ridge(Z: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> Linear:
    """Return the ridge regression of targets (t, n_outputs) on a table (t, p).

    The penalty is that of the smallest squared error when each row in turn is left out, which has a closed form.
    """
    share = weight / weight.sum()
    mean, level = share @ Z, share @ Y
    root = np.sqrt(weight)[:, None]
    A, B = root * (Z - mean), root * (Y - level)
    squares, left, right = _spectrum(A)
    if not len(squares):
        return Linear(np.zeros((Y.shape[1], Z.shape[1])), level)
    projected = left.T @ B
    penalties = _PENALTIES * squares[-1]
    errors = []
    for penalty in penalties:
        kept = squares / (squares + penalty)
        leverage = np.minimum(np.square(left) @ kept + share, 1 - _TINY)
        errors.append(np.square((B - left @ (kept[:, None] * projected)) / (1 - leverage)[:, None]).sum())
    penalty = penalties[strongest(errors)]
    W = right @ ((np.sqrt(squares) / (squares + penalty))[:, None] * projected)
    return Linear(W.T, level - mean @ W)


def discriminants(Z: np.ndarray, labels: np.ndarray, weight: np.ndarray, n_classes: int) -> list[Linear]:
    """Return linear discriminants of classes: logits of a Gaussian for each of them, of a common covariance.

    In units in which every feature has variance 1 within classes, that covariance is shrunk towards the identity, for
    each discriminant by another of ``SHRINKAGES``. A class without rows is never the most likely one: its logits are
    the mean of the others', and much smaller.
    """
    share = weight / weight.sum()
    member = (labels[:, None] == np.arange(n_classes)) * share[:, None]
    priors = member.sum(0)
    seen = priors > 0
    means = member.T @ Z / np.maximum(priors, _TINY)[:, None]
    centred = Z - means[labels]
    unit = np.sqrt(share @ np.square(centred))
    unit = np.where(unit > _ROUNDING * max(float(unit.max(initial=0.0)), _TINY), unit, np.inf)  # leaves constants out
    means = means / unit
    squares, _, right = _spectrum(np.sqrt(share)[:, None] * centred / unit)
    along = right.T @ means.T
    models = []
    for shrinkage in SHRINKAGES:
        response = 1 / ((1 - shrinkage) * squares + shrinkage)
        W = means / shrinkage + (right @ ((response - 1 / shrinkage)[:, None] * along)).T
        bias = np.log(np.maximum(priors, _TINY)) - np.einsum("kp,kp->k", means, W) / 2
        W[~seen], bias[~seen] = W[seen].mean(0), bias[seen].mean() + np.log(_TINY)
        models.append(Linear(W / unit, bias))
    return models


def strongest(errors: Sequence[float]) -> int:
    """Return the place of the last error that is as good as the smallest.

    Errors within ``_ALIKE`` of it count as equal: where rows are no more than features, rounding decides between
    penalties that are too small to matter.
    """
    values = np.asarray(errors)
    return int(np.flatnonzero(values <= values.min() + _ALIKE * abs(values.min()))[-1])


def gram_matrix(Z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weighted sum of z z' over the rows of a table (t, p), with a one behind every z."""
    Z1 = np.column_stack([Z, np.ones(len(Z))])
    gram: np.ndarray = Z1.T @ (weight[:, None] * Z1)
    return (gram + gram.T) / 2


def updated_linear(linear: Linear, Z: np.ndarray, targets: np.ndarray, weight: np.ndarray, gram: np.ndarray) -> Linear:
    r"""Return the linear model :math:`\theta = (A, b)` that fits new rows and what is known of the earlier ones.

    .. math:: \min_\theta \sum_i w_i \, \ell(\theta z_i, y_i) + \tfrac\kappa2 \,
        \| (\theta - \theta_0) G^{1/2} \|^2

    with G the second moments of the earlier rows and :math:`\kappa` the curvature of the loss. For the squared loss
    that is recursive least squares: what all rows together would give.

    Parameters
    ----------
    linear : Linear
        The model of the earlier rows.
    Z : ndarray of shape (t, p)
        New rows.
    targets : ndarray of shape (t, n_outputs) for numbers, (t,) for the places of classes
    weight : ndarray of shape (t,)
    gram : ndarray of shape (p + 1, p + 1)
        :func:`gram_matrix` of the earlier rows.
    """
    Z1 = np.column_stack([Z, np.ones(len(Z))])
    prior, p = gram[-1, -1], Z.shape[1]
    variances = gram.diagonal()[:-1] / prior - np.square(gram[-1, :-1] / prior)
    M = gram.copy()
    M[np.arange(p), np.arange(p)] += prior * _FLOOR * max(float(variances.mean()), np.finfo(float).tiny)
    theta = np.column_stack(linear)
    if targets.ndim == 2:
        weighted = weight[:, None] * Z1
        residual = targets - Z1 @ theta.T
        theta = theta + np.linalg.solve(M + Z1.T @ weighted, weighted.T @ residual).T
    else:
        theta = _logistic(theta, Z1, targets, weight, _CURVATURE * M)
    return Linear(theta[:, :-1].copy(), theta[:, -1].copy())


def _logistic(start: np.ndarray, Z: np.ndarray, labels: np.ndarray, weight: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return the logits' coefficients of the least cross-entropy, held to those of the start by M."""
    rows = np.arange(len(labels))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(start.shape)
        logits = Z @ theta.T
        logits -= logits.max(1, keepdims=True)
        odds = np.exp(logits)
        total = odds.sum(1)
        pull = (theta - start) @ M
        value = weight @ (np.log(total) - logits[rows, labels]) + ((theta - start) * pull).sum() / 2
        slopes = odds / total[:, None]
        slopes[rows, labels] -= 1
        return float(value), ((weight[:, None] * slopes).T @ Z + pull).ravel()

    best: np.ndarray = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B").x
    return best.reshape(start.shape)
