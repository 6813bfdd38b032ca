"""Comparisons with scores of one's own."""

from __future__ import annotations

import numpy as np

from svnn.comparison import Comparison
from svnn.comparison._models import build

#: Models whose learning can be cut short.
SHORT = ("S-VNN", "without edges", "VNN", "forest", "boosting")


def comparison(scores, task="regression", folds=5, repeats=1, **more):
    scores = {model: np.asarray(values, dtype=float) for model, values in scores.items()}
    metric = "MAE" if task == "regression" else "error (%)"
    seconds = {model: np.ones(len(values)) for model, values in scores.items()}
    return Comparison(
        "made up", task, metric, scores, seconds, 100, 7, None, {"folds": folds, "repeats": repeats}, **more
    )


def brief(name, *args, **kwargs):
    """Build a model of the comparison that learns for a moment only, and searches a small part of its grid."""
    model = build(name, *args, **kwargs)
    if name in SHORT:
        limits = {"parts__max_epochs": 15, "n_estimators": 20, "max_iter": 20}
        return model.set_params(**{key: value for key, value in limits.items() if key in model.get_params()})
    if hasattr(model, "param_grid"):
        model.param_grid = {key: values[len(values) // 2 - 1 :][:2] for key, values in model.param_grid.items()}
    return model
