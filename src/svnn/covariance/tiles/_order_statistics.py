"""The largest of all pairs, exactly, in few passes over the tiles.

Pairs are compared by their magnitudes, the absolute values of their products. A first pass counts the magnitudes by the
upper 16 of their bits, in bins that are never wider than 1/128 of their values. A second one, where it is needed,
counts those in one or two bins by the other bits. Then each bin holds a single number, so the results are exact.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn._types import AnyArray, FloatArray, IntArray
from svnn.covariance.tiles._tiles import Fold, Pairs, Tile, Tiles, below_number, check_room
from svnn.functional.thresholds import clearly_below

#: Numbers of bins of the first and of the second pass.
COARSE, _FINE = 2**16, 2**15
#: Entries looked at in one go with torch; bounds what it needs beside the tile.
_SLICE = 2**22
#: Candidates collected beyond those to keep, before a second pass is better.
_SPARE = 2**20
_NONE = np.zeros(0)


class Kept(NamedTuple):
    """The largest pairs, the smallest of their magnitudes, and the largest magnitude clearly below it."""

    pairs: Pairs
    smallest: float
    below: float


def largest_entries(tiles: Tiles, kept: int) -> Kept:
    """Return exactly the ``kept`` largest pairs; ties are broken in row order."""
    n = tiles.data.n_features
    quick = tiles.fast_largest(kept)
    if quick is not None:
        return quick
    if kept == n * (n - 1) // 2:
        return Kept(tiles.collect(0.0), 0.0, 0.0)
    check_room(kept, tiles.limit)
    counts, _ = coarse_histogram(tiles)
    occupied = np.flatnonzero(counts)[::-1]
    reached = np.cumsum(counts[occupied])
    first = int(np.searchsorted(reached, kept)) if kept else 0
    next_one = min(first + 1, len(occupied) - 1)  # holds the largest magnitude below the cut
    low = int(occupied[next_one])
    level, smaller = below_number(float(bin_edges(low))), _NONE
    candidates = reached[next_one] if low > 0 else reached[next_one] - counts[0]
    if candidates > kept + max(kept // 4, _SPARE):
        # Many equal magnitudes: find the cut before collecting.
        values, numbers = fine_histogram(tiles, low, int(occupied[first]))
        above = int(reached[first] - counts[occupied[first]])
        cut = int(np.searchsorted(above + np.cumsum(numbers), max(kept, 1)))
        level, smaller = below_number(float(values[cut])), values[cut + 1 :]
    return cut_at(tiles, tiles.collect(level), kept, level, smaller)


def cut_at(tiles: Tiles, pairs: Pairs, kept: int, level: float, smaller: np.ndarray = _NONE) -> Kept:
    """Return the ``kept`` largest of pairs that are all those above ``level``; ``smaller`` are magnitudes below it."""
    magnitudes = pairs.values.abs()
    if len(magnitudes) < kept:  # the others are zero
        return Kept(pairs, 0.0, 0.0)
    if kept == 0:
        return Kept(pairs.where(magnitudes < 0), float("inf"), _largest(magnitudes))
    smallest = float(torch.kthvalue(magnitudes, len(magnitudes) - kept + 1).values)
    mask, tied = magnitudes > smallest, magnitudes == smallest
    mask |= tied & (torch.cumsum(tied, 0) <= kept - mask.sum())
    edge = clearly_below(smallest)
    below = max(_largest(magnitudes[magnitudes < edge]), _largest(smaller[smaller < edge]))
    if below == 0 and level > 0:
        below = float(largest_below(tiles, torch.full((len(tiles.data.Z),), edge, device=tiles.device)).max())
    return Kept(pairs.where(mask), smallest, below)


def _largest(magnitudes: AnyArray) -> float:
    return float(magnitudes.max()) if len(magnitudes) else 0.0


# -- the largest of each feature ------------------------------------------------------------------


def largest_in_rows(tiles: Tiles, k: int) -> Tensor:
    """Return the ``k`` largest magnitudes of each feature's pairs, ascending, in an array of shape (N, k)."""
    question = Fold(partial(_no_largest, k), _enter, _largest_of, "largest of each row", True)
    best: Tensor = tiles.fold(question)[: tiles.data.n_features]
    return best


def _no_largest(k: int, tiles: Tiles) -> Tensor:
    n = len(tiles.data.Z)
    tiles.buffer("smallest", (1, n)).zero_()
    return torch.zeros((n, k), dtype=torch.float32, device=tiles.device)


