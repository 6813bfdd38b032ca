"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from typing import Literal, cast, overload

import numpy as np
from torch import nn

from svnn._parameters import declared
from svnn._types import DataLike
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._network_estimator import Regression
from svnn.estimators._training_data import TrainingData
from svnn.estimators.training import Trainer

#: Training rows by which the members' agreement is measured.
_ROWS = 1000


@declared
class SVNNRegressor(CovarianceNetwork, Regression):
    """Regression with a sparse covariance neural network.

    Estimates the covariance of the features, sparsifies it, and trains networks whose layers are
    polynomials of it, or of its logarithm.

    See Also
    --------
    SVNNClassifier : the same for labels.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.datasets import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=200, n_features=20, random_state=0)
    >>> model = SVNNRegressor(covariance="hard", max_epochs=50, random_state=0)
    >>> model.fit(data.X[:150], data.y[:150]).predict(data.X[150:]).shape
    (50,)
    >>> bool(model.score(data.X[150:], data.y[150:]) > 0.1)
    True

    How far off may a prediction be?

    >>> mean, std = model.predict(data.X[150:], return_std=True)
    >>> mean.shape, std.shape, bool((std > 0).all())
    ((50,), (50,), True)

    The fitted covariance estimator says what it found, here the share of the covariances that it kept:

    >>> 0 < model.covariance_estimator_.density_ < 1
    True
    """

    #: Variance of a target around its prediction, in standardised units (n_outputs,); None where no row was held out.
    _noise = cast("np.ndarray | None", None)

    @overload
    def predict(self, X: DataLike, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: DataLike, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: DataLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        return_std : bool, default=False
            Whether to return standard deviations, of the same shape, too: how far a target is expected to lie from
            its prediction. Two things count: how far the members disagree about this row, and how far the targets of
            held-out rows lay from their predictions in ``fit``.
        """
        outputs = self._output(X)
        mean = self._targets.decode(outputs.mean(0))
        if not return_std:
            return mean
        if self._noise is None and len(outputs) == 1:
            raise ValueError("return_std=True needs several members, or a validation_fraction above 0 in fit.")
        variance = _spread(outputs) + (0.0 if self._noise is None else self._noise)
        std: np.ndarray = np.sqrt(variance) * self._target_standardizer.scale
        return mean, std.reshape(mean.shape)

    def _finish(self, networks: list[nn.Module], trainer: Trainer, data: TrainingData) -> None:
        super()._finish(networks, trainer, data)
        held = [] if data.folds is None and data.held_out is None else range(len(networks))
        found = [trainer.held_out(member) for member in held]
        self._noise = None
        if found:
            squares = np.concatenate([(output - y).square().cpu().numpy() for output, y in found])
            # The held-out errors of single members hold their disagreement already.
            outputs = self._outputs_of(self._inputs(data.training.signals[:_ROWS]))
            total = squares.mean(0, dtype=np.float64)
            self._noise = np.maximum(total - _spread(outputs).mean(0), 0.25 * total)


def _spread(outputs: np.ndarray) -> np.ndarray:
    """Return the variances between members (members, t, n_outputs), zero for a single one."""
    return outputs.var(0, ddof=1) if len(outputs) > 1 else np.zeros(outputs.shape[1:])
