"""Covariances near the diagonal, from the data alone: N · width · t operations, never N²."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from svnn.covariance.tiles._products import Found, Pairs, Tiles, check_room, result

#: Least number of rows that are multiplied at once.
_LEAST_ROWS = 256


def near_diagonal(tiles: Tiles, width: int, weights: Callable[[Tensor], Tensor]) -> Found:
    """Return the covariances of features at most ``width`` apart, multiplied by weights of their distance."""
    data, n = tiles.data, tiles.data.n_features
    width = min(width, n - 1)
    check_room(n * width, tiles.limit)
    height = max(_LEAST_ROWS, width)
    counts = torch.zeros(n, dtype=torch.int64, device=tiles.device)
    columns, values = [], []
    for a in range(0, n, height):
        b = min(a + height, n)
        end = min(b + width, n)
        products = data.Z[a:b] @ data.Z[a:end].T
        rows = torch.arange(a, b, device=tiles.device)[:, None]
        distance = torch.arange(a, end, device=tiles.device) - rows
        inside = (distance > 0) & (distance <= width)
        kept = torch.where(inside, products * weights(distance.clamp(min=0)).float(), 0.0)
        row, column = kept.nonzero(as_tuple=True)
        counts[a:b] = torch.bincount(row, minlength=b - a)
        columns.append((column + a).int())
        values.append(kept[row, column])
    return result(tiles, Pairs(counts, torch.cat(columns), torch.cat(values)), data.variance)