def _enter(tiles: Tiles, tile: Tile, best: Tensor) -> None:
    """Replace the largest magnitudes of rows and columns by those in a tile where these are larger."""
    products = tiles.products(tile)
    if tiles.kernels is not None:
        heaps, smallest = best.view(torch.int32).numpy(), tiles.buffer("smallest", (1, len(best))).view(torch.int32)
        tiles.kernels.largest(products.view(torch.int32).numpy(), tile.row, tile.column, heaps, smallest[0].numpy())
        return
    k, magnitudes = best.shape[1], products.abs_()
    for dim, a, b in ((1, tile.row, tile.end_row), (0, tile.column, tile.end_column)):
        new = torch.topk(magnitudes, min(k, magnitudes.shape[dim]), dim=dim).values
        both = torch.cat([best[a:b], new if dim == 1 else new.T], 1)
        best[a:b] = torch.topk(both, k, dim=1).values


def _largest_of(parts: list[Tensor]) -> Tensor:
    """Return the largest values of each row, ascending, as many as each part has."""
    best, k = parts[0], parts[0].shape[1]
    for other in parts[1:]:
        best = torch.topk(torch.cat([best, other], 1), k, dim=1).values
    return torch.sort(best, dim=1).values


def largest_below(tiles: Tiles, levels: Tensor) -> Tensor:
    """Return the largest magnitude of each feature's pairs that is below its level, 0 where there is none."""
    question = Fold(partial(_no_largest, 1), _enter_below, _largest_of, "values below the cut", True)
    best: Tensor = tiles.fold(question, levels)[:, 0]
    return best


def _enter_below(tiles: Tiles, tile: Tile, best: Tensor, levels: Tensor) -> None:
    magnitudes = tiles.products(tile).abs_()
    for dim, a, b in ((1, tile.row, tile.end_row), (0, tile.column, tile.end_column)):
        below = magnitudes < (levels[a:b, None] if dim else levels[a:b])
        best[a:b, 0] = torch.maximum(best[a:b, 0], (magnitudes * below).amax(dim))


# -- counts ---------------------------------------------------------------------------------------


def bin_edges(bins: IntArray | int) -> FloatArray:
    """Return the smallest numbers of bins."""
    # Both of 32 bits: before numpy 2 a single number shifted by a plain 15 has 64.
    return np.left_shift(np.asarray(bins, dtype=np.uint32), np.uint32(15)).view(np.float32).astype(np.float64)


def coarse_histogram(tiles: Tiles) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and the sums of the magnitudes in each bin."""
    counts, sums = tiles.fold(Fold(_no_counts, _count, _added, "histogram"))
    n = tiles.data.n_features
    # What lies below the diagonal and beyond the features counts as zero; take it out.
    counts[0] = n * (n - 1) // 2 - counts[1:].sum()
    return counts, sums


def _no_counts(tiles: Tiles) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(COARSE, dtype=np.int64), np.zeros(COARSE)


def _count(tiles: Tiles, tile: Tile, state: tuple[np.ndarray, np.ndarray]) -> None:
    (counts, sums), products = state, tiles.products(tile)
    if tiles.kernels is not None:
        tiles.kernels.histogram(products.numpy(), products.view(torch.int32).numpy(), counts, sums)
        return
    for part in products.view(-1).split(_SLICE):
        bins = (part.view(torch.int32) & 0x7FFFFFFF) >> 15
        counts += torch.bincount(bins, minlength=COARSE).cpu().numpy()
        sums += torch.bincount(bins, part.abs().double(), minlength=COARSE).cpu().numpy()


def _added(states: list[Any]) -> tuple[np.ndarray, ...]:
    return tuple(np.sum(same, axis=0) for same in zip(*states, strict=True))


def fine_histogram(tiles: Tiles, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the magnitudes in two bins, descending, and how often each occurs."""
    question = Fold(_no_fine, partial(_count_fine, (low, high)), _added, "histogram of the cut")
    counts = np.stack(tiles.fold(question))
    if low == high:
        counts[1] = 0  # one bin: with the kernels the first slot has it, with torch both
    bits = (np.array([[low], [high]], dtype=np.uint32) << 15) + np.arange(_FINE, dtype=np.uint32)
    occurs = counts > 0
    order = np.argsort(-bits[occurs].astype(np.int64))
    return bits[occurs][order].view(np.float32).astype(np.float64), counts[occurs][order]


def _no_fine(tiles: Tiles) -> np.ndarray:
    return np.zeros((2, _FINE), dtype=np.int64)


def _count_fine(bins: tuple[int, int], tiles: Tiles, tile: Tile, counts: np.ndarray) -> None:
    products = tiles.products(tile)
    if tiles.kernels is not None:
        tiles.kernels.histogram_inside(products.view(torch.int32).numpy(), *bins, counts)
        return
    for part in products.view(-1).split(_SLICE):
        bits = part.view(torch.int32) & 0x7FFFFFFF
        for slot, bin_ in enumerate(bins):
            inside = bits[bits >> 15 == bin_] & (_FINE - 1)
            counts[slot] += torch.bincount(inside, minlength=_FINE).cpu().numpy()
