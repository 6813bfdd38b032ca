"""Classification with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from svnn._parameters import declared
from svnn._types import ColumnLike, DataLike
from svnn._validation import at_once
from svnn.estimators._blend import softmax
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._tasks import Classification
from svnn.estimators._training_data import check_targets
from svnn.estimators.training import plain_torch


@declared
class SVNNClassifier(CovarianceNetwork, Classification):
    """Classification with a sparse covariance neural network.

    Two or more classes, labels of any type. Estimates the covariance of the features, sparsifies
    it, and trains a network whose layers are polynomials of it.

    See Also
    --------
    SVNNRegressor : the same for numbers.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn import SVNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVNNClassifier(max_epochs=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    hidden: Sequence[int] = (12,)
    heads: int | str = "auto"
    mlp: Sequence[int] = ()
    node_dropout: float = 0.4

    def _n_heads(self, n_outputs: int) -> int:
        return min(max(2 * n_outputs, 8), 32) if self.heads == "auto" else int(self.heads)

    @at_once
    @plain_torch()
    def partial_fit(
        self,
        X: DataLike,
        y: ColumnLike,
        classes: ColumnLike | None = None,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[DataLike, ColumnLike] | None = None,
    ) -> Self:
        """Go on with new rows; the first call is :meth:`fit`.

        The covariance is updated by the ``partial_fit`` of its estimator, the networks are trained for
        ``partial_epochs`` with the new rows, and the linear model is fitted to them and to the moments of earlier ones.
        Means and scales of the standardisation, the number by which the covariance is divided, and ``blend_`` stay as
        they were in the first call: filters are polynomials of the same units. ``history_`` and ``n_iter_`` are those
        of the last call.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
            Rows in the order of time, where there is a ``halflife``; one is enough after the first call.
        y : array of shape (t,)
        classes : array of shape (n_classes,), optional
            All labels that will ever come, in the first call; by default those of its ``y``. In later calls it may be
            left out.
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
        if classes is not None and hasattr(self, "classes_"):
            known = np.unique(check_targets(classes, are_labels=True))
            if not np.array_equal(known, self.classes_):
                raise ValueError(
                    f"classes={known.tolist()} are not those of the first call, {self.classes_.tolist()}; leave "
                    "classes out, or fit again."
                )
        return self._go_on(X, y, sample_weight, validation_data, classes)

    def predict_proba(
        self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None
    ) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        shift : array of shape (t, N, N), optional
            The matrix of every row, for a model that was fitted with such.
        groups : array of shape (t,), optional
            The group of every row, with ``covariance_per="group"``.
        """
        return self._mean(softmax(self._output(X, shift=shift, groups=groups)))

    def predict(self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the most probable label of every row; ``shift`` and ``groups`` as in :meth:`predict_proba`."""
        probabilities = self.predict_proba(X, shift=shift, groups=groups)
        return self._targets.decode(probabilities)
