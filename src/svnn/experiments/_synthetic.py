"""A network trained with the true covariance of synthetic data: where the stability experiments start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from svnn.datasets import make_large_cov, make_small_cov, make_sparse_cov
from svnn.estimators import SVNNRegressor
from svnn.experiments._jobs import derive_seed

#: Sec. V-E: two layers, 50 epochs, Adam. The order K and the batch are ours; the paper does not say.
TRAINING: dict[str, Any] = {
    "layers": 2,
    "order": 2,
    "epochs": 50,
    "lr": 0.015,
    "weight_decay": 1e-5,
    "batch_size": 32,
    "samples": 1000,
}
#: The network as the paper has it: the mean over nodes is read out, and nothing of ours is added.
PAPER: dict[str, Any] = {
    "readout": "mean",
    "mlp": (32,),
    "batch_norm": True,
    "node_dropout": 0.0,
    "averaging": 0.0,
    "device": "cpu",
}
MAKERS: dict[str, Callable[..., Any]] = {
    "SparseCov": make_sparse_cov,
    "LargeCov": make_large_cov,
    "SmallCov": make_small_cov,
}
#: Feature size F on each set.
FEATURES = {"SparseCov": 13, "LargeCov": 32, "SmallCov": 32}


@dataclass
class Trained:
    """A network on the true covariance, and what it was not trained on.

    ``covariance`` is the true one on the scale of the standardised features, ``raw_covariance`` on that of the data.
    """

    model: SVNNRegressor
    covariance: np.ndarray
    raw_covariance: np.ndarray
    X_train: np.ndarray
    y_train: np.ndarray
    X_validation: np.ndarray
    y_validation: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def samples(self, T: int, seed: int) -> np.ndarray:
        """Return ``T`` new Gaussian samples with the true covariance."""
        N = len(self.raw_covariance)
        return np.random.default_rng(seed).multivariate_normal(np.zeros(N), self.raw_covariance, T)

    def standardised(self, X: np.ndarray) -> np.ndarray:
        """Return data on the scale of the standardised features, (t, N)."""
        return (X - self.X_train.mean(0)) / self.X_train.std(0)


def train_on_truth(name: str, settings: Mapping[str, Any], repeat: int, N: int = 100) -> Trained:
    """Draw a data set, split it 80/10/10, and train a network with the true covariance."""
    seed = derive_seed(settings["seed"], "synthetic", name, N, repeat)
    data = MAKERS[name](n_samples=settings["samples"], n_features=N, random_state=seed)
    cuts = [round(0.8 * len(data.X)), round(0.9 * len(data.X))]
    (X, Xv, Xt), (y, yv, yt) = np.split(data.X, cuts), np.split(data.y, cuts)
    spread = X.std(0)
    C = data.covariance / np.outer(spread, spread)
    model = SVNNRegressor(
        covariance="precomputed",
        shift=C,
        hidden=(FEATURES[name],) * settings["layers"],
        order=settings["order"],
        loss="squared",
        lr=settings["lr"],
        weight_decay=settings["weight_decay"],
        max_epochs=settings["epochs"],
        patience=settings["epochs"],
        batch_size=settings["batch_size"],
        random_state=derive_seed(seed, "network"),
        **PAPER,
    )
    model.fit(X, y, validation_data=(Xv, yv))
    return Trained(model, C, data.covariance, X, y, Xv, yv, Xt, yt)
