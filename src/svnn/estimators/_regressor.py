"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y
from torch import Tensor

from svnn.estimators._base import BaseSVNN
from svnn.estimators._docs import document
from svnn.estimators._standardize import Standardizer
from svnn.functional._array import is_torch, to_numpy


class SVNNRegressor(RegressorMixin, BaseSVNN):
    __doc__ = document(
        """Regression with a sparse covariance neural network.

    Estimates the covariance of the features, sparsifies it, and trains a network whose layers are
    polynomials of it.
""",
        """
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
    """,
        node_dropout="0.2",
        heads="4",
        mlp="(32,)",
        target=", and the targets,",
    )

    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = to_numpy(y) if is_torch(y) else y
        y = _check_y(y, multi_output=True, y_numeric=True).astype(np.float64)
        columns = y.shape[1:]
        if reset:
            self._target_shape = columns
        elif columns != self._target_shape:
            raise ValueError(f"validation targets have shape {y.shape}, training targets (t, {self._target_shape}).")
        return y.reshape(len(y), -1)

    def _learn_target_scale(self, y: np.ndarray, weight: np.ndarray) -> None:
        self._target_standardizer = Standardizer.fit(y, weight, active=self.standardize)

    def _scale_targets(self, y: np.ndarray) -> np.ndarray:
        return self._target_standardizer(y).astype(np.float32)

    def _n_outputs(self, y: np.ndarray) -> int:
        return y.shape[1]

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.mse_loss(output, y, reduction="none").mean(-1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``."""
        output = self._output(X)
        return self._target_standardizer.inverse(output).reshape(len(output), *self._target_shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
