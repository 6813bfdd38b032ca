"""The data of a fit: signals and targets checked, weighted, split and standardised."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import (
    assert_all_finite,
    check_array,
    column_or_1d,
    compute_sample_weight,
)
from sklearn.utils.multiclass import check_classification_targets

from svnn._types import ColumnLike, DataLike
from svnn._validation import check_data, check_groups
from svnn.estimators._row_covariances import RowMatrices
from svnn.functional._array import as_floating, is_torch, to_numpy
from svnn.functional._centring import centre, deviation, is_constant
from svnn.functional.moments import check_weight

#: The smallest and the largest number of single precision, in which networks are trained.
SINGLE = (float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
#: Between these, squares in double precision and their sums neither vanish nor overflow.
SQUARES = (1e-140, 1e140)
#: Bits of a weight that count.
_BITS = 32
#: Rows that are held out at a time: at least; where there are few rows; the largest share of all for that.
_FEWEST_HELD_OUT, _MANY_HELD_OUT, _LARGEST_SHARE = 2, 5, 0.25


class Rows(NamedTuple):
    """Some rows of the data: standardised signals (t, N, F), encoded targets, and weights in the loss."""

    signals: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    matrices: RowMatrices | None = None  # the covariance of each row, where it has one of its own


class Given(NamedTuple):
    """What a caller gives to ``fit``."""

    X: DataLike
    y: ColumnLike
    sample_weight: ColumnLike | None = None
    validation_data: tuple[Any, ...] | None = None
    groups: ColumnLike | None = None
    classes: ColumnLike | None = None
    shift: Any = None


@dataclass
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


def check_signals(estimator: BaseEstimator, X: DataLike, n_values: int | None = None) -> np.ndarray:
    """Return data as signals of shape (t, N, F), F = 1 for a table, or say what is wrong with it.

    With ``n_values``, the data have to have so many values per node and the features that ``fit`` saw; without it they
    are the data of ``fit``, whose features scikit-learn notes in ``n_features_in_`` and ``feature_names_in_``.
    """
    reset = n_values is None
    # In one memory layout, whatever that of the table: the order of sums, and so their rounding, depends on it.
    X = np.ascontiguousarray(to_numpy(check_data(estimator, X, reset=reset, min_samples=2 if reset else 1)))
    signals = X[..., None] if X.ndim == 2 else X
    if not reset and signals.shape[2] != n_values:
        name = type(estimator).__name__
        raise ValueError(f"X has shape {X.shape}, but {name} was fitted with {n_values} values per node.")
    return signals


def check_range(values: np.ndarray, name: str, smallest: float, largest: float) -> None:
    """Raise a ``ValueError`` where numbers leave the range that is computed in, or all of them vanish in it."""
    size = float(np.abs(values).max(initial=0.0))
    if size > largest or 0 < size < smallest:
        raise ValueError(
            f"{name} holds values of up to {size:.3g}, too {'large' if size > 1 else 'small'} to compute with; "
            f"give {name} in another unit, or use standardize=True."
        )


def split_rows(
    y: np.ndarray, groups: ColumnLike | None, fraction: float, seed: int, stratify: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and those held out for early stopping, about ``fraction`` of them.

    Rows of one group stay together. With ``stratify`` every class has its share in both parts, where it has enough
    rows for that.
    """
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit  # slow to import

    rows = np.arange(len(y))
    groups = None if groups is None else check_groups(groups, len(y))
    size = held_out_size(fraction, len(y))
    if size < 1 or len(y) - size < 2:
        return rows, rows[:0]
    if groups is not None:
        if len(np.unique(groups)) < 2:
            raise ValueError("groups holds a single group, which cannot be split; pass validation_data instead.")
        return next(GroupShuffleSplit(1, test_size=fraction, random_state=seed).split(rows, y, groups))
    splitter = ShuffleSplit
    if stratify:
        counts = np.unique(y, return_counts=True)[1]
        if counts.min() > 1 and min(size, len(y) - size) >= len(counts):
            splitter = StratifiedShuffleSplit
    return next(splitter(1, test_size=size, random_state=seed).split(rows, y))


def held_out_size(fraction: float, n_rows: int) -> int:
    """Return the number of rows to hold out at a time: a share of them, or up to five where that is more.

    No more than a quarter of the rows is held out for that, and none where that would be a single one, which tells next
    to nothing about the others.

    Examples
    --------
    >>> [held_out_size(0.1, n) for n in (5, 8, 12, 20, 40, 100)]
    [0, 2, 3, 5, 5, 10]
    """
    if fraction == 0:
        return 0
    size = max(round(fraction * n_rows), min(_MANY_HELD_OUT, int(_LARGEST_SHARE * n_rows)))
    return size if size >= _FEWEST_HELD_OUT else 0


