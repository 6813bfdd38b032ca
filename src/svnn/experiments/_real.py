"""Fit one model on one split of a real data set, score it, and take its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from svnn.experiments._data import load_split
from svnn.experiments._draws import density
from svnn.experiments._jobs import Row, derive_seed
from svnn.experiments._models import build
from svnn.operators._build import suited


def fit_and_score(
    dataset: str, model: str, config: Mapping[str, Any], repeat: int, settings: Mapping[str, Any], **key: Any
) -> list[Row]:
    """Train on the training rows, stop by the validation rows, score on validation and test rows.

    ``fit_seconds`` includes the covariance and all epochs, on one core.
    """
    split = load_split(dataset, repeat, settings["seed"], settings["limit"])
    seed = derive_seed(settings["seed"], "fit", dataset, model, repeat)
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
        row["density"] = density(estimator.operator_.to_scipy()) if estimator.order else 0.0
    return [row]


def take_times(
    dataset: str, model: str, config: Mapping[str, Any], settings: Mapping[str, Any], **key: Any
) -> list[Row]:
    """Take the times of one pass over the test rows: medians of several, after a warm one, on one core.

    ``predict_seconds`` is that of ``predict``, in double precision and with all that goes before the network;
    ``forward_seconds`` that of the network alone, in single precision, where there is a covariance network, and
    ``backend`` what its shifts by the covariance ran in. Weights do not matter to either, so one epoch of training is
    enough; ``setup_seconds`` is the time of that: the covariance or the reduction, and an epoch.
    """
    split = load_split(dataset, 0, settings["seed"], settings["limit"])
    seed = derive_seed(settings["seed"], "fit", dataset, model, 0)
    estimator = build(model, split.classes, config, {**settings, "epochs": 1}, seed)
    fit(estimator, split)
    start = time.perf_counter()
    fit(estimator, split)
    setup = time.perf_counter() - start
    X = split.test[0]
    predict = median_time(lambda: estimator.predict(X), settings["timings"])
    row: Row = {"rows": len(X), "setup_seconds": setup, "predict_seconds": predict}
    if hasattr(estimator, "operator_") and hasattr(estimator, "module_"):
        module, operator = estimator.module_.eval(), estimator.operator_
        x = torch.as_tensor(X, dtype=torch.float32).reshape(*X.shape[:2], -1)
        with torch.no_grad():
            row["forward_seconds"] = median_time(lambda: module(x, operator), settings["timings"])
        if module.order:
            _, n_in, n_out = module.filters[-1].weight.shape
            used = suited(operator, n_in, n_out, module.order, len(x)) if operator.adaptive else operator
            row["backend"] = used.backend
    return [row]


def median_time(call: Callable[[], Any], times: int) -> float:
    """Return the median duration of a call, in seconds."""
    call()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def fit(estimator: Any, split: Any) -> Any:
    """Fit on training rows; validation rows stop the training, where there is any."""
    if hasattr(estimator, "max_epochs"):
        return estimator.fit(*split.train, validation_data=split.validation)
    return estimator.fit(*split.train)
