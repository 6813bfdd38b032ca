"""The models of ``make rivals``: those of ``svnn.comparison`` and some more, under the names of the table.

Grids are searched by cross-validation in the training rows, by the score that is reported. Where rows come in groups,
as people do, the folds and svnn's validation rows hold whole groups.
"""

from __future__ import annotations

from typing import Any

from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor

from svnn.comparison import _models
from svnn.comparison._models import fit as fit

REGRESSION, CLASSES = "regression", "classes"
OURS, CONTROL = "svnn", "svnn without edges"
#: The names of the models, for numbers and for classes; models at the same place share a column of the report.
MODELS = {
    REGRESSION: (OURS, CONTROL, "ridge", "SVM", "GP", "boosting", "PLS", "forest", "MLP"),
    CLASSES: (OURS, CONTROL, "logistic", "SVM", "LDA", "boosting", "k-NN", "forest", "MLP"),
}
#: What ``svnn.comparison`` calls differently.
_NAMES = {OURS: "S-VNN", CONTROL: "without edges", CLASSES: "classification"}
COMPONENTS = (1, 2, 3, 5, 8, 12, 16, 20)
NEIGHBOURS = (1, 3, 5, 7, 11, 15)
#: The MLP gets as many epochs, and as much patience, as the S-VNN.
MLP = {"early_stopping": True, "n_iter_no_change": 100, "max_iter": 1000}


def build(name: str, kind: str, features: int, seed: int, grouped: bool = False) -> Any:
    """Return the unfitted model of this name for a table of ``kind`` with this number of features."""
    if name not in MODELS[kind]:
        raise ValueError(f"{name!r} is no model for {kind}; there are {', '.join(MODELS[kind])}.")
    task, folds = _NAMES.get(kind, kind), 3 if grouped else None
    numbers = kind == REGRESSION
    if name == "forest":
        return (RandomForestRegressor if numbers else RandomForestClassifier)(300, random_state=seed)
    if name == "MLP":
        return _models.scaled((MLPRegressor if numbers else MLPClassifier)(random_state=seed, **MLP), target=numbers)
    if name == "PLS":
        grid = {"n_components": [n for n in COMPONENTS if n <= features]}
        return _models.searched(_models.scaled(PLSRegression()), grid, task, seed, folds)
    if name == "k-NN":
        grid = {"n_neighbors": list(NEIGHBOURS)}
        return _models.searched(_models.scaled(KNeighborsClassifier()), grid, task, seed, folds)
    return _models.build(_NAMES.get(name, name), task, features, seed, folds)
