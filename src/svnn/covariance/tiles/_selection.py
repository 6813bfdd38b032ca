"""Covariances of the pairs that an estimator keeps: by number, by thresholds of their own, by a test, at random.

Each function gives what the estimator of the same purpose makes of the N×N matrix where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._order_statistics import (
    COARSE,
    bin_edges,
    coarse_histogram,
    fine_histogram,
    largest_below,
    largest_entries,
    largest_in_rows,
)
from svnn.covariance.tiles._tiles import (
    Pairs,
    Tile,
    TiledCovariance,
    Tiles,
    below_number,
    check_room,
    sparse_covariance,
)
from svnn.functional.correlations import (
    correlation_p_values,
    critical_correlation,
    largest_significant,
    rejection_level,
    symmetric_matrix,
)
from svnn.functional.masks import pair_uniforms, slope_for_maximum
from svnn.functional.thresholds import ENTRYWISE, clearly_below, halfway

#: A level is lowered by this share where a second pass must find again what a first one saw.
_ROUNDING = 1e-6
#: Values of a row looked at beyond the first that is dropped, since some of them may be tied.
_SPARE = 4
#: Features that are taken to double precision at once, and the least number of rows of a band multiplied at once.
_ROWS, _LEAST_ROWS = 1024, 256
#: Entries whose uniform numbers torch draws in one go.
_DRAWN = 2**21


def at_density(tiles: Tiles, rule: str, kept: int, keep_diagonal: bool = True) -> TiledCovariance:
    """Return the covariance with exactly the ``kept`` largest pairs; the threshold is ``threshold_for_density``'s."""
    scale, largest = tiles.data.scale, largest_entries(tiles, kept)
    pairs = largest.pairs
    if math.isinf(largest.smallest):
        threshold = largest.below * scale * (1 + 1e-6)
    else:
        limit = halfway(largest.below, largest.smallest)
        threshold = limit * scale
        pairs = pairs if rule == "hard" else pairs.shrunk(rule, limit)
    return sparse_covariance(tiles, pairs, _diagonal(tiles, rule, threshold, keep_diagonal), threshold)


def top_k(tiles: Tiles, rule: str, k: int, keep_diagonal: bool = True) -> TiledCovariance:
    """Return the covariance with the pairs among the ``k`` largest of either feature; each feature has a threshold."""
    n, n_padded = tiles.data.n_features, tiles.data.Z.shape[0]
    limits = torch.zeros(n_padded, dtype=torch.float32, device=tiles.device)
    if k >= n - 1:
        pairs = tiles.collect(0.0, what="top k")
    else:
        quick = tiles.fast_largest_of_rows(k + 1 + _SPARE)
        best, known = quick or (largest_in_rows(tiles, k + 1 + _SPARE), None)
        cut = best[:, -k]
        edge = clearly_below(cut)
        below = torch.where(best < edge[:, None], best, 0).amax(1)
        tied = (best[:, 0] >= edge) & (cut > 0)
        if bool(tied.any()):
            levels = torch.zeros_like(limits)
            levels[:n] = torch.where(tied, edge, 0)
            below = torch.where(tied, largest_below(tiles, levels)[:n], below)
            known = None  # the equal ones are not all among them
        levels = torch.full_like(limits, float("inf"))
        levels[:n] = cut * (1 - _ROUNDING)
        limits[:n] = halfway(below, cut)
        pairs = tiles.collect(levels, what="top k") if known is None else _above(known, levels)
        if _some_tied(pairs, levels, k):
            pairs = _ranked(pairs, k)
        if rule != "hard":
            pairs = pairs.shrunk(rule, torch.minimum(limits[pairs.rows().long()], limits[pairs.columns.long()]))
    threshold = limits[:n].double() * tiles.data.scale
    return sparse_covariance(tiles, pairs, _diagonal(tiles, rule, threshold, keep_diagonal), threshold)


