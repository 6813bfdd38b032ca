"""Covariances of many features, from tiles of the N×N matrix that never exists as a whole.

:func:`read` standardises the data; :func:`over` returns its :class:`Tiles`, which multiply features with each other
tile by tile; the functions below choose the pairs to keep, and return a :class:`TiledCovariance`.

=======================  =======================================================
:func:`above_threshold`  one threshold for all pairs
:func:`at_density`       a given number of largest pairs
:func:`top_k`            the largest pairs of every feature
:func:`adaptive`         a threshold for every pair
:func:`significant`      the pairs whose correlation is significant
:func:`near_diagonal`    the pairs of neighbouring features
:func:`slope`            the probabilities of ACV, as one number
:func:`draw`             the pairs that one random draw keeps
:func:`without_factors`  the data without its leading components, for any of the above
=======================  =======================================================

Three engines compute tiles: the processor (``_tiles.py``), a GPU with fused kernels (``_gpu.py``), and the workers of a
Dask cluster (``_dask.py``). Random draws come from a hash of (seed, i, j), so tiles and threads do not change them.
"""

from svnn.covariance.tiles._dask_panels import DaskTable
from svnn.covariance.tiles._factors import leading_factors, without_factors
from svnn.covariance.tiles._observations import Observations, gather, memory_bytes, on_device, read
from svnn.covariance.tiles._selection import adaptive, at_density, draw, near_diagonal, significant, slope, top_k
from svnn.covariance.tiles._tiles import TiledCovariance, Tiles, above_threshold, below_number, over

__all__ = [
    "DaskTable",
    "Observations",
    "TiledCovariance",
    "Tiles",
    "above_threshold",
    "adaptive",
    "at_density",
    "below_number",
    "draw",
    "gather",
    "leading_factors",
    "memory_bytes",
    "near_diagonal",
    "on_device",
    "over",
    "read",
    "significant",
    "slope",
    "top_k",
    "without_factors",
]
