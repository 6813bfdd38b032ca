"""The engine of a GPU: tiles that are never written, since one kernel multiplies and keeps the large products.

The kernel multiplies in float16, which is fast. The error of such a product has a bound, and every product that may
exceed its level given that bound is computed again in float32. So the result is that of float32 throughout.

The largest products of each feature take one pass: lists of partners, and levels that rise with them. An area of
products is entered into the lists of its features. A level lets few of them in, since it is the smallest of those that
a feature keeps of all that it has met. Areas grow with the number of features that were met.
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
from svnn.covariance.tiles._order_statistics import Kept, cut_at
from svnn.covariance.tiles._tiles import Pairs, Select, Tiles, check_room

#: Rows, columns and depth of a program's tile, row tiles that run side by side, warps, and loads in flight.
_ROWS, _COLUMNS, _DEPTH, _GROUP, _WARPS, _STAGES = 128, 128, 64, 16, 4, 3
#: Features are padded to a multiple of this.
STEP = 128
#: Products that are multiplied, and candidates that are listed, before the host looks.
_PANEL = 2**33
_ROOM, _LEAST_ROOM = 2**24, 2**14
#: The least ratio of a level to the error of a product of two features of mean size; below it plain torch is better.
_CLEAR = 4.0
#: A level is lowered by this share, so that what is equal up to rounding is listed.
ROUNDING = 1e-6
#: Levels that are tried, and times that a rectangle is entered again because lists were too short.
_TRIES = 12
#: Features whose pairs are a sample of all, and pairs of the sample above a level that make it a good guess.
_SAMPLE, _ENOUGH = 16384, 256
#: The largest rectangle whose pairs are entered into lists at once.
_TALLEST, _WIDEST = 2**13, 2**18
#: Length beyond which a list is shortened, and the room of lists, both per value to keep.
_LIST_LEAST, _LIST_ROOM = 4, 8
#: First row, end, first column, end of a rectangle of products.
Area: TypeAlias = tuple[int, int, int, int]


@cache
def kernels() -> Any:
    """Return the kernels, or None where there is no Triton."""
    try:
        return import_module("svnn.covariance.tiles._triton_kernels")
    except ImportError:
        return None


def can_fuse(device: torch.device) -> bool:
    """Return whether the kernels run on a device: an NVIDIA GPU with tensor cores for float16, and Triton."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0) and kernels() is not None


class FusedTiles(Tiles):
    """Tiles whose large entries are listed without writing the others.

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
        """Return whether a level stands out from the errors of products in float16."""
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

    def panels_above(
        self, level: float | Tensor, select: Select | None = None, what: str = "pairs"
    ) -> Iterator[tuple[Any, ...]]:
        lowest = float(level if isinstance(level, float) else level[: self.data.n_features].min())
        if select is not None or not self.is_clear(lowest):  # the fused kernels have no selections
            yield from super().panels_above(level, select, what)
            return
        limits, candidates, n = self.limits(level), _Candidates(self), len(self.half)
        for area in each_area(self, _panels(n), what):
            rows, columns, values = candidates.of(area, limits)
            yield area[0], *_in_order(n, area[1] - area[0], rows - area[0], columns, values)[:3]

    def fast_largest(self, kept: int) -> Kept | None:
        n = self.data.n_features
        n_pairs = n * (n - 1) // 2
        check_room(kept, self.limit)
        share = kept / n_pairs
        for _ in range(_TRIES):
            level = _guess(self, share) if 0 < kept < n_pairs and share < 0.5 else 0.0
            if not self.is_clear(level):
                break
            pairs = _largest_above(self, kept, level)
            if pairs is not None:
                return cut_at(self, pairs, kept, level)
            share *= 2
        return None

    def fast_largest_of_rows(self, k: int) -> tuple[Tensor, Pairs] | None:
        room = 1 << (_LIST_ROOM * k - 1).bit_length()
        n = self.data.n_features
        if room > 2048 or 8 * room * n > self.limit or n < 2 * room:
            return None
        lists = _Lists(self, k, room)
        for area in each_area(self, _growing(len(self.half)), "largest of each feature"):
            if not lists.enter(area):
                return None
        best = lists.finish()
        rows = torch.arange(n, dtype=torch.int32, device=self.device)[:, None].expand(n, k)
        partner = lists.partners[:n, :k]
        there = best != 0
        first, second, values = torch.minimum(rows, partner)[there], torch.maximum(rows, partner)[there], best[there]
        pairs = _in_order(n, n, first, second, values)
        once = torch.ones_like(pairs.columns, dtype=torch.bool)
        keys = pairs.rows().long() * n + pairs.columns
        torch.ne(keys[1:], keys[:-1], out=once[1:])
        return best.abs().flip(1).contiguous(), pairs.where(once)


class _Candidates:
    """Room for the pairs that a kernel lists."""

    def __init__(self, tiles: FusedTiles) -> None:
        self.tiles = tiles
        self.number = torch.zeros((), dtype=torch.int64, device=tiles.device)
        self._make(min(_ROOM, max(tiles.limit // 64, _LEAST_ROOM)))

    def _make(self, room: int) -> None:
        self.rows = self.columns = torch.empty(0)  # gives the memory back first
        self.rows = torch.empty(room, dtype=torch.int32, device=self.tiles.device)
        self.columns = torch.empty_like(self.rows)

    def of(self, area: Area, limits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows, columns and products of the pairs in an area that exceed the smaller of their levels."""
        while True:
            self.number.zero_()
            self.tiles.launch(kernels().list_pairs, limits, area, self.number, len(self.rows), self.rows, self.columns)
            number = int(self.number)  # the host waits here
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


