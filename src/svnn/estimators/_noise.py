"""The variance of targets around their predictions, learned from held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: The ridge penalty on the slopes, in pseudo-observations.
_DOUBT = 20.0
#: Squared errors and disagreements below this, relative to the mean squared error, count as this.
_LEAST = 1e-4
#: The least share of held-out squared errors that is noise rather than disagreement of members.
_LEAST_REST = 0.25


class Noise(NamedTuple):
    r"""The variance of a target around its prediction :math:`\hat y`, for each output:

    .. math:: \log \sigma^2 = a_0 + a_1 \hat y + a_2 \hat y^2 + a_3 \log d

    where d is how far the parts of a model (with edges, without, linear) disagree: the variance of their outputs.
    Beyond what was seen in the held-out rows, :math:`\hat y` and d count as the largest or smallest there.

    Attributes
    ----------
    coefficients : ndarray of shape (n_outputs, 4)
    lowest, highest : ndarrays of shape (n_outputs, 2)
        The range of :math:`\hat y` and :math:`\log d`.
    """

    coefficients: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def learn(cls, prediction: np.ndarray, disagreement: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> Noise:
        """Learn it from rows (n, n_outputs) and their weights (n,)."""
        squares = np.square(targets - prediction)
        share = weight / weight.sum()
        least = np.maximum(_LEAST * (share @ squares), np.finfo(float).tiny)
        seen = np.stack([prediction, np.log(np.maximum(disagreement, least))], 2)
        noise = cls(np.zeros((squares.shape[1], 4)), seen.min(0), seen.max(0))
        for output, own in enumerate(squares.T):
            features = noise._features(seen[:, output], output)
            centre = share @ features
            A, y = features - centre, np.log(own + least[output])
            doubt = _DOUBT / len(own) * (share @ np.square(A))
            gram = (A * share[:, None]).T @ A + np.diag(doubt + np.finfo(float).tiny)
            slopes = np.linalg.lstsq(gram, (A * share[:, None]).T @ (y - share @ y), rcond=None)[0]
            level = share @ own / (share @ np.exp(A @ slopes))  # the variances have the right mean
            noise.coefficients[output, 1:] = slopes
            noise.coefficients[output, 0] = np.log(max(level, np.finfo(float).tiny)) - centre @ slopes
        return noise

    def variance(self, prediction: np.ndarray, disagreement: np.ndarray) -> np.ndarray:
        """Return the variances for predictions and disagreements of shape (t, n_outputs)."""
        seen = np.stack([prediction, np.log(np.maximum(disagreement, np.finfo(float).tiny))], 2)
        found = [
            np.exp(own[0] + self._features(seen[:, output], output) @ own[1:])
            for output, own in enumerate(self.coefficients)
        ]
        return np.array(found).T

    def _features(self, seen: np.ndarray, output: int) -> np.ndarray:
        """Return the prediction, its square and the logarithm of the disagreement, each within the range seen."""
        level, parts = np.clip(seen, self.lowest[output], self.highest[output]).T
        return np.stack([level, np.square(level), parts], 1)


def learn_noise(
    prediction: np.ndarray, disagreement: np.ndarray, targets: np.ndarray, weight: np.ndarray, within: np.ndarray
) -> Noise:
    """Return the noise around predictions of held-out rows (n, n_outputs), for means over several members.

    ``within`` (n_outputs,) is the mean variance of the members. Errors of held-out rows, which single members predict,
    hold it already; it is taken away.
    """
    noise = Noise.learn(prediction, disagreement, targets, weight)
    total = np.average(np.square(targets - prediction), axis=0, weights=weight)
    rest = np.maximum(1 - within / np.maximum(total, np.finfo(float).tiny), _LEAST_REST)
    noise.coefficients[:, 0] += np.log(rest)
    return noise
