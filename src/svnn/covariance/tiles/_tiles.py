"""Tiles of the N×N matrix, which never exists as a whole, and the sparse matrix of the pairs that are kept.

Tiles of the upper triangle are multiplied into one buffer that is used again and again; the few entries above a level
go into lists, and from there into a matrix. :class:`Tiles` is the interface of the three engines: this file has the
processor's, ``_gpu.py`` that of fused kernels on a GPU, and ``_dask.py`` that of the workers of a cluster.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from svnn._compiled import load
from svnn._progress import progress
from svnn._threads import in_threads
from svnn._types import AnyArray
from svnn.covariance.tiles._observations import CHUNK, Observations
from svnn.functional.thresholds import ENTRYWISE

if TYPE_CHECKING:
    from svnn.covariance.tiles._order_statistics import Kept

#: Largest numbers of rows and columns of a tile.
_CPU_TILE, _GPU_TILE = (1024, 2048), (8192, 8192)
#: Entries of a tile that there is room for at first.
_FIRST_ROOM = 2**14

Result = TypeVar("Result")


class Tile(NamedTuple):
    """The position of a tile: rows ``row`` to ``end_row``, columns ``column`` to ``end_column``."""

    row: int
    end_row: int
    column: int
    end_column: int


class Pairs(NamedTuple):
    """Entries above the diagonal, row by row with ascending columns; ``counts`` has the number of each row's.

    ``score`` holds what a selection returns for each entry, if it does.
    """

    counts: Tensor
    columns: Tensor
    values: Tensor
    score: Tensor | None = None

    def rows(self) -> Tensor:
        """Return the row of each entry."""
        n = torch.arange(len(self.counts), dtype=torch.int32, device=self.counts.device)
        return n.repeat_interleave(self.counts)

    def where(self, mask: Tensor) -> Pairs:
        """Return the entries that a mask picks."""
        counts = torch.bincount(self.rows()[mask], minlength=len(self.counts))
        score = None if self.score is None else self.score[mask]
        return Pairs(counts, self.columns[mask], self.values[mask], score)

    def shrunk(self, rule: str, limit: float | Tensor) -> Pairs:
        """Apply a rule to entries that all survive it, and drop those that rounding sets to zero."""
        values = ENTRYWISE[rule](torch, self.values, limit)
        pairs, kept = self._replace(values=values), values != 0
        return pairs if bool(kept.all()) else pairs.where(kept)


class TiledCovariance(NamedTuple):
    """A covariance from tiles: the means, the sparse matrix, and the threshold that was applied, if there was one."""

    location: AnyArray
    matrix: sp.csr_array | Tensor
    threshold: float | AnyArray | None = None


#: A selection takes tiles, one of them and its products; it sets entries to zero and may return a score of each.
Select = Callable[["Tiles", Tile, Tensor], Tensor | None]


class Fold(NamedTuple):
    """A question about all pairs, answered tile by tile.

    ``start(tiles)`` is the answer of a thread, ``update(tiles, tile, answer)`` enters a tile, and ``merge(answers)`` is
    the answer of all threads, or of all workers of a cluster. With ``of_features`` an answer has a row for each
    feature. ``what`` is the text of the progress bar.
    """

    start: Callable[[Tiles], Any]
    update: Callable[..., None]
    merge: Callable[[list[Any]], Any]
    what: str
    of_features: bool = False


class Tiles:
    """The tiles of the upper triangle of ``Z Z^T``, computed by this processor, or by torch alone.

    Another engine overrides ``panels_above`` and, where it can, the other methods that answer questions about pairs:
    ``collect``, ``fold``, ``of_panels``, ``fast_largest`` and ``fast_largest_of_rows``.

    Parameters
    ----------
    data : Observations
    limit : int
        Bytes that may be used; tiles shrink to a small share of it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    panels : list of lists of Tile
        Tiles of the same rows stand together, from left to right.
    kernels : module or None
        The compiled functions, where they are used.
    """

    def __init__(self, data: Observations, limit: int, verbose: bool = False) -> None:
        self.data, self.limit, self.verbose = data, limit, verbose
        self.device, n = data.Z.device, data.Z.shape[0]
        self.kernels: Any = load("svnn.covariance.tiles._tile_kernels") if self.device.type == "cpu" else None
        height, width = _CPU_TILE if self.device.type == "cpu" else _GPU_TILE
        while 4 * height * width > limit // 16 and max(height, width) > CHUNK:
            height, width = max(height // 2, CHUNK), max(width // 2, CHUNK)
        height = min(height, n)
        step = max(height // 4 // CHUNK * CHUNK, CHUNK)
        self.panels: list[list[Tile]] = []
        for row in range(0, n, height):
            end = min(row + height, n)
            # On the diagonal, strips that begin there: few of their products lie below it and are wasted.
            strips = [Tile(a, min(a + step, end), a, end) for a in range(row, end, step)]
            beside = [Tile(row, end, a, min(a + width, n)) for a in range(end, n, width)]
            self.panels.append(strips + beside)
        self._local = threading.local()

    # -- tiles ------------------------------------------------------------------------------------

    def each_panel(self, function: Callable[[list[Tile]], Result], what: str) -> Iterator[Result]:
        """Yield a function of each panel, in order; under a progress bar, and with the kernels on several threads."""
        threaded = self.kernels is not None and torch.get_num_threads() > 1
        results = in_threads(function, self.panels) if threaded else map(function, self.panels)
        if not self.verbose:
            yield from results
            return
        with progress(what, len(self.panels), True) as advance:
            for result in results:
                yield result
                advance()

    def buffer(self, name: str, shape: tuple[int, int]) -> Tensor:
        """Return memory of this thread, the same at every call: fresh pages cost more than the product."""
        held: dict[str, Tensor] = self._local.__dict__
        size = shape[0] * shape[1]
        if name not in held or len(held[name]) < size:
            held[name] = torch.empty(size, dtype=torch.float32, device=self.device)
        return held[name][:size].view(shape)

    def place(self, tile: Tile) -> tuple[int, int]:
        """Return the first row and column of a tile among all features: these tiles may be some of a larger table's."""
        return tile.row, tile.column

    def products(self, tile: Tile) -> Tensor:
        """Return the tile's products above the diagonal, and zeros below."""
        left, right = self.data.Z[tile.row : tile.end_row], self.data.Z[tile.column : tile.end_column]
        out = torch.mm(left, right.T, out=self.buffer("products", (len(left), len(right))))
        return out.triu_(tile.row - tile.column + 1) if tile.column < tile.end_row else out

    # -- questions about pairs --------------------------------------------------------------------

    def panels_above(
        self, level: float | Tensor, select: Select | None = None, what: str = "pairs"
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the entries whose absolute value is above ``level``, after a selection if there is one, panel by panel.

        ``level`` is a number, or a float32 tensor with one for each (padded) feature: the level of an entry is then the
        smaller one of its two. What is yielded are the first row, then as arrays or tensors the numbers of entries in
        each row, columns, values and scores. ``what`` is the text of the progress bar.
        """
        if self.kernels is not None and isinstance(level, float):
            level = torch.full((len(self.data.Z),), level)
        return self.each_panel(partial(_above, self, level, select), what)

    def collect(self, level: float | Tensor, select: Select | None = None, what: str = "pairs") -> Pairs:
        """Return the entries of all panels that :meth:`panels_above` yields."""
        panels, total = [], 0
        for _, *panel in self.panels_above(level, select, what):
            panels.append([torch.as_tensor(part) for part in panel])
            total += len(panel[1])
            check_room(total, self.limit)
        counts, *parts = (torch.cat(part) for part in zip(*panels, strict=True))
        return Pairs(counts[: self.data.n_features], *parts)

    def fold(self, question: Fold, levels: Tensor | None = None) -> Any:
        """Return the answer to a question; ``levels`` of all features go to its updates."""
        local, states = threading.local(), []
        more = () if levels is None else (levels,)

        def visit(panel: list[Tile]) -> None:
            if not hasattr(local, "state"):
                local.state = question.start(self)
                states.append(local.state)
            for tile in panel:
                question.update(self, tile, local.state, *more)

        for _ in self.each_panel(visit, question.what):
            pass
        return question.merge(states)

    def of_panels(self, function: Callable[[Observations], Tensor]) -> Tensor:
        """Return a function of the data that has a number for each feature."""
        return function(self.data)

    def fast_largest(self, kept: int) -> Kept | None:
        """Return the ``kept`` largest pairs where the engine has a quick way to them."""
        return None

    def fast_largest_of_rows(self, k: int) -> tuple[Tensor, Pairs] | None:
        """Return the ``k`` largest magnitudes of each feature and their pairs where the engine has a quick way."""
        return None


def over(data: Observations, limit: int, verbose: bool = False) -> Tiles:
    """Return the tiles of standardised data with the engine that holds it: a cluster, a GPU, or this processor."""
    if data.panels is not None:
        from svnn.covariance.tiles._dask import ClusterTiles

        return ClusterTiles(data, limit, verbose)
    if data.Z.is_cuda:
        from svnn.covariance.tiles._gpu import FusedTiles, can_fuse

        return (FusedTiles if can_fuse(data.Z.device) else Tiles)(data, limit, verbose)
    return Tiles(data, limit, verbose)


def _above(tiles: Tiles, level: float | Tensor, select: Select | None, panel: list[Tile]) -> tuple[Any, ...]:
    """Return the first row of a panel, the numbers of entries in each of its rows, their columns, values and scores."""
    first, height, found = panel[0].row, panel[-1].end_row - panel[0].row, []
    for tile in panel:
        products = tiles.products(tile)
        score = select(tiles, tile, products) if select else None
        places = slice(tile.row, tile.end_row), slice(tile.column, tile.end_column)
        levels = [level[part] for part in places] if isinstance(level, Tensor) else []
        if tiles.kernels is not None:
            counts = np.empty(len(products), dtype=np.int64)
            bits = [part.view(torch.int32).numpy() for part in (products, *levels)]  # ordered as positive floats are
            room, size = 0, _FIRST_ROOM
            while size > room:  # a second time where the room was too small
                room = size
                columns = tiles.buffer("columns", (1, room)).view(torch.int32)[0]
                values = tiles.buffer("values", (1, room))[0]
                size = tiles.kernels.compress(products.numpy(), *bits, counts, columns.numpy(), values.numpy())
            rows = torch.from_numpy(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
            columns, values = columns[:size], values[:size].clone()
        else:
            limit = torch.minimum(levels[0][:, None], levels[1]) if levels else level
            rows, columns = (products.abs() > limit).nonzero(as_tuple=True)
            values = products[rows, columns]
        scores = () if score is None else (score[rows, columns],)
        found.append((rows + (tile.row - first), (columns + tile.column).int(), values, *scores))
    row, *parts = (torch.cat(part) for part in zip(*found, strict=True))
    # Columns stay in order. On the processor numpy's radix sort is quicker.
    stable = np.argsort(row.numpy().astype(np.uint16), kind="stable") if row.device.type == "cpu" else None
    order = torch.argsort(row, stable=True) if stable is None else torch.from_numpy(stable)
    return (first, torch.bincount(row, minlength=height), *(part[order] for part in parts))


def above_threshold(tiles: Tiles, rule: str, threshold: float, keep_diagonal: bool = True) -> TiledCovariance:
    """Return the covariance with a hard or soft threshold, on the scale (correlations or not) of the data."""
    data, limit = tiles.data, threshold / tiles.data.scale
    pairs = tiles.collect(below_number(limit), what="threshold")
    pairs = pairs if rule == "hard" else pairs.shrunk(rule, limit)
    diagonal = data.variance
    if not keep_diagonal:
        diagonal = ENTRYWISE[rule](torch, diagonal, threshold * diagonal if data.correlations else threshold)
    return sparse_covariance(tiles, pairs, diagonal, threshold)


def check_room(pairs: int, limit: int) -> None:
    """Raise where this many pairs do not fit: as lists of 8 to 12 bytes each, then as a matrix of 16 to 24."""
    if 32 * pairs > limit:
        raise MemoryError(
            f"{pairs} pairs of features or more survive, which take more than memory_limit; "
            "use a larger threshold, a smaller density, or more memory."
        )


def below_number(number: float) -> float:
    """Return the largest float32 that is not negative and smaller than ``number``: then ``>`` means ``>=``.

    Examples
    --------
    >>> below_number(1.0) < 1.0, below_number(0.0)
    (True, 0.0)
    """
    rounded = np.float32(number)
    return float(rounded) if rounded < number else max(float(np.nextafter(rounded, np.float32(-1))), 0.0)


def sparse_covariance(
    tiles: Tiles, pairs: Pairs, diagonal: Tensor, threshold: float | AnyArray | None = None
) -> TiledCovariance:
    """Return the matrix of ``unit_i unit_j value_ij`` and of ``diagonal``, in CSR form with sorted columns.

    It is a ``csr_array`` or, for tensors, a sparse CSR tensor on the device of its parts. Zeros on the diagonal are
    not stored.
    """
    data = tiles.data
    n, nnz = len(diagonal), 2 * len(pairs.columns) + int(torch.count_nonzero(diagonal))
    index = torch.int32 if nnz < 2**31 and not data.as_tensor else torch.int64
    starts = torch.empty(n + 1, dtype=index, device=diagonal.device)
    indices = torch.empty(nnz, dtype=index, device=diagonal.device)
    values = torch.empty(nnz, dtype=data.dtype, device=diagonal.device)
    if tiles.kernels is not None:
        arrays = (part.numpy() for part in (*pairs[:3], diagonal, data.unit, starts, indices, values))
        tiles.kernels.symmetric(*arrays)
    else:
        _fill_symmetric(pairs, diagonal, data.unit, starts, indices, values)
    location = data.location.to(data.dtype)
    if not data.as_tensor:
        values, indices, starts, location = (part.cpu() for part in (values, indices, starts, location))
        matrix = sp.csr_array((values.numpy(), indices.numpy(), starts.numpy()), shape=(n, n))
        matrix.has_canonical_format = True
        return TiledCovariance(
            location.numpy(), matrix, threshold.cpu().numpy() if isinstance(threshold, Tensor) else threshold
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        tensor = torch.sparse_csr_tensor(starts, indices, values, size=(n, n), check_invariants=False)
    return TiledCovariance(location, tensor, threshold)


def _fill_symmetric(
    pairs: Pairs, diagonal: Tensor, unit: Tensor, starts: Tensor, indices: Tensor, data: Tensor
) -> None:
    """Write the CSR arrays of the pairs, their mirror images and the diagonal."""
    n, rows, columns = len(diagonal), pairs.rows().long(), pairs.columns.long()
    values, on_diagonal = pairs.values * unit[rows] * unit[columns], torch.nonzero(diagonal)[:, 0]
    keys, order = torch.sort(torch.cat([rows * n + columns, columns * n + rows, on_diagonal * (n + 1)]))
    data.copy_(torch.cat([values, values, diagonal[on_diagonal]])[order])
    indices.copy_(keys % n)
    starts[0] = 0
    starts[1:] = torch.cumsum(torch.bincount(keys // n, minlength=n), 0)
