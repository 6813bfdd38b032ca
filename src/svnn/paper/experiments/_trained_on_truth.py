"""A network that was trained with the true covariance of synthetic data: the start of the stability experiments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from svnn._jobs import derive_seed
from svnn.estimators import SVNNRegressor
from svnn.nn import CovarianceFilter
from svnn.paper import make_large_cov, make_small_cov, make_sparse_cov
from svnn.paper.experiments._models import PAPER
from svnn.paper.experiments._settings import Settings

MAKERS: dict[str, Callable[..., Bunch]] = {
    "SparseCov": make_sparse_cov,
    "LargeCov": make_large_cov,
    "SmallCov": make_small_cov,
}
#: The width F of the network on each data set (Sec. V-E).
WIDTHS = {"SparseCov": 13, "LargeCov": 32, "SmallCov": 32}


@dataclass(frozen=True, kw_only=True)
class SyntheticSettings(Settings):
    """How networks are trained on synthetic data (Sec. V-E).

    The order K and the batch size are ours; the paper does not give them.
    """

    layers: int = 2
    order: int = 2
    epochs: int = 50
    lr: float = 0.015
    weight_decay: float = 1e-5
    batch_size: int = 32
    samples: int = 1000


@dataclass
class Trained:
    """A trained network, and its data.

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

    @property
    def first_layer(self) -> CovarianceFilter:
        """The filters of the first layer."""
        return cast(CovarianceFilter, self.model.module_.get_submodule("filters.0"))

    def samples(self, T: int, seed: int) -> np.ndarray:
        """Return ``T`` new Gaussian samples with the true covariance."""
        N = len(self.raw_covariance)
        return np.random.default_rng(seed).multivariate_normal(np.zeros(N), self.raw_covariance, T)

    def standardised(self, X: np.ndarray) -> np.ndarray:
        """Return data on the scale of the standardised features, (t, N)."""
        return (X - self.X_train.mean(0)) / self.X_train.std(0)


def train_on_truth(name: str, settings: SyntheticSettings, repeat: int, N: int = 100) -> Trained:
    """Draw a data set, split it 80/10/10, and train a network with the true covariance."""
    seed = derive_seed(settings.seed, "synthetic", name, N, repeat)
    data = MAKERS[name](n_samples=settings.samples, n_features=N, random_state=seed)
    cuts = [round(0.8 * len(data.X)), round(0.9 * len(data.X))]
    (X, Xv, Xt), (y, yv, yt) = np.split(data.X, cuts), np.split(data.y, cuts)
    spread = X.std(0)
    C = data.covariance / np.outer(spread, spread)
    model = SVNNRegressor(
        covariance="precomputed",
        shift=C,
        hidden=(WIDTHS[name],) * settings.layers,
        order=settings.order,
        loss="squared",
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        max_epochs=settings.epochs,
        patience=settings.epochs,
        batch_size=settings.batch_size,
        random_state=derive_seed(seed, "network"),
        **PAPER,
    )
    model.fit(X, y, validation_data=(Xv, yv))
    return Trained(model, C, data.covariance, X, y, Xv, yv, Xt, yt)


def compare(base: BaseEstimator, moved: BaseEstimator, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return how the error and the embeddings differ between one model on two covariances.

    ``embedding_error`` is ``‖U - U₀‖ / ‖U₀‖`` over all rows, ``embedding_distance`` the mean of ``‖u - u₀‖`` over rows.
    """
    before, after = (abs(model.predict(X) - y).mean() for model in (base, moved))
    start = base.embed(X)
    change = moved.embed(X) - start
    return {
        "mae": float(after),
        "mae_change": float(after - before),
        "embedding_error": float(np.linalg.norm(change) / np.linalg.norm(start)),
        "embedding_distance": float(np.linalg.norm(change.reshape(len(X), -1), axis=1).mean()),
    }
