"""Products of the features with each other, tile by tile, and what of them survives.

The N×N matrix never exists. Tiles of its upper triangle are multiplied into one buffer that is used
again and again; the few entries above a level go into lists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from svnn._compiled import load
from svnn.covariance._observations import CHUNK, Observations
from svnn.covariance._progress import progress
from svnn.covariance._threads import in_threads

#: Largest numbers of rows and columns of a tile.
_CPU_TILE, _GPU_TILE = (1024, 2048), (8192, 8192)
#: Entries of a tile that there is room for at first.
_FIRST_ROOM = 2**14

Result = TypeVar("Result")


class Tile(NamedTuple):
    """Where a tile lies: rows ``row`` to ``end_row``, columns ``column`` to ``end_column``."""

    row: int
    end_row: int
    column: int
    end_column: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.end_row - self.row, self.end_column - self.column


class Upper(NamedTuple):
    """Entries above the diagonal, row by row with ascending columns; ``counts`` has those of each row.

    ``score`` holds what a selection says of each entry, where it says something.
    """

    counts: Tensor
    columns: Tensor
    values: Tensor
    score: Tensor | None = None

    def rows(self) -> Tensor:
        """Return the row of each entry."""
        n = torch.arange(len(self.counts), dtype=torch.int32, device=self.counts.device)
        return n.repeat_interleave(self.counts)

    def where(self, mask: Tensor) -> Upper:
        """Return the entries that a mask picks."""
        counts = torch.bincount(self.rows()[mask], minlength=len(self.counts))
        score = None if self.score is None else self.score[mask]
        return Upper(counts, self.columns[mask], self.values[mask], score)


def _triangle(a: int, b: int, largest: int) -> list[Tile]:
    """Return tiles over rows and columns ``a`` to ``b``; smaller ones on the diagonal, where half of each is waste."""
    if b - a <= max(largest, CHUNK):
        return [Tile(a, b, a, b)]
    middle = a + (b - a) // 2 // CHUNK * CHUNK
    return [*_triangle(a, middle, largest), Tile(a, middle, middle, b), *_triangle(middle, b, largest)]


#: Takes a tile and its products; sets those not selected to zero; may return a score of each.
Select = Callable[[Tile, Tensor], Tensor | None]


def kernels() -> Any:
    """Return the compiled kernels, or None where torch has to do the work; see :func:`svnn._compiled.load`."""
    return load("svnn.covariance._kernels")


class Tiles:
    """The tiles of the upper triangle of ``Z Z^T``.

    Parameters
    ----------
    data : Observations
    limit : int
        Bytes that may be used; tiles shrink to a small share of it.
    shape : (int, int), optional
        Largest size of a tile, in multiples of 128.
    """

    def __init__(
        self, data: Observations, limit: int, verbose: bool = False, shape: tuple[int, int] | None = None
    ) -> None:
        self.data, self.limit, self.verbose = data, limit, verbose
        self.device = data.Z.device
        height, width = shape or (_CPU_TILE if self.device.type == "cpu" else _GPU_TILE)
        while 4 * height * width > limit // 16 and max(height, width) > CHUNK:
            height, width = max(height // 2, CHUNK), max(width // 2, CHUNK)
        padded = data.Z.shape[0]
        self.height, self.width = min(height, padded), min(width, padded)
        self._local = threading.local()

    def panels(self) -> Iterator[list[Tile]]:
        """Yield the tiles, those of the same rows together and from left to right."""
        n = self.data.Z.shape[0]
        for row in range(0, n, self.height):
            end = min(row + self.height, n)
            columns = range(end, n, self.width)
            beside = [Tile(row, end, column, min(column + self.width, n)) for column in columns]
            yield _triangle(row, end, self.height // 4) + beside

    def each_panel(self, function: Callable[[list[Tile]], Result], what: str) -> Iterator[Result]:
        """Yield a function of each panel, in order; under a progress bar, and on a CPU on several threads."""
        panels = list(self.panels())
        compiled = self.device.type == "cpu" and kernels() is not None
        results = in_threads(function, panels) if compiled else map(function, panels)
        with progress(what, len(panels), self.verbose) as advance:
            for result in results:
                yield result
                advance()

    def buffer(self, name: str, shape: tuple[int, int]) -> Tensor:
        """Return memory of the thread, the same at every call: fresh pages cost more than the product."""
        held: dict[str, Tensor] = self._local.__dict__
        size = shape[0] * shape[1]
        if name not in held or len(held[name]) < size:
            held[name] = torch.empty(size, dtype=torch.float32, device=self.device)
        return held[name][:size].view(shape)

    def products(self, tile: Tile) -> Tensor:
        """Return the tile's products above the diagonal, and zeros below."""
        Z = self.data.Z
        out = self.buffer("products", tile.shape)
        torch.mm(Z[tile.row : tile.end_row], Z[tile.column : tile.end_column].T, out=out)
        return self.above_diagonal(tile, out)

    @staticmethod
    def above_diagonal(tile: Tile, out: Tensor) -> Tensor:
        """Set what is not above the diagonal to zero."""
        return out.triu_(tile.row - tile.column + 1) if tile.column < tile.end_row else out