def member_folds(
    y: np.ndarray,
    groups: ColumnLike | None,
    weight: np.ndarray,
    fraction: float,
    n_folds: int,
    seed: int,
    stratify: bool,
) -> list[np.ndarray]:
    """Return at most ``n_folds`` sets of rows that members hold out, each about ``fraction`` of those that have weight.

    No row is in two of them. Rows of one group stay together; with ``stratify`` every class is dealt out evenly. The
    list is empty where there are too few rows to hold any out.
    """
    groups = None if groups is None else check_groups(groups, len(y))
    rows = np.flatnonzero(weight > 0)
    size = held_out_size(fraction, len(rows))
    if size < 1 or len(rows) - size < 2:
        return []
    rng = np.random.default_rng(seed)
    n_parts = max(round(len(rows) / size), 2)
    if groups is not None:
        _, found = np.unique(groups[rows], return_inverse=True)
        n_groups = int(found.max()) + 1
        if n_groups < 2:
            raise ValueError("groups holds a single group, which cannot be split; pass validation_data instead.")
        fold = (rng.permutation(n_groups) % min(n_parts, n_groups))[found.ravel()]
    else:
        order = rng.permutation(len(rows))
        if stratify:  # the rows of a class follow one another
            order = order[np.argsort(np.unique(y[rows], return_inverse=True)[1].ravel()[order], kind="stable")]
        fold = np.empty(len(rows), dtype=np.intp)
        fold[order] = np.arange(len(rows)) % n_parts
    return [rows[fold == k] for k in range(min(n_folds, int(fold.max()) + 1))]


# -- weights of samples and classes: only their ratios count ----------------------------------------


def check_sample_weight(sample_weight: ColumnLike | None, n_samples: int) -> np.ndarray:
    """Return one weight per sample, 1 by default, or raise an error that names ``sample_weight``."""
    if sample_weight is None or isinstance(sample_weight, Number):
        sample_weight = np.full(n_samples, 1.0 if sample_weight is None else sample_weight)
    elif is_torch(sample_weight):
        sample_weight = to_numpy(as_floating(sample_weight).double())
    weight: np.ndarray = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D, one number per row of X; got {weight.ndim} dimensions.")
    if len(weight) != n_samples:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n_samples,)}: one number per row of X.")
    if weight.min() < 0:
        raise ValueError("Negative values in data passed to `sample_weight`; weights must be zero or more.")
    if not weight.any():
        raise ValueError("sample_weight is zero for every row; give some of them weight.")
    return weight


def relative(weight: np.ndarray) -> np.ndarray:
    """Return weights divided by the largest of them; all zero where they all are.

    They are rounded to 32 bits, nine digits: what the rounding of another unit leaves must not show, and training
    would magnify it.
    """
    largest = weight.max(initial=0.0)
    if largest == 0:
        return weight
    # By a power of two first, which is exact: the smallest numbers have too few digits to be divided by.
    power = np.frexp(largest)[1]
    fraction, exponent = np.frexp(np.ldexp(weight, -power) / np.ldexp(largest, -power))
    return np.ldexp(np.rint(np.ldexp(fraction, _BITS)), exponent - _BITS)


def with_class_weight(
    weight: np.ndarray, class_weight: Mapping[Hashable, float] | str, labels: np.ndarray
) -> np.ndarray:
    """Return the weights of samples times those of their classes, relative to the largest."""
    if isinstance(class_weight, Mapping):  # of plain numbers, the largest 1: none overflows
        sizes = relative(np.array([float(v) for v in class_weight.values()]))
        class_weight = dict(zip(class_weight, sizes.tolist(), strict=True))
    weighted = relative(weight * compute_sample_weight(class_weight, labels))
    if not weighted.any():
        raise ValueError("class_weight and sample_weight leave no training row any weight; give some of them weight.")
    return weighted


# -- targets: numbers on a common scale, or labels as the numbers of classes -------------------------


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
        return self.standardizer(y.reshape(len(y), -1))

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
    def learn(cls, y: np.ndarray, rows: np.ndarray, weight: np.ndarray, standardize: bool) -> LabelTargets:
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


class TrainingData(NamedTuple):
    """What a network is trained on, and what was learned from it on the way.

    ``given_targets`` and ``given_weight`` are those of the training rows as the caller gave them, for estimators of the
    covariance; ``given_weight`` is None where the caller gave no weights. ``folds`` are sets of rows of ``training``,
    each held out by some of several members. ``callers_rows`` says that ``held_out`` are rows that the caller gave.
    """

    training: Rows
    held_out: Rows | None
    standardizer: Standardizer
    targets: Targets
    given_targets: np.ndarray
    given_weight: np.ndarray | None
    folds: Sequence[np.ndarray] = ()
    callers_rows: bool = False

    def without(self, rows: np.ndarray, standardize: bool) -> TrainingData:
        """Return the data of members that hold out some rows: standardised by the other rows alone."""
        Z, codes, targets = self.training.signals, self.training.targets, self.targets
        kept = np.full(len(Z), True)
        kept[rows] = False
        share = np.ones(len(Z)) if self.given_weight is None else self.given_weight
        share = np.where(kept, share, 0.0)
        standardizer = Standardizer.fit(Z, share, active=standardize)
        if isinstance(targets, NumberTargets):
            units = Standardizer.fit(codes, share, active=standardize)
            targets, codes = replace(targets, standardizer=units), units(codes)
        training = self.training._replace(signals=standardizer(Z), targets=codes)
        return self._replace(training=training, standardizer=standardizer, targets=targets, folds=(rows,))
