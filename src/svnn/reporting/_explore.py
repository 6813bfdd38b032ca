"""The part of the page that moves: correlations that a slider filters, few enough for one page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.plotting._matrices import similar_side_by_side
from svnn.reporting._model import ReportedModel
from svnn.reporting._svg import Chart, Scale

#: Features whose correlations are in the page; with more, the most connected of them.
MOST_FEATURES = 300
#: Features whose pairs are counted; with more, this number of them, drawn at random.
MOST_COUNTED = 10_000
#: Correlations are stored in thousandths, which are also the steps of the slider.
STEPS = 1000
#: Correlations that are held at once while they are counted.
_BLOCK = 2**22
#: Each feature is drawn towards this number of others, those that it is most correlated with; rounds of moving.
_NEIGHBOURS, _ROUNDS = 4, 150


@dataclass(frozen=True)
class Correlations:
    """Correlations of some features, with the numbers of pairs that every threshold would keep of all of them.

    ``values`` (n, n) holds thousandths. ``kept[k]``, ``shares[k]`` and ``alone[k]`` are the number and the share of the
    pairs that a threshold of ``k`` steps keeps, and the number of features it leaves without an edge, among
    ``counted`` features. The slider begins at ``first``, the largest step that keeps every pair.
    """

    features: np.ndarray
    values: np.ndarray
    kept: np.ndarray
    shares: np.ndarray
    alone: np.ndarray
    counted: int
    first: int


def explore_section(of: ReportedModel) -> dict[str, Any]:
    """Return the values of the section with heat map, graph and slider, and the data that its script reads."""
    density, threshold = of.density, of.threshold
    if of.Z is not None:
        shown = correlations_of_rows(of.Z, density.degrees)
    else:
        shown = correlations_of_matrix(of.matrix, density.degrees)
    first, shares = shown.first, shown.shares
    start = int(np.abs(shares - density.share).argmin()) if threshold is None else min(round(threshold * STEPS), STEPS)
    start = max(start, first)
    steps = np.unique(np.linspace(first, STEPS, 200).astype(int))
    chart = Chart(
        "Share of the pairs that are kept, against the threshold on the correlations",
        Scale([first / STEPS, 1]),
        Scale([0, 100 * shares.max()], zero=True),
        "threshold on the correlation",
        "pairs kept, %",
    )
    chart.line(steps / STEPS, 100 * shares[steps], "line c1")
    chart.marker("marker", start / STEPS)
    size = np.abs(shown.values) / STEPS
    np.fill_diagonal(size, 1)
    upper = shown.values[np.triu_indices(len(size), 1)]  # row by row
    # Colours begin at the smallest correlation if all are large and positive.
    floor = max(int(upper.min(initial=STEPS)), 0) if len(upper) else 0
    floor = floor if floor >= STEPS // 2 else 0
    data = {
        "names": [of.names[i] for i in shown.features],
        "r": base64.b64encode(upper.astype("<i2").tobytes()).decode(),
        "steps": STEPS,
        "order": similar_side_by_side(size).tolist(),
        "xy": positions(size).round(3).tolist(),
        "kept": shown.kept.tolist(),
        "alone": shown.alone.tolist(),
        "counted": shown.counted,
        "features": density.n_features,
        "start": start,
        "floor": floor,
    }
    all_above = threshold is not None and round(threshold * STEPS) < first
    values = {"of": of, "correlations": shown, "steps": STEPS, "start": start, "floor": floor}
    return {**values, "all_above": all_above, "chart": chart, "data": data}


def correlations_of_rows(Z: np.ndarray, degrees: np.ndarray) -> Correlations:
    """Return the correlations of signals (t, N, F); the F values of a feature count as further rows."""
    rows = Z.swapaxes(1, 2).reshape(-1, Z.shape[1])
    units = rows - rows.mean(0)
    norms = np.linalg.norm(units, axis=0)
    units = (units / np.where(norms > 0, norms, 1.0)).astype(np.float64 if Z.shape[1] <= 2000 else np.float32)
    n = units.shape[1]
    counted = np.arange(n)
    if n > MOST_COUNTED:
        counted = np.sort(np.random.default_rng(0).choice(n, MOST_COUNTED, replace=False))
    counts, largest = _count(units[:, counted])
    most = np.zeros(n)
    most[counted] = largest
    features = _most_connected(degrees, most)
    shown = units[:, features]
    return _counted(features, quantised(shown.T @ shown), counts, largest)


def correlations_of_matrix(matrix: np.ndarray | sp.csr_array, degrees: np.ndarray) -> Correlations:
    """Return the correlations that a covariance holds; those that it dropped are zero."""
    entries = sp.coo_array(matrix)
    sd = np.sqrt(np.abs(matrix.diagonal()))
    sd = np.where(sd > 0, sd, 1.0)
    r = quantised(entries.data / (sd[entries.row] * sd[entries.col]))
    largest = np.zeros(len(sd), dtype=np.int64)
    beside = entries.row != entries.col
    np.maximum.at(largest, entries.row[beside], np.abs(r[beside]))
    counts = _histogram(r[entries.row < entries.col])
    features = _most_connected(degrees, largest)
    few = sp.csr_array((r, (entries.row, entries.col)), shape=matrix.shape)[features][:, features].toarray()
    return _counted(features, few, counts, largest)


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
    """Return the number of pairs at every step, and the largest correlation of every column, block by block."""
    n = units.shape[1]
    counts, largest = np.zeros(STEPS + 2, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rows = max(_BLOCK // max(n, 1), 1)
    for start in range(0, n, rows):
        block = quantised(units[:, start : start + rows].T @ units[:, start:])
        size = np.abs(np.triu(block, 1))
        counts += _histogram(size)
        largest[start : start + len(size)] = np.maximum(largest[start : start + len(size)], size.max(1))
        largest[start:] = np.maximum(largest[start:], size.max(0))
    return counts, largest


def _histogram(r: np.ndarray) -> np.ndarray:
    """Return the number of zeros, and then of correlations of 0, 1, 2, … thousandths that are not zero."""
    return np.bincount(np.where(r == 0, 0, np.abs(r) + 1).ravel(), minlength=STEPS + 2)


def _counted(features: np.ndarray, values: np.ndarray, counts: np.ndarray, largest: np.ndarray) -> Correlations:
    """Return correlations with what every step keeps, from a histogram and the largest correlation of every feature."""
    n = len(largest)
    kept = counts[1:][::-1].cumsum()[::-1]  # zeros are never kept
    alone = np.searchsorted(np.sort(largest), np.maximum(np.arange(STEPS + 1), 1), side="left")
    first = int(np.flatnonzero(kept == kept[0])[-1])
    return Correlations(features, values, kept, kept / max(n * (n - 1) // 2, 1), alone, n, first)


def _most_connected(degrees: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return the features to show: all, or those with most edges; of equals, those with the largest correlations."""
    if len(degrees) <= MOST_FEATURES:
        return np.arange(len(degrees))
    return np.sort(np.lexsort((-largest, -degrees))[:MOST_FEATURES])


