"""Sparse covariance neural networks.

A covariance neural network treats every feature as a node of a graph, and the covariance of two features as the weight
of their edge; its layers are polynomials of the covariance. svnn makes the covariance sparse first, by thresholding or
by dropping entries at random with well-chosen probabilities. With little data the networks are then more accurate, and
they are more stable and cheaper.

The names below are imported on first use, so that ``import svnn`` and ``svnn --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:  # for type checkers and editors; the tables below are for Python
    from svnn import comparison as comparison
    from svnn import covariance as covariance
    from svnn import datasets as datasets
    from svnn import estimators as estimators
    from svnn import functional as functional
    from svnn import graphs as graphs
    from svnn import inspection as inspection
    from svnn import metrics as metrics
    from svnn import nn as nn
    from svnn import operators as operators
    from svnn import paper as paper
    from svnn import plotting as plotting
    from svnn import preprocessing as preprocessing
    from svnn import reporting as reporting
    from svnn import sources as sources
    from svnn import stability as stability
    from svnn import testing as testing
    from svnn.covariance import ACV as ACV
    from svnn.covariance import RCV as RCV
    from svnn.covariance import AdaptiveThreshold as AdaptiveThreshold
    from svnn.covariance import ConvergenceError as ConvergenceError
    from svnn.covariance import GraphicalLasso as GraphicalLasso
    from svnn.covariance import HardThreshold as HardThreshold
    from svnn.covariance import SampleCovariance as SampleCovariance
    from svnn.covariance import SoftThreshold as SoftThreshold
    from svnn.estimators import BlendClassifier as BlendClassifier
    from svnn.estimators import BlendRegressor as BlendRegressor
    from svnn.estimators import ModelFileError as ModelFileError
    from svnn.estimators import SVNNClassifier as SVNNClassifier
    from svnn.estimators import SVNNRegressor as SVNNRegressor
    from svnn.estimators import load as load
    from svnn.operators import as_operator as as_operator
    from svnn.stability import advise as advise

#: The packages, and the names that are taken from them.
_PACKAGES = {
    "comparison": (),
    "covariance": (
        *("SampleCovariance", "HardThreshold", "SoftThreshold", "AdaptiveThreshold", "ACV", "RCV", "GraphicalLasso"),
        "ConvergenceError",
    ),
    "datasets": (),
    "estimators": (
        *("SVNNClassifier", "SVNNRegressor", "BlendClassifier", "BlendRegressor", "load", "ModelFileError"),
    ),
    "functional": (),
    "graphs": (),
    "inspection": (),
    "metrics": (),
    "nn": (),
    "operators": ("as_operator",),
    "paper": (),
    "plotting": (),
    "preprocessing": (),
    "reporting": (),
    "sources": (),
    "stability": ("advise",),
    "testing": (),
}
_HOMES = {name: package for package, names in _PACKAGES.items() for name in names}

__all__ = ["__version__", *_PACKAGES, *_HOMES]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name, name)
    if home in _PACKAGES:
        package = import_module(f"svnn.{home}")
        return package if home == name else getattr(package, name)
    raise AttributeError(f"module 'svnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
