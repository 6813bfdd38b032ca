"""The models of the experiments: their names and settings, how they are built, and a network trained on the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from svnn._jobs import derive_seed
from svnn._types import Matrix
from svnn.covariance import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold
from svnn.estimators import SVNNClassifier, SVNNRegressor
from svnn.nn import CovarianceFilter
from svnn.paper import baselines, make_large_cov, make_small_cov, make_sparse_cov
from svnn.paper.experiments._runner import Settings

#: The settings of one model that are searched on validation data, such as {"layers": 2, "mlp": [32, 32]}.
Config: TypeAlias = Mapping[str, Any]
#: The values that are tried for each of them.
Grid: TypeAlias = Mapping[str, Sequence[object]]

#: What is searched on validation data (Sec. V-E): layers L, order K, dropout; the perceptron's widths; components.
GRID: Grid = {
    "layers": (1, 2, 3),
    "order": (1, 2, 3),
    "dropout": (0.0, 0.3),
    "mlp": ([32, 32], [256, 128], [256, 128, 128]),
    "components": (10, 20, 50),
}
#: Experiments without a search use these settings.
FIXED: Config = {"layers": 2, "order": 2, "dropout": 0.0}
#: The network as the paper describes it: it reads out the mean over nodes, and has none of our additions.
PAPER: Mapping[str, Any] = {
    "members": 1,
    "shrink": False,
    "use": "covariance",
    "schedule": "constant",
    "activation": "leaky_relu",
    "readout": "mean",
    "mlp": (32,),
    "batch_norm": True,
    "node_dropout": 0.0,
    "device": "cpu",
}
LEVELS = (0.75, 0.5, 0.25)
#: The networks of the paper, and the parameters in which they differ.
NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "VNN": {"covariance": SampleCovariance()},
    **{f"Hard p={p}": {"covariance": HardThreshold(density=p)} for p in LEVELS},
    **{f"Soft p={p}": {"covariance": SoftThreshold(density=p)} for p in LEVELS},
    **{f"RCV p={p}": {"covariance": RCV(p=p)} for p in LEVELS},
    "ACV": {"covariance": ACV()},
    "LW": {"covariance": "ledoit_wolf"},
    "GL": {"covariance": "graphical_lasso", "use": "precision"},
    "No edges": {"covariance": SampleCovariance(), "order": 0},  # the same network without a covariance
}
#: Those of them that the paper calls S-VNNs.
SPARSE = tuple(name for name in NETWORKS if name not in ("VNN", "No edges"))
#: The baselines: the name of the class, its fixed parameters, and the parts of the grid that are searched.
BASELINES: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "MLP": ("MLP", {}, ("mlp",)),
    "PCA + MLP": ("PCAMLP", {"reduction": "pca"}, ("mlp", "components")),
    "Kernel PCA + MLP": ("PCAMLP", {"reduction": "kernel"}, ("mlp", "components")),
    "Sparse PCA + MLP": ("PCAMLP", {"reduction": "sparse"}, ("mlp", "components")),
    "PCA-SVM": ("PCASVM", {}, ("components",)),
    "NeighSampl": ("NeighborSampling", {}, ("layers", "dropout")),
}
#: The network with the defaults of this library, among them a learned readout, on five covariances.
LIBRARY: Mapping[str, BaseEstimator] = {
    "svnn VNN": SampleCovariance(),
    "svnn Hard": HardThreshold(),
    "svnn Soft": SoftThreshold(density=0.25),
    "svnn RCV": RCV(p=0.5),
    "svnn ACV": ACV(),
}
LIBRARY_EPOCHS = 100
MODELS = (*BASELINES, *NETWORKS, *LIBRARY)


@dataclass(frozen=True, kw_only=True)
class RealSettings(Settings):
    """Training of all models on real data (Sec. V-E). The batch size is ours; the paper does not give it."""

    lr: float = 0.01
    weight_decay: float = 1e-5
    epochs: int = 1000
    patience: int = 100
    batch_size: int = 128
    features: int = 32
    limit: int | None = None
    repeats: int = 5
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TimedSettings(RealSettings):
    """Settings of experiments that take times: which models, and how often a prediction is timed."""

    models: tuple[str, ...]
    timings: int = 15


def configurations(model: str, grid: Grid) -> list[Config]:
    """Return the settings of a model that are searched.

    Examples
    --------
    >>> len(configurations("VNN", GRID)), len(configurations("PCA + MLP", GRID)), configurations("svnn Hard", GRID)
    (18, 9, [{}])
    """
    if model in LIBRARY:
        return [{}]
    searched = BASELINES[model][2] if model in BASELINES else ("layers", "order", "dropout")
    searched = tuple(name for name in searched if name not in NETWORKS.get(model, {}))
    return [dict(zip(searched, values, strict=True)) for values in product(*(grid[name] for name in searched))]


def build(model: str, classes: bool, config: Config, training: RealSettings, seed: int) -> BaseEstimator:
    """Return an unfitted estimator.

    Parameters
    ----------
    model : str
        One of ``MODELS``.
    classes : bool
        Whether to build a classifier; otherwise a regressor.
    config : dict
        One of ``configurations(model, grid)``.
    training : RealSettings
    seed : int
    """
    network = SVNNClassifier if classes else SVNNRegressor
    loop: dict[str, Any] = {"device": "cpu", "random_state": seed}
    if model in LIBRARY:  # whose default schedule is far shorter than the paper's
        return network(covariance=LIBRARY[model], max_epochs=min(training.epochs, LIBRARY_EPOCHS), **loop)
    if model == "PCA-SVM":
        return _baseline(model, classes)(n_components=config["components"], random_state=seed)
    loop |= {"max_epochs": training.epochs, "patience": min(training.patience, training.epochs)}
    loop |= {"batch_size": training.batch_size, "lr": training.lr, "weight_decay": training.weight_decay}
    loop |= {name: config[name] for name in ("order", "dropout") if name in config}
    if "layers" in config:
        loop["hidden"] = (training.features,) * config["layers"]
    if model in NETWORKS:
        loop |= {} if classes else {"loss": "squared"}
        return network(**{**PAPER, **loop, **NETWORKS[model]})
    if "mlp" in config:
        loop["hidden"] = tuple(config["mlp"])
    if "components" in config:
        loop["n_components"] = config["components"]
    return _baseline(model, classes)(**loop, **BASELINES[model][1])


def _baseline(model: str, classes: bool) -> Any:
    return getattr(baselines, BASELINES[model][0] + ("Classifier" if classes else "Regressor"))


def density(C: Matrix) -> float:
    """Return the share of off-diagonal entries that are not zero.

    Examples
    --------
    >>> density(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])) == 1 / 3
    True
    """
    n = C.shape[0]
    kept = np.count_nonzero(C) if isinstance(C, np.ndarray) else C.count_nonzero()
    return float((kept - np.count_nonzero(C.diagonal())) / (n * (n - 1)))


# -- networks that were trained with the true covariance of synthetic data ------------------------------------

MAKERS: dict[str, Callable[..., Bunch]] = {
    "SparseCov": make_sparse_cov,
    "LargeCov": make_large_cov,
    "SmallCov": make_small_cov,
}
#: The width F of the network on each data set (Sec. V-E).
WIDTHS = {"SparseCov": 13, "LargeCov": 32, "SmallCov": 32}


@dataclass(frozen=True, kw_only=True)
class SyntheticSettings(Settings):
    """Training of networks on synthetic data (Sec. V-E).

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
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

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
        return (X - self.train[0].mean(0)) / self.train[0].std(0)


def train_on_truth(name: str, settings: SyntheticSettings, repeat: int, N: int = 100) -> Trained:
    """Draw a data set, split it 80/10/10, and train a network with the true covariance."""
    seed = derive_seed(settings.seed, "synthetic", name, N, repeat)
    data = MAKERS[name](n_samples=settings.samples, n_features=N, random_state=seed)
    cuts = [round(0.8 * len(data.X)), round(0.9 * len(data.X))]
    train, validation, test = zip(np.split(data.X, cuts), np.split(data.y, cuts), strict=True)
    spread = train[0].std(0)
    C = data.covariance / np.outer(spread, spread)
    model = SVNNRegressor(
        covariance=C,
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
    model.fit(*train, validation_data=validation)
    return Trained(model, C, data.covariance, train, validation, test)


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
