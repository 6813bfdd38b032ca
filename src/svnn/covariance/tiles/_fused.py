"""Tiles on a GPU that are never written: one kernel multiplies and keeps what is large.

The kernel multiplies in float16, which is fast. The error of such a product has a bound, and all that may exceed its
level given that bound is multiplied again in float32. So the result is that of float32 throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import torch
from torch import Tensor

from svnn._progress import progress
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._order_statistics import Kept, cut_at, largest_entries
from svnn.covariance.tiles._products import Pairs, Select, Tiles, check_room, collect, held, panels_above
from svnn.covariance.tiles._without_kernels import collect_torch

#: Rows, columns and depth of a program's tile, row tiles that run side by side, warps, and loads in flight.
_ROWS, _COLUMNS, _DEPTH, _GROUP, _WARPS, _STAGES = 128, 128, 64, 16, 4, 3
#: Features are padded to a multiple of this.
STEP = 128
#: Products that are multiplied, and candidates that are listed, before the host looks.
_PANEL = 2**33
_ROOM, _LEAST_ROOM = 2**24, 2**14
#: A level must be so many times the error of a product of two features of mean size, or plain torch does it better.
_CLEAR = 4.0
#: A level is lowered by this share, so that what is equal up to rounding is listed.
ROUNDING = 1e-6
#: Levels that are tried.
_TRIES = 12
#: Features whose pairs are a sample of all, and pairs of the sample above a level that make it a good guess.
_SAMPLE, _ENOUGH = 16384, 256
#: First row, end, first column, end of a rectangle of products.
Area: TypeAlias = tuple[int, int, int, int]


@cache
def kernels() -> Any:
    """Return the kernels, or None where there is no Triton."""
    try:
        return import_module("svnn.covariance.tiles._fused_kernels")
    except ImportError:
        return None


def can_fuse(device: torch.device) -> bool:
    """Tell whether the kernels run on a device: an NVIDIA GPU with tensor cores for float16, and Triton."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0) and kernels() is not None


