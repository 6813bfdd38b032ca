"""The tiles in plain torch, on a GPU without fused kernels or on a processor without numba."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from svnn.covariance.tiles._tiles import Pairs, Select, Tile, Tiles


def above_in_torch(tiles: Tiles, level: float | Tensor, select: Select | None, panel: list[Tile]) -> tuple[Any, ...]:
    """Return the entries of one panel above ``level``; see :meth:`Tiles.panels_above`."""
    first, height = panel[0].row, panel[-1].end_row - panel[0].row
    parts_of_tiles = []
    for tile in panel:
        products = tiles.products(tile)
        scores = select(tiles, tile, products) if select else None
        limit = level
        if isinstance(level, Tensor):
            limit = torch.minimum(level[tile.row : tile.end_row, None], level[tile.column : tile.end_column])
        rows, columns = (products.abs() > limit).nonzero(as_tuple=True)
        parts = (products[rows, columns], *(() if scores is None else (scores[rows, columns],)))
        parts_of_tiles.append((rows + (tile.row - first), (columns + tile.column).int(), *parts))
    row, *rest = (torch.cat(part) for part in zip(*parts_of_tiles, strict=True))
    order = torch.argsort(row, stable=True)  # columns stay in order
    return (first, torch.bincount(row, minlength=height), *(part[order] for part in rest))


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
