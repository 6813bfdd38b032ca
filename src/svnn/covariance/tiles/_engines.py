"""Which tiles for which data. To import an engine lets the questions about all pairs know it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from svnn.covariance.tiles import _fused_lists as _fused_lists
from svnn.covariance.tiles._fused import FusedTiles, can_fuse
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._products import Tiles

#: Features that are moved to a device at once.
_ROWS = 2**16


def on_device(data: Observations, device: torch.device) -> Observations:
    """Return standardised data on a device."""
    if data.panels is not None or data.Z.device == device:
        return data
    moved: dict[str, Any] = {
        name: part.to(device) for name, part in data._asdict().items() if isinstance(part, Tensor) and name != "Z"
    }
    n, size = data.Z.shape
    Z = torch.zeros((n, -(-size // 8) * 8), device=device)  # tensor cores want rows of whole 32 bytes
    for a in range(0, n, _ROWS):
        Z[a : a + _ROWS, :size] = data.Z[a : a + _ROWS].to(device)
    return data._replace(Z=Z, **moved)


def over(data: Observations, limit: int, verbose: bool = False) -> Tiles:
    """Return the tiles of standardised data.

    They are on the workers of the cluster that hold it, those of fused kernels on a GPU that has them, plain ones
    elsewhere.
    """
    if data.panels is not None:
        from svnn.covariance.tiles import _cluster_answers as _cluster_answers
        from svnn.covariance.tiles._cluster_tiles import ClusterTiles

        return ClusterTiles(data, limit, verbose)
    return (FusedTiles if can_fuse(data.Z.device) else Tiles)(data, limit, verbose)
