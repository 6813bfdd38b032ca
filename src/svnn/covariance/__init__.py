"""Covariance estimators with the scikit-learn contract: ``fit(X)`` sets ``covariance_``."""

from svnn.covariance._graphical_lasso import ConvergenceError, GraphicalLasso
from svnn.covariance._resolve import resolve
from svnn.covariance._sample import SampleCovariance
from svnn.covariance._stochastic import ACV, RCV
from svnn.covariance._threshold import AdaptiveThreshold, HardThreshold, SoftThreshold
from svnn.covariance._within_class import WithinClass

__all__ = [
    "ACV",
    "RCV",
    "AdaptiveThreshold",
    "ConvergenceError",
    "GraphicalLasso",
    "HardThreshold",
    "SampleCovariance",
    "SoftThreshold",
    "WithinClass",
    "resolve",
]
