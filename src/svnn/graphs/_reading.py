"""Files that a graph is made of: those of :mod:`svnn.sources`, and tables of text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from svnn.sources import Table, open_table
from svnn.sources._arrays import ArrayTable
from svnn.sources._paths import FORMATS, PathLike

#: Endings of files that are read as a whole.
_WHOLE = (".csv", ".tsv", ".txt", ".dat", ".data", ".gz", ".feather")


class Opened(NamedTuple):
    """A table, and what was done to its columns to get there."""

    table: Table
    notes: list[str]


def open_any(path: PathLike, **options: Any) -> Table:
    """Return the table of a file; see :func:`open_with_notes`."""
    return open_with_notes(path, **options).table


def open_with_notes(
    path: PathLike, *, layer: str | None = None, dataset: str | None = None, drop: Sequence[str] = ()
) -> Opened:
    """Return the table of a file: in pieces where :func:`svnn.sources.open_table` can, as a whole where it is text."""
    text = os.fspath(path)
    ending = Path(text).suffix.lower()
    if text != "-" and ending not in _WHOLE:
        try:
            return Opened(open_table(path, layer=layer, dataset=dataset, drop=drop), [])
        except ValueError as error:
            raise ValueError(str(error).replace(FORMATS, f"{FORMATS}, or CSV")) from None
    if layer is not None or dataset is not None:
        raise ValueError(f"layers and datasets are in AnnData, HDF5, Zarr and NPZ files; this is {text}.")
    from svnn.comparison._files import titled
    from svnn.comparison._table import read_all_features

    X, names, notes = read_all_features(path, list(drop))
    lacking = [name for name, values in zip(names, X.T, strict=True) if np.isnan(values).any()]
    if lacking:
        raise ValueError(
            f"{titled(path)} has missing values in {len(lacking)} of {len(names)} columns, the first of them "
            f"{lacking[0]!r}; fill them in, or leave out these rows or columns."
        )
    return Opened(ArrayTable(np.asarray(X), names), notes)