def _above(pairs: Pairs, levels: Tensor) -> Pairs:
    """Return the pairs above the smaller one of their two levels."""
    return pairs.where(pairs.values.abs() > torch.minimum(levels[pairs.rows().long()], levels[pairs.columns.long()]))


def _some_tied(pairs: Pairs, levels: Tensor, k: int) -> bool:
    """Return whether a feature has more than ``k`` pairs above its level: some of them are equal up to rounding."""
    magnitudes = pairs.values.abs()
    above = torch.zeros(len(levels), dtype=torch.int64, device=levels.device)
    for features in (pairs.rows().long(), pairs.columns.long()):
        above += torch.bincount(features[magnitudes > levels[features]], minlength=len(levels))
    return bool((above > k).any())


def _ranked(pairs: Pairs, k: int) -> Pairs:
    """Return the pairs that are among the ``k`` largest of either of their features.

    A pair is seen from both of its features. Each ranks it: the larger value first, then the lower column.
    """
    rows, columns = pairs.rows().long(), pairs.columns.long()
    seen_from, other = torch.cat([rows, columns]), torch.cat([columns, rows])
    order = torch.argsort(other, stable=True)
    order = order[torch.argsort(pairs.values.abs().repeat(2)[order], descending=True, stable=True)]
    order = order[torch.argsort(seen_from[order], stable=True)]
    counts = torch.bincount(seen_from, minlength=len(pairs.counts))
    rank = torch.arange(len(order), device=order.device) - (torch.cumsum(counts, 0) - counts)[seen_from[order]]
    among = torch.empty_like(rank, dtype=torch.bool)
    among[order] = rank < k
    return pairs.where(among[: len(rows)] | among[len(rows) :])


def adaptive(tiles: Tiles, rule: str, delta: float, keep_diagonal: bool = True) -> TiledCovariance:
    """Return what entrywise thresholds leave; see :class:`svnn.covariance.AdaptiveThreshold`."""
    data = tiles.data
    factor = delta**2 * math.log(data.n_features) / data.n_samples

    scale = data.scale

    def select(tiles: Tiles, tile: Tile, products: Tensor) -> Tensor:
        # With r a correlation and s the mean square of the products behind it, the squared threshold is
        # factor * (s - r^2). The score is r^2 minus that.
        score = _mean_squares(tiles, tile).mul_(-factor)
        score.addcmul_(products, products, value=(1 + factor) * scale**2)
        products.masked_fill_(score < 0, 0)
        return score

    pairs = tiles.collect(0.0, select, "adaptive threshold")
    if rule != "hard":
        assert pairs.score is not None
        squares = (pairs.values * data.scale) ** 2
        pairs = pairs.shrunk(rule, (squares - pairs.score).clamp(min=0).sqrt() / data.scale)
    threshold = 0.0 if keep_diagonal else _thresholds_of_variances(tiles, delta)
    return sparse_covariance(tiles, pairs, _diagonal(tiles, rule, threshold, keep_diagonal))


def _diagonal(tiles: Tiles, rule: str, threshold: float | Tensor, keep: bool) -> Tensor:
    variance = tiles.data.variance
    return variance if keep else ENTRYWISE[rule](torch, variance, threshold)


def _mean_squares(tiles: Tiles, tile: Tile) -> Tensor:
    """Return the mean over samples of the squared products (for F values: of their mean over the values)."""
    data = tiles.data
    left, right = data.Z[tile.row : tile.end_row], data.Z[tile.column : tile.end_column]
    shape, t = (len(left), len(right)), len(data.weight)
    out = tiles.buffer("squares", shape)
    if data.n_values == 1:
        # The weight is in Z as its root, so Z^2 has it as it should be in the product.
        scaling = (data.weight * t) ** -0.5
        a = torch.mul(left[:, :t], left[:, :t], out=tiles.buffer("left", (len(left), t))).mul_(scaling)
        b = torch.mul(right[:, :t], right[:, :t], out=tiles.buffer("right", (len(right), t))).mul_(scaling)
        return torch.mm(a, b.T, out=out)
    out.zero_()
    part = tiles.buffer("sample", shape)
    for k, weight in enumerate((data.weight * t).tolist()):
        values = slice(k * data.n_values, (k + 1) * data.n_values)
        torch.mm(left[:, values], right[:, values].T, out=part)
        out.addcmul_(part, part, value=1 / (weight * data.n_values**2))
    return out


