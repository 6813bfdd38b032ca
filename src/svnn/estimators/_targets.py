"""What is predicted, as the loss takes it and back: numbers on a common scale, or labels as the numbers of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor
from torch.nn import functional

from svnn._types import ColumnLike
from svnn.estimators._training_data import Standardizer
from svnn.functional._array import is_torch, to_numpy

#: Losses of every value. The Huber loss is scaled to agree with the squared one near zero.
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "huber": partial(functional.smooth_l1_loss, reduction="none", beta=0.5),
    "squared": partial(functional.mse_loss, reduction="none"),
    "absolute": partial(functional.l1_loss, reduction="none"),
}


@dataclass(frozen=True)
class NumberTargets:
    """One or more numbers per sample: their shape, () or (n_outputs,), and their scale in training."""

    shape: tuple[int, ...]
    standardizer: Standardizer
    are_labels = False

    @classmethod
    def learn(cls, y: np.ndarray, rows: np.ndarray, weight: np.ndarray, standardize: bool) -> NumberTargets:
        """Learn the scale of checked targets from the training rows, of these weights."""
        columns = y[rows].reshape(len(rows), -1)
        return cls(y.shape[1:], Standardizer.fit(columns, weight, active=standardize))

    @property
    def n_outputs(self) -> int:
        """The number of outputs that a network needs."""
        return math.prod(self.shape)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return checked targets as standardised numbers of shape (t, n_outputs)."""
        if y.shape[1:] != self.shape:
            raise ValueError(f"validation targets have shape {y.shape}, training targets {('t', *self.shape)}.")
        return self.standardizer(y.reshape(len(y), -1))

    def decode(self, output: np.ndarray) -> np.ndarray:
        """Return outputs in the units and the shape of the targets in training."""
        return self.standardizer.inverse(output).reshape(len(output), *self.shape)


@dataclass(frozen=True)
class LabelTargets:
    """A label per sample: the distinct labels in order."""

    classes: np.ndarray
    are_labels = True

    @classmethod
    def learn(cls, y: np.ndarray, rows: np.ndarray, weight: np.ndarray, standardize: bool) -> LabelTargets:
        """Find the labels, at least two, among all checked targets: also those of which no row is trained on."""
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y holds only one class, {classes[0]!r}; a classifier needs at least two.")
        return cls(classes)

    @property
    def n_outputs(self) -> int:
        """The number of outputs that a network needs."""
        return len(self.classes)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return the place of every checked label among the classes."""
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"the validation labels {unknown.tolist()} do not occur in training.")
        return np.searchsorted(self.classes, y)

    def decode(self, output: np.ndarray) -> np.ndarray:
        """Return the label with the largest output for every row."""
        return self.classes[output.argmax(1)]


Targets: TypeAlias = NumberTargets | LabelTargets


def check_targets(y: ColumnLike, are_labels: bool, multi_output: bool = True) -> np.ndarray:
    """Return labels of shape (t,), or finite numbers in double precision, or say what is wrong with the targets.

    Numbers may have the shape (t, n_outputs) too, with ``multi_output``.
    """
    given: Any = y
    if given is None:
        raise ValueError("An estimator that predicts requires y to be passed, but the target y is None.")
    if given.is_complex() if is_torch(given) else getattr(getattr(given, "dtype", None), "kind", None) == "c":
        raise ValueError("y must be real: Complex data not supported.")
    if is_torch(given):
        if given.layout != torch.strided:
            raise TypeError("y is a sparse tensor; pass y.to_dense().")
        # numpy has no numbers of 16 bits that torch calls bfloat16.
        given = to_numpy(given.float() if given.dtype == torch.bfloat16 else given)
    if are_labels:
        labels: np.ndarray = column_or_1d(given, warn=True)
        check_classification_targets(labels)
        return labels
    if multi_output:
        numbers: np.ndarray = check_array(given, ensure_2d=False, dtype=None, input_name="y")
    else:
        numbers = check_array(column_or_1d(given, warn=True), ensure_2d=False, dtype=None, input_name="y")
    try:
        numbers = numbers.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers for a regressor, got {numbers.dtype}: {error}.") from error
    assert_all_finite(numbers, input_name="y")
    return numbers
