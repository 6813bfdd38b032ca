"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y
from torch import Tensor

from svnn.estimators._base import BaseSVNN
from svnn.estimators._standardize import Standardizer


class SVNNRegressor(RegressorMixin, BaseSVNN):
    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = _check_y(y, multi_output=True, y_numeric=True).astype(np.float64)
        columns = y.shape[1:]
        if reset:
            self._target_shape = columns
        elif columns != self._target_shape:
            raise ValueError(f"validation targets have shape {y.shape}, training targets (t, {self._target_shape}).")
        return y.reshape(len(y), -1)

    def _scale_targets(self, y: np.ndarray, train: Any) -> np.ndarray:
        if train is not None:
            active = self.standardize
            self._target_standardizer = Standardizer.fit(y[train], np.ones(len(y[train])), active=active)
        return self._target_standardizer(y).astype(np.float32)

    def _n_outputs(self, y: np.ndarray) -> int:
        return y.shape[1]

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.mse_loss(output, y, reduction="none").mean(-1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``."""
        predicted = self._target_standardizer.inverse(self._output(X)) if self._fitted() else self._output(X)
        return predicted.reshape(len(predicted), *self._target_shape)

    def _fitted(self) -> bool:
        return hasattr(self, "_target_standardizer")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
