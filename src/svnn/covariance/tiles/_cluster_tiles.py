"""Tiles whose rows the workers of a Dask cluster hold.

A task takes two panels of features and asks a question of their tiles, with the functions that do it in one process.
``_cluster_answers.py`` puts the answers together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svnn._compiled import load
from svnn.covariance.tiles._cluster_panels import Panel
from svnn.covariance.tiles._cluster_results import AT_ONCE, finished, merged, wait
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._products import Tile, Tiles

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
