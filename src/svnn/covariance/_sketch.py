"""Order statistics of the moduli of all pairs, in few passes over the tiles.

A first pass counts the moduli by the upper 16 of their bits: bins that are never wider than 1/128 of
their values. A second one, where it is needed, counts those in one or two bins by the other bits,
after which each bin holds a single number. So the results are exact.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn.covariance._blocked import Tile, Tiles, Upper, check_room, collect, kernels
from svnn.functional.thresholds import clearly_below

_COARSE, _FINE = 2**16, 2**15
#: Entries looked at in one go with torch; bounds what it needs beside the tile.
_SLICE = 2**22
#: Candidates collected beyond those to keep, before a second pass is better.
_SPARE = 2**20


class Kept(NamedTuple):
    """The largest pairs, the smallest of their moduli, and the largest modulus clearly below it."""

    upper: Upper
    smallest: float
    below: float


def largest_entries(tiles: Tiles, kept: int) -> Kept:
    """Return exactly the ``kept`` largest pairs; ties are broken in row order."""
    n = tiles.data.n_features
    pairs = n * (n - 1) // 2
    if kept == pairs:
        return Kept(collect(tiles, 0.0), 0.0, 0.0)
    check_room(kept, tiles.limit)
    counts, _ = _coarse(tiles)
    occupied = np.flatnonzero(counts)[::-1]
    reached = np.cumsum(counts[occupied])
    first = int(np.searchsorted(reached, kept)) if kept else 0
    next_one = min(first + 1, len(occupied) - 1)  # holds the largest modulus below the cut
    low = int(occupied[next_one])
    level, smaller = below_number(_edge(low)), np.zeros(0)
    candidates = reached[next_one] if low > 0 else reached[next_one] - counts[0]
    if candidates > kept + max(kept // 4, _SPARE):
        # Many equal moduli: find the cut before collecting.
        values, numbers = _fine(tiles, low, int(occupied[first]))
        above = int(reached[first] - counts[occupied[first]])
        cut = int(np.searchsorted(above + np.cumsum(numbers), max(kept, 1)))
        level, smaller = below_number(float(values[cut])), values[cut + 1 :]
    upper = collect(tiles, level)
    moduli = upper.values.abs()
    if len(moduli) < kept:  # the others are zero
        return Kept(upper, 0.0, 0.0)
    if kept == 0:
        return Kept(upper.where(moduli < 0), float("inf"), _largest(moduli))
    smallest = float(torch.kthvalue(moduli, len(moduli) - kept + 1).values)
    mask, tied = moduli > smallest, moduli == smallest
    mask |= tied & (torch.cumsum(tied, 0) <= kept - mask.sum())
    edge = clearly_below(smallest)
    below = max(_largest(moduli[moduli < edge]), _largest(smaller[smaller < edge]))
    if below == 0 and level > 0:
        below = float(largest_below(tiles, torch.full_like(tiles.data.Z[:, 0], edge)).max())
    return Kept(upper.where(mask), smallest, below)


def slope_for_density(tiles: Tiles, density: float) -> float:
    """Solve ``mean(min(1, a * moduli)) = density`` for ``a``; see :func:`svnn.functional.acv_slope`.

    With ``c = 1/a``, the mean falls as c grows. Where it passes the target decides the bin of c.
    """
    n = tiles.data.n_features
    counts, sums = _coarse(tiles)
    target = density * (n * (n - 1) // 2)
    if target >= counts[1:].sum():
        return float("inf")
    above = np.cumsum(counts[::-1])[::-1]  # in this bin and the higher ones
    below = np.concatenate([[0.0], np.cumsum(sums[1:])])  # sums over the lower bins, zeros apart
    edges = _edge(np.arange(1, _COARSE - 256))  # finite numbers
    clipped = above[1 : len(edges) + 1] + below[: len(edges)] / edges
    here = 1 + int(np.flatnonzero(clipped >= target)[-1])
    values, numbers = _fine(tiles, here, here) if counts[here] else (np.zeros(0), np.zeros(0))
    higher = above[here] - counts[here]
    m = higher + np.concatenate([[0], np.cumsum(numbers)])
    rest = below[here - 1] + np.concatenate([np.cumsum((values * numbers)[::-1])[::-1], [0.0]])
    largest_unclipped = np.append(values, 0.0)
    slopes = (target - m) / np.where(rest > 0, rest, 1)
    right = np.flatnonzero((slopes * largest_unclipped <= 1) & (rest > 0))
    return max(float(slopes[right[0]]), 0.0)


def largest_in_rows(tiles: Tiles, k: int) -> Tensor:
    """Return the ``k`` largest moduli of each feature's pairs, ascending, in an array of shape (N, k)."""
    compiled = kernels() if tiles.device.type == "cpu" else None
    n, local, bests = tiles.data.Z.shape[0], threading.local(), []

    def visit(panel: list[Tile]) -> None:
        if not hasattr(local, "best"):  # one for each thread, since every panel changes all columns
            local.best = torch.zeros((n, k), dtype=torch.float32, device=tiles.device)
            local.smallest = np.zeros(n, dtype=np.int32)
            bests.append(local.best)
        for tile in panel:
            products = tiles.products(tile)
            if compiled:
                heaps = local.best.view(torch.int32).numpy()
                compiled.largest(products.view(torch.int32).numpy(), tile.row, tile.column, heaps, local.smallest)
            else:
                _enter(products.abs_(), tile, local.best)

    for _ in tiles.each_panel(visit, "largest of each row"):
        pass
    best = bests[0]
    for other in bests[1:]:
        best = torch.topk(torch.cat([best, other], 1), k, dim=1).values
    return torch.sort(best[: tiles.data.n_features], dim=1).values


