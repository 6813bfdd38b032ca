"""Small models of every kind for the tests of svnn.inspection, and data for them."""

from __future__ import annotations

import numpy as np

from svnn import BlendRegressor, SVNNRegressor

QUICK = {"max_epochs": 8, "members": 2, "device": "cpu", "random_state": 0}
N = 7


def signals(seed=0, n_samples=60, n_values=None):
    """Correlated features of different sizes and means: (t, N) or (t, N, F)."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(N) + 0.4 * rng.standard_normal((N, N))
    X = rng.standard_normal((n_samples, n_values or 1, N)) @ mixing * np.arange(1, N + 1) + 5.0
    return X[:, 0] if n_values is None else X.swapaxes(1, 2)


def numbers(X):
    first = X.reshape(len(X), -1)
    return 30 + 10 * np.tanh(first[:, 0] - 5) + first[:, 2]


def blend(**options):
    """A blend around a small S-VNN, not fitted."""
    return BlendRegressor(SVNNRegressor(**QUICK | options))


def network_in(model):
    """The S-VNN with edges of a blend."""
    return model.parts_[model.network_part or "without edges"]


PATH = np.eye(N) + 0.2 * (np.eye(N, k=1) + np.eye(N, k=-1))
REGRESSORS = {
    "default": {},
    "one member": {"members": 1},
    "covariance": {"use": "covariance", "covariance": "sample"},
    "two layers": {"hidden": (5, 4), "use": "covariance"},
    "batch norm": {"batch_norm": True, "members": 1},
    "relu": {"activation": "relu", "use": "covariance"},
    "mean readout": {"readout": "mean"},
    "flatten": {"readout": "flatten"},
    "given matrix": {"covariance": PATH},
    "precision": {"covariance": "graphical_lasso", "use": "precision"},
    "not standardised": {"standardize": False},
    "no shifts": {"order": 0},
}
