"""Data with a known covariance."""

from svnn.datasets._synthetic import (
    make_large_cov,
    make_small_cov,
    make_sparse_cov,
    make_sparse_covariance,
    make_spiked,
)

__all__ = ["make_large_cov", "make_small_cov", "make_sparse_cov", "make_sparse_covariance", "make_spiked"]
