"""The pairs whose correlation is significant, exactly, in two passes over the tiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from svnn.covariance.tiles._order_statistics import bin_edges, coarse_histogram
from svnn.covariance.tiles._products import Found, Tiles, below_number, collect, result
from svnn.functional.significance import (
    correlation_p_values,
    critical_correlation,
    largest_significant,
    rejection_level,
    symmetric_matrix,
)


class Significant(NamedTuple):
    """The covariance of the significant pairs, and their p-values as a symmetric sparse matrix."""

    found: Found
    p_values: sp.csr_array


def significant(tiles: Tiles, alpha: float, method: str, degrees: float) -> Significant:
    """Return the pairs that a test of all correlations keeps; ``tiles`` holds correlations.

    A pair counts where its p-value is small enough for its rank. The first pass counts the pairs in narrow bins of
    their magnitudes. That gives the most that the rank of any pair in a bin can be, and so the first bin from which on
    no pair can count. The second pass collects those before it, and their ranks are exact.
    """
    data, scale = tiles.data, tiles.data.scale
    varying = int((data.variance > 0).sum())
    n_tests = varying * (varying - 1) // 2
    level = rejection_level(alpha, method, n_tests)
    if method == "bonferroni":
        lowest = critical_correlation(level, degrees) * (1 - 1e-6)
    else:
        counts, _ = coarse_histogram(tiles)
        occupied = np.flatnonzero(counts)[::-1]
        ranks = counts[occupied].cumsum()  # pairs in a bin and above it
        possible = correlation_p_values(bin_edges(occupied + 1) * scale, degrees) <= level * ranks
        lowest = float(bin_edges(occupied[possible][-1])) * scale if possible.any() else 2.0  # no correlation is
    pairs = collect(tiles, below_number(lowest / scale), what="significant pairs")
    p = correlation_p_values((pairs.values.double() * scale).cpu().numpy(), degrees)
    kept = p <= largest_significant(p, alpha, method, n_tests)
    pairs = pairs.where(torch.from_numpy(kept).to(tiles.device))
    rows, columns = pairs.rows().cpu().numpy(), pairs.columns.cpu().numpy()
    return Significant(result(tiles, pairs, data.variance), symmetric_matrix(rows, columns, p[kept], data.n_features))
