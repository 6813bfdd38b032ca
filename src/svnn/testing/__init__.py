"""Checks for people who write their own operators and covariance estimators.

svnn's own tests run every backend and every estimator through the same functions.
"""

from svnn.testing._covariances import check_covariance
from svnn.testing._operators import check_operator

__all__ = ["check_covariance", "check_operator"]
