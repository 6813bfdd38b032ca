"""Random dropping from tiles: the probabilities of ACV, and the pairs that one draw keeps."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from svnn.covariance.tiles._order_statistics import COARSE, bin_edges, coarse_histogram, fine_histogram, largest_of_all
from svnn.covariance.tiles._products import Found, Tile, Tiles, collect, result
from svnn.functional.masks import pair_uniforms, slope_for_maximum

#: Entries whose uniform numbers torch draws in one go.
_SLICE = 2**21


def slope(tiles: Tiles, density: float | None, max_over: str) -> float:
    """Return the slope of ACV's probabilities, per unit of covariance; see :func:`svnn.functional.acv_slope`."""
    if density is not None:
        return _slope_for_density(tiles, density) / tiles.data.scale
    if max_over == "all":
        return slope_for_maximum(float(tiles.data.variance.max()))
    return slope_for_maximum(largest_of_all(tiles) * tiles.data.scale)


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


def draw(tiles: Tiles, steepness: float, floor: float, seed: int) -> Found:
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
        height = max(_SLICE // len(columns), 1)
        for a in range(0, len(products), height):
            part = products[a : a + height]
            rows = torch.arange(row + a, row + a + len(part), device=products.device)
            probabilities = (part.abs().double() * per_entry).nan_to_num(0.0).clamp(min=floor)
            part.masked_fill_(pair_uniforms(seed, rows[:, None], columns) >= probabilities, 0)

    pairs = collect(tiles, 0.0, select, "draw")
    if floor:
        probabilities = (pairs.values.abs().double() * per_entry).clamp(floor, 1)
        pairs = pairs._replace(values=(pairs.values / probabilities).float())
    return result(tiles, pairs, tiles.data.variance)
