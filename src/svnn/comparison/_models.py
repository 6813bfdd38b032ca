"""The models that are compared: svnn as it comes, and what users would try, with a usual small grid where it is needed.

Grids are searched by cross-validation in the training rows, by the score that is reported. Where rows come in groups,
as people do, the folds and svnn's validation rows hold whole groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
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
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from svnn.comparison._names import CONTROL, DENSE, FLOOR, OURS, REGRESSION
from svnn.estimators import SVNNClassifier, SVNNRegressor

#: What sets svnn's three networks apart.
NETWORKS: Mapping[str, Mapping[str, Any]] = {OURS: {}, CONTROL: {"order": 0}, DENSE: {"covariance": "sample"}}
COMPONENTS = (1, 2, 3, 5, 8, 12, 16, 20)
NEIGHBOURS = (1, 3, 5, 7, 11, 15)
#: The MLP gets as many epochs, and as much patience, as svnn has.
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
        Search grids with so many folds of whole groups. By default with five folds of rows.
    """
    regression = task == REGRESSION
    if name in NETWORKS:
        network = SVNNRegressor if regression else SVNNClassifier
        return network(random_state=seed, **NETWORKS[name])
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
    searched: dict[str, tuple[Any, dict[str, list[Any]]]] = {
        "SVM": (SVR() if regression else SVC(), {"C": [0.1, 1, 10, 100, 1000], "gamma": _gammas(features)}),
        "PLS": (PLSRegression(), {"n_components": [n for n in COMPONENTS if n <= features]}),
        "ridge": (Ridge(), {"alpha": PENALTIES.tolist()}),
        "logistic": (LogisticRegression(max_iter=2000), {"C": [0.001, 0.01, 0.1, 1, 10, 100]}),
        "k-NN": (KNeighborsClassifier(), {"n_neighbors": list(NEIGHBOURS)}),
    }
    model, grid = searched[name]
    return _searched(_scaled(model), grid, task, seed, group_folds)


def fit(model: Any, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None) -> Any:
    """Fit a model; those that hold out rows themselves are told which belong together."""
    holds_out = isinstance(model, GridSearchCV | SVNNClassifier | SVNNRegressor)
    return model.fit(X, y, **({"groups": groups} if holds_out and groups is not None else {}))


def _gammas(features: int) -> list[float]:
    """Return scikit-learn's default for standardised features, 1 / N, and two smaller values."""
    return [0.01 / features, 0.1 / features, 1 / features]


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
