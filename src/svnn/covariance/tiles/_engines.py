"""Which tiles for which data. To import an engine lets the questions about all pairs know it."""

from __future__ import annotations

from svnn.covariance.tiles import _fused_lists as _fused_lists
from svnn.covariance.tiles._fused import FusedTiles, can_fuse
from svnn.covariance.tiles._observations import Observations
from svnn.covariance.tiles._products import Tiles


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