def _thresholds_of_variances(tiles: Tiles, delta: float) -> Tensor:
    data = tiles.data
    relative = (tiles.of_panels(_mean_fourth_powers) - 1).clamp(min=0) * (math.log(data.n_features) / data.n_samples)
    return delta * data.variance * relative.sqrt()


def _mean_fourth_powers(data: Observations) -> Tensor:
    """Return the mean over samples of each feature's fourth power (for F values: of their mean square, squared)."""
    means = torch.empty(data.n_features, dtype=torch.float64, device=data.Z.device)
    for a in range(0, data.n_features, _ROWS):
        part = data.Z[a : min(a + _ROWS, data.n_features), : len(data.weight) * data.n_values].double() ** 2
        per_sample = part.view(len(part), -1, data.n_values).mean(2)
        means[a : a + _ROWS] = (per_sample**2 / data.weight).mean(1)
    return means


# -- pairs near the diagonal ----------------------------------------------------------------------


def near_diagonal(tiles: Tiles, width: int, weights: Callable[[Tensor], Tensor]) -> TiledCovariance:
    """Return the covariances of features at most ``width`` apart, multiplied by weights of their distance."""
    data, n = tiles.data, tiles.data.n_features
    width = min(width, n - 1)
    check_room(n * width, tiles.limit)
    height = max(_LEAST_ROWS, width)
    counts = torch.zeros(n, dtype=torch.int64, device=tiles.device)
    columns, values = [], []
    for a in range(0, n, height):
        b = min(a + height, n)
        end = min(b + width, n)
        products = data.Z[a:b] @ data.Z[a:end].T
        rows = torch.arange(a, b, device=tiles.device)[:, None]
        distance = torch.arange(a, end, device=tiles.device) - rows
        inside = (distance > 0) & (distance <= width)
        kept = torch.where(inside, products * weights(distance.clamp(min=0)).float(), 0.0)
        row, column = kept.nonzero(as_tuple=True)
        counts[a:b] = torch.bincount(row, minlength=b - a)
        columns.append((column + a).int())
        values.append(kept[row, column])
    return sparse_covariance(tiles, Pairs(counts, torch.cat(columns), torch.cat(values)), data.variance)


# -- random pairs ---------------------------------------------------------------------------------


def slope(tiles: Tiles, density: float | None, max_over: str) -> float:
    """Return the slope of ACV's probabilities, per unit of covariance; see :func:`svnn.functional.acv_slope`."""
    if density is not None:
        return _slope_for_density(tiles, density) / tiles.data.scale
    if max_over == "all":
        return slope_for_maximum(float(tiles.data.variance.max()))
    return slope_for_maximum(float(largest_in_rows(tiles, 1).max()) * tiles.data.scale)


