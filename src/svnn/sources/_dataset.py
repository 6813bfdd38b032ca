"""A file of samples as arrays: features, target, groups, and notes on what was done to get there."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svnn.sources._columns import features, like, numbers
from svnn.sources._frames import PathLike, Sheet, listed, read_sheet, titled

if TYPE_CHECKING:
    import pandas as pd

REGRESSION, CLASSIFICATION = "regression", "classification"
TASKS = (REGRESSION, CLASSIFICATION)
#: Up to this many different integers are taken for classes: any integers, or such as number classes from 0 or 1 on,
#: each of them often enough.
MOST_CLASSES, MOST_CODES, OFTEN = 10, 30, 10
#: Text with more different values than this is not a class.
_MOST_TEXTS = 100
#: A feature whose correlation with the target is larger than this may give it away.
_SUSPICIOUS = 0.95


@dataclass(frozen=True, eq=False)
class Dataset:
    """A file as :func:`read_table` returns it. ``X, y, groups, names = dataset`` takes the arrays alone.

    Attributes
    ----------
    X : float64 array of shape (t, N)
        The features; missing values are NaN.
    y : array of shape (t,), or None
        Numbers, or classes as text or numbers; None without a target.
    groups : array of shape (t,) or None
    names : list of str
        The names of the features.
    task : {"regression", "classification", ""}
    target, name : str
        The column of the target, and the name of the file.
    notes : tuple of str
        What was left out or changed.

    Examples
    --------
    >>> people = Dataset(np.zeros((2, 1)), np.array([1.5, 2.5]), None, ["a"], "regression", "age", "people", ())
    >>> X, y, groups, names = people
    >>> X.shape, y.tolist(), groups, names
    ((2, 1), [1.5, 2.5], None, ['a'])
    """

    X: np.ndarray
    y: Any
    groups: np.ndarray | None
    names: list[str]
    task: str
    target: str
    name: str
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.groups, self.names))


def read_table(
    path: PathLike,
    target: str | None = None,
    group: str | None = None,
    task: str | None = None,
    *,
    drop: Sequence[str] = (),
    names: Sequence[str] | None = None,
) -> Dataset:
    """Read a file of samples, with or without a target; a row is a sample.

    Numbers are used as they are. Text with at most ten different values becomes columns of zeros and ones; other text,
    dates, columns with one value and row numbers are left out, and ``notes`` says so. Rows without a target are left
    out. Other missing values stay NaN: :func:`svnn.comparison.compare` fills them in inside its splits.

    Parameters
    ----------
    path : path
        CSV (``.csv``, ``.tsv``, ``.txt``, also ``.gz``; the separator is recognised), Parquet, Feather, or NPZ with one
        matrix and arrays of one value for each row. ``"-"`` reads CSV from standard input.
    target : str, optional
        The column to predict. By default there is none, and all columns are features.
    group : str, optional
        The column that says which rows belong together.
    task : {"regression", "classification"}, optional
        By default text, booleans and at most ten different integers are classes.
    drop : sequence of str
        Columns to leave out, for instance those that are not known when one has to predict.
    names : sequence of str, optional
        The features of a model, as this function named them in another file: these columns are read and no others.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("age;sex;height\\n31;f;1,72\\n44;m;1,80\\n25;m;1,75\\n60;f;1,60\\n")
    ...     X, y, groups, names = read_table(path, "age")
    >>> names, X.tolist(), y.tolist()
    (['sex=m', 'height'], [[0.0, 1.72], [1.0, 1.8], [1.0, 1.75], [0.0, 1.6]], [31.0, 44.0, 25.0, 60.0])
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"task must be {' or '.join(map(repr, TASKS))}, got {task!r}.")
    sheet, title = read_sheet(path), titled(path)
    name = "table" if os.fspath(path) == "-" else Path(path).name.split(".")[0].encode(errors="replace").decode()
    if names is not None:
        return Dataset(like(sheet, names), None, None, list(names), "", "", name or "table", ())
    needed = {"target": target, "group": group}
    labels = [column for column in needed.values() if column is not None]
    for what, column in [*needed.items(), *(("drop", column) for column in drop)]:
        if column is not None:
            _check_column(sheet, what, column, title)
    if target is not None and (group == target or target in drop):
        raise ValueError(f"The target {target!r} cannot also be the group or a dropped column.")
    notes = [f"Columns with the same name got a number: {listed(sheet.twice)}."] if sheet.twice else []
    lacking = sheet.frame[labels].isna().any(axis=1)
    if lacking.any():
        sheet = replace(sheet, frame=sheet.frame[~lacking].reset_index(drop=True))
        notes.append(f"{int(lacking.sum())} rows without {' or '.join(labels)} left out.")
    frame, y, note = sheet.frame, None, ""
    if target is not None:
        if not len(frame):
            raise ValueError(f"{title}: the column {target!r} of the target is empty.")
        y, task, note = _target(frame[target], task, title, sheet.decimal_comma)
    X, columns, said = features(replace(sheet, frame=frame.drop(columns=[*labels, *drop])))
    if not columns:
        besides = f" besides {' and '.join(labels)}" if labels else ""
        raise ValueError(f"{title} has no column of numbers{besides}.")
    notes += [*([note] if note else []), *said, *([] if y is None else _giveaways(X, y, columns))]
    groups = None if group is None else frame[group].astype(str).to_numpy(dtype=str)
    return Dataset(X, y, groups, columns, task or "", target or "", name or "table", tuple(notes))


