"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from svnn._parameters import declared
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._network_estimator import Regression


@declared
class SVNNRegressor(CovarianceNetwork, Regression):
    """Regression with a sparse covariance neural network.

    Estimates the covariance of the features, sparsifies it, and trains a network whose layers are
    polynomials of it.

    See Also
    --------
    SVNNClassifier : the same for labels.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.datasets import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=200, n_features=20, random_state=0)
    >>> model = SVNNRegressor(covariance="hard", max_epochs=50, random_state=0)
    >>> model.fit(data.X[:150], data.y[:150]).predict(data.X[150:]).shape
    (50,)
    >>> bool(model.score(data.X[150:], data.y[150:]) > 0.1)
    True

    The fitted covariance estimator says what it found, here the share of the covariances that it kept:

    >>> 0 < model.covariance_estimator_.density_ < 1
    True
    """