def positions(size: np.ndarray) -> np.ndarray:
    """Return a point in the unit square for every feature (n, 2): correlated ones near each other, none on another.

    Classical scaling of the distances :math:`\\sqrt{2 (1 - |r|)}` gives a start. Then points push each other away,
    and each is drawn to the few that it is most correlated with.
    """
    n = len(size)
    if n < 3:
        return np.column_stack([np.linspace(0.2, 0.8, n), np.full(n, 0.5)])
    squares = 2 * (1 - np.clip(size, 0, 1))
    np.fill_diagonal(squares, 0)
    centred = -(squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()) / 2
    values, vectors = np.linalg.eigh(centred)
    points = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-12))
    points += 1e-3 * np.random.default_rng(0).standard_normal((n, 2))
    points /= np.abs(points).max()
    pull = size - np.diag(np.diag(size))
    cut = np.sort(pull, axis=1)[:, -min(_NEIGHBOURS, n - 1)][:, None]
    pull = np.where(pull >= cut, pull, 0)
    pull = np.maximum(pull, pull.T)
    length = 2 / np.sqrt(n)
    for step in np.linspace(0.1, 0.002, _ROUNDS):
        apart = points[:, None] - points
        square = np.maximum((apart**2).sum(-1), 1e-6)
        force = (length**2 / square - pull * np.sqrt(square) / length)[..., None] * apart
        move = force.sum(1) - points * 0.6  # the last pull, to the middle, holds separate groups together
        reach = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        points += move / reach * np.minimum(reach, step)
    low, high = points.min(0), points.max(0)
    return 0.03 + 0.94 * (points - low) / np.maximum(high - low, 1e-9)
