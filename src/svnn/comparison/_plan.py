"""The plan of a comparison: checked rows, the splits that all models share, and the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from svnn._jobs import derive_seed
from svnn._types import ColumnLike, DataLike
from svnn._validation import missing_labels
from svnn.sources._dataset import CLASSIFICATION, REGRESSION, TASKS, guess_task

FOLDS = 5
#: How often the rows are dealt into folds anew: usually, and in a quick comparison.
REPEATS, QUICK_REPEATS = 5, 1
LEAST_ROWS = 20

#: The rows for training and those for testing.
Split: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Plan:
    """All that a comparison needs to run.

    Attributes
    ----------
    X, y : arrays of shape (t, N) and (t,)
        The target is numbers, or codes of ``classes``.
    groups : int array of shape (t,) or None
    task : {"regression", "classification"}
    classes : list or None
    splits : tuple of pairs of int arrays
        The rows for training and those for testing: ``folds`` folds, dealt out ``repeats`` times.
    group_folds : int or None
        The number of folds for choices in training, where rows come in groups.
    seed : int
    quick : bool
    notes : tuple of str
        What a reader of the result should know.
    models : dict
        For every model its name in :func:`svnn.comparison._models.build`, and the parameters in which it differs.
    settings : dict
        What else the result should record.
    """

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None
    task: str
    classes: list[Any] | None
    splits: tuple[Split, ...]
    folds: int
    repeats: int
    group_folds: int | None
    seed: int
    quick: bool
    notes: tuple[str, ...]
    models: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)


def prepare(
    X: DataLike,
    y: ColumnLike,
    groups: ColumnLike | None = None,
    task: str | None = None,
    quick: bool = False,
    seed: int = 0,
    max_rows: int | None = None,
) -> Plan:
    """Check a table and split its rows; of more than ``max_rows`` rows take some at random.

    Rows without a group are left out, as :func:`svnn.comparison.read_table` does.
    """
    values, target, codes, notes = _arrays(X, y, groups)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ValueError(f"random_state must be an integer from 0 to {2**32 - 1}, got {seed!r}.")
    if task is None:
        task, reason = guess_task(target)
        notes += [reason] if reason else []
    if task not in TASKS:
        raise ValueError(f"task must be {' or '.join(map(repr, TASKS))}, got {task!r}.")
    target, classes = _encoded(target, task)
    if max_rows is not None and len(values) > max_rows:
        kept = some_rows(None if classes is None else target, len(values), max_rows, seed)
        notes.append(f"{len(kept)} of the {len(values)} rows are used, drawn at random (max_rows).")
        values, target, codes = values[kept], target[kept], None if codes is None else codes[kept]
    if len(target) < LEAST_ROWS:
        raise ValueError(f"y has {len(target)} rows; a comparison needs at least {LEAST_ROWS}.")
    if classes is not None:
        rare = [str(classes[code]) for code, count in enumerate(np.bincount(target)) if count < FOLDS]
        if rare:
            shown = ", ".join(rare[:5]) + (", …" if len(rare) > 5 else "")
            raise ValueError(
                f"y has classes with fewer than {FOLDS} rows ({shown}): remove these rows or merge the classes, or use "
                "task='regression' where the target is a number."
            )
    repeats = QUICK_REPEATS if quick else REPEATS
    folds, group_folds = FOLDS, None
    if codes is not None:
        n_groups = len(np.unique(codes))
        if n_groups < 3:
            raise ValueError(f"groups holds {n_groups} group(s); a comparison by groups needs at least 3.")
        folds = min(FOLDS, n_groups)
        group_folds = min(3, n_groups - -(-n_groups // folds))
        if folds == n_groups and repeats > 1:
            repeats = 1
            notes.append(
                f"There are {n_groups} groups, so each is left out once; another repeat would give the same splits."
            )
    splits = tuple(deal(target, codes, task, folds, repeats, seed))
    return Plan(
        values, target, codes, task, classes, splits, folds, repeats, group_folds, int(seed), quick, tuple(notes)
    )


def deal(y: np.ndarray, groups: np.ndarray | None, task: str, folds: int, repeats: int, seed: int) -> Iterator[Split]:
    """Yield the rows for training and those for testing, fold by fold and repeat by repeat."""
    folders: dict[tuple[bool, bool], Any] = {
        (True, False): KFold,
        (False, False): StratifiedKFold,
        (True, True): GroupKFold,
        (False, True): StratifiedGroupKFold,
    }
    folder = folders[task == REGRESSION, groups is not None]
    for repeat in range(repeats):
        random = folder(folds, shuffle=True, random_state=derive_seed(seed, "folds", repeat))
        for train, test in random.split(np.zeros(len(y)), y, groups):
            if task != REGRESSION and len(np.unique(y[train])) < 2:
                raise ValueError("groups: all rows but those of one fold are of one class; give other groups or none.")
            yield train, test


def some_rows(classes: np.ndarray | None, n_rows: int, max_rows: int, seed: int) -> np.ndarray:
    """Return random rows in their order; of every class at least as many as folds need, where there are as many."""
    order = np.random.default_rng(derive_seed(seed, "rows")).permutation(n_rows)
    if classes is not None:
        needed = np.concatenate([order[classes[order] == each][:FOLDS] for each in np.unique(classes)])
        order = np.concatenate([needed, order[~np.isin(order, needed)]])
        max_rows = max(max_rows, len(needed))
    return np.sort(order[:max_rows])


def _arrays(
    X: DataLike, y: ColumnLike, groups: ColumnLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list[str]]:
    """Return the features, the target, the groups as numbers, and a note on the rows that were left out."""
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers ({error}); svnn.comparison.read_table encodes text columns.") from None
    target: Any = np.asarray(y)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"X must have shape (rows, features), got {values.shape}.")
    if target.shape != (len(values),):
        raise ValueError(f"y must have shape ({len(values)},), as many as X has rows; got {target.shape}.")
    if np.isinf(values).any():
        raise ValueError("X holds infinite values; remove them, or make them NaN, which counts as missing.")
    if missing_labels(y).any() or (target.dtype.kind == "f" and np.isinf(target).any()):
        raise ValueError("y holds values that are missing or infinite; leave these rows out.")
    if groups is None:
        return values, target, None, []
    labels = np.asarray(groups)
    if labels.shape != target.shape:
        raise ValueError(f"groups must have shape {target.shape}, as y has; got {labels.shape}.")
    known = ~missing_labels(groups)
    if not known.any():
        raise ValueError("groups holds nothing but missing values; leave groups out to compare without them.")
    codes: np.ndarray = np.unique(labels[known].astype(str), return_inverse=True)[1]
    notes = [] if known.all() else [f"{int((~known).sum())} rows without groups left out."]
    return values[known], target[known], codes, notes


def _encoded(y: np.ndarray, task: str) -> tuple[np.ndarray, list[Any] | None]:
    """Return numbers and None, or codes of classes and the classes; a target with one value is an error."""
    classes, codes = np.unique(y.astype(str) if y.dtype == object else y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has only one value, {classes[0]!s}; there is nothing to predict.")
    if task == CLASSIFICATION:
        return codes, classes.tolist()
    try:
        return y.astype(np.float64), None
    except ValueError:
        raise ValueError("y holds text, which task='regression' cannot use; give numbers.") from None