def _in_order(n: int, n_rows: int, rows: Tensor, columns: Tensor, values: Tensor) -> Pairs:
    """Return pairs of ``n`` features row by row."""
    keys, order = torch.sort(rows.long() * n + columns)
    return Pairs(torch.bincount(rows, minlength=n_rows), (keys % n).int(), values[order])


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

    The level rises to that of the pairs so far as soon as there are many more than needed.
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
    n = tiles.data.n_features
    return _in_order(n, n, *held) if len(held[0]) > kept else None


# -- lists of partners ----------------------------------------------------------------------------


def _growing(n: int) -> Iterator[Area]:
    """Yield areas that cover the upper triangle, from the first rows on.

    None is larger than what its features have met before, so that their levels let few pairs pass.
    """
    row = 0
    while row < n:
        height = min(max(row, STEP), _TALLEST, n - row)
        column = row
        while column < n:
            width = min(max(column, STEP), _WIDEST, n - column)
            yield row, row + height, column, column + width
            column += width
        row += height


class _Lists:
    """For each feature a list of those it has large products with, and the level that a product must exceed."""

    def __init__(self, tiles: FusedTiles, k: int, room: int) -> None:
        self.tiles, self.k, self.room = tiles, k, room
        n = len(tiles.half)
        self.partners = torch.zeros((n, room), dtype=torch.int32, device=tiles.device)
        self.counts = torch.zeros(n, dtype=torch.int32, device=tiles.device)
        self.limits = tiles.limits(0.0)

    def enter(self, area: Area) -> bool:
        """Enter the pairs of an area; False where too many are equal, or nearly so, to be told apart."""
        row, end_row, column, end_column = area
        sides = [(row, end_row), (max(column, end_row), end_column)]
        sides = [(a, b) for a, b in sides if a < b]
        before = [self.counts[a:b].clone() for a, b in sides]
        for _ in range(_TRIES):
            self.tiles.launch(kernels().list_partners, self.limits, area, self.counts, self.partners, self.room)
            if int(torch.stack([self.counts[a:b].max() for a, b in sides]).max()) <= self.room:
                # The rows meet many more features next, so their levels must be up to date.
                for (a, b), least in zip(sides, (1, _LIST_LEAST), strict=False):
                    self._shorten(a, b, least=least * self.k, rewrite=True)
                return True
            # The lists overflowed: raise the levels by the entries that found room, and retry.
            for (a, b), counts in zip(sides, before, strict=True):
                self._shorten(a, b, least=self.room - 1, rewrite=False)
                self.counts[a:b] = counts
        return False

    def finish(self) -> Tensor:
        """Return the products of the largest pairs of each feature, the largest first; zeros where there are fewer."""
        n = self.tiles.data.n_features
        best = torch.zeros((n, self.k), dtype=torch.float32, device=self.tiles.device)
        self._shorten(0, n, least=0, rewrite=True, best=best)
        return best

    def _shorten(self, a: int, b: int, *, least: int, rewrite: bool, best: Tensor | None = None) -> None:
        Z = self.tiles.data.Z
        kernels().shorten[(b - a,)](
            *(Z, Z.shape[1], a, self.k, least, 1 - ROUNDING),
            *(self.counts, self.partners, self.limits, self.limits if best is None else best),
            ROOM=self.room,
            DEPTH=16,
            num_warps=1,  # across warps, Triton 3.6 mixes up what it sorts
            REWRITE=rewrite,
            WRITE_VALUES=best is not None,
        )
