"""The models that are compared: svnn as it comes, and what users would try, with a usual small grid where it is needed.

Grids are searched by cross-validation in the training rows, by the score that is reported. Where rows come in groups,
as people do, the folds and svnn's validation rows hold whole groups.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from svnn._jobs import Row
from svnn.comparison._comparison import CONTROL, DENSE, FLOOR, OURS
from svnn.estimators import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.sources._dataset import CLASSIFICATION, REGRESSION

#: The scores; the lower the better.
METRICS: Mapping[str, str] = {REGRESSION: "MAE", CLASSIFICATION: "error (%)"}

#: The models of a comparison, in the order of its table.
MODELS: Mapping[str, tuple[str, ...]] = {
    REGRESSION: (OURS, CONTROL, DENSE, "ridge", "SVM", "boosting", "GP", FLOOR[REGRESSION]),
    CLASSIFICATION: (OURS, CONTROL, DENSE, "logistic", "SVM", "boosting", "LDA", FLOOR[CLASSIFICATION]),
}
#: What sets svnn's three networks apart.
NETWORKS: Mapping[str, Mapping[str, Any]] = {OURS: {}, CONTROL: {"order": 0}, DENSE: {"covariance": "sample"}}
COMPONENTS = (1, 2, 3, 5, 8, 12, 16, 20)
NEIGHBOURS = (1, 3, 5, 7, 11, 15)
#: The MLP gets as many epochs, and as much patience, as the S-VNN.
MLP = {"early_stopping": True, "n_iter_no_change": 100, "max_iter": 1000}
PENALTIES = np.logspace(-6, 6, 25)


def build(name: str, task: str, features: int, seed: int, group_folds: int | None = None) -> Any:
    """Return the unfitted model of this name.

    Parameters
    ----------
    name : str
    task : {"regression", "classification"}
    features : int
        The number of features.
    seed : int
    group_folds : int, optional
        Search grids with this many folds of whole groups. By default with five folds of rows.
    """
    regression = task == REGRESSION
    if name in NETWORKS:
        return blend(task, seed, **NETWORKS[name])
    if name == FLOOR[task]:
        return DummyRegressor() if regression else DummyClassifier()
    if name == "boosting":
        return (HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier)(random_state=seed)
    if name == "forest":
        return (RandomForestRegressor if regression else RandomForestClassifier)(300, random_state=seed)
    if name == "MLP":
        return _scaled((MLPRegressor if regression else MLPClassifier)(random_state=seed, **MLP))
    if name == "ridge" and group_folds is None:
        return make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    if name == "LDA":
        return make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))
    if name == "GP":
        # Standardised rows are about √N apart; the optimiser starts there, and once more at random.
        kernel = ConstantKernel() * RBF(features**0.5) + WhiteKernel()
        process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed)
        return make_pipeline(StandardScaler(), process)
    gammas = [0.01 / features, 0.1 / features, 1 / features]  # the last is scikit-learn's for standardised features
    grids: dict[str, tuple[Any, dict[str, list[Any]]]] = {
        "SVM": (SVR() if regression else SVC(), {"C": [0.1, 1, 10, 100, 1000], "gamma": gammas}),
        "PLS": (PLSRegression(), {"n_components": [n for n in COMPONENTS if n <= features]}),
        "ridge": (Ridge(), {"alpha": PENALTIES.tolist()}),
        "logistic": (LogisticRegression(max_iter=2000), {"C": [0.001, 0.01, 0.1, 1, 10, 100]}),
        "k-NN": (KNeighborsClassifier(), {"n_neighbors": list(NEIGHBOURS)}),
    }
    model, grid = grids[name]
    return _searched(_scaled(model), grid, task, seed, group_folds)


def blend(task: str, seed: int, **parameters: Any) -> BlendRegressor | BlendClassifier:
    """Return the default model around an S-VNN with these parameters."""
    if task == REGRESSION:
        return BlendRegressor(SVNNRegressor(**parameters), random_state=seed)
    return BlendClassifier(SVNNClassifier(**parameters), random_state=seed)


def fit(model: Any, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None) -> Any:
    """Fit a model; those that hold out rows themselves are told which belong together."""
    holds_out = isinstance(model, GridSearchCV | BlendClassifier | BlendRegressor)
    return model.fit(X, y, **({"groups": groups} if holds_out and groups is not None else {}))


def _scaled(model: Any) -> Any:
    """Let a model see standardised features and, where it predicts numbers whose scale matters to it, targets."""
    scaled = make_pipeline(StandardScaler(), model)
    if isinstance(model, SVR | MLPRegressor):
        return TransformedTargetRegressor(scaled, transformer=StandardScaler())
    return scaled


def _searched(model: Any, grid: dict[str, list[Any]], task: str, seed: int, group_folds: int | None) -> GridSearchCV:
    """Search the grid of a pipeline's last step by cross-validation."""
    inner = model.regressor if isinstance(model, TransformedTargetRegressor) else model
    prefix = ("regressor__" if inner is not model else "") + inner.steps[-1][0]
    folds = KFold if task == REGRESSION else StratifiedKFold
    return GridSearchCV(
        model,
        {f"{prefix}__{name}": values for name, values in grid.items()},
        cv=folds(5, shuffle=True, random_state=seed) if group_folds is None else GroupKFold(group_folds),
        scoring="neg_mean_absolute_error" if task == REGRESSION else "accuracy",
    )


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

    ``builds`` is the name of the model for :func:`build` where it is not ``model``, and ``parameters`` are those in
    which it differs. Missing values on both sides are filled in with the medians of the training rows.
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
    """Train for a moment, so that loading or compiling the kernels is not part of the time of a fit."""
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    build(model, task, features, 0).set_params(parts__max_epochs=2).fit(rng.standard_normal((24, features)), y)
