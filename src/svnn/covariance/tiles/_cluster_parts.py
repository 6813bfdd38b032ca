"""Pairs that the workers found, in a folder that all of them see: one Parquet file for each pair of panels.

A run that is started again reads the files that are there, and computes the others.
"""

from __future__ import annotations

import os
import uuid
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from svnn.covariance.tiles._cluster_tiles import ClusterTiles, PairTiles

#: The name of the folder in Dask's configuration.
SETTING = "svnn.parts"


def parts_folder(tiles: ClusterTiles, *question: object) -> Path | None:
    """Return the folder for the answers to a question about a table, or None where no folder is configured."""
    from dask import config
    from dask.base import tokenize

    folder = config.get(SETTING, None)
    if folder is None:
        return None
    if find_spec("pyarrow") is None:
        raise ImportError(f'The folder {SETTING} needs the package pyarrow: pip install "svnn[files]".')
    path = Path(folder) / f"pairs-{tokenize(tiles.held.token, *question)}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_part(folder: Path, tiles: PairTiles, part: tuple[np.ndarray, ...]) -> None:
    """Write pairs as columns i, j, value (the covariance) and product, which is what the tiles found; in one step."""
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    counts, columns, values, *score = part
    row, column = tiles.starts
    rows = np.repeat(np.arange(len(counts)), counts)
    unit = tiles.data.unit.cpu().numpy()
    value = values * unit[rows] * unit[columns - tiles.first_column]
    table = {"i": rows + row, "j": columns, "value": value, "product": values}
    if score:
        table["score"] = score[0]
    path = _path(folder, row, column)
    draft = path.with_suffix(f".{uuid.uuid4().hex}")
    parquet.write_table(pyarrow.table(table), draft)
    os.replace(draft, path)


def read_parts(folder: Path, tiles: ClusterTiles) -> dict[tuple[int, int], tuple[np.ndarray, ...]]:
    """Return the parts that are in the folder, by their pairs of panels."""
    parquet = import_module("pyarrow.parquet")
    starts, found = tiles.held.starts, {}
    for i, j in tiles.pairs:
        path = _path(folder, starts[i], starts[j])
        if path.exists():
            table: Any = parquet.read_table(path)
            columns = {name: table[name].to_numpy() for name in table.column_names}
            counts = np.bincount(columns["i"] - starts[i], minlength=starts[i + 1] - starts[i])
            score = (columns["score"],) if "score" in columns else ()
            found[i, j] = (counts, columns["j"].astype(np.int32), columns["product"], *score)
    return found


def _path(folder: Path, row: int, column: int) -> Path:
    return folder / f"{row}-{column}.parquet"
