"""The models of ``make rivals``: those of ``svnn.comparison`` and some more, under the names of the table.

Grids are searched by cross-validation in the training rows, by the score that is reported. Where rows come in groups,
as people do, the folds and svnn's validation rows hold whole groups.
"""

from __future__ import annotations

from typing import Any

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


def build(name: str, kind: str, features: int, seed: int, grouped: bool = False) -> Any:
    """Return the unfitted model of this name for a table of ``kind`` with this number of features."""
    if name not in MODELS[kind]:
        raise ValueError(f"{name!r} is no model for {kind}; there are {', '.join(MODELS[kind])}.")
    return _models.build(_NAMES.get(name, name), _NAMES.get(kind, kind), features, seed, 3 if grouped else None)
