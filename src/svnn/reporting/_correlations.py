"""The correlations that the reader can explore: rounded, few enough for one page, and counted over all features."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from svnn.reporting._density import Density

#: Features whose correlations are in the page; with more, the most connected of them.
MOST_FEATURES = 300
#: Features whose pairs are counted; with more, so many of them, drawn at random.
MOST_COUNTED = 10_000
#: Correlations are stored in thousandths, which are also the steps of the slider.
STEPS = 1000
#: Correlations that are held at once while they are counted.
_BLOCK = 2**22


@dataclass(frozen=True)
class Correlations:
    """Correlations of some features, with what every threshold would keep of all of them.

    ``values`` (n, n) holds thousandths; ``kept[k]`` and ``alone[k]`` are the pairs that a threshold of ``k`` steps
    keeps and the features it leaves without an edge, among ``counted`` features.
    """

    features: np.ndarray
    values: np.ndarray
    kept: np.ndarray
    alone: np.ndarray
    counted: int
    from_rows: bool

    @property
    def shares(self) -> np.ndarray:
        """Share of the pairs that every threshold keeps."""
        return self.kept / max(self.counted * (self.counted - 1) // 2, 1)

    @property
    def first(self) -> int:
        """The largest step that keeps every pair, where the slider begins; smaller ones change nothing."""
        return int(np.flatnonzero(self.kept == self.kept[0])[-1])

    @property
    def floor(self) -> int:
        """Where the colours begin: at the smallest correlation if all are large and positive, else at 0."""
        beside = self.values[~np.eye(len(self.values), dtype=bool)]
        least = int(beside.min()) if beside.size else 0
        return least if least >= STEPS // 2 else 0

    def step_of(self, threshold: float | None, share: float) -> int:
        """Return the step at a threshold; without one, that which keeps most nearly a share of the pairs."""
        if threshold is not None:
            return min(max(round(threshold * STEPS), self.first), STEPS)
        return max(int(np.abs(self.shares - share).argmin()), self.first)

    def packed(self) -> str:
        """Return the upper triangle as base64 of 16-bit integers, row by row."""
        rows, columns = np.triu_indices(len(self.values), 1)
        return base64.b64encode(self.values[rows, columns].astype("<i2").tobytes()).decode()


def correlations_of_rows(Z: np.ndarray, density: Density) -> Correlations:
    """Return the correlations of signals (t, N, F); the F values of a feature count as further rows."""
    rows = Z.swapaxes(1, 2).reshape(-1, Z.shape[1])
    units = rows - rows.mean(0)
    norms = np.linalg.norm(units, axis=0)
    units = (units / np.where(norms > 0, norms, 1.0)).astype(np.float64 if Z.shape[1] <= 2000 else np.float32)
    n = units.shape[1]
    counted = np.arange(n)
    if n > MOST_COUNTED:
        counted = np.sort(np.random.default_rng(0).choice(n, MOST_COUNTED, replace=False))
    kept, largest = _count(units[:, counted])
    most = np.zeros(n)
    most[counted] = largest
    features = _most_connected(density.degrees, most)
    values = quantised(units[:, features].T @ units[:, features])
    return Correlations(features, values, kept, _alone(largest), len(counted), True)


def correlations_of_matrix(matrix: np.ndarray | sp.csr_array, density: Density) -> Correlations:
    """Return the correlations that a covariance holds; those that it dropped are zero."""
    found = sp.coo_array(matrix)
    sd = np.sqrt(np.abs(matrix.diagonal()))
    sd = np.where(sd > 0, sd, 1.0)
    r = quantised(found.data / (sd[found.row] * sd[found.col]))
    largest = np.zeros(len(sd), dtype=np.int64)
    beside = found.row != found.col
    np.maximum.at(largest, found.row[beside], np.abs(r[beside]))
    kept = _at_least(np.bincount(_steps(r[found.row < found.col]), minlength=STEPS + 2))
    features = _most_connected(density.degrees, largest)
    few = sp.csr_array((r, (found.row, found.col)), shape=matrix.shape)[features][:, features].toarray()
    return Correlations(features, few, kept, _alone(largest), len(sd), False)


def quantised(r: np.ndarray) -> np.ndarray:
    """Return correlations in thousandths, rounded towards zero; only exact zeros become 0.

    Examples
    --------
    >>> quantised(np.array([0.0, 1e-9, 0.5, -0.1239, 1.0])).tolist()
    [0, 1, 500, -123, 1000]
    """
    size = np.minimum(np.floor(np.abs(r) * STEPS + 1e-6), STEPS)
    size = np.where(np.abs(r) > 0, np.maximum(size, 1), 0)
    return (np.sign(r) * size).astype(np.int64)


def _count(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that every step keeps, and the largest correlation of every column, block by block."""
    n = units.shape[1]
    counts, largest = np.zeros(STEPS + 2, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rows = max(_BLOCK // max(n, 1), 1)
    for start in range(0, n, rows):
        block = quantised(units[:, start : start + rows].T @ units[:, start:])
        size = np.abs(np.triu(block, 1))
        counts += np.bincount(_steps(size).ravel(), minlength=STEPS + 2)
        largest[start : start + len(size)] = np.maximum(largest[start : start + len(size)], size.max(1))
        largest[start:] = np.maximum(largest[start:], size.max(0))
    return _at_least(counts), largest


def _steps(r: np.ndarray) -> np.ndarray:
    """Return 0 where a correlation is zero, else one more than its thousandths."""
    return np.where(r == 0, 0, np.abs(r) + 1)


def _at_least(counts: np.ndarray) -> np.ndarray:
    """Return for every step how many are kept, from how many belong to each step; those of 0 are never kept."""
    return counts[1:][::-1].cumsum()[::-1]


def _alone(largest: np.ndarray) -> np.ndarray:
    steps = np.arange(STEPS + 1)
    return np.searchsorted(np.sort(largest), np.maximum(steps, 1), side="left")


def _most_connected(degrees: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return the features to show: all, or those with most edges; of equals, those with the largest correlations."""
    if len(degrees) <= MOST_FEATURES:
        return np.arange(len(degrees))
    return np.sort(np.lexsort((-largest, -degrees))[:MOST_FEATURES])
