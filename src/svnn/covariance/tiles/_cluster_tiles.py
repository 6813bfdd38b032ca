"""The questions about all pairs of features, answered by the workers of a Dask cluster.

A task takes two panels of features and asks the question of their tiles, with the functions that do it in one process.
Here the answers are put together: counts are added, the largest values of rows merged, lists of pairs brought in order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svnn._compiled import load
from svnn.covariance.tiles._cluster import Panel
from svnn.covariance.tiles._cluster_jobs import AT_ONCE, finished, merged, wait
from svnn.covariance.tiles._cluster_parts import parts_folder, read_parts, write_part
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._order_statistics import (
    coarse_histogram,
    fine_histogram,
    largest_below,
    largest_in_rows,
    largest_of_all,
)
from svnn.covariance.tiles._products import Pairs, Select, Tile, Tiles, check_room, collect
from svnn.covariance.tiles._threshold_tiles import mean_fourth_powers

#: How often a task that raises an error is tried again; one whose worker dies is so in any case.
_RETRIES = 1


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
        #: The true number of what is column 0 here.
        self.first_column = self.starts[1] - (n - len(panels[-1].Z))
        if second is not None:
            self.panels = [kept for panel in self.panels if (kept := _right_of(panel, height))]

    def place(self, tile: Tile) -> tuple[int, int]:
        return self.starts[0] + tile.row, self.first_column + tile.column


def _right_of(panel: list[Tile], height: int) -> list[Tile]:
    """Return what of some tiles lies in the first ``height`` rows, and right of as many columns."""
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
        """Start a task ``answer(tiles, *args)`` for every pair of panels, or for some; return the futures.

        Where there are ``levels`` of all features, those of the two panels come first among the arguments.
        """
        held, futures = self.held, []
        for i, j in self.pairs if pairs is None else pairs:
            panels = held.futures[i], None if i == j else held.futures[j]
            mine = () if levels is None else (self._of_pair(levels, i, j),)
            factors = held.factors[i], held.factors[j]
            task = (*panels, factors, held.limit, answer, (*mine, *args))
            futures.append(held.client.submit(_answered, *task, pure=False, retries=_RETRIES))
        return futures

    def _of_pair(self, levels: Tensor, i: int, j: int) -> np.ndarray:
        starts = self.held.starts
        parts = [levels[starts[k] : starts[k + 1]] for k in ((i,) if i == j else (i, j))]
        return torch.cat(parts).numpy()

    def total(self, futures: list[Any], merge: Callable[[list[Any]], Any], what: str) -> Any:
        """Return the merged answers of all pairs of panels."""
        root = merged(self.held.client, futures, merge)
        wait(self.held.client, futures, what if self.verbose else "")
        ((_, found),) = finished(self.held.client, [root])
        return found

    def of_features(self, futures: list[Any], merge: Callable[[list[Any]], Any], what: str) -> Tensor:
        """Return answers ``{panel's start: array}``, merged for each panel, as one tensor of all features."""
        client, roots = self.held.client, []
        for q, start in enumerate(self.held.starts[:-1]):
            mine = [future for pair, future in zip(self.pairs, futures, strict=True) if q in pair]
            groups = (mine[k : k + AT_ONCE] for k in range(0, len(mine), AT_ONCE))
            parts = [client.submit(_of_panel, start, group, merge, pure=False) for group in groups]
            roots.append(merged(client, parts, merge))
        wait(client, futures, what if self.verbose else "")
        found = dict(finished(client, roots))
        return torch.cat([torch.from_numpy(np.array(found[q])) for q in range(len(found))])


def _answered(
    first: Panel,
    second: Panel | None,
    factors: tuple[float, float],
    limit: int,
    answer: Callable[..., Any],
    args: tuple[object, ...],
) -> Any:
    """Return the answer of two panels; on a worker."""
    return answer(PairTiles(first, second, factors, limit), *args)


def _of_panel(start: int, answers: list[dict[int, np.ndarray]], merge: Callable[[list[Any]], Any]) -> Any:
    """Return the merged answers about one panel; on a worker."""
    return merge([answer[start] for answer in answers])


# -- pairs ----------------------------------------------------------------------------------------


@collect.register(ClusterTiles)
def collect_from_cluster(
    tiles: ClusterTiles, level: float | Tensor, select: Select | None = None, what: str = "pairs"
) -> Pairs:
    """Return the entries above ``level``; see :func:`collect`. Each task's come here when it is done."""
    of_features = level.numpy() if isinstance(level, Tensor) else None
    folder = parts_folder(tiles, level if of_features is None else of_features, select)
    parts = {} if folder is None else read_parts(folder, tiles)
    missing = [pair for pair in tiles.pairs if pair not in parts]
    if isinstance(level, Tensor):
        futures = tiles.ask(_collected, select, folder, levels=level, pairs=missing)
    else:
        futures = tiles.ask(_collected, level, select, folder, pairs=missing)
    found = sum(len(part[1]) for part in parts.values())
    for k, part in finished(tiles.held.client, futures, what if tiles.verbose else ""):
        parts[missing[k]] = part
        found += len(part[1])
        check_room(found, tiles.limit)
    panels = []
    for i in range(len(tiles.held)):
        panels.append(_side_by_side([parts.pop((i, j)) for j in range(i, len(tiles.held))]))
    counts, *others = (torch.from_numpy(np.concatenate(part)) for part in zip(*panels, strict=True))
    return Pairs(counts[: tiles.data.n_features], *others)


def _collected(
    tiles: PairTiles, level: float | np.ndarray, select: Select | None, folder: Path | None
) -> tuple[np.ndarray, ...]:
    """Return the number of entries in each row of the first panel, their true columns, values and scores."""
    height = tiles.panels[-1][-1].end_row
    levels = torch.from_numpy(level).to(tiles.device) if isinstance(level, np.ndarray) else level
    pairs = collect(tiles, levels, select)
    counts, columns, values, *score = (part.cpu().numpy() for part in pairs if part is not None)
    found = (counts[:height], columns + np.int32(tiles.first_column), values, *score)
    if folder is not None:
        write_part(folder, tiles, found)
    return found


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


# -- counts ---------------------------------------------------------------------------------------


@coarse_histogram.register(ClusterTiles)
def coarse_histogram_of_cluster(tiles: ClusterTiles) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and the sums of the magnitudes in each bin; see :func:`coarse_histogram`."""
    counts, sums = tiles.total(tiles.ask(coarse_histogram), _added, "histogram")
    n = tiles.data.n_features
    counts[0] = n * (n - 1) // 2 - counts[1:].sum()
    return counts, sums


def _added(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    return tuple(np.sum(same, axis=0) for same in zip(*parts, strict=True))


@fine_histogram.register(ClusterTiles)
def fine_histogram_of_cluster(tiles: ClusterTiles, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the magnitudes in two bins and how often each occurs; see :func:`fine_histogram`."""
    found: tuple[np.ndarray, np.ndarray] = tiles.total(
        tiles.ask(fine_histogram, low, high), _counted, "histogram of the cut"
    )
    return found


def _counted(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    values, place = np.unique(np.concatenate([values for values, _ in parts]), return_inverse=True)
    numbers = np.zeros(len(values), dtype=np.int64)
    np.add.at(numbers, place, np.concatenate([numbers for _, numbers in parts]))
    return values[::-1], numbers[::-1]


# -- largest values -------------------------------------------------------------------------------


@largest_of_all.register(ClusterTiles)
def largest_of_cluster(tiles: ClusterTiles) -> float:
    """Return the largest magnitude of all pairs."""
    return float(tiles.total(tiles.ask(largest_of_all), max, "largest entry"))


@largest_in_rows.register(ClusterTiles)
def largest_in_rows_of_cluster(tiles: ClusterTiles, k: int) -> Tensor:
    """Return the ``k`` largest magnitudes of each feature's pairs, ascending; see :func:`largest_in_rows`."""
    best = tiles.of_features(tiles.ask(_largest, k), _largest_of, "largest of each row")
    return best[: tiles.data.n_features]


def _largest(tiles: PairTiles, k: int) -> dict[int, np.ndarray]:
    """Return the ``k`` largest magnitudes of the features of each panel, by its start."""
    return _by_panel(tiles, largest_in_rows(tiles, k).cpu().numpy())


def _by_panel(tiles: PairTiles, values: np.ndarray) -> dict[int, np.ndarray]:
    height = tiles.panels[-1][-1].end_row
    row, column = tiles.starts
    return {row: values[:height], **({column: values[height:]} if len(values) > height else {})}


def _largest_of(parts: list[np.ndarray]) -> np.ndarray:
    """Return the largest values of each row, ascending, as many as each part has."""
    return np.sort(np.concatenate(parts, axis=1), axis=1)[:, -parts[0].shape[1] :]


@largest_below.register(ClusterTiles)
def largest_below_of_cluster(tiles: ClusterTiles, levels: Tensor) -> Tensor:
    """Return the largest magnitude of each feature's pairs below its level; see :func:`largest_below`."""
    return tiles.of_features(tiles.ask(_largest_below, levels=levels), _largest_of, "values below the cut")[:, 0]


def _largest_below(tiles: PairTiles, levels: np.ndarray) -> dict[int, np.ndarray]:
    best = largest_below(tiles, torch.from_numpy(levels).to(tiles.device))
    return _by_panel(tiles, best.cpu().numpy()[:, None])


@mean_fourth_powers.register(ClusterTiles)
def mean_fourth_powers_of_cluster(tiles: ClusterTiles) -> Tensor:
    """Return the mean over samples of each feature's fourth power; see :func:`mean_fourth_powers`."""
    held = tiles.held
    futures = [held.client.submit(_fourth_powers, future, held.limit, pure=False) for future in held.futures]
    found = dict(finished(held.client, futures))
    return torch.cat([torch.from_numpy(found[k]) for k in range(len(found))])


def _fourth_powers(panel: Panel, limit: int) -> np.ndarray:
    found: np.ndarray = mean_fourth_powers(PairTiles(panel, None, (1.0, 1.0), limit)).cpu().numpy()
    return found
