"""Functions of covariance matrices without any state, for numpy arrays and torch tensors alike.

The estimators in :mod:`svnn.covariance` do little more than call them and store the results.
"""

from svnn.functional.bands import band_weights, taper_weights
from svnn.functional.factors import growth_ratio_factors
from svnn.functional.kendall import kendall_tau
from svnn.functional.logarithm import log_covariance, log_eigenvalues
from svnn.functional.low_rank import LowRankPlusSparse
from svnn.functional.masks import floor_probabilities, sparsify
from svnn.functional.moments import Moments, product_variances, sample_moments
from svnn.functional.probabilities import acv_probabilities, acv_slope, rcv_probabilities
from svnn.functional.psd import psd_repair, smallest_eigenvalue
from svnn.functional.thresholds import (
    adaptive_lasso_threshold,
    hard_threshold,
    largest_pairs,
    pairs_for_density,
    scad_threshold,
    soft_threshold,
    threshold_for_density,
    top_k_pairs,
    top_k_thresholds,
    universal_threshold,
)
from svnn.functional.uniforms import pair_uniforms

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
