"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from typing import Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from svnn._parameters import declared
from svnn._types import ColumnLike, DataLike
from svnn._validation import at_once
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._folds import HeldOut
from svnn.estimators._noise import Noise
from svnn.estimators._tasks import Regression
from svnn.estimators._training_data import TrainingData
from svnn.estimators.training import plain_torch

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
    >>> from svnn.paper import make_sparse_cov
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

    #: How far targets lie from predictions, in standardised units; None where no row was held out.
    _noise = cast("Noise | None", None)

    @at_once
    @plain_torch()
    def partial_fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[DataLike, ColumnLike] | None = None,
    ) -> Self:
        """Go on with new rows; the first call is :meth:`fit`.

        The covariance is updated by the ``partial_fit`` of its estimator, the networks are trained for
        ``partial_epochs`` with the new rows, and the linear model is updated by recursive least squares. Means and
        scales of the standardisation, the number by which the covariance is divided, and ``blend_`` stay as they were
        in the first call: filters are polynomials of the same units. ``history_`` and ``n_iter_`` are those of the last
        call.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
            Rows in the order of time, where there is a ``halflife``; one is enough after the first call.
        y : array of shape (t,), or (t, n_outputs)
        sample_weight : array of shape (t,), optional
            Only ratios within one call count.
        validation_data : tuple (X, y), optional
            The epoch of the least loss on it is kept; by default that of the least training loss.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the covariance estimator has no ``partial_fit``, as "ledoit_wolf", "adaptive" and ``tau="cv"``.
        """
        return self._go_on(X, y, sample_weight, validation_data)

    @overload
    def predict(
        self,
        X: DataLike,
        return_std: Literal[False] = False,
        *,
        shift: ArrayLike | None = ...,
        groups: ColumnLike | None = ...,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        X: DataLike,
        return_std: Literal[True],
        *,
        shift: ArrayLike | None = ...,
        groups: ColumnLike | None = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self,
        X: DataLike,
        return_std: bool = False,
        *,
        shift: ArrayLike | None = None,
        groups: ColumnLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        return_std : bool, default=False
            Whether to return standard deviations, of the same shape, too: how far a target is expected to lie from
            its prediction. Two things count: how far the parts of the model disagree about this row, and how far
            the targets of held-out rows with such predictions lay from them in ``fit``.
        shift : array of shape (t, N, N), optional
            The matrix of every row, for a model that was fitted with such.
        groups : array of shape (t,), optional
            The group of every row, with ``covariance_per="group"``.
        """
        outputs = self._output(X, shift=shift, groups=groups)
        found = self._mean(outputs)
        mean = self._targets.decode(found)
        if not return_std:
            return mean
        if self._noise is None and len(outputs) == 1:
            raise ValueError("return_std=True needs several members, or a validation_fraction above 0 in fit.")
        variance = self._within(outputs)
        if self._noise is not None:
            variance = variance + self._noise.variance(found, self._between(outputs))
        std: np.ndarray = np.sqrt(variance) * self._target_standardizer.scale
        return mean, std.reshape(mean.shape)

    def _learn_noise(self, held: HeldOut | None, data: TrainingData) -> None:
        self._noise = None
        if held is None or not held.weight.any():
            return
        weights = np.array(list(self.blend_.values()))
        prediction = np.tensordot(weights, held.outputs, 1)
        noise = Noise.learn(prediction, _variance(held.outputs, weights), held.targets, held.weight)
        # The held-out errors of single members hold their disagreement already.
        some = np.flatnonzero(data.training.weight)[:_ROWS]
        rows = data.training
        matrices = None if rows.matrices is None else rows.matrices[some]
        outputs = self._outputs_of(self._inputs(rows.signals[some]), matrices=matrices)
        within = self._within(outputs).mean(0)
        total = np.average(np.square(held.targets - prediction), axis=0, weights=held.weight)
        rest = np.maximum(1 - within / np.maximum(total, np.finfo(float).tiny), 0.25)
        noise.coefficients[:, 0] += np.log(rest)
        self._noise = noise

    def _parts(self, outputs: np.ndarray) -> list[np.ndarray]:
        """Return the outputs of the members of every team, and of the linear model."""
        n_linear = int("linear" in self.blend_)
        teams = len(self.blend_) - n_linear
        n = len(outputs) - n_linear
        ends = [n] if teams == 1 else [n - n // 2, n]
        return np.split(outputs, ends if n_linear else ends[:-1])

    def _between(self, outputs: np.ndarray) -> np.ndarray:
        """Return how far the parts differ: the variances (t, n_outputs) of their means."""
        means = np.array([part.mean(0) for part in self._parts(outputs)])
        return _variance(means, np.array(list(self.blend_.values())))

    def _within(self, outputs: np.ndarray) -> np.ndarray:
        """Return how far the members of a part differ, by what the parts count."""
        found = np.zeros(outputs.shape[1:])
        for part, weight in zip(self._parts(outputs), self.blend_.values(), strict=True):
            found += weight * (part.var(0, ddof=1) if len(part) > 1 else 0.0)
        return found


def _variance(outputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the variances of outputs (parts, t, n_outputs) whose parts have these weights."""
    centred = outputs - np.tensordot(weights, outputs, 1)
    found: np.ndarray = np.tensordot(weights, np.square(centred), 1)
    return found
