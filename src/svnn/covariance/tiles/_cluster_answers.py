"""The answers of all pairs of panels, put together: lists of pairs in order, counts added, largest values merged.

To import this file lets the questions about tiles know :class:`ClusterTiles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svnn.covariance.tiles._cluster_panels import Panel
from svnn.covariance.tiles._cluster_parts import parts_folder, read_parts, write_part
from svnn.covariance.tiles._cluster_results import finished
from svnn.covariance.tiles._cluster_tiles import ClusterTiles, PairTiles
from svnn.covariance.tiles._order_statistics import (
    coarse_histogram,
    fine_histogram,
    largest_below,
    largest_in_rows,
    largest_of_all,
)
from svnn.covariance.tiles._products import Pairs, Select, check_room, collect, panels_above
from svnn.covariance.tiles._threshold_tiles import mean_fourth_powers

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


@panels_above.register(ClusterTiles)
def panels_of_cluster(
    tiles: ClusterTiles, level: float | Tensor, select: Select | None = None, what: str = "pairs"
) -> Iterator[tuple[Any, ...]]:
    """Yield all entries above ``level`` at once: they come here in the order in which tasks are done."""
    yield 0, *(part for part in collect(tiles, level, select, what) if part is not None)


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
