"""Covariance estimators with the scikit-learn contract: ``fit(X)`` sets ``covariance_``."""

from svnn.covariance._bands import Banding, Tapering
from svnn.covariance._factor_threshold import FactorThreshold
from svnn.covariance._graphical_lasso import ConvergenceError, GraphicalLasso
from svnn.covariance._resolve import resolve
from svnn.covariance._sample_covariance import SampleCovariance
from svnn.covariance._scatter import HuberCovariance, TylerCovariance
from svnn.covariance._significant_edges import SignificantEdges
from svnn.covariance._stochastic import ACV, RCV
from svnn.covariance._thresholds import AdaptiveThreshold, HardThreshold, SoftThreshold
from svnn.covariance._wrappers import Spectral, WithinClass

__all__ = [
    "ACV",
    "RCV",
    "AdaptiveThreshold",
    "Banding",
    "ConvergenceError",
    "FactorThreshold",
    "GraphicalLasso",
    "HardThreshold",
    "HuberCovariance",
    "SampleCovariance",
    "SignificantEdges",
    "SoftThreshold",
    "Spectral",
    "Tapering",
    "TylerCovariance",
    "WithinClass",
    "resolve",
]
