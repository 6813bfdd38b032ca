"""The models that the experiments on real data compare: what they are called, how they are built, fitted and timed."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.base import BaseEstimator

from svnn._jobs import Row, derive_seed
from svnn._types import Matrix
from svnn.covariance import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold
from svnn.estimators import SVNNClassifier, SVNNRegressor
from svnn.operators._build import suited
from svnn.paper import baselines
from svnn.paper.experiments._real_data import Split, load_split
from svnn.paper.experiments._settings import Settings

#: The settings of one model that are searched on validation data, such as {"layers": 2, "mlp": [32, 32]}.
Config: TypeAlias = Mapping[str, Any]
#: The values that are tried for each of them.
Grid: TypeAlias = Mapping[str, Sequence[object]]


@dataclass(frozen=True, kw_only=True)
class RealSettings(Settings):
    """How all models are trained on real data (Sec. V-E). The batch size is ours; the paper does not give it."""

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
    "blend": False,
    "use": "covariance",
    "basis": "powers",
    "schedule": "constant",
    "activation": "leaky_relu",
    "readout": "mean",
    "mlp": (32,),
    "batch_norm": True,
    "node_dropout": 0.0,
    "averaging": 0.0,
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
    loop: dict[str, Any] = {
        "max_epochs": training.epochs,
        "patience": min(training.patience, training.epochs),
        "device": "cpu",
        "random_state": seed,
    }
    if model in LIBRARY:
        # Its own schedule is far shorter than the paper's.
        return network(
            covariance=LIBRARY[model],
            device="cpu",
            random_state=seed,
            max_epochs=min(training.epochs, LIBRARY_EPOCHS),
        )
    loop |= {"batch_size": training.batch_size, "lr": training.lr, "weight_decay": training.weight_decay}
    loop |= {"averaging": 0.0} | ({} if classes else {"loss": "squared"})
    searched = {name: config[name] for name in ("order", "dropout") if name in config}
    if "layers" in config:
        searched["hidden"] = (training.features,) * config["layers"]
    if model in NETWORKS:
        return network(**{**PAPER, **loop, **searched, **NETWORKS[model]})
    stem, fixed, _ = BASELINES[model]
    baseline = getattr(baselines, stem + ("Classifier" if classes else "Regressor"))
    if "components" in config:
        searched["n_components"] = config["components"]
    if stem == "PCASVM":
        return baseline(**searched, random_state=seed)
    perceptron = {"hidden": tuple(config["mlp"])} if "mlp" in config else {"mlp": (32,), "readout": "mean"}
    return baseline(**loop, **fixed, **searched, **perceptron)


def fit(estimator: BaseEstimator, split: Split) -> BaseEstimator:
    """Fit on training rows. Where the estimator is trained in epochs, validation rows say when to stop."""
    if hasattr(estimator, "max_epochs"):
        return estimator.fit(*split.train, validation_data=split.validation)
    return estimator.fit(*split.train)


def fit_and_score(
    dataset: str, model: str, config: Config, repeat: int, settings: RealSettings, **key: object
) -> list[Row]:
    """Train on the training rows, stop by the validation rows, and score on the validation and test rows.

    ``fit_seconds`` is the time of the covariance and of all epochs, on one core.
    """
    split = load_split(dataset, repeat, settings.seed, settings.limit)
    seed = derive_seed(settings.seed, "fit", dataset, model, repeat)
    estimator = build(model, split.classes, config, settings, seed)
    start = time.perf_counter()
    fit(estimator, split)
    seconds = time.perf_counter() - start
    row: Row = {
        "validation": split.score(estimator.predict(split.validation[0]), "validation"),
        "score": split.score(estimator.predict(split.test[0])),
        "epochs": int(getattr(estimator, "n_iter_", 0)),
        "fit_seconds": seconds,
    }
    if hasattr(estimator, "order"):
        shift = estimator.covariance_ if estimator.use == "auto" else estimator.operator_.to_scipy()
        row["density"] = density(shift) if estimator.order else 0.0
    return [row]


def take_times(dataset: str, model: str, config: Config, settings: TimedSettings, **key: object) -> list[Row]:
    """Return the times of one pass over the test rows, on one core: medians of several passes.

    ``predict_seconds`` is the time of ``predict``, which runs in double precision and includes all that happens before
    the network. Covariance networks also have ``forward_seconds``, the time of the network alone in single precision,
    and ``backend``, the kind of operator that applied the covariance. The times do not depend on the weights, so one
    epoch of training is enough. ``setup_seconds`` is the time of that epoch and of the covariance or the reduction.
    """
    split = load_split(dataset, 0, settings.seed, settings.limit)
    seed = derive_seed(settings.seed, "fit", dataset, model, 0)
    estimator = build(model, split.classes, config, replace(settings, epochs=1), seed)
    fit(estimator, split)  # the first fit also loads and compiles what it needs
    start = time.perf_counter()
    fit(estimator, split)
    setup = time.perf_counter() - start
    X = split.test[0]
    predict = median_time(lambda: estimator.predict(X), settings.timings)
    row: Row = {"rows": len(X), "setup_seconds": setup, "predict_seconds": predict}
    if hasattr(estimator, "operator_") and hasattr(estimator, "module_"):
        module, operator = estimator.module_.eval(), estimator.operator_
        network = getattr(module, "networks", [module])[0]
        x = torch.as_tensor(X, dtype=torch.float32).reshape(*X.shape[:2], -1)
        with torch.no_grad():
            row["forward_seconds"] = median_time(lambda: module(x, operator), settings.timings)
        if network.order:
            _, n_in, n_out = network.filters[-1].weight.shape
            used = suited(operator, n_in, n_out, network.order, len(x)) if operator.adaptive else operator
            row["backend"] = used.backend
    return [row]


def median_time(call: Callable[[], object], times: int) -> float:
    """Return the median duration of a call in seconds, after one call that is not timed."""
    call()
    return float(np.median(timeit.repeat(call, number=1, repeat=times)))


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
