"""Shift operators: a covariance, stored so that ``C @ x`` is fast.

Beside the public names, other rooms of the package import ``are_integers``, ``checked_batch``, ``common_scale``,
``suited`` and ``traced`` from here.
"""

from svnn.operators._batched import BatchedOperator
from svnn.operators._batched import checked_batch as checked_batch
from svnn.operators._batched import common_scale as common_scale
from svnn.operators._build import as_operator, choose_backend, plain_matrix
from svnn.operators._build import suited as suited
from svnn.operators._csr import CSROperator
from svnn.operators._dense import DenseOperator
from svnn.operators._edges import are_integers as are_integers
from svnn.operators._edges import from_edges, from_pyg, to_pyg
from svnn.operators._lowrank import LowRankOperator, SumOperator, from_data
from svnn.operators._operator import CovarianceOperator
from svnn.operators._packed import PackedOperator, pack, pack_signals
from svnn.operators._tracing import traced as traced

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
