"""Shift operators: a covariance, stored so that ``C @ x`` is fast."""

from svnn.operators._bank_costs import choose_backend
from svnn.operators._batched import BatchedOperator
from svnn.operators._build import as_operator, plain_matrix
from svnn.operators._csr import CSROperator
from svnn.operators._dense import DenseOperator
from svnn.operators._edges import from_edges
from svnn.operators._lowrank import LowRankOperator, from_data
from svnn.operators._operator import CovarianceOperator
from svnn.operators._packed import PackedOperator, pack, pack_signals
from svnn.operators._pyg import from_pyg, to_pyg
from svnn.operators._sum import SumOperator

__all__ = [
    "BatchedOperator",
    "CSROperator",
    "CovarianceOperator",
    "DenseOperator",
    "LowRankOperator",
    "PackedOperator",
    "SumOperator",
    "as_operator",
    "choose_backend",
    "from_data",
    "from_edges",
    "from_pyg",
    "pack",
    "pack_signals",
    "plain_matrix",
    "to_pyg",
]
