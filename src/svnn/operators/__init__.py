"""Shift operators: a covariance, stored so that ``C @ x`` is fast."""

from svnn.operators._bank_costs import choose_backend
from svnn.operators._build import as_operator, plain_matrix
from svnn.operators._csr import CSROperator
from svnn.operators._dense import DenseOperator
from svnn.operators._lowrank import LowRankOperator, from_data
from svnn.operators._operator import CovarianceOperator
from svnn.operators._sum import SumOperator

__all__ = [
    "CSROperator",
    "CovarianceOperator",
    "DenseOperator",
    "LowRankOperator",
    "SumOperator",
    "as_operator",
    "choose_backend",
    "from_data",
    "plain_matrix",
]
