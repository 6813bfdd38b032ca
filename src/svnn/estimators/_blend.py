r"""Simple models beside the networks, and how much each of them counts.

A linear covariance network whose readout is the covariance with the target needs no training: ridge regression is

.. math:: \hat y = c_{xy}^T (C + \alpha I)^{-1} x,

a covariance filter with the response :math:`1 / (\lambda + \alpha)`, and the linear discriminant is the same filter of
the covariance within classes. Both are found here in closed form. Weights of models come from rows that none of them
has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar, nnls

#: Penalties of ridge regression to choose from, relative to the largest eigenvalue.
_PENALTIES = np.logspace(-10, 2, 25)
#: Eigenvalues below this, relative to the largest, are rounding.
_ROUNDING = 1e-12
#: The relative difference up to which errors count as equal.
_ALIKE = 1e-4
#: How far the covariance within classes is shrunk, to choose from.
SHRINKAGES = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
#: Rounds in which the weights of the models are found.
_ROUNDS = 25
#: The size of an error from which on a loss grows linearly; that of the absolute loss keeps a division finite.
_BENDS = {"huber": 0.5, "absolute": 0.05}
_TINY = 1e-12


class Linear(NamedTuple):
    """The function :math:`A x + b`: A of shape (n_outputs, p), b of shape (n_outputs,)."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        found: np.ndarray = Z @ self.weight.T + self.bias
        return found


class _Spectrum(NamedTuple):
    """The singular value decomposition of a table without what rounding left: squares of the values, and vectors."""

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


def discriminants(Z: np.ndarray, labels: np.ndarray, n_classes: int, weight: np.ndarray) -> list[Linear]:
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
    found = []
    for shrinkage in SHRINKAGES:
        response = 1 / ((1 - shrinkage) * squares + shrinkage)
        W = means / shrinkage + (right @ ((response - 1 / shrinkage)[:, None] * along)).T
        bias = np.log(np.maximum(priors, _TINY)) - np.einsum("kp,kp->k", means, W) / 2
        W[~seen], bias[~seen] = W[seen].mean(0), bias[seen].mean() + np.log(_TINY)
        found.append(Linear(W / unit, bias))
    return found


def strongest(errors: Sequence[float]) -> int:
    """Return the place of the last error that is as good as the smallest.

    Errors within ``_ALIKE`` of it count as equal: where rows are no more than features, rounding decides between
    penalties that are too small to matter.
    """
    found = np.asarray(errors)
    return int(np.flatnonzero(found <= found.min() + _ALIKE * abs(found.min()))[-1])


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities along the last axis."""
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    found: np.ndarray = odds / odds.sum(-1, keepdims=True)
    return found


def sharpness(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return the factor of logits whose probabilities make the labels most likely, and how unlikely they are then.

    The factor is below 1 for a model that is too sure of itself.
    """

    def surprise(power: float) -> float:
        return -float(weight @ np.log(np.maximum(_likelihoods(logits * np.exp(power), labels), _TINY)))

    found = minimize_scalar(surprise, bounds=(-4, 2), method="bounded")
    return float(np.exp(found.x)), float(found.fun)


def number_weights(outputs: np.ndarray, targets: np.ndarray, weight: np.ndarray, loss: str) -> np.ndarray:
    """Return the weights (models,), none negative and their sum 1, of the least loss.

    Parameters
    ----------
    outputs : (models, t, n_outputs), for rows that no model has seen
    targets : (t, n_outputs)
    weight : (t,)
    loss : "huber", "squared" or "absolute"
    """
    errors = (outputs - targets).reshape(len(outputs), -1).T
    given = np.repeat(weight, targets.shape[1])
    found = np.full(len(outputs), 1 / len(outputs))
    bend = np.sqrt(given)
    for _ in range(1 if loss == "squared" else _ROUNDS):
        if loss != "squared":  # the squared loss that has the slopes of this one at the present errors
            bend = np.sqrt(given / np.maximum(np.abs(errors @ found), _BENDS[loss]))
        bent = errors * bend[:, None]
        unit = max(float(np.abs(bent).max()), np.finfo(float).tiny)
        # Weights with the sum s have s times the error e of the same weights divided by s. The best sum for them leaves
        # e² / (1 + e²) in these units, which is least where e is: the sum need not be held at 1 here.
        last = np.full((1, len(found)), np.sqrt(len(bent)))
        found, _ = nnls(np.vstack([bent / unit, last]), np.append(np.zeros(len(bent)), last[0, 0]))
        found /= found.sum()
    return found


def class_weights(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights (models,) of the mixture of probabilities that makes the labels most likely.

    Logits (models, t, n_classes) are for rows that no model has seen. Each model's are made as sure as they should be
    first: a single network is surer than the mean of several, and would count for less than they do.
    """
    each = np.array([_likelihoods(own * sharpness(own, labels, weight)[0], labels) for own in logits])
    share = weight / weight.sum()
    found = np.full(len(logits), 1 / len(logits))
    for _ in range(10 * _ROUNDS):
        part = found[:, None] * np.maximum(each, _TINY)
        found = (part / part.sum(0)) @ share
    return found


def _likelihoods(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    found: np.ndarray = softmax(logits)[np.arange(len(labels)), labels]
    return found