def _enter(moduli: Tensor, tile: Tile, best: Tensor) -> None:
    """Replace the largest moduli of rows and columns by those in a tile where these are larger."""
    k = best.shape[1]
    for dim, a, b in ((1, tile.row, tile.end_row), (0, tile.column, tile.end_column)):
        new = torch.topk(moduli, min(k, moduli.shape[dim]), dim=dim).values
        both = torch.cat([best[a:b], new if dim == 1 else new.T], 1)
        best[a:b] = torch.topk(both, k, dim=1).values


def largest_below(tiles: Tiles, levels: Tensor) -> Tensor:
    """Return the largest modulus of each feature's pairs that is below its level, 0 where there is none."""

    def visit(panel: list[Tile]) -> Tensor:
        best = torch.zeros_like(levels)
        for tile in panel:
            moduli = tiles.products(tile).abs_()
            for dim, a, b in ((1, tile.row, tile.end_row), (0, tile.column, tile.end_column)):
                below = moduli < (levels[a:b, None] if dim else levels[a:b])
                best[a:b] = torch.maximum(best[a:b], (moduli * below).amax(dim))
        return best

    best = torch.zeros_like(levels)
    for part in tiles.each_panel(visit, "values below the cut"):
        best = torch.maximum(best, part)
    return best


def largest_modulus(tiles: Tiles) -> float:
    """Return the largest modulus of all pairs."""

    def largest(panel: list[Tile]) -> Tensor:
        ends = [torch.stack(torch.aminmax(tiles.products(tile))) for tile in panel]
        return torch.stack(ends).abs().max()

    return max(map(float, list(tiles.each_panel(largest, "largest entry"))))


def below_number(number: float) -> float:
    """Return the largest float32 that is not negative and smaller than ``number``: then ``>`` means ``>=``.

    Examples
    --------
    >>> below_number(1.0) < 1.0, below_number(0.0)
    (True, 0.0)
    """
    rounded = np.float32(number)
    return float(rounded) if rounded < number else max(float(np.nextafter(rounded, np.float32(-1))), 0.0)


def _largest(moduli: Any) -> float:
    return float(moduli.max()) if len(moduli) else 0.0


def _edge(bins: Any) -> Any:
    """Return the smallest numbers of bins."""
    # Both of 32 bits: before numpy 2 a single number shifted by a plain 15 has 64.
    edges = np.left_shift(np.asarray(bins, dtype=np.uint32), np.uint32(15)).view(np.float32).astype(np.float64)
    return edges if edges.ndim else float(edges)


def _coarse(tiles: Tiles) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and the sums of the moduli in each bin."""
    compiled = kernels() if tiles.device.type == "cpu" else None

    def histogram(panel: list[Tile]) -> tuple[np.ndarray, np.ndarray]:
        counts, sums = np.zeros(_COARSE, dtype=np.int64), np.zeros(_COARSE)
        for tile in panel:
            products = tiles.products(tile)
            if compiled:
                compiled.histogram(products.numpy(), products.view(torch.int32).numpy(), counts, sums)
                continue
            for part in products.view(-1).split(_SLICE):
                bins = (part.view(torch.int32) & 0x7FFFFFFF) >> 15
                counts += torch.bincount(bins, minlength=_COARSE).cpu().numpy()
                sums += torch.bincount(bins, part.abs().double(), minlength=_COARSE).cpu().numpy()
        return counts, sums

    counts, sums = np.zeros(_COARSE, dtype=np.int64), np.zeros(_COARSE)
    for more in tiles.each_panel(histogram, "histogram"):
        counts, sums = counts + more[0], sums + more[1]
    n = tiles.data.n_features
    # What lies below the diagonal and beyond the features counts as zero; take it out.
    counts[0] = n * (n - 1) // 2 - counts[1:].sum()
    return counts, sums


def _fine(tiles: Tiles, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the moduli in two bins, descending, and how often each occurs."""
    compiled = kernels() if tiles.device.type == "cpu" else None

    def histogram(panel: list[Tile]) -> np.ndarray:
        counts = np.zeros((2, _FINE), dtype=np.int64)
        for tile in panel:
            products = tiles.products(tile)
            if compiled:
                compiled.histogram_inside(products.view(torch.int32).numpy(), low, high, counts)
                continue
            for part in products.view(-1).split(_SLICE):
                bits = part.view(torch.int32) & 0x7FFFFFFF
                for slot, bin_ in enumerate((low, high)):
                    inside = bits[bits >> 15 == bin_] & (_FINE - 1)
                    counts[slot] += torch.bincount(inside, minlength=_FINE).cpu().numpy()
        return counts

    counts = np.zeros((2, _FINE), dtype=np.int64)
    for more in tiles.each_panel(histogram, "histogram of the cut"):
        counts += more
    if low == high:
        counts[1] = 0  # one bin: with the kernels the first slot has it, with torch both
    bits = (np.array([[low], [high]], dtype=np.uint32) << 15) + np.arange(_FINE, dtype=np.uint32)
    occurs = counts > 0
    order = np.argsort(-bits[occurs].astype(np.int64))
    return bits[occurs][order].view(np.float32).astype(np.float64), counts[occurs][order]
