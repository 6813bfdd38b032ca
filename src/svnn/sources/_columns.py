"""The columns of a frame as numbers: text becomes zeros and ones, or is left out with a note."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from svnn.sources._frames import Sheet, listed

if TYPE_CHECKING:
    import pandas as pd

#: Text with at most this many different values becomes a column for each of them.
MOST_LEVELS = 10
#: A column of text is one of numbers where at least this share of its cells are numbers.
_NUMBERS = 0.9


def features(sheet: Sheet) -> tuple[np.ndarray, list[str], list[str]]:
    """Return the numbers of a table, the names of their columns, and notes on what was done.

    Numbers and booleans stay as they are. Text with a few different values becomes columns of zeros and ones, named
    ``column=value``, or ``column="value"`` where the file could mean another column by that. Other text, dates, columns
    with one value, and numbers of rows are left out. Missing values stay missing (NaN).
    """
    columns: dict[str, np.ndarray] = {}
    encoded, many, other, odd, endless = [], [], [], [], []
    frame, taken = sheet.frame, set(sheet.columns)
    for name in frame.columns:
        values, strange = numbers(frame[name], sheet.decimal_comma)
        if values is not None:
            odd += [f"{name} ({listed(strange, 2)})"] if strange else []
            if np.isinf(values).any():
                endless.append(name)
                values = np.where(np.isinf(values), np.nan, values)
            columns[name] = values
            continue
        if frame[name].dtype.kind in "mM" or not _is_text(frame[name]):
            other.append(name)
            continue
        levels = sorted(frame[name].dropna().astype(str).unique())
        if len(levels) > MOST_LEVELS or 2 * len(levels) > len(frame):
            many.append(name)
            continue
        if len(levels) > 1:
            encoded.append(name)
        else:
            columns[name] = np.zeros(len(frame))  # left out below, with all that are constant
            continue
        for level in levels[1:] if len(levels) == 2 else levels:
            columns[level_name(name, level, taken)] = indicator(frame[name], level)
    known = {name: values[~np.isnan(values)] for name, values in columns.items()}
    constant = [name for name, values in known.items() if not len(values) or values.min() == values.max()]
    counting = [  # n, n + 1, n + 2, … in the order of the rows, from 0 or 1
        name
        for name, values in columns.items()
        if len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all()
    ]
    kept = [name for name in columns if name not in {*constant, *counting}]
    notes = [
        _note(encoded, "of text became columns of zeros and ones"),
        _note(many, "of text with many different values left out"),
        _note(other, "of dates or other things that are not numbers left out"),
        _note(constant, "with one value only left out"),
        _note(counting, "of row numbers left out"),
        _note(endless, "with infinite values, which count as missing"),
        _note(odd, "with cells that are not numbers, which count as missing"),
        *(
            f"The values of {name!r} come in several rows each: where they belong together, give it as group."
            for name in [name for name in many if 2 * frame[name].nunique() <= len(frame)][:1]
        ),
    ]
    X = np.column_stack([columns[name] for name in kept]) if kept else np.empty((len(frame), 0))
    if missing := int(np.isnan(X).sum()):
        rows = int(np.isnan(X).any(1).sum())
        where = f"{_count(missing, 'missing value')} in {_count(rows, 'row')}"
        notes.append(f"{where}: medians of the training rows take their place.")
    return X, kept, [note for note in notes if note]


def like(sheet: Sheet, names: Sequence[str]) -> np.ndarray:
    """Return the columns ``names`` of a table, as :func:`features` named them in another one."""
    columns, absent, frame = [], [], sheet.frame
    for name in names:
        if name in frame.columns:
            values, _ = numbers(frame[name], sheet.decimal_comma)
            if values is None:
                raise ValueError(f"The column {name!r} must hold numbers, as it did when the model was fitted.")
            columns.append(np.where(np.isinf(values), np.nan, values))
        elif meant := next(_meanings(name, frame.columns), None):
            columns.append(indicator(frame[meant[0]], meant[1]))
        else:
            absent.append(name)
    if absent:
        raise ValueError(f"The file lacks columns that the model was fitted with: {listed(absent)}.")
    return np.column_stack(columns)


def level_name(column: str, level: str, taken: Collection[str]) -> str:
    """Return a name for the column of zeros and ones that is 1 where ``column`` has the value ``level``.

    It is none of the names of the file, ``taken``, and :func:`like` reads it in this way only.

    Examples
    --------
    >>> level_name("kind", "a=b", ["kind"]), level_name("kind", "a=b", ["kind", "kind=a"])
    ('kind=a=b', 'kind="a=b"')
    """
    name = f"{column}={level}"
    if name in taken or list(_meanings(name, taken)) != [(column, level)]:
        name = f"{column}={json.dumps(level, ensure_ascii=False)}"
    while name in taken:
        column += " "  # no name of a file ends with a space
        name = f"{column}={json.dumps(level, ensure_ascii=False)}"
    return name


def _meanings(name: str, columns: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the columns and values that a name of :func:`level_name` can stand for, the likeliest first."""
    if quoted := re.fullmatch(r'(.*?) *=("(?:[^"\\]|\\.)*")', name, re.DOTALL):
        with suppress(ValueError):
            if quoted[1] in columns:
                yield quoted[1], json.loads(quoted[2])
    for sign in reversed(list(re.finditer("=", name))):
        if name[: sign.start()] in columns:
            yield name[: sign.start()], name[sign.end() :]


def numbers(column: pd.Series, decimal_comma: bool = False) -> tuple[np.ndarray | None, list[str]]:
    """Return a column as numbers, None where it is text; and the cells that are no numbers, which become NaN."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if column.dtype.kind == "c":
        return None, []
    if column.dtype.kind in "biuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan), []
    if not _is_text(column):
        return None, []
    cells = column.dropna().astype(str)
    if decimal_comma:
        cells = cells.str.replace(",", ".", regex=False)
    parsed = pd.to_numeric(cells, errors="coerce")
    wrong = parsed.isna()
    if not len(cells) or wrong.mean() > 1 - _NUMBERS:
        return None if len(cells) else np.full(len(column), np.nan), []
    values = parsed.reindex(column.index).to_numpy(dtype=np.float64)
    return values, sorted(cells[wrong].unique())


def indicator(column: pd.Series, level: str) -> np.ndarray:
    """Return 1 where a column has this value, 0 where it has another one, and NaN where it has none.

    In a file where the column has nothing but numbers, ``1.0`` is the value ``1``.
    """
    number = column.dtype.kind in "iuf" and re.fullmatch(r"[-+]?\d+(\.\d*)?", level)
    hit = (column == float(level) if number else column.astype(str) == level).to_numpy(dtype=np.float64)
    return np.where(column.isna().to_numpy(), np.nan, hit)


def _is_text(column: pd.Series) -> bool:
    """Return whether a column holds text, or objects that are text, numbers and booleans."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype):
        return True
    if column.dtype != object:
        return False
    return all(isinstance(value, str | int | float | bool | np.generic) for value in column.dropna())


def _note(names: Sequence[str], what: str) -> str:
    if not names:
        return ""
    return f"{_count(len(names), 'column')} {what}: {listed(names)}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