def _slope_for_density(tiles: Tiles, density: float) -> float:
    """Solve ``mean(min(1, a * |product|)) = density`` for ``a``.

    With ``c = 1/a``, the mean falls as c grows. Where it passes the target decides the bin of c.
    """
    n = tiles.data.n_features
    counts, sums = coarse_histogram(tiles)
    target = density * (n * (n - 1) // 2)
    if target >= counts[1:].sum():
        return float("inf")
    above = np.cumsum(counts[::-1])[::-1]  # in this bin and the higher ones
    below = np.concatenate([[0.0], np.cumsum(sums[1:])])  # sums over the lower bins, zeros apart
    edges = bin_edges(np.arange(1, COARSE - 256))  # finite numbers
    clipped = above[1 : len(edges) + 1] + below[: len(edges)] / edges
    here = 1 + int(np.flatnonzero(clipped >= target)[-1])
    values, numbers = fine_histogram(tiles, here, here) if counts[here] else (np.zeros(0), np.zeros(0))
    higher = above[here] - counts[here]
    m = higher + np.concatenate([[0], np.cumsum(numbers)])
    rest = below[here - 1] + np.concatenate([np.cumsum((values * numbers)[::-1])[::-1], [0.0]])
    largest_unclipped = np.append(values, 0.0)
    slopes = (target - m) / np.where(rest > 0, rest, 1)
    right = np.flatnonzero((slopes * largest_unclipped <= 1) & (rest > 0))
    return max(float(slopes[right[0]]), 0.0)


def draw(tiles: Tiles, steepness: float, floor: float, seed: int) -> TiledCovariance:
    """Return the covariance with the pairs that one draw keeps.

    A pair's probability is ``min(1, steepness * |c|)``. Where there is a ``floor``, it is raised to that, and kept
    values are divided by their probabilities.
    """
    per_entry = steepness * tiles.data.scale

    def select(tiles: Tiles, tile: Tile, products: Tensor) -> None:
        row, column = tiles.place(tile)
        if tiles.kernels is not None:
            tiles.kernels.draw(products.numpy(), row, column, per_entry, floor, seed)
            return
        columns = torch.arange(column, column + products.shape[1], device=products.device)
        height = max(_DRAWN // len(columns), 1)
        for a in range(0, len(products), height):
            part = products[a : a + height]
            rows = torch.arange(row + a, row + a + len(part), device=products.device)
            probabilities = (part.abs().double() * per_entry).nan_to_num(0.0).clamp(min=floor)
            part.masked_fill_(pair_uniforms(seed, rows[:, None], columns) >= probabilities, 0)

    pairs = tiles.collect(0.0, select, "draw")
    if floor:
        probabilities = (pairs.values.abs().double() * per_entry).clamp(floor, 1)
        pairs = pairs._replace(values=(pairs.values / probabilities).float())
    return sparse_covariance(tiles, pairs, tiles.data.variance)


# -- significant pairs ----------------------------------------------------------------------------


class Significant(NamedTuple):
    """The covariance of the significant pairs, and their p-values as a symmetric sparse matrix."""

    found: TiledCovariance
    p_values: sp.csr_array


def significant(tiles: Tiles, alpha: float, method: str, degrees: float) -> Significant:
    """Return the pairs that a test of all correlations keeps; ``tiles`` holds correlations.

    A pair counts where its p-value is small enough for its rank. The first pass counts the pairs in narrow bins of
    their magnitudes. That gives the most that the rank of any pair in a bin can be, and so the first bin from which on
    no pair can count. The second pass collects those before it, and their ranks are exact.
    """
    data, scale = tiles.data, tiles.data.scale
    varying = int((data.variance > 0).sum())
    n_tests = varying * (varying - 1) // 2
    level = rejection_level(alpha, method, n_tests)
    if method == "bonferroni":
        lowest = critical_correlation(level, degrees) * (1 - 1e-6)
    else:
        counts, _ = coarse_histogram(tiles)
        occupied = np.flatnonzero(counts)[::-1]
        ranks = counts[occupied].cumsum()  # pairs in a bin and above it
        possible = correlation_p_values(bin_edges(occupied + 1) * scale, degrees) <= level * ranks
        lowest = float(bin_edges(occupied[possible][-1])) * scale if possible.any() else 2.0  # no correlation is
    pairs = tiles.collect(below_number(lowest / scale), what="significant pairs")
    p = correlation_p_values((pairs.values.double() * scale).cpu().numpy(), degrees)
    kept = p <= largest_significant(p, alpha, method, n_tests)
    pairs = pairs.where(torch.from_numpy(kept).to(tiles.device))
    rows, columns = pairs.rows().cpu().numpy(), pairs.columns.cpu().numpy()
    return Significant(
        sparse_covariance(tiles, pairs, data.variance), symmetric_matrix(rows, columns, p[kept], data.n_features)
    )
