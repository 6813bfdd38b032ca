"""What torch does alone, on a GPU or on a CPU without numba: collect the pairs and write the symmetric matrix.

A GPU must not wait for the host after every tile. So a tile is first reduced to the largest magnitude
(absolute value) of each run of 128 entries, and the few runs with a survivor are copied into room of a fixed size.
Only when several tiles are done the host asks how many there were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn.covariance.tiles._observations import CHUNK
from svnn.covariance.tiles._products import Pairs, Select, Tile, Tiles, check_room

#: Bytes of copied runs after which the host asks, on a GPU and on a CPU, where it need not wait for an answer.
_PENDING_BYTES = {"cuda": 2**26, "cpu": 2**22}
#: Runs that a tile has room for at first.
_FIRST_ROOM = 2**12


class _Runs(NamedTuple):
    """Runs of a tile with a survivor: their places in it (-1: room not used), entries and scores."""

    tile: Tile
    places: Tensor
    entries: Tensor
    scores: Tensor | None
    used: Tensor


def collect_torch(tiles: Tiles, level: float | Tensor, select: Select | None, what: str) -> Pairs:
    """Return the entries above ``level``; see :func:`svnn.covariance.tiles._products.collect`."""
    found: list[tuple[Tensor, ...]] = []
    pending: list[_Runs] = []
    room, total, size = _FIRST_ROOM, 0, 0
    enough = _PENDING_BYTES.get(tiles.device.type, _PENDING_BYTES["cuda"])
    n, n_tiles = tiles.data.Z.shape[0], sum(map(len, tiles.panels))
    for panel in tiles.each_panel(lambda panel: panel, what):
        for tile in panel:
            n_tiles -= 1
            pending.append(_runs(tiles, tile, level, select, room))
            size += 4 * CHUNK * len(pending[-1].places) * (1 if pending[-1].scores is None else 2)
            if size < enough and n_tiles > 0:
                continue
            used = torch.stack([runs.used for runs in pending]).tolist()  # the host waits here
            for k, runs in enumerate(pending):
                if used[k] > len(runs.places):
                    pending[k] = _runs(tiles, runs.tile, level, select, used[k])
            room = max(_FIRST_ROOM, 1 << (2 * max(used)).bit_length())
            found.append(_survivors(pending, level, n))
            total += len(found[-1][0])
            check_room(total, tiles.limit)
            pending, size = [], 0
    keys, values, *score = (torch.cat(part) for part in zip(*found, strict=True))
    keys, order = torch.sort(keys)
    counts = torch.bincount(keys // n, minlength=n)[: tiles.data.n_features]
    return Pairs(counts, (keys % n).int(), values[order], *(part[order] for part in score))


def panel_above(
    tiles: Tiles, panel: list[Tile], level: float | Tensor, select: Select | None
) -> tuple[np.ndarray, ...]:
    """Return the entries of one panel above ``level``; see :func:`svnn.covariance.tiles._products.panels_above`."""
    first, height = panel[0].row, panel[-1].end_row - panel[0].row
    found = []
    for tile in panel:
        products = tiles.products(tile)
        scores = select(tiles, tile, products) if select else None
        limit = level
        if isinstance(level, Tensor):
            limit = torch.minimum(level[tile.row : tile.end_row, None], level[tile.column : tile.end_column])
        rows, columns = (products.abs() > limit).nonzero(as_tuple=True)
        parts = (products[rows, columns], *(() if scores is None else (scores[rows, columns],)))
        found.append((rows + (tile.row - first), (columns + tile.column).int(), *parts))
    row, *rest = (torch.cat(part) for part in zip(*found, strict=True))
    order = torch.argsort(row, stable=True)  # columns stay in order
    arrays = (torch.bincount(row, minlength=height), *(part[order] for part in rest))
    return tuple(array.cpu().numpy() for array in arrays)


def _runs(tiles: Tiles, tile: Tile, level: float | Tensor, select: Select | None, room: int) -> _Runs:
    products = tiles.products(tile)
    scores = select(tiles, tile, products) if select else None
    runs = products.view(-1, CHUNK)
    peaks = _largest_magnitudes(runs)
    if isinstance(level, Tensor):
        lowest = level[tile.column : tile.end_column].view(-1, CHUNK).amin(1)
        level = torch.minimum(level[tile.row : tile.end_row, None], lowest).view(-1)
    mask = peaks > level
    room = min(room, len(runs))
    places = _first_places(mask, room)
    rows = places.clamp(min=0)
    return _Runs(
        tile, places, runs[rows], None if scores is None else scores.view(-1, CHUNK)[rows], torch.count_nonzero(mask)
    )


def _largest_magnitudes(runs: Tensor) -> Tensor:
    """Return the largest magnitude of each run."""
    if runs.is_cuda:
        return torch.linalg.vector_norm(runs, float("inf"), dim=1)  # reads the tile once
    return torch.maximum(runs.amax(1), -runs.amin(1))  # vector code, unlike the norm


def _first_places(mask: Tensor, room: int) -> Tensor:
    """Return the first ``room`` places where ``mask`` is true, filled up with -1."""
    try:
        return torch.nonzero_static(mask, size=room, fill_value=-1)[:, 0]
    except (NotImplementedError, RuntimeError):  # no such kernel in older versions: then the host waits
        places = torch.nonzero(mask)[:room, 0]
        return torch.nn.functional.pad(places, (0, room - len(places)), value=-1)


def _survivors(pending: list[_Runs], level: float | Tensor, n: int) -> tuple[Tensor, ...]:
    """Return the positions ``row * n + column``, values and scores of the entries above their level."""
    rows, columns = [], []
    for runs in pending:
        in_row = (runs.tile.end_column - runs.tile.column) // CHUNK
        rows.append(torch.where(runs.places < 0, -1, runs.tile.row + runs.places // in_row))
        columns.append(runs.tile.column + runs.places % in_row * CHUNK)
    row, column = torch.cat(rows), torch.cat(columns)
    entries = torch.cat([runs.entries for runs in pending])
    if isinstance(level, Tensor):
        within = torch.arange(CHUNK, device=column.device)
        level = torch.minimum(level[row.clamp(min=0), None], level[column[:, None] + within])
    hit = (entries.abs() > level) & (row >= 0)[:, None]
    run, at = hit.nonzero(as_tuple=True)
    parts = [row[run] * n + column[run] + at, entries[run, at]]
    if pending[0].scores is not None:
        parts.append(torch.cat([runs.scores for runs in pending if runs.scores is not None])[run, at])
    return tuple(parts)


def fill_symmetric(pairs: Pairs, diagonal: Tensor, unit: Tensor, starts: Tensor, indices: Tensor, data: Tensor) -> None:
    """Write the CSR arrays: in each row the entries left of the diagonal, it, and those right of it."""
    n, size, device = len(diagonal), len(pairs.columns), diagonal.device
    rows, columns = pairs.rows().long(), pairs.columns.long()
    values = (pairs.values * unit[rows] * unit[columns]).to(data.dtype)
    on_diagonal = (diagonal != 0).long()
    left = torch.bincount(columns, minlength=n)
    starts[0] = 0
    starts[1:] = torch.cumsum(left + on_diagonal + pairs.counts, 0)
    start = starts[:-1].long()
    # Sorted by column, and stable, the entries are the transposed matrix row by row.
    order = torch.argsort(columns, stable=True)
    within = torch.arange(size, device=device)
    at = (start - torch.cumsum(left, 0) + left)[columns[order]] + within
    indices[at], data[at] = rows[order].to(indices.dtype), values[order]
    at = start[diagonal != 0] + left[diagonal != 0]
    indices[at] = torch.nonzero(diagonal)[:, 0].to(indices.dtype)
    data[at] = diagonal[diagonal != 0].to(data.dtype)
    at = (start + left + on_diagonal - torch.cumsum(pairs.counts, 0) + pairs.counts)[rows] + within
    indices[at], data[at] = columns.to(indices.dtype), values
