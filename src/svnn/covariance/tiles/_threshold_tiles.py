"""Thresholds that keep a number of pairs, and thresholds of each pair's own, from tiles.

Each function gives what the estimator of the same purpose makes of the N×N matrix where there is one.
"""

from __future__ import annotations

import math
from functools import singledispatch

import torch
from torch import Tensor

from svnn.covariance.tiles._order_statistics import largest_below, largest_entries, largest_of_rows
from svnn.covariance.tiles._products import Found, Pairs, Tile, Tiles, collect, result
from svnn.functional.thresholds import ENTRYWISE, clearly_below, halfway

#: A level is lowered by this share where a second pass must find again what a first one saw.
_ROUNDING = 1e-6
#: Values of a row looked at beyond the first that is dropped, since some of them may be tied.
_SPARE = 4


def at_density(tiles: Tiles, rule: str, kept: int, keep_diagonal: bool = True) -> Found:
    """Return the covariance with exactly the ``kept`` largest pairs; the threshold is ``threshold_for_density``'s."""
    scale, largest = tiles.data.scale, largest_entries(tiles, kept)
    pairs = largest.pairs
    if math.isinf(largest.smallest):
        threshold = largest.below * scale * (1 + 1e-6)
    else:
        limit = halfway(largest.below, largest.smallest)
        threshold = limit * scale
        pairs = pairs if rule == "hard" else pairs.shrunk(rule, limit)
    return result(tiles, pairs, _diagonal(tiles, rule, threshold, keep_diagonal), threshold)


def top_k(tiles: Tiles, rule: str, k: int, keep_diagonal: bool = True) -> Found:
    """Return the covariance with the pairs among the ``k`` largest of either feature; each feature has a threshold."""
    n, n_padded = tiles.data.n_features, tiles.data.Z.shape[0]
    limits = torch.zeros(n_padded, dtype=torch.float32, device=tiles.device)
    if k >= n - 1:
        pairs = collect(tiles, 0.0, what="top k")
    else:
        best, known = largest_of_rows(tiles, k + 1 + _SPARE)
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
        pairs = collect(tiles, levels, what="top k") if known is None else _above(known, levels)
        if _some_tied(pairs, levels, k):
            pairs = _ranked(pairs, k)
        if rule != "hard":
            pairs = pairs.shrunk(rule, torch.minimum(limits[pairs.rows().long()], limits[pairs.columns.long()]))
    threshold = limits[:n].double() * tiles.data.scale
    return result(tiles, pairs, _diagonal(tiles, rule, threshold, keep_diagonal), threshold)


def _above(pairs: Pairs, levels: Tensor) -> Pairs:
    """Return the pairs above the smaller one of their two levels."""
    return pairs.where(pairs.values.abs() > torch.minimum(levels[pairs.rows().long()], levels[pairs.columns.long()]))


def _some_tied(pairs: Pairs, levels: Tensor, k: int) -> bool:
    """Tell whether a feature has more than ``k`` pairs above its level: some of them are equal up to rounding."""
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


def adaptive(tiles: Tiles, rule: str, delta: float, keep_diagonal: bool = True) -> Found:
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

    pairs = collect(tiles, 0.0, select, "adaptive threshold")
    if rule != "hard":
        assert pairs.score is not None
        squares = (pairs.values * data.scale) ** 2
        pairs = pairs.shrunk(rule, (squares - pairs.score).clamp(min=0).sqrt() / data.scale)
    threshold = 0.0 if keep_diagonal else _thresholds_of_variances(tiles, delta)
    return result(tiles, pairs, _diagonal(tiles, rule, threshold, keep_diagonal))


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
    relative = (mean_fourth_powers(tiles) - 1).clamp(min=0) * (math.log(data.n_features) / data.n_samples)
    return delta * data.variance * relative.sqrt()


@singledispatch
def mean_fourth_powers(tiles: Tiles) -> Tensor:
    """Return the mean over samples of each feature's fourth power (for F values: of their mean square, squared)."""
    data = tiles.data
    means = torch.empty(data.n_features, dtype=torch.float64, device=tiles.device)
    for a in range(0, data.n_features, tiles.height):
        part = data.Z[a : min(a + tiles.height, data.n_features), : len(data.weight) * data.n_values].double() ** 2
        per_sample = part.view(len(part), -1, data.n_values).mean(2)
        means[a : a + tiles.height] = (per_sample**2 / data.weight).mean(1)
    return means
