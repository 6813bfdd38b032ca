"""Functions of covariance matrices without any state, for numpy arrays and torch tensors alike.

The estimators in :mod:`svnn.covariance` do little more than call them and store the results.
"""

from svnn.functional._matrix import LowRankPlusSparse
from svnn.functional.correlations import kendall_tau
from svnn.functional.masks import (
    acv_probabilities,
    acv_slope,
    floor_probabilities,
    pair_uniforms,
    rcv_probabilities,
    sparsify,
)
from svnn.functional.moments import Moments, product_variances, sample_moments
from svnn.functional.spectrum import (
    growth_ratio_factors,
    log_covariance,
    log_eigenvalues,
    psd_repair,
    smallest_eigenvalue,
)
from svnn.functional.thresholds import (
    adaptive_lasso_threshold,
    band_weights,
    hard_threshold,
    largest_pairs,
    pairs_for_density,
    scad_threshold,
    soft_threshold,
    taper_weights,
    threshold_for_density,
    top_k_pairs,
    top_k_thresholds,
    universal_threshold,
)

__all__ = [
    "LowRankPlusSparse",
    "Moments",
    "acv_probabilities",
    "acv_slope",
    "adaptive_lasso_threshold",
    "band_weights",
    "floor_probabilities",
    "growth_ratio_factors",
    "hard_threshold",
    "kendall_tau",
    "largest_pairs",
    "log_covariance",
    "log_eigenvalues",
    "pair_uniforms",
    "pairs_for_density",
    "product_variances",
    "psd_repair",
    "rcv_probabilities",
    "sample_moments",
    "scad_threshold",
    "smallest_eigenvalue",
    "soft_threshold",
    "sparsify",
    "taper_weights",
    "threshold_for_density",
    "top_k_pairs",
    "top_k_thresholds",
    "universal_threshold",
]
