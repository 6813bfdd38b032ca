"""Comparisons with scores of one's own."""

from __future__ import annotations

import numpy as np

from svnn.comparison import Comparison


def comparison(scores, task="regression", folds=5, repeats=1, **more):
    scores = {model: np.asarray(values, dtype=float) for model, values in scores.items()}
    metric = "MAE" if task == "regression" else "error (%)"
    seconds = {model: np.ones(len(values)) for model, values in scores.items()}
    return Comparison(
        "made up", task, metric, scores, seconds, 100, 7, None, {"folds": folds, "repeats": repeats}, **more
    )
