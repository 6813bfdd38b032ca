"""Shift operators: a covariance, stored so that ``C @ x`` is fast."""

from svnn.operators._base import CovarianceOperator
from svnn.operators._build import as_operator, choose_backend, plain_matrix
from svnn.operators._csr import CSROperator
from svnn.operators._dense import DenseOperator
from svnn.operators._lowrank import LowRankOperator, from_data

__all__ = [
    "CSROperator",
    "CovarianceOperator",
    "DenseOperator",
    "LowRankOperator",
    "as_operator",
    "choose_backend",
    "from_data",
    "plain_matrix",
]
