"""Sparse covariance neural networks.

A covariance neural network treats every feature as a node and the covariance of the features as
the graph; its layers are polynomials of the covariance. svnn sparsifies the covariance first, by
thresholding or by principled random dropping: more accurate with little data, more stable, cheaper.

The names below are imported on first use, so that ``import svnn`` and ``svnn --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "ACV": "svnn.covariance",
    "RCV": "svnn.covariance",
    "AdaptiveThreshold": "svnn.covariance",
    "ConvergenceError": "svnn.covariance",
    "GraphicalLasso": "svnn.covariance",
    "HardThreshold": "svnn.covariance",
    "SampleCovariance": "svnn.covariance",
    "SoftThreshold": "svnn.covariance",
    "as_operator": "svnn.operators",
    "SVNNClassifier": "svnn.estimators",
    "SVNNRegressor": "svnn.estimators",
    "ModelFileError": "svnn.estimators",
    "load": "svnn.estimators",
}
_ROOMS = (
    "covariance",
    "datasets",
    "estimators",
    "functional",
    "metrics",
    "nn",
    "operators",
    "preprocessing",
    "stability",
    "testing",
)

__all__ = [
    "ACV",
    "RCV",
    "AdaptiveThreshold",
    "ConvergenceError",
    "GraphicalLasso",
    "HardThreshold",
    "ModelFileError",
    "SVNNClassifier",
    "SVNNRegressor",
    "SampleCovariance",
    "SoftThreshold",
    "__version__",
    "as_operator",
    "covariance",
    "datasets",
    "estimators",
    "functional",
    "load",
    "metrics",
    "nn",
    "operators",
    "preprocessing",
    "stability",
    "testing",
]

if TYPE_CHECKING:
    from svnn import (
        covariance,
        datasets,
        estimators,
        functional,
        metrics,
        nn,
        operators,
        preprocessing,
        stability,
        testing,
    )
    from svnn.covariance import (
        ACV,
        RCV,
        AdaptiveThreshold,
        ConvergenceError,
        GraphicalLasso,
        HardThreshold,
        SampleCovariance,
        SoftThreshold,
    )
    from svnn.estimators import ModelFileError, SVNNClassifier, SVNNRegressor, load
    from svnn.operators import as_operator


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"svnn.{name}")
    raise AttributeError(f"module 'svnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
