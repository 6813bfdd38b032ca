"""Covariances of many features, from tiles of the N×N matrix that never exists as a whole.

:func:`read` standardises the data, :class:`Tiles` multiplies features with each other tile by tile, and the functions
below keep what survives. They return a :class:`Found`: location, sparse matrix, threshold.

======================  =====================================================
:func:`above_threshold`  one threshold for all pairs
:func:`at_density`       the given number of largest pairs
:func:`top_k`            the largest pairs of every feature
:func:`adaptive`         a threshold for every pair
:func:`slope`            the probabilities of ACV, as one number
:func:`draw`             the pairs that one random draw keeps
======================  =====================================================

Random draws come from a hash of (seed, i, j), so tiles and threads do not change them.
"""

from svnn.covariance.tiles._observations import Observations, gather, memory_bytes, read
from svnn.covariance.tiles._products import Found, Tiles, above_threshold
from svnn.covariance.tiles._random_tiles import draw, slope
from svnn.covariance.tiles._threshold_tiles import adaptive, at_density, top_k

__all__ = [
    "Found",
    "Observations",
    "Tiles",
    "above_threshold",
    "adaptive",
    "at_density",
    "draw",
    "gather",
    "memory_bytes",
    "read",
    "slope",
    "top_k",
]