def _check_column(sheet: Sheet, what: str, name: str, title: str) -> None:
    """Raise an error where there is no such column; it lists similar names."""
    if name in sheet.twice:
        raise ValueError(f"{title} has the column {name!r} of the {what} twice; rename one of them.")
    names = sheet.columns
    if name in names:
        return
    if sheet.header_is_data:
        raise ValueError(f"{title} has no header: its first line is {listed(names, 3)}; add a line with the names.")
    lower = {each.lower(): each for each in reversed(names)}
    near = [lower[each] for each in difflib.get_close_matches(name.lower(), lower, 5, 0.6)]
    near += [each for each in names if name.lower() in each.lower() and each not in near]
    hint = f"near names are {listed(near)}" if near else f"it has {listed(names)}"
    raise ValueError(f"{title} has no column {name!r} for the {what}; {hint}.")


def _target(column: pd.Series, task: str | None, title: str, comma: bool) -> tuple[np.ndarray, str, str]:
    """Return the target, its task, and a note where the task could have been the other one."""
    values, strange = (None, []) if column.dtype == bool else numbers(column, comma)
    y: np.ndarray
    if values is not None and not strange:
        y = values
        if not np.isfinite(y).all():
            raise ValueError(f"{title}: the target {column.name!r} holds infinite values; remove these rows.")
    else:
        y = column.astype(str).to_numpy(dtype=str)
    distinct = len(np.unique(y))
    if distinct < 2:
        raise ValueError(f"{title}: the target {column.name!r} has only one value, {y[0]}: nothing to predict.")
    guessed, note = guess_task(y)
    kind = task or guessed
    if kind == REGRESSION and y.dtype.kind != "f":
        example = f" ({listed(strange, 2)})" if strange else ""
        raise ValueError(
            f"{title}: the target {column.name!r} holds text{example}, so it cannot be predicted as a number."
        )
    if kind == CLASSIFICATION:
        if distinct > _MOST_TEXTS or 2 * distinct > len(y):
            raise ValueError(
                f"{title}: the target {column.name!r} has {distinct} different values in {len(y)} rows, too many for "
                "classes; is it the right column?"
            )
        if y.dtype.kind == "f" and np.equal(np.mod(y, 1), 0).all():
            y = y.astype(np.int64)
    return y, kind, "" if task else note


def guess_task(y: np.ndarray) -> tuple[str, str]:
    """Return the task that a target looks like, and a note where it could have been the other one.

    Examples
    --------
    >>> guess_task(np.array([1.5, 2.0, 3.0]))
    ('regression', '')
    >>> guess_task(np.array(["a", "b"]))
    ('classification', '')
    >>> guess_task(np.array([0, 1, 1, 2, 0, 1] * 4))[1]
    'The target has 3 different integers, which are taken for classes; the task "regression" takes them for numbers.'

    Numbers of classes, such as 1 to 19, may be more; other integers, such as ages, are numbers.

    >>> guess_task(np.tile(np.arange(1, 20), 10))[0], guess_task(np.tile(np.arange(40, 60), 10))[0]
    ('classification', 'regression')
    """
    if y.dtype.kind not in "iuf":
        return CLASSIFICATION, ""
    distinct, counts = np.unique(y, return_counts=True)
    n = len(distinct)
    if not np.equal(np.mod(distinct, 1), 0).all() or 2 * n > len(y):
        return REGRESSION, ""
    codes = n <= MOST_CODES and distinct[0] in (0, 1) and distinct[-1] - distinct[0] == n - 1 and counts.min() >= OFTEN
    if n <= MOST_CLASSES or codes:
        note = f"The target has {n} different integers, which are taken for classes"
        return CLASSIFICATION, note + ("." if n == 2 else '; the task "regression" takes them for numbers.')
    if n > MOST_CODES:
        return REGRESSION, ""
    note = f"The target has {n} different integers, which are taken for numbers"
    return REGRESSION, note + '; the task "classification" takes them for classes.'


def _giveaways(X: np.ndarray, y: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return a note on features that nearly are the target; often they are not known when one has to predict."""
    classes, codes = np.unique(y, return_inverse=True)
    if y.dtype.kind != "f" and len(classes) > 2:
        return []
    z = y if y.dtype.kind == "f" else codes.astype(float)
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    filled = filled - filled.mean(0)
    scale = np.sqrt((filled**2).sum(0) * ((z - z.mean()) ** 2).sum())
    with np.errstate(all="ignore"):
        r = np.abs(filled.T @ (z - z.mean())) / scale
    near = [name for name, each in zip(names, r, strict=True) if each > _SUSPICIOUS]
    if not near:
        return []
    one = len(near) == 1
    return [
        f"{listed(near)} nearly {'is' if one else 'are'} the target (correlation above {_SUSPICIOUS}); "
        f"drop {'it' if one else 'them'} if {'it is' if one else 'they are'} not known when one has to predict."
    ]
