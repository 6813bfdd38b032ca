"""The units of a fit: standardised features and targets, labels as the numbers of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from svnn._types import ColumnLike
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._centring import centre, deviation, is_constant
from svnn.functional.moments import check_weight

#: The smallest and the largest number of single precision, in which networks are trained.
SINGLE = (float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
#: Between these, squares in double precision and their sums neither vanish nor overflow.
SQUARES = (1e-140, 1e140)


@dataclass(frozen=True)
class Standardizer:
    """``(X - mean) / scale`` for every node and value, with training statistics; constants are only centred."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, weight: np.ndarray, active: bool = True) -> Standardizer:
        """Learn the means and the standard deviations over the rows of ``X``; unless active, change nothing."""
        if not active:
            return cls.identity()
        weight = check_weight(weight, X)
        kept = weight > 0
        share = weight[kept] / weight.sum()
        centred = centre(X[kept].reshape(len(share), -1), share)
        scale = np.where(centred.constant, 1.0, deviation(centred, share))
        return cls(centred.location.reshape(X.shape[1:]), scale.reshape(X.shape[1:]))

    @classmethod
    def identity(cls) -> Standardizer:
        """Return the standardizer that changes nothing."""
        return cls(np.zeros(()), np.ones(()))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        Z: np.ndarray = (X - self.mean) / self.scale
        alone = self.scale == 1
        if alone.any() and alone.shape:
            # What rounding leaves of a constant is zero here too, not a feature of its own.
            same = alone & is_constant(np.minimum(X, self.mean), np.maximum(X, self.mean))
            Z = np.where(same, 0.0, Z).astype(Z.dtype, copy=False)
        return Z

    def inverse(self, Z: np.ndarray) -> np.ndarray:
        """Return standardised values in their own units."""
        return Z * self.scale + self.mean


def check_range(values: np.ndarray, name: str, smallest: float, largest: float) -> None:
    """Raise a ``ValueError`` where numbers leave the range that is computed in, or all of them vanish in it."""
    size = float(np.abs(values).max(initial=0.0))
    if size > largest or 0 < size < smallest:
        raise ValueError(
            f"{name} holds values of up to {size:.3g}, too {'large' if size > 1 else 'small'} to compute with; "
            f"give {name} in another unit, or use standardize=True."
        )


@dataclass(frozen=True)
class NumberTargets:
    """One or more numbers per sample: their shape, () or (n_outputs,), and their scale in training.

    ``n_outputs`` is the number of outputs that a network needs.
    """

    shape: tuple[int, ...]
    n_outputs: int
    standardizer: Standardizer
    are_labels = False

    @classmethod
    def learn(cls, y: np.ndarray, rows: np.ndarray, weight: np.ndarray, standardize: bool) -> NumberTargets:
        """Learn the scale of checked targets from the training rows, of these weights."""
        columns = y[rows].reshape(len(rows), -1)
        return cls(y.shape[1:], columns.shape[1], Standardizer.fit(columns, weight, active=standardize))

    def encode(self, y: np.ndarray, name: str = "validation targets") -> np.ndarray:
        """Return checked targets, which errors call ``name``, as standardised numbers of shape (t, n_outputs)."""
        if y.shape[1:] != self.shape:
            have = "has" if name == "y" else "have"
            raise ValueError(f"{name} {have} shape {y.shape}, training targets {('t', *self.shape)}.")
        return self.standardizer(y.reshape(len(y), self.n_outputs))

    def decode(self, output: np.ndarray) -> np.ndarray:
        """Return outputs in the units and the shape of the targets in training."""
        return self.standardizer.inverse(output).reshape(len(output), *self.shape)


@dataclass(frozen=True)
class LabelTargets:
    """A label per sample: the distinct labels in order, and their number."""

    classes: np.ndarray
    n_outputs: int
    are_labels = True

    @classmethod
    def learn(cls, y: np.ndarray) -> LabelTargets:
        """Find the labels, at least two, among all checked targets: also those of which no row is trained on."""
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y holds only one class, {classes[0]!r}; a classifier needs at least two.")
        return cls(classes, len(classes))

    @classmethod
    def known(cls, classes: ColumnLike, y: np.ndarray) -> LabelTargets:
        """Take the caller's list of labels, at least two, among which all of ``y`` have to be."""
        found = np.unique(check_targets(classes, are_labels=True))
        if len(found) < 2:
            raise ValueError(f"classes holds only {found.tolist()}; a classifier needs at least two.")
        targets = cls(found, len(found))
        targets.encode(y, "y")
        return targets

    def encode(self, y: np.ndarray, name: str = "validation targets") -> np.ndarray:
        """Return the place of every checked label among the classes; errors call the labels ``name``."""
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown) and name == "y":
            raise ValueError(
                f"y holds the labels {unknown.tolist()}, which are not among the classes {self.classes.tolist()}; name "
                "all of them as classes= in the first call of partial_fit."
            )
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


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities along the last axis."""
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    found: np.ndarray = odds / odds.sum(-1, keepdims=True)
    return found
