"""Targets of the trained estimators: numbers with a loss, or labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y
from torch import Tensor
from torch.nn import functional

from svnn.estimators._parameters import one_of
from svnn.estimators._range import SINGLE, check_range
from svnn.estimators._standardize import Standardizer
from svnn.estimators._trained import TrainedEstimator
from svnn.estimators._weights import check_class_weight, with_class_weight
from svnn.functional._array import is_torch, to_numpy

#: Losses of every value; the Huber loss is scaled to agree with the squared one near zero.
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "huber": lambda output, y: 2 * functional.huber_loss(output, y, reduction="none", delta=0.5),
    "squared": lambda output, y: functional.mse_loss(output, y, reduction="none"),
    "absolute": lambda output, y: functional.l1_loss(output, y, reduction="none"),
}


class TrainedRegressor(RegressorMixin, TrainedEstimator):
    """A network for one or more numbers a sample, trained on the loss named by ``loss``."""

    loss: str

    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        y = given_numbers(self, y, multi_output=True)
        columns = y.shape[1:]
        if reset:
            self._target_shape = columns
        elif columns != self._target_shape:
            raise ValueError(f"validation targets have shape {y.shape}, training targets (t, {self._target_shape}).")
        return y.reshape(len(y), -1)

    def _learn_target_scale(self, y: np.ndarray, weight: np.ndarray) -> None:
        self._target_standardizer = Standardizer.fit(y, weight, active=bool(self.standardize))
        check_range(self._target_standardizer(y[weight > 0]), "y", *SINGLE)

    def _scale_targets(self, y: np.ndarray) -> np.ndarray:
        return self._target_standardizer(y).astype(np.float32)

    def _n_outputs(self, y: np.ndarray) -> int:
        return y.shape[1]

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return LOSSES[self.loss](output, y).mean(-1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of(self, "loss", tuple(LOSSES))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``."""
        output = self._output(X)
        return self._target_standardizer.inverse(output).reshape(len(output), *self._target_shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class TrainedClassifier(ClassifierMixin, TrainedEstimator):
    """A network for labels, trained on the cross-entropy."""

    class_weight: Any

    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        if reset:
            self.classes_, encoded = encode_labels(self, y)
            return encoded
        y = given_labels(self, y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"the validation labels {unknown.tolist()} do not occur in training.")
        return np.searchsorted(self.classes_, y)

    def _n_outputs(self, y: np.ndarray) -> int:
        return len(self.classes_)

    def _row_weight(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return with_class_weight(weight, self.class_weight, self.classes_[y])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_class_weight(self.class_weight)

    def _splitter(self, y: np.ndarray, size: int, seed: int) -> Any:
        counts = np.bincount(y)
        if counts.min() < 2 or min(size, len(y) - size) < len(counts):
            return super()._splitter(y, size, seed)
        return StratifiedShuffleSplit(1, test_size=size, random_state=seed)

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(output, y, reduction="none")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``."""
        logits = self._output(X)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]


def given_targets(estimator: Any, y: Any) -> Any:
    """Return targets that are there, tensors as arrays."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    if y.is_complex() if is_torch(y) else getattr(getattr(y, "dtype", None), "kind", None) == "c":
        raise ValueError("y must be real: Complex data not supported.")
    if not is_torch(y):
        return y
    if y.layout != torch.strided:
        raise TypeError("y is a sparse tensor; pass y.to_dense().")
    # numpy has no numbers of 16 bits that torch calls bfloat16.
    return to_numpy(y.float() if y.dtype == torch.bfloat16 else y)


def given_numbers(estimator: Any, y: Any, multi_output: bool = False) -> np.ndarray:
    """Return targets as finite real numbers in double precision."""
    y = _check_y(given_targets(estimator, y), multi_output=multi_output, y_numeric=False)
    if y.dtype.kind in "USOTmM":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must hold numbers for a regressor, got {y.dtype}: {error}.") from error
        _check_y(y, multi_output=multi_output)
    return y.astype(np.float64)


def given_labels(estimator: Any, y: Any) -> np.ndarray:
    """Return labels as an array of shape (t,)."""
    y = column_or_1d(given_targets(estimator, y), warn=True)
    check_classification_targets(y)
    return y


def encode_labels(estimator: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, at least two, and the index of every row's label among them."""
    classes, encoded = np.unique(given_labels(estimator, y), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds only one class, {classes[0]!r}; a classifier needs at least two.")
    return classes, encoded
