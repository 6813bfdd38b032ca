"""The baselines, quick, and small tables to learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits

from svnn import SVNNClassifier, SVNNRegressor
from svnn.paper import baselines

QUICK = {"max_epochs": 30, "lr": 0.02, "random_state": 0}


def every(task: str) -> dict[str, object]:
    """Return one estimator of every type; ``task`` is "Regressor" or "Classifier"."""
    make = lambda name, **options: getattr(baselines, name + task)(**options)  # noqa: E731
    svnn = {"Regressor": SVNNRegressor, "Classifier": SVNNClassifier}[task]
    return {
        "MLP": make("MLP", **QUICK),
        "PCA + MLP": make("PCAMLP", n_components=8, **QUICK),
        "kernel PCA + MLP": make("PCAMLP", n_components=8, reduction="kernel", **QUICK),
        "sparse PCA + MLP": make("PCAMLP", n_components=8, reduction="sparse", max_observations=60, **QUICK),
        "PCA-SVM": make("PCASVM", n_components=8, random_state=0),
        "neighbour sampling": make("NeighborSampling", n_neighbors=3, **QUICK),
        "Ledoit-Wolf": svnn(covariance="ledoit_wolf", **QUICK),
        "graphical lasso": svnn(covariance="graphical_lasso", use="precision", **QUICK),
    }


NAMES = list(every("Regressor"))


@pytest.fixture
def data(rng):
    X = rng.standard_normal((120, 1)) + rng.standard_normal((120, 6))
    return X, X @ np.arange(6.0) + 100


@pytest.fixture(params=NAMES)
def regressor(request):
    return clone(every("Regressor")[request.param])


@pytest.fixture(params=NAMES)
def classifier(request):
    return clone(every("Classifier")[request.param])


@pytest.fixture(scope="session")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 4, 2).mean(3).reshape(len(X), 32)  # half the pixels, half the time
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    return X[:300], y[:300], X[300:700], y[300:700]
