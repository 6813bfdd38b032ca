"""The data of a fit: signals and targets checked, weighted, split into training and held-out rows, standardised."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, compute_sample_weight
from sklearn.utils.validation import check_consistent_length

from svnn._types import ColumnLike, DataLike
from svnn._validation import check_data, check_groups
from svnn.estimators._per_sample import PerSample, RowMatrices
from svnn.estimators._units import (
    SINGLE,
    LabelTargets,
    NumberTargets,
    Standardizer,
    Targets,
    check_range,
    check_targets,
)
from svnn.functional._array import as_floating, is_torch, to_numpy

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


@dataclass(frozen=True)
class Data:
    """The data that a network is trained on, and their units.

    ``given_targets`` and ``given_weight`` are those of the training rows as the caller gave them, for estimators of the
    covariance; ``given_weight`` is None where the caller gave no weights. ``rows`` and ``held_rows`` say where the
    training rows and those held out of them stand in the caller's table of ``n_rows``. ``folds`` are sets of rows of
    ``training``, each held out by some of several members. ``callers_rows`` says that ``held_out`` are rows that the
    caller gave.
    """

    training: Rows
    held_out: Rows | None
    standardizer: Standardizer
    targets: Targets
    given_targets: np.ndarray
    given_weight: np.ndarray | None
    rows: np.ndarray
    held_rows: np.ndarray
    n_rows: int
    folds: Sequence[np.ndarray] = ()
    callers_rows: bool = False

    @property
    def n_nodes(self) -> int:
        """The number of features, N."""
        return int(self.training.signals.shape[1])

    @property
    def n_values(self) -> int:
        """The values per node, F."""
        return int(self.training.signals.shape[2])

    def without(self, rows: np.ndarray, standardize: bool) -> Data:
        """Return the data of members that hold out some rows: standardised by the other rows alone."""
        Z, codes, targets = self.training.signals, self.training.targets, self.targets
        share = np.ones(len(Z)) if self.given_weight is None else self.given_weight.copy()
        share[rows] = 0
        standardizer = Standardizer.fit(Z, share, active=standardize)
        if isinstance(targets, NumberTargets):
            units = Standardizer.fit(codes, share, active=standardize)
            targets, codes = replace(targets, standardizer=units), units(codes)
        training = self.training._replace(signals=standardizer(Z), targets=codes)
        return replace(self, training=training, standardizer=standardizer, targets=targets, folds=(rows,))


def prepare(
    model: Any,
    X: DataLike,
    y: ColumnLike,
    sample_weight: ColumnLike | None = None,
    *,
    seed: int,
    are_labels: bool,
    validation_data: tuple[Any, ...] | None = None,
    groups: ColumnLike | None = None,
    shift: object = None,
    classes: ColumnLike | None = None,
    per_sample: PerSample | None = None,
    n_folds: int = 0,
) -> Data:
    """Check the data, split off the rows for early stopping, and standardise with those that are trained on.

    Parameters
    ----------
    model : estimator
        Its ``standardize``, ``validation_fraction`` and, where it has one, ``class_weight`` are read; its
        ``n_features_in_`` and ``feature_names_in_`` are set.
    X, y, sample_weight, validation_data, groups, shift : as in ``fit``
    seed : int
        Of the split.
    are_labels : bool
        Whether ``y`` holds labels rather than numbers.
    classes : array, optional
        All labels that will ever come.
    per_sample : PerSample, optional
        Where each row has a covariance of its own.
    n_folds : int, default=0
        The most sets of rows that members of an ensemble hold out in turn; 0 splits the rows once.
    """
    signals = check_signals(model, X)
    y = check_targets(y, are_labels)
    check_consistent_length(signals, y)
    weight = check_sample_weight(sample_weight, len(signals))
    fraction = float(model.validation_fraction) if validation_data is None else 0.0
    rows, held_rows, folds = np.arange(len(y)), np.arange(0), list[np.ndarray]()
    if n_folds:
        folds = member_folds(y, groups, weight, fraction, n_folds, seed, are_labels)
    else:
        rows, held_rows = (np.sort(part) for part in split_rows(y, groups, fraction, seed, are_labels))

    share, standardize = relative(weight[rows]), bool(model.standardize)
    if not share.any():
        raise ValueError("sample_weight is zero for every training row; give some of them weight.")
    standardizer = Standardizer.fit(signals[rows], share, active=standardize)
    targets: Targets
    if classes is not None:
        targets = LabelTargets.known(classes, y)
    elif are_labels:
        targets = LabelTargets.learn(y)
    else:
        targets = NumberTargets.learn(y, rows, share, standardize)
    Z, codes = standardizer(signals), targets.encode(y[rows])
    matrices = None if per_sample is None else per_sample.matrices(Z, shift, groups)
    own, held_matrices = (None, None) if matrices is None else (matrices[rows], matrices[held_rows])
    check_range(Z[rows][share > 0], "X", *SINGLE)
    check_range(codes[share > 0], "y", *SINGLE)

    held_out = None
    if validation_data is not None:
        units = standardizer, targets, signals.shape[2]
        held_out = validation_rows(model, validation_data, *units, per_sample)
    elif weight[held_rows].any():
        held_out = Rows(Z[held_rows], targets.encode(y[held_rows]), relative(weight[held_rows]), held_matrices)
    return Data(
        Rows(Z[rows], codes, _in_loss(model, share, y[rows]), own),
        held_out,
        standardizer,
        targets,
        y[rows],
        None if sample_weight is None else share,
        rows,
        held_rows,
        len(y),
        folds,
        validation_data is not None,
    )


def more_rows(
    model: Any,
    known: Any,
    X: DataLike,
    y: ColumnLike,
    sample_weight: ColumnLike | None = None,
    validation_data: tuple[Any, ...] | None = None,
) -> Data:
    """Check new rows for ``partial_fit``, and standardise them as those of ``fit`` were.

    ``known`` has the ``standardizer``, the ``targets`` and the ``n_values`` of that fit.
    """
    standardizer, targets, n_values = known.standardizer, known.targets, known.n_values
    signals, given = check_signals(model, X, n_values), check_targets(y, targets.are_labels)
    check_consistent_length(signals, given)
    share = relative(check_sample_weight(sample_weight, len(signals)))
    Z, codes = standardizer(signals), targets.encode(given, "y")
    check_range(Z[share > 0], "X", *SINGLE)
    check_range(codes[share > 0], "y", *SINGLE)
    held_out = None
    if validation_data is not None:
        held_out = validation_rows(model, validation_data, standardizer, targets, n_values)
    rows = np.arange(len(signals))
    training = Rows(Z, codes, _in_loss(model, share, given))
    weight = None if sample_weight is None else share
    callers = validation_data is not None
    return Data(training, held_out, standardizer, targets, given, weight, rows, rows[:0], len(rows), (), callers)


def validation_rows(
    model: Any,
    given: tuple[Any, ...],
    standardizer: Standardizer,
    targets: Targets,
    n_values: int,
    per_sample: PerSample | None = None,
) -> Rows:
    """Return the caller's rows for early stopping; a third part of them holds their matrices or groups."""
    needs = None if per_sample is None else per_sample.needs
    own = None
    if needs is not None:
        if not isinstance(given, (tuple, list)) or len(given) != 3:
            raise ValueError(f"validation_data must be (X, y, {needs}), as its rows need them too.")
        given, own = tuple(given[:2]), given[2]
    try:
        X, y = given
    except (TypeError, ValueError):
        raise ValueError("validation_data must be a pair (X, y).") from None
    Z = standardizer(check_signals(model, X, n_values))
    codes = targets.encode(check_targets(y, targets.are_labels))
    check_consistent_length(Z, codes)
    matrices = None if per_sample is None else per_sample.matrices(Z, **({} if needs is None else {needs: own}))
    return Rows(Z, codes, np.ones(len(Z)), matrices)


def _in_loss(model: Any, share: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the weights of rows in the loss."""
    class_weight = getattr(model, "class_weight", None)
    return share if class_weight is None else with_class_weight(share, class_weight, y)


def check_signals(estimator: BaseEstimator, X: DataLike, n_values: int | None = None) -> np.ndarray:
    """Return data as signals of shape (t, N, F), F = 1 for a table, or say what is wrong with it.

    With ``n_values``, the data must have this many values per node and the features that ``fit`` saw; without it they
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