class FusedTiles(Tiles):
    """Tiles whose large entries are found without writing the others.

    Attributes
    ----------
    half : Tensor
        The features in float16, all with the mean square one, padded to whole tiles.
    sizes : Tensor
        What ``half`` was divided by: the roots of the mean squares.
    slack : float
        Bound of the error of a product in float16.
    """

    def __init__(self, data: Observations, limit: int, verbose: bool = False) -> None:
        super().__init__(data, limit, verbose)
        Z = data.Z
        n, depth = -(-len(Z) // STEP) * STEP, -(-Z.shape[1] // _DEPTH) * _DEPTH
        self.half = torch.zeros((n, depth), dtype=torch.float16, device=Z.device)
        self.sizes = torch.zeros(n, dtype=torch.float32, device=Z.device)
        root, worst = Z.shape[1] ** 0.5, torch.zeros((), device=Z.device)
        for a in range(0, len(Z), 2**16):
            part = Z[a : a + 2**16]
            half = self.half[a : a + len(part), : Z.shape[1]]
            self.sizes[a : a + len(part)] = size = torch.linalg.vector_norm(part, dim=1) / root
            part = part * torch.where(size > 0, 1 / size, 0.0)[:, None]
            half.copy_(part)
            worst = torch.maximum(worst, torch.linalg.vector_norm(part.sub_(half), dim=1).max())
        rounding = float(worst) / root * (1 + 1e-5) + 2.0**-22
        # Both factors are rounded. Then come sums of four products or more, which tensor cores truncate to float32.
        self.slack = (2 * rounding + rounding**2 + depth / 4 * 2.0**-22) * Z.shape[1]

    def is_clear(self, level: float) -> bool:
        """Tell whether a level stands out from the errors of products in float16."""
        mean = float((self.sizes.sum() / torch.count_nonzero(self.sizes).clamp(min=1)) ** 2)
        return level > _CLEAR * self.slack * mean

    def limits(self, level: float | Tensor) -> Tensor:
        """Return the level of each padded feature; nothing exceeds that of a padded one."""
        out = torch.full((len(self.half),), float("inf"), device=self.device)
        out[: self.data.n_features] = level if isinstance(level, float) else level[: self.data.n_features]
        return out

    def launch(self, kernel: Any, limits: Tensor, area: Area, *lists: Any) -> None:
        """Run a kernel on the part of an area that lies above the diagonal."""
        row, end_row, column, end_column = area
        rows, columns = end_row - row, end_column - column
        kernel[(rows // _ROWS * (columns // _COLUMNS),)](
            *(self.half, limits, self.sizes, self.slack, row, column, rows, columns, self.half.shape[1], *lists),
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
            DEPTH=_DEPTH,
            GROUP=_GROUP,
            ON_DIAGONAL=column < end_row,
            num_warps=_WARPS,
            num_stages=_STAGES,
        )

    def exact(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the products of pairs in float32."""
        Z, values = self.data.Z, torch.empty(len(rows), dtype=torch.float32, device=self.device)
        if len(rows):
            grid = (-(-len(rows) // 16),)
            kernels().multiply_again[grid](Z, Z.shape[1], len(rows), rows, columns, values, PAIRS=16, DEPTH=64)
        return values


class _Candidates:
    """Room for the pairs that a kernel lists."""

    def __init__(self, tiles: FusedTiles) -> None:
        self.tiles = tiles
        self.found = torch.zeros((), dtype=torch.int64, device=tiles.device)
        self._make(min(_ROOM, max(tiles.limit // 64, _LEAST_ROOM)))

    def _make(self, room: int) -> None:
        self.rows = self.columns = torch.empty(0)  # gives the memory back first
        self.rows = torch.empty(room, dtype=torch.int32, device=self.tiles.device)
        self.columns = torch.empty_like(self.rows)

    def of(self, area: Area, limits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows, columns and products of the pairs in an area that exceed the smaller of their levels."""
        while True:
            self.found.zero_()
            self.tiles.launch(kernels().list_pairs, limits, area, self.found, len(self.rows), self.rows, self.columns)
            number = int(self.found)  # the host waits here
            if number <= len(self.rows):
                break
            check_room(number // 4, self.tiles.limit)  # those that survive are fewer
            self._make(number + number // 4)
        rows, columns = self.rows[:number], self.columns[:number]
        values = self.tiles.exact(rows, columns)
        kept = values.abs() > torch.minimum(limits[rows.long()], limits[columns.long()])
        return rows[kept], columns[kept], values[kept]


def _panels(n: int) -> Iterator[Area]:
    """Yield panels that cover the upper triangle, from the first rows on."""
    row = 0
    while row < n:
        height = min(max(_PANEL // (n - row) // STEP * STEP, STEP), n - row)
        yield row, row + height, row, n
        row += height


def each_area(tiles: FusedTiles, areas: Iterator[Area], what: str) -> Iterator[Area]:
    """Yield areas under a progress bar."""
    todo = list(areas)
    with progress(what, len(todo), tiles.verbose) as advance:
        for area in todo:
            yield area
            advance()


@collect.register
def _(tiles: FusedTiles, level: float | Tensor, select: Select | None = None, what: str = "pairs") -> Pairs:
    if not _fits(tiles, level, select):
        return collect_torch(tiles, level, select, what)
    panels = held(panels_above(tiles, level, select, what), tiles.limit)
    counts, columns, values = (torch.cat(part) for part in zip(*panels, strict=True))
    return Pairs(counts[: tiles.data.n_features], columns, values)


@panels_above.register
def _(
    tiles: FusedTiles, level: float | Tensor, select: Select | None = None, what: str = "pairs"
) -> Iterator[tuple[Any, ...]]:
    if not _fits(tiles, level, select):
        yield from panels_above.dispatch(Tiles)(tiles, level, select, what)
        return
    limits, candidates, n = tiles.limits(level), _Candidates(tiles), len(tiles.half)
    for area in each_area(tiles, _panels(n), what):
        rows, columns, values = candidates.of(area, limits)
        rows = rows - area[0]
        keys, order = torch.sort(rows.long() * n + columns)
        counts = torch.bincount(rows, minlength=area[1] - area[0])
        yield area[0], counts, (keys % n).int(), values[order]


def _fits(tiles: FusedTiles, level: float | Tensor, select: Select | None) -> bool:
    """Tell whether the fused kernels have an answer: there is no selection, and the level stands out."""
    lowest = float(level if isinstance(level, float) else level[: tiles.data.n_features].min())
    return select is None and tiles.is_clear(lowest)


def _in_order(tiles: FusedTiles, rows: Tensor, columns: Tensor, values: Tensor) -> Pairs:
    """Return pairs row by row."""
    n = tiles.data.n_features
    keys, order = torch.sort(rows.long() * n + columns)
    return Pairs(torch.bincount(rows, minlength=n), (keys % n).int(), values[order])


# -- a given number of pairs ----------------------------------------------------------------------


@largest_entries.register
def _(tiles: FusedTiles, kept: int) -> Kept:
    n = tiles.data.n_features
    n_pairs = n * (n - 1) // 2
    check_room(kept, tiles.limit)
    share = kept / n_pairs
    for _ in range(_TRIES):
        level = _guess(tiles, share) if 0 < kept < n_pairs and share < 0.5 else 0.0
        if not tiles.is_clear(level):
            break
        pairs = _largest_above(tiles, kept, level)
        if pairs is not None:
            return cut_at(tiles, pairs, kept, level)
        share *= 2
    return largest_entries.dispatch(Tiles)(tiles, kept)


def _guess(tiles: FusedTiles, share: float) -> float:
    """Return a level that somewhat more than this share of the pairs of a sample of the features exceeds."""
    n = tiles.data.n_features
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(n, generator=generator)[:_SAMPLE].sort().values.to(tiles.device)
    part, size = tiles.half[chosen].float(), tiles.sizes[chosen]
    products = (part @ part.T).mul_(size).mul_(size[:, None]).triu_(1).view(-1)
    m = len(chosen)
    rank = max(int(1.25 * share * (m * (m - 1) // 2)), min(_ENOUGH, m * (m - 1) // 4), 1)
    return float(torch.topk(products.abs_(), rank, sorted=False).values.min()) * 0.99


def _largest_above(tiles: FusedTiles, kept: int, level: float) -> Pairs | None:
    """Return at least the ``kept`` largest pairs and some more; None where fewer than these are above a level.

    The level rises to that of the pairs seen so far as soon as there are many more than needed.
    """
    spare = max(kept // 16, 64)
    candidates, held = _Candidates(tiles), tuple(torch.empty(0, device=tiles.device) for _ in range(3))
    for area in each_area(tiles, _panels(len(tiles.half)), "largest pairs"):
        new = candidates.of(area, tiles.limits(level))
        held = tuple(torch.cat([a, b]) if len(a) else b for a, b in zip(held, new, strict=True))
        magnitudes = held[2].abs()
        if len(magnitudes) > kept + max(kept, _ROOM):
            least = float(torch.topk(magnitudes, kept + spare, sorted=False).values.min())
            level = max(level, least * (1 - ROUNDING))
            held = tuple(part[magnitudes > level] for part in held)
            check_room(len(held[0]), tiles.limit)
    return _in_order(tiles, *held) if len(held[0]) > kept else None
