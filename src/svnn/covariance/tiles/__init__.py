"""Covariances of many features, from tiles of the N×N matrix that never exists as a whole.

:func:`read` standardises the data, the :class:`Tiles` that :func:`over` gives multiply features with each other tile by
tile, and the functions below keep what survives. They return a :class:`Found`: location, sparse matrix, threshold.

======================  =====================================================
:func:`above_threshold`  one threshold for all pairs
:func:`at_density`       the given number of largest pairs
:func:`top_k`            the largest pairs of every feature
:func:`adaptive`         a threshold for every pair
:func:`significant`      the pairs whose correlation is significant
:func:`near_diagonal`    the pairs of neighbouring features
:func:`slope`            the probabilities of ACV, as one number
:func:`draw`             the pairs that one random draw keeps
:func:`panels_above`     the pairs above a threshold, some at a time, for results beyond memory
:func:`without_factors`  the data without its leading components, for any of the above
======================  =====================================================

Data that the workers of a Dask cluster hold is read and multiplied there: :func:`over` gives the tiles of either kind.
Random draws come from a hash of (seed, i, j), so tiles and threads do not change them.
"""

from svnn.covariance.tiles._band_tiles import near_diagonal
from svnn.covariance.tiles._dask_table import DaskTable
from svnn.covariance.tiles._engines import on_device, over
from svnn.covariance.tiles._observations import Observations, gather, memory_bytes, read
from svnn.covariance.tiles._plan import Plan, plan
from svnn.covariance.tiles._products import Found, Tiles, above_threshold, below_number, panels_above
from svnn.covariance.tiles._random_tiles import draw, slope
from svnn.covariance.tiles._residual_tiles import leading_factors, without_factors
from svnn.covariance.tiles._significant_tiles import significant
from svnn.covariance.tiles._threshold_tiles import adaptive, at_density, top_k

__all__ = [
    "DaskTable",
    "Found",
    "Observations",
    "Plan",
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
    "panels_above",
    "plan",
    "read",
    "significant",
    "slope",
    "top_k",
    "without_factors",
]
