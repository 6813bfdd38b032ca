"""The engine of a Dask cluster: a task takes two panels of features and works on their tiles as one process does.

The answers of all pairs of panels are put together here or by further tasks. Entries above a level can go to a folder
that all workers see, one Parquet file for each pair of panels: a run that is started again reads the files that are
there, and computes the others.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svnn._compiled import load
from svnn.covariance.tiles._dask_panels import Panel, finished
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._tiles import Fold, Pairs, Select, Tile, Tiles, check_room

#: How often a task that raises an error is tried again; one whose worker dies is so in any case.
_RETRIES = 1
#: Answers that one task merges.
_AT_ONCE = 4
#: The name of the folder for the parts in Dask's configuration.
SETTING = "svnn.parts"


class PairTiles(Tiles):
    """The tiles of two panels: products of the rows of the first with those of the second, or with each other.

    The rows of the second panel have numbers that follow those of the first; ``place`` gives their true ones. A GPU is
    used where torch finds one.
    """

    def __init__(self, first: Panel, second: Panel | None, factors: tuple[float, float], limit: int) -> None:
        panels = (first,) if second is None else (first, second)
        height, n = len(first.Z), sum(len(panel.Z) for panel in panels)
        if torch.cuda.is_available():  # tensor cores want rows that start at multiples of 32 bytes
            Z = torch.zeros((n, -(-first.Z.shape[1] // 8) * 8), dtype=torch.float32, device="cuda")
        else:
            Z = torch.empty((n, first.Z.shape[1]), dtype=torch.float32)
        for panel, factor, a in zip(panels, factors, (0, height), strict=False):
            rows = Z[a : a + len(panel.Z), : panel.Z.shape[1]]
            if Z.is_cuda:
                rows.copy_(torch.from_numpy(np.array(panel.Z)))  # torch wants one that may be written to
            else:
                np.copyto(rows.numpy(), panel.Z)
            if factor != 1:
                rows *= factor
        data, last = first.rest, panels[-1].rest.n_features
        unit = torch.cat([panel.rest.unit / factor for panel, factor in zip(panels, factors, strict=False)])
        data = data._replace(Z=Z, n_features=n - len(panels[-1].Z) + last, unit=unit, weight=data.weight.to(Z.device))
        super().__init__(data, limit)
        self.starts = first.start, panels[-1].start
        #: The number of rows of the first panel, and the true number of what is column 0 here.
        self.height, self.first_column = height, self.starts[1] - (n - len(panels[-1].Z))
        if second is not None:
            self.panels = [kept for panel in self.panels if (kept := _right_of(panel, height))]

    def place(self, tile: Tile) -> tuple[int, int]:
        return self.starts[0] + tile.row, self.first_column + tile.column


def _right_of(panel: list[Tile], height: int) -> list[Tile]:
    """Return the parts of tiles that lie in the first ``height`` rows, and right of as many columns."""
    inside = (Tile(t.row, min(t.end_row, height), max(t.column, height), t.end_column) for t in panel)
    return [tile for tile in inside if tile.row < tile.end_row and tile.column < tile.end_column]


class ClusterTiles(Tiles):
    """The tiles of data whose rows the workers of a cluster hold; see :class:`Tiles`.

    There is a task for every pair of panels.
    """

    def __init__(self, data: Observations, limit: int, verbose: bool = False) -> None:
        assert data.panels is not None, "read from a cluster"
        self.data, self.limit, self.verbose, self.held = data, limit, verbose, data.panels
        self.device, self.panels = data.Z.device, []
        self.kernels = load("svnn.covariance.tiles._tile_kernels")
        count = len(self.held)
        #: The pairs of panels, row by row.
        self.pairs = [(i, j) for i in range(count) for j in range(i, count)]

    def ask(
        self,
        answer: Callable[..., Any],
        *args: object,
        levels: Tensor | None = None,
        pairs: list[tuple[int, int]] | None = None,
    ) -> list[Any]:
        """Start a task ``answer(tiles, levels, *args)`` for every pair of panels, or for some; return the futures.

        The task gets the levels of its two panels.
        """
        held, futures = self.held, []
        for i, j in self.pairs if pairs is None else pairs:
            panels = held.futures[i], None if i == j else held.futures[j]
            mine = None
            if levels is not None:
                parts = [levels[held.starts[k] : held.starts[k + 1]] for k in ((i,) if i == j else (i, j))]
                mine = torch.cat(parts).numpy()
            task = (*panels, (held.factors[i], held.factors[j]), held.limit, answer, (mine, *args))
            futures.append(held.client.submit(_answered, *task, pure=False, retries=_RETRIES))
        return futures

    def fold(self, question: Fold, levels: Tensor | None = None) -> Any:
        client, futures = self.held.client, self.ask(_folded, question, levels=levels)
        roots = []
        if question.of_features:
            for q, start in enumerate(self.held.starts[:-1]):
                mine = [future for pair, future in zip(self.pairs, futures, strict=True) if q in pair]
                groups = (mine[k : k + _AT_ONCE] for k in range(0, len(mine), _AT_ONCE))
                parts = [client.submit(_of_panel, start, group, question.merge, pure=False) for group in groups]
                roots.append(_merged(client, parts, question.merge))
        else:
            roots.append(_merged(client, futures, question.merge))
        for _ in finished(client, futures, question.what if self.verbose else "", fetch=False):
            pass
        answers = dict(finished(client, roots))
        return torch.cat([answers[q] for q in range(len(answers))]) if question.of_features else answers[0]

    def of_panels(self, function: Callable[[Observations], Tensor]) -> Tensor:
        held = self.held
        futures = [held.client.submit(_of_observations, panel, function, pure=False) for panel in held.futures]
        answers = dict(finished(held.client, futures))
        return torch.cat([answers[k] for k in range(len(answers))])

    def collect(self, level: float | Tensor, select: Select | None = None, what: str = "pairs") -> Pairs:
        levels = level if isinstance(level, Tensor) else None
        folder = _parts_folder(self, level if levels is None else levels.numpy(), select)
        parts = {} if folder is None else _read_parts(folder, self)
        missing = [pair for pair in self.pairs if pair not in parts]
        number = level if levels is None else None
        futures = self.ask(_collected, number, select, folder, levels=levels, pairs=missing)
        total = sum(len(part[1]) for part in parts.values())
        for k, part in finished(self.held.client, futures, what if self.verbose else ""):
            parts[missing[k]] = part
            total += len(part[1])
            check_room(total, self.limit)
        count = len(self.held)
        rows = [_side_by_side([parts.pop((i, j)) for j in range(i, count)]) for i in range(count)]
        counts, *others = (torch.from_numpy(np.concatenate(part)) for part in zip(*rows, strict=True))
        return Pairs(counts[: self.data.n_features], *others)

    def panels_above(
        self, level: float | Tensor, select: Select | None = None, what: str = "pairs"
    ) -> Iterator[tuple[Any, ...]]:
        """Yield all entries at once: they come here in the order in which tasks are done."""
        yield 0, *(part for part in self.collect(level, select, what) if part is not None)


# -- on the workers -------------------------------------------------------------------------------


def _answered(
    first: Panel,
    second: Panel | None,
    factors: tuple[float, float],
    limit: int,
    answer: Callable[..., Any],
    args: tuple[Any, ...],
) -> Any:
    """Return the answer of two panels."""
    tiles, (levels, *rest) = PairTiles(first, second, factors, limit), args
    return answer(tiles, None if levels is None else torch.tensor(levels, device=tiles.device), *rest)


def _folded(tiles: PairTiles, levels: Tensor | None, question: Fold) -> Any:
    """Return the answer to a question; those of features by the start of their panel."""
    answer = tiles.fold(question, levels)
    if not question.of_features:
        return answer
    first, second = answer[: tiles.height].cpu(), answer[tiles.height :].cpu()
    return {tiles.starts[0]: first, **({tiles.starts[1]: second} if len(second) else {})}


def _of_panel(start: int, answers: list[dict[int, Tensor]], merge: Callable[[list[Any]], Any]) -> Any:
    """Return the merged answers about one panel."""
    return merge([answer[start] for answer in answers])


def _of_observations(panel: Panel, function: Callable[[Observations], Tensor]) -> Tensor:
    return function(panel.rest._replace(Z=torch.tensor(panel.Z)))


def _collected(
    tiles: PairTiles, levels: Tensor | None, level: float | None, select: Select | None, folder: Path | None
) -> tuple[np.ndarray, ...]:
    """Return the number of entries in each row of the first panel, their true columns, values and scores."""
    limit = level if levels is None else levels
    assert limit is not None, "one of them is given"
    pairs = tiles.collect(limit, select)
    counts, columns, values, *score = (part.cpu().numpy() for part in pairs if part is not None)
    part = (counts[: tiles.height], columns + np.int32(tiles.first_column), values, *score)
    if folder is not None:
        _write_part(folder, tiles, part)
    return part


# -- answers --------------------------------------------------------------------------------------


def _merged(client: Any, futures: list[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Return the future of the merged results, which the workers merge four at a time."""
    while len(futures) > 1:
        groups = (futures[k : k + _AT_ONCE] for k in range(0, len(futures), _AT_ONCE))
        futures = [group[0] if len(group) == 1 else client.submit(merge, group, pure=False) for group in groups]
    return futures[0]


