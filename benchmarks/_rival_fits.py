"""The tables of ``make rivals``, their random splits, and one fit of one model on one of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from _rival_models import CLASSES, CONTROL, OURS, REGRESSION, build, fit
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from svnn.datasets import load_genes, load_meats
from svnn.paper import load_dsads, load_released, load_thickness
from svnn.preprocessing import WindowFeatures


def _own(load: Callable[..., Any]) -> Callable[[], Bunch]:
    """Return the loader of a table that comes with scikit-learn."""
    return lambda: Bunch(**dict(zip(("X", "y"), load(return_X_y=True), strict=True)), groups=None)


#: Kind and loader of every table, in the order of the report.
TABLES: dict[str, tuple[str, Callable[[], Bunch]]] = {
    "SparseCov": (REGRESSION, lambda: load_released("SparseCov")),
    "LargeCov": (REGRESSION, lambda: load_released("LargeCov")),
    "SmallCov": (REGRESSION, lambda: load_released("SmallCov")),
    "IXI thickness → age": (REGRESSION, lambda: load_thickness("ixi")),
    "braindev thickness → age": (REGRESSION, lambda: load_thickness("braindev")),
    "meats → fat": (REGRESSION, lambda: load_meats(target="fat")),
    "meats → water": (REGRESSION, lambda: load_meats(target="water")),
    "meats → protein": (REGRESSION, lambda: load_meats(target="protein")),
    "diabetes": (REGRESSION, _own(load_diabetes)),
    "digits": (CLASSES, _own(load_digits)),
    "breast cancer": (CLASSES, _own(load_breast_cancer)),
    "wine": (CLASSES, _own(load_wine)),
    "DSADS": (CLASSES, load_dsads),
    "golub": (CLASSES, lambda: load_genes("golub")),
    "gordon": (CLASSES, lambda: load_genes("gordon")),
}
#: Tables of rows that belong together: all rows of a person are on one side of a split.
BY_GROUP = ("DSADS",)
#: Tables of recorded windows (t, nodes, samples) and their samples per second. svnn sees features of every node, the
#: others see them side by side.
WINDOWS = {"DSADS": 25.0}
#: What takes more than two minutes for one fit, and why. (On golub the same takes just two.)
TOO_SLOW = {("gordon", "LDA"): "more than 2 minutes: it solves with a full 12533 × 12533 covariance"}


@lru_cache(maxsize=1)
def loaded(table: str) -> Bunch:
    return TABLES[table][1]()


@lru_cache(maxsize=1)
def split(table: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the rows for training and for testing, the signals of all rows, and their groups, or None.

    The signals are X as it is, or features of windows, fitted on the rows for training; no model's seconds hold that.
    """
    data, rows = loaded(table), np.arange(len(loaded(table).y))
    groups = data.groups if table in BY_GROUP else None
    if groups is not None:
        train, test = next(GroupShuffleSplit(1, test_size=0.25, random_state=seed).split(rows, groups=groups))
    else:
        labels = data.y if TABLES[table][0] == CLASSES else None
        train, test = train_test_split(rows, test_size=0.25, random_state=seed, stratify=labels)
    X = data.X
    if table in WINDOWS:
        X = WindowFeatures(sampling_rate=WINDOWS[table]).fit(X[train]).transform(X)
    return train, test, X, groups


def measure(table: str, model: str, seed: int) -> dict[str, Any]:
    """Fit one model on one split and return its row of the file."""
    kind = TABLES[table][0]
    train, test, X, groups = split(table, seed)
    y = loaded(table).y
    row = {"data": table, "samples": len(X), "features": X[0].size, "kind": kind, "model": model, "seed": seed}
    if reason := TOO_SLOW.get((table, model)):
        return row | {"reason": reason}
    if model not in (OURS, CONTROL):
        X = X.reshape(len(X), -1)
    one = build(model, kind, X[0].size, seed, grouped=groups is not None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="sklearn")
            start = time.process_time()
            fit(one, X[train], y[train], None if groups is None else groups[train])
            middle = time.process_time()
            predicted = np.ravel(one.predict(X[test]))
            end = time.process_time()
    finally:
        torch.set_num_threads(threads)
    error = predicted - y[test] if kind == REGRESSION else 100.0 * (predicted != y[test])
    row |= {"score": f"{np.abs(error).mean():.6g}", "fit_seconds": f"{middle - start:.3g}"}
    row |= {"predict_seconds": f"{end - middle:.3g}", "reason": ""}
    return row | {"rmse": f"{np.sqrt(np.mean(error**2)):.6g}" if kind == REGRESSION else ""}
