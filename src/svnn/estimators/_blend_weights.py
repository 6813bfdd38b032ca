"""The weights of the parts of a blend, learned from rows that no part has seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import minimize_scalar, nnls

from svnn.estimators._units import softmax

#: Rounds in which the weights of the parts are found.
_ROUNDS = 25
#: The size of an error from which on a loss grows linearly; that of the absolute loss keeps a division finite.
_BENDS = {"huber": 0.5, "absolute": 0.05}
_TINY = 1e-12
#: Held-out rows whose weights count as much as the prior's.
_DOUBT = 10


def sharpness(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return the factor of logits whose probabilities make the labels most likely, and the log loss with it.

    The factor is below 1 for a model that is too sure of itself.
    """

    def surprise(power: float) -> float:
        return -float(weight @ np.log(np.maximum(_likelihoods(logits * np.exp(power), labels), _TINY)))

    best = minimize_scalar(surprise, bounds=(-4, 2), method="bounded")
    return float(np.exp(best.x)), float(best.fun)


def number_weights(outputs: np.ndarray, targets: np.ndarray, weight: np.ndarray, loss: str) -> np.ndarray:
    """Return the weights (parts,) of the least loss, none negative and their sum 1.

    Parameters
    ----------
    outputs : ndarray of shape (parts, t, n_outputs), for rows that no part has seen
    targets : ndarray of shape (t, n_outputs)
    weight : ndarray of shape (t,)
    loss : {"huber", "squared", "absolute"}
    """
    errors = (outputs - targets).reshape(len(outputs), -1).T
    given = np.repeat(weight, targets.shape[1])
    weights = np.full(len(outputs), 1 / len(outputs))
    bend = np.sqrt(given)
    for _ in range(1 if loss == "squared" else _ROUNDS):
        if loss != "squared":  # the squared loss that has the slopes of this one at the present errors
            bend = np.sqrt(given / np.maximum(np.abs(errors @ weights), _BENDS[loss]))
        bent = errors * bend[:, None]
        unit = max(float(np.abs(bent).max()), np.finfo(float).tiny)
        # Weights with the sum s have s times the error e of the same weights divided by s. The best sum for them leaves
        # e² / (1 + e²) in these units, which is least where e is: the sum need not be held at 1 here.
        last = np.full((1, len(weights)), np.sqrt(len(bent)))
        weights, _ = nnls(np.vstack([bent / unit, last]), np.append(np.zeros(len(bent)), last[0, 0]))
        weights /= weights.sum()
    return weights


def class_weights(log_probabilities: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights (parts,) of the mixture of probabilities that makes the labels most likely.

    Log-probabilities or logits (parts, t, n_classes) are for rows that no part has seen. Each part's are made as sure
    as they should be first: a single network is surer than the mean of several, and would count for less than they do.
    """
    each = np.array([_likelihoods(part * sharpness(part, labels, weight)[0], labels) for part in log_probabilities])
    share = weight / weight.sum()
    weights = np.full(len(each), 1 / len(each))
    for _ in range(10 * _ROUNDS):
        part = weights[:, None] * np.maximum(each, _TINY)
        weights = (part / part.sum(0)) @ share
    return weights


def with_doubt(weights: np.ndarray, prior: np.ndarray, n_rows: int) -> np.ndarray:
    r"""Return weights between those that n held-out rows suggest and those of the prior.

    A few rows do not outvote the prior: they count :math:`n^2 / (n^2 + 10^2)`.

    Examples
    --------
    >>> import numpy as np
    >>> with_doubt(np.array([1.0, 0.0]), np.array([0.0, 1.0]), n_rows=20)
    array([0.8, 0.2])
    """
    trust = n_rows**2 / (n_rows**2 + _DOUBT**2)
    mixed: np.ndarray = trust * weights + (1 - trust) * prior
    return mixed


def blend_in_words(blend: Mapping[str, float]) -> str:
    """Return how much the parts of a model count, in per cent.

    Examples
    --------
    >>> blend_in_words({"with edges": 0.614, "linear": 0.386})
    '61 % with edges, 39 % linear'
    """
    return ", ".join(f"{weight:.0%} {name}".replace("%", " %") for name, weight in blend.items())


def _likelihoods(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    likelihoods: np.ndarray = softmax(logits)[np.arange(len(labels)), labels]
    return likelihoods
