"""Collecting entries with torch alone: on a GPU, or on a CPU without numba.

A GPU must not wait for the host after every tile. So a tile is first reduced to the largest modulus
of each run of 128 entries, and the few runs with a survivor are copied into room of a fixed size;
only when several tiles are done the host asks how many there were.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from svnn.covariance._blocked import Select, Tile, Tiles, Upper, check_room
from svnn.covariance._observations import CHUNK

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


def collect_torch(tiles: Tiles, level: float | Tensor, select: Select | None, what: str) -> Upper:
    """Return the entries above ``level``; see :func:`svnn.covariance._blocked.collect`."""
    found: list[tuple[Tensor, ...]] = []
    pending: list[_Runs] = []
    room, total, size = _FIRST_ROOM, 0, 0
    enough = _PENDING_BYTES.get(tiles.device.type, _PENDING_BYTES["cuda"])
    n, n_tiles = tiles.data.Z.shape[0], sum(map(len, tiles.panels()))
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
    return Upper(counts, (keys % n).int(), values[order], *(part[order] for part in score))


def _runs(tiles: Tiles, tile: Tile, level: float | Tensor, select: Select | None, room: int) -> _Runs:
    products = tiles.products(tile)
    scores = select(tile, products) if select else None
    runs = products.view(-1, CHUNK)
    peaks = _largest_moduli(runs)
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


def _largest_moduli(runs: Tensor) -> Tensor:
    """Return the largest modulus of each run."""
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
        in_row = runs.tile.shape[1] // CHUNK
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
