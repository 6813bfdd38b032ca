"""The models that the experiments on real data compare, by the names they have in the paper's table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from svnn.covariance import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold
from svnn.estimators import SVNNClassifier, SVNNRegressor, baselines
from svnn.experiments._synthetic import PAPER

#: Sec. V-E, for all models; the batch is ours, the paper does not say.
TRAINING: dict[str, Any] = {"lr": 0.01, "weight_decay": 1e-5, "epochs": 1000, "patience": 100, "batch_size": 128}
#: What is searched on validation data: layers L, order K, dropout; widths of the perceptron; components k.
GRID: dict[str, Any] = {
    "layers": [1, 2, 3],
    "order": [1, 2, 3],
    "dropout": [0.0, 0.3],
    "features": 32,
    "mlp": [[32, 32], [256, 128], [256, 128, 128]],
    "components": [10, 20, 50],
}
LEVELS = (0.75, 0.5, 0.25)

#: The networks of the paper by the parameters that tell them apart; seeds are set when they are fitted.
NETWORKS: dict[str, dict[str, Any]] = {
    "VNN": {"covariance": SampleCovariance()},
    **{f"Hard p={p}": {"covariance": HardThreshold(density=p)} for p in LEVELS},
    **{f"Soft p={p}": {"covariance": SoftThreshold(density=p)} for p in LEVELS},
    **{f"RCV p={p}": {"covariance": RCV(p=p)} for p in LEVELS},
    "ACV": {"covariance": ACV()},
    "LW": {"covariance": "ledoit_wolf"},
    "GL": {"covariance": "graphical_lasso", "use": "precision"},
    "No edges": {"covariance": SampleCovariance(), "order": 0},  # what the same network does without a covariance
}
#: Those that the paper calls S-VNNs.
SPARSE = tuple(name for name in NETWORKS if name not in ("VNN", "No edges"))
#: Baselines: the name of their class, what they are made with, and the part of the grid that is searched.
BASELINES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "MLP": ("MLP", {}, ("mlp",)),
    "PCA + MLP": ("PCAMLP", {"reduction": "pca"}, ("mlp", "components")),
    "Kernel PCA + MLP": ("PCAMLP", {"reduction": "kernel"}, ("mlp", "components")),
    "Sparse PCA + MLP": ("PCAMLP", {"reduction": "sparse"}, ("mlp", "components")),
    "PCA-SVM": ("PCASVM", {}, ("components",)),
    "NeighSampl": ("NeighborSampling", {}, ("layers", "dropout")),
}
#: The library's own network (learned readout, averaged weights, and what else its defaults are) on five covariances.
LIBRARY: dict[str, Any] = {
    "svnn VNN": SampleCovariance(),
    "svnn Hard": HardThreshold(),
    "svnn Soft": SoftThreshold(density=0.25),
    "svnn RCV": RCV(p=0.5),
    "svnn ACV": ACV(),
}
MODELS = (*BASELINES, *NETWORKS, *LIBRARY)


def configurations(model: str, grid: Mapping[str, Any]) -> list[dict[str, Any]]:
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


def build(model: str, classes: bool, config: Mapping[str, Any], training: Mapping[str, Any], seed: int) -> Any:
    """Return an unfitted estimator.

    Parameters
    ----------
    model : str
        One of ``MODELS``.
    classes : bool
        A classifier, or a regressor.
    config : dict
        One of ``configurations(model)``.
    training : dict
        As ``TRAINING``, and ``features``.
    seed : int
    """
    kind = "Classifier" if classes else "Regressor"
    loop: dict[str, Any] = {
        "max_epochs": training["epochs"],
        "patience": min(training["patience"], training["epochs"]),
        "device": "cpu",
        "random_state": seed,
    }
    if model in LIBRARY:
        return (SVNNClassifier if classes else SVNNRegressor)(covariance=LIBRARY[model], **loop)
    loop |= {"batch_size": training["batch_size"], "lr": training["lr"], "weight_decay": training["weight_decay"]}
    loop |= {"averaging": 0.0} | ({} if classes else {"loss": "squared"})
    hidden = {"hidden": (training["features"],) * config["layers"]} if "layers" in config else {}
    dropout = {"dropout": config["dropout"]} if "dropout" in config else {}
    if model in NETWORKS:
        network = SVNNClassifier if classes else SVNNRegressor
        order = {"order": config["order"]} if "order" in config else {}
        return network(**{**PAPER, **loop, **order, **NETWORKS[model], **hidden, **dropout})
    stem, fixed, _ = BASELINES[model]
    baseline = getattr(baselines, stem + kind)
    components = {"n_components": config["components"]} if "components" in config else {}
    if stem == "PCASVM":
        return baseline(**components, random_state=seed)
    perceptron = {"hidden": tuple(config["mlp"])} if "mlp" in config else {"mlp": (32,), "readout": "mean"}
    return baseline(**loop, **fixed, **components, **hidden, **dropout, **perceptron)