def collect(tiles: Tiles, level: float | Tensor, select: Select | None = None, what: str = "pairs") -> Upper:
    """Return the entries whose modulus is above ``level``, after a selection if there is one.

    ``level`` is a number, or a float32 tensor with one for each (padded) feature: the level of an
    entry is then the smaller one of its two.
    """
    if tiles.device.type == "cpu" and kernels() is not None:
        return _collect_compiled(tiles, level, select, what)
    from svnn.covariance._compaction import collect_torch

    return collect_torch(tiles, level, select, what)


def check_room(pairs: int, limit: int) -> None:
    """Raise where so many pairs do not fit: as lists of 8 to 12 bytes, then as a matrix of 16 to 24."""
    if 32 * pairs > limit:
        raise MemoryError(
            f"{pairs} pairs of features or more survive, which take more than memory_limit; "
            "use a larger threshold, a smaller density, or more memory."
        )


def _collect_compiled(tiles: Tiles, level: float | Tensor, select: Select | None, what: str) -> Upper:
    n = tiles.data.Z.shape[0]
    levels = level.numpy() if isinstance(level, Tensor) else np.full(n, level, dtype=np.float32)

    def survivors(panel: list[Tile]) -> tuple[np.ndarray, ...]:
        rows, *parts = zip(*(_scan(tiles, tile, levels.view(np.int32), select) for tile in panel), strict=True)
        row = np.concatenate(rows) - panel[0].row
        counts = np.bincount(row, minlength=panel[-1].end_row - panel[0].row)
        order = np.argsort(row.astype(np.uint16), kind="stable")  # a radix sort; columns stay in order
        return (counts, *(np.concatenate(part)[order] for part in parts if part[0] is not None))

    panels, total = [], 0
    for panel in tiles.each_panel(survivors, what):
        panels.append(panel)
        total += len(panel[1])
        check_room(total, tiles.limit)
    counts, *parts = (torch.from_numpy(np.concatenate(part)) for part in zip(*panels, strict=True))
    return Upper(counts[: tiles.data.n_features], *parts)


def _scan(tiles: Tiles, tile: Tile, levels: np.ndarray, select: Select | None) -> tuple[Any, ...]:
    """Return rows, columns, values and scores of what is above the levels."""
    products = tiles.products(tile)
    score = select(tile, products) if select else None
    counts = np.empty(tile.shape[0], dtype=np.int64)
    bits = products.view(torch.int32).numpy()
    inputs = (products.numpy(), bits, levels[tile.row : tile.end_row], levels[tile.column : tile.end_column], counts)
    room, found = 0, _FIRST_ROOM
    while found > room:  # a second time where the room was too small
        room = found
        columns = tiles.buffer("columns", (1, room)).view(torch.int32)[0].numpy()
        values = tiles.buffer("values", (1, room))[0].numpy()
        found = kernels().compress(*inputs, columns, values)
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    scores = None if score is None else score.numpy()[rows, columns[:found]]
    return rows + np.int32(tile.row), columns[:found] + np.int32(tile.column), values[:found].copy(), scores
