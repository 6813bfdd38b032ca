"""A file as arrays: features, target, groups, and what was done to get there."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svnn.comparison._columns import features, like, numbers
from svnn.comparison._files import PathLike, Sheet, listed, read_sheet, titled
from svnn.comparison._names import CLASSIFICATION, REGRESSION, TASKS
from svnn.comparison._task import guess_task

if TYPE_CHECKING:
    import pandas as pd

#: Text with more different values than this is no class.
_MOST_CLASSES = 100
#: A feature whose correlation with the target is larger than this may give it away.
_SUSPICIOUS = 0.95


@dataclass(frozen=True, eq=False)
class Table:
    """A file as :func:`read_table` returns it. ``X, y, groups, names = table`` takes the arrays alone.

    Attributes
    ----------
    X : float64 array of shape (t, N)
        The features; missing values are NaN.
    y : array of shape (t,)
        Numbers, or classes as text or numbers.
    groups : array of shape (t,) or None
    names : list of str
        The names of the features.
    task : {"regression", "classification"}
    target, name : str
        The column of the target, and the name of the file.
    notes : tuple of str
        What was left out or changed.

    Examples
    --------
    >>> table = Table(np.zeros((2, 1)), np.array([1.5, 2.5]), None, ["a"], "regression", "age", "people", ())
    >>> X, y, groups, names = table
    >>> X.shape, y.tolist(), groups, names
    ((2, 1), [1.5, 2.5], None, ['a'])
    """

    X: np.ndarray
    y: np.ndarray
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
    target: str,
    group: str | None = None,
    task: str | None = None,
    *,
    drop: Sequence[str] = (),
) -> Table:
    """Read a file of samples and a target; a row is a sample.

    Numbers are used as they are. Text with at most ten different values becomes columns of zeros and ones; other text,
    dates, columns with one value and row numbers are left out, and ``notes`` says so. Rows without a target are left
    out. Other missing values stay NaN: :func:`compare` fills them in inside its splits.

    Parameters
    ----------
    path : path
        CSV (``.csv``, ``.tsv``, ``.txt``, also ``.gz``; separators are found out), Parquet, Feather, or NPZ with one
        matrix and arrays of one value for each row. ``"-"`` reads CSV from standard input.
    target : str
        The column to predict.
    group : str, optional
        The column that says which rows belong together.
    task : {"regression", "classification"}, optional
        By default text, booleans and at most ten different integers are classes.
    drop : sequence of str
        Columns to leave out, for instance those that are not known when one has to predict.

    Returns
    -------
    Table

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
    sheet = read_sheet(path)
    title = titled(path)
    for what, column in (("target", target), *([] if group is None else [("group", group)])):
        _check_column(sheet, what, column, title)
    for column in drop:
        _check_column(sheet, "drop", column, title)
    if group == target or target in drop:
        raise ValueError(f"The target {target!r} cannot also be the group or a dropped column.")
    notes = [f"Names that come twice got a number: {listed(sheet.twice)}."] if sheet.twice else []
    needed = [target] if group is None else [target, group]
    lacking = sheet.frame[needed].isna().any(axis=1)
    if lacking.any():
        sheet = replace(sheet, frame=sheet.frame[~lacking].reset_index(drop=True))
        notes.append(f"{int(lacking.sum())} rows without {' or '.join(needed)} left out.")
    frame = sheet.frame
    if not len(frame):
        raise ValueError(f"{title}: the column {target!r} of the target is empty.")
    y, kind, note = _target(frame[target], task, title, sheet.decimal_comma)
    X, names, said = features(sheet.without([*needed, *drop]))
    if not names:
        raise ValueError(f"{title} has no column of numbers besides {' and '.join(needed)}.")
    notes += [*([note] if note else []), *said, *_giveaways(X, y, names)]
    groups = None if group is None else frame[group].astype(str).to_numpy(dtype=str)
    return Table(X, y, groups, names, kind, target, _called(path), tuple(notes))


def read_features(path: PathLike, names: Sequence[str]) -> np.ndarray:
    """Read the columns that a model was fitted with from another file; missing values are NaN."""
    return like(read_sheet(path), names)


def read_all_features(path: PathLike, drop: Sequence[str] = ()) -> tuple[np.ndarray, list[str], list[str]]:
    """Read all columns of a file as :func:`read_table` does, without a target; return also their names and notes."""
    sheet = read_sheet(path)
    for column in drop:
        _check_column(sheet, "drop", column, titled(path))
    X, names, notes = features(sheet.without(drop))
    if not names:
        raise ValueError(f"{titled(path)} has no column of numbers.")
    return X, names, notes


def _called(path: PathLike) -> str:
    """Return what a table is called: its file, without folder and ending, as text that can be printed and stored."""
    name = Path(path).name.split(".")[0].encode(errors="replace").decode()
    return "table" if os.fspath(path) == "-" else name or "table"


def _check_column(sheet: Sheet, what: str, name: str, title: str) -> None:
    """Raise an error where there is no such column; it lists names that are like it."""
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
        if distinct > _MOST_CLASSES or 2 * distinct > len(y):
            raise ValueError(
                f"{title}: the target {column.name!r} has {distinct} different values in {len(y)} rows, too many for "
                "classes; is it the right column?"
            )
        if y.dtype.kind == "f" and np.equal(np.mod(y, 1), 0).all():
            y = y.astype(np.int64)
    return y, kind, "" if task else note


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
    found = [name for name, each in zip(names, r, strict=True) if each > _SUSPICIOUS]
    if not found:
        return []
    one = len(found) == 1
    return [
        f"{listed(found)} nearly {'is' if one else 'are'} the target (correlation above {_SUSPICIOUS}); "
        f"drop {'it' if one else 'them'} if {'it is' if one else 'they are'} not known when one has to predict."
    ]