def _side_by_side(parts: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Return the entries of the same rows in several panels, from left to right, row by row."""
    height = max(len(part[0]) for part in parts)
    counts = np.zeros(height, dtype=np.int64)
    rows = []
    for part in parts:
        counts[: len(part[0])] += part[0]
        rows.append(np.repeat(np.arange(len(part[0]), dtype=np.int32), part[0]))
    order = np.argsort(np.concatenate(rows), kind="stable")
    return counts, *(np.concatenate(same)[order] for same in list(zip(*parts, strict=True))[1:])


# -- parts in a folder ----------------------------------------------------------------------------


def _parts_folder(tiles: ClusterTiles, *question: object) -> Path | None:
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


def _write_part(folder: Path, tiles: PairTiles, part: tuple[np.ndarray, ...]) -> None:
    """Write pairs as columns i, j, value (the covariance) and product (of standardised features), in one step."""
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


def _read_parts(folder: Path, tiles: ClusterTiles) -> dict[tuple[int, int], tuple[np.ndarray, ...]]:
    """Return the parts that are in the folder, by their pairs of panels."""
    parquet = import_module("pyarrow.parquet")
    starts, parts = tiles.held.starts, {}
    for i, j in tiles.pairs:
        path = _path(folder, starts[i], starts[j])
        if path.exists():
            table: Any = parquet.read_table(path)
            columns = {name: table[name].to_numpy() for name in table.column_names}
            counts = np.bincount(columns["i"] - starts[i], minlength=starts[i + 1] - starts[i])
            score = (columns["score"],) if "score" in columns else ()
            parts[i, j] = (counts, columns["j"].astype(np.int32), columns["product"], *score)
    return parts


def _path(folder: Path, row: int, column: int) -> Path:
    return folder / f"{row}-{column}.parquet"
