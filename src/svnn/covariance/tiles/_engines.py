"""Which tiles for which data."""

from __future__ import annotations

from svnn.covariance.tiles import _fused_lists as _fused_lists  # it registers with the questions about all pairs
from svnn.covariance.tiles._fused import FusedTiles, can_fuse
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._products import Tiles


def over(data: Observations, limit: int, verbose: bool = False) -> Tiles:
    """Return the tiles of standardised data: those of fused kernels on a GPU that has them, plain ones elsewhere."""
    return (FusedTiles if can_fuse(data.Z.device) else Tiles)(data, limit, verbose)
