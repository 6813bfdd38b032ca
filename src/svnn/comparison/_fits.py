"""One fit of one model on one split, on one thread."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.impute import SimpleImputer
from threadpoolctl import threadpool_limits

from svnn._jobs import Row
from svnn.comparison._models import NETWORKS, build, fit
from svnn.comparison._names import REGRESSION


def fit_and_score(
    model: str,
    split: int,
    *,
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray | None,
    train: np.ndarray,
    test: np.ndarray,
    task: str,
    seed: int,
    group_folds: int | None,
    builds: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Fit a model on the training rows, and return its score on the test rows and the processor time of the fit.

    ``builds`` is the name of the model to :func:`build` where ``model`` is not, and ``parameters`` are those in which
    it differs.

    Missing values are the medians of the training rows, whichever side they are on.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X_train, X_test = complete(X[train], X[test])
            name = builds or model
            if name in NETWORKS:
                _load_kernels(name, task, min(X.shape[1], 1200))
            estimator = build(name, task, X.shape[1], seed, group_folds)
            if parameters:
                estimator.set_params(**parameters)
            start = time.process_time()
            fit(estimator, X_train, y[train], None if groups is None else groups[train])
            seconds = time.process_time() - start
            predicted = np.ravel(estimator.predict(X_test))
    finally:
        torch.set_num_threads(threads)
    error = np.abs(predicted - y[test]) if task == REGRESSION else 100.0 * (predicted != y[test])
    return [{"score": float(error.mean()), "fit_seconds": seconds}]


def complete(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fill in missing values; nothing is learned from the test rows."""
    if np.isfinite(train).all() and np.isfinite(test).all():
        return train, test
    imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(train)
    return imputer.transform(train), imputer.transform(test)


@cache
def _load_kernels(model: str, task: str, features: int) -> None:
    """Train for a moment, so that loading or compiling the kernels is not booked as the time of a fit."""
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    build(model, task, features, 0).set_params(max_epochs=2).fit(rng.standard_normal((24, features)), y)
