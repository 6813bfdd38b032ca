"""The sparsifiers' results from tiles; each function mirrors the dense path of its estimator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from svnn.covariance._assemble import symmetric_matrix, through_scipy
from svnn.covariance._blocked import Select, Tile, Tiles, Upper, collect, kernels
from svnn.covariance._memory import memory_bytes
from svnn.covariance._observations import standardize
from svnn.covariance._sketch import (
    below_number,
    largest_below,
    largest_entries,
    largest_in_rows,
    largest_modulus,
    slope_for_density,
)
from svnn.functional import psd_repair
from svnn.functional.probabilities import slope_for_maximum
from svnn.functional.thresholds import ENTRYWISE, clearly_below, halfway
from svnn.functional.uniforms import pair_uniforms

#: A level is lowered by this share where a second pass must find again what a first one saw.
_ROUNDING = 1e-6
#: Moduli of a row looked at beyond the first that is dropped, since some of them may be tied.
_SPARE = 4
#: Entries whose uniforms torch draws in one go.
_SLICE = 2**21


def prepare(estimator: Any, X: Any, sample_weight: Any, correlation: bool) -> Tiles:
    """Standardise the data, set the estimator's ``location_``, and return the tiles of its covariance."""
    limit = memory_bytes(estimator.memory_limit)
    data = standardize(X, sample_weight, correlation, limit)
    location = data.location.to(data.dtype)
    estimator.location_ = location if data.as_tensor else location.numpy()
    return Tiles(data, limit, bool(estimator.verbose))


def finish(tiles: Tiles, upper: Upper, diagonal: Tensor, psd: str | None) -> Any:
    """Return the sparse matrix, repaired if asked for."""
    data = tiles.data
    matrix = symmetric_matrix(upper, diagonal, data.unit, data.dtype, data.as_tensor)
    return matrix if psd is None else through_scipy(matrix, lambda C: psd_repair(C, psd))


def density(upper: Upper) -> float:
    """Return the share of off-diagonal entries that are not zero."""
    n = len(upper.counts)
    return 2 * len(upper.columns) / (n * (n - 1)) if n > 1 else 0.0


def above_threshold(tiles: Tiles, rule: str, threshold: float) -> Upper:
    """Return the pairs that a threshold (on the scale of the data) leaves, hard or soft."""
    limit = threshold / tiles.data.scale
    return _shrunk(collect(tiles, below_number(limit), what="threshold"), rule, limit)


def at_density(tiles: Tiles, rule: str, kept: int) -> tuple[Upper, float]:
    """Return exactly the ``kept`` largest pairs, and the threshold as ``threshold_for_density`` puts it."""
    found = largest_entries(tiles, kept)
    if math.isinf(found.smallest):
        return found.upper, found.below * tiles.data.scale * (1 + 1e-6)
    limit = halfway(found.below, found.smallest)
    return _shrunk(found.upper, rule, limit), limit * tiles.data.scale


def top_k(tiles: Tiles, rule: str, k: int) -> tuple[Upper, Tensor]:
    """Return the pairs among the ``k`` largest of either feature, and the threshold of each feature."""
    n, n_padded = tiles.data.n_features, tiles.data.Z.shape[0]
    limits = torch.zeros(n_padded, dtype=torch.float32, device=tiles.device)
    if k >= n - 1:
        return collect(tiles, 0.0, what="top k"), limits[:n].double()
    best = largest_in_rows(tiles, k + 1 + _SPARE)
    cut = best[:, -k]
    edge = clearly_below(cut)
    below = torch.where(best < edge[:, None], best, 0).amax(1)
    tied = (best[:, 0] >= edge) & (cut > 0)
    if bool(tied.any()):
        levels = torch.zeros_like(limits)
        levels[:n] = torch.where(tied, edge, 0)
        below = torch.where(tied, largest_below(tiles, levels)[:n], below)
    levels = torch.full_like(limits, float("inf"))
    levels[:n] = cut * (1 - _ROUNDING)
    limits[:n] = halfway(below, cut)
    upper = collect(tiles, levels, what="top k")
    # A pair is seen from both of its rows: rank it in each, the larger first, then the lower column.
    rows, columns = upper.rows().long(), upper.columns.long()
    seen_from, other = torch.cat([rows, columns]), torch.cat([columns, rows])
    order = torch.argsort(other, stable=True)
    order = order[torch.argsort(upper.values.abs().repeat(2)[order], descending=True, stable=True)]
    order = order[torch.argsort(seen_from[order], stable=True)]
    counts = torch.bincount(seen_from, minlength=n)
    rank = torch.arange(len(order), device=order.device) - (torch.cumsum(counts, 0) - counts)[seen_from[order]]
    among = torch.empty_like(rank, dtype=torch.bool)
    among[order] = rank < k
    upper = upper.where(among[: len(rows)] | among[len(rows) :])
    pair = torch.minimum(limits[upper.rows().long()], limits[upper.columns.long()])
    return _shrunk(upper, rule, pair), limits[:n].double() * tiles.data.scale


def adaptive(tiles: Tiles, rule: str, delta: float) -> Upper:
    """Return the pairs that entrywise thresholds leave; see :class:`svnn.covariance.AdaptiveThreshold`."""
    data = tiles.data
    factor = delta**2 * math.log(data.n_features) / data.n_samples

    def select(tile: Tile, products: Tensor) -> Tensor:
        # With r a correlation and s the mean square of the products behind it, the squared threshold is
        # factor * (s - r^2). The score is r^2 minus that.
        score = _mean_squares(tiles, tile).mul_(-factor)
        score.addcmul_(products, products, value=(1 + factor) * data.scale**2)
        products.masked_fill_(score < 0, 0)
        return score

    upper = collect(tiles, 0.0, select, "adaptive threshold")
    assert upper.score is not None
    squares = (upper.values * data.scale) ** 2
    return _shrunk(upper, rule, (squares - upper.score).clamp(min=0).sqrt() / data.scale)


def adaptive_diagonal(tiles: Tiles, delta: float) -> Tensor:
    """Return the adaptive thresholds of the variances."""
    data = tiles.data
    means = torch.empty_like(data.variance)
    for a in range(0, data.n_features, tiles.height):
        part = data.Z[a : min(a + tiles.height, data.n_features), : len(data.weight) * data.n_values].double() ** 2
        per_sample = part.view(len(part), -1, data.n_values).mean(2)
        means[a : a + tiles.height] = (per_sample**2 / data.weight).mean(1)
    relative = (means - 1).clamp(min=0) * (math.log(data.n_features) / data.n_samples)
    return delta * data.variance * relative.sqrt()


def slope(tiles: Tiles, density: float | None, max_over: str) -> float:
    """Return the slope of ACV's probabilities, per unit of covariance."""
    if density is not None:
        return slope_for_density(tiles, density) / tiles.data.scale
    return slope_for_maximum(
        float(tiles.data.variance.max()) if max_over == "all" else largest_modulus(tiles) * tiles.data.scale
    )


def realisation(tiles: Tiles, steepness: float, floor: float, seed: int) -> Upper:
    """Return the pairs that one draw keeps; with a ``floor``, values are divided by their probabilities."""
    per_entry = steepness * tiles.data.scale
    upper = collect(tiles, 0.0, _drawing(tiles, per_entry, floor, seed), "draw")
    if not floor:
        return upper
    probabilities = (upper.values.abs().double() * per_entry).clamp(floor, 1)
    return upper._replace(values=(upper.values / probabilities).float())


def _drawing(tiles: Tiles, per_entry: float, floor: float, seed: int) -> Select:
    compiled = kernels() if tiles.device.type == "cpu" else None

    def select(tile: Tile, products: Tensor) -> None:
        if compiled:
            compiled.draw(products.numpy(), tile.row, tile.column, per_entry, floor, seed)
            return
        columns = torch.arange(tile.column, tile.end_column, device=products.device)
        height = max(_SLICE // len(columns), 1)
        for a in range(0, len(products), height):
            part = products[a : a + height]
            rows = torch.arange(tile.row + a, tile.row + a + len(part), device=products.device)
            probabilities = (part.abs().double() * per_entry).nan_to_num(0.0).clamp(min=floor)
            part.masked_fill_(pair_uniforms(seed, rows[:, None], columns) >= probabilities, 0)

    return select


def _mean_squares(tiles: Tiles, tile: Tile) -> Tensor:
    """Return the mean over samples of the squared products (for F values: of their mean over the values)."""
    data = tiles.data
    left, right = data.Z[tile.row : tile.end_row], data.Z[tile.column : tile.end_column]
    out, t = tiles.buffer("squares", tile.shape), len(data.weight)
    if data.n_values == 1:
        # The weight is in Z as its root, so Z^2 has it as it should be in the product.
        scaling = (data.weight * t) ** -0.5
        a = torch.mul(left[:, :t], left[:, :t], out=tiles.buffer("left", (len(left), t))).mul_(scaling)
        b = torch.mul(right[:, :t], right[:, :t], out=tiles.buffer("right", (len(right), t))).mul_(scaling)
        return torch.mm(a, b.T, out=out)
    out.zero_()
    part = tiles.buffer("sample", tile.shape)
    for k, weight in enumerate((data.weight * t).tolist()):
        values = slice(k * data.n_values, (k + 1) * data.n_values)
        torch.mm(left[:, values], right[:, values].T, out=part)
        out.addcmul_(part, part, value=1 / (weight * data.n_values**2))
    return out


def _shrunk(upper: Upper, rule: str, limit: Any) -> Upper:
    """Apply a rule to the entries that survived, and drop those that it sets to zero."""
    if rule == "hard":
        return upper
    values = ENTRYWISE[rule](torch, upper.values, limit)
    upper = upper._replace(values=values)
    kept = values != 0
    return upper if bool(kept.all()) else upper.where(kept)
