"""The section with the scores of several models on the same splits."""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn.comparison import Comparison
from svnn.reporting._svg import bars
from svnn.reporting._words import decimals_for, fixed, number


def scores_section(comparison: Comparison) -> dict[str, Any]:
    """Return the scores of all models, best first, with their tests against the best and against each other."""
    best, metric = comparison.best(), comparison.metric
    intervals = {name: comparison.interval(name) for name in comparison.scores}
    order = sorted(intervals, key=lambda name: intervals[name].mean)
    decimals = decimals_for(interval.mean for interval in intervals.values())

    def row(model: str) -> dict[str, str]:
        mean, low, high = (fixed(value, decimals) for value in intervals[model])
        seconds = comparison.seconds.get(model, np.zeros(0))
        values = {"model": model, "mean": mean, "interval": f"{low} to {high}", "difference": "–", "p": "–"}
        if model != best:
            test = comparison.paired_test(model, best)
            ends = (fixed(value, decimals) for value in (test.difference, test.low, test.high))
            values |= {"difference": "{} ({} to {})".format(*ends), "p": _p(test.p)}
        return values | {"seconds": number(float(np.mean(seconds)), 2) if np.size(seconds) else "–"}

    def pair(row: str, column: str) -> str:
        if row == column:
            return "–"
        test = comparison.paired_test(row, column)
        return f"{fixed(test.difference, decimals)} (p {_p(test.p)})"

    chart = bars(
        f"{metric} of each model",
        order,
        [intervals[name].mean for name in order],
        f"{metric} (lower is better)",
        intervals=np.array([intervals[name][1:] for name in order]),
    )
    return {
        "metric": metric,
        "best": best,
        "n_samples": comparison.n_samples,
        "n_features": comparison.n_features,
        "n_groups": comparison.n_groups,
        "n_splits": comparison.n_splits,
        "notes": comparison.notes,
        "order": order,
        "chart": chart,
        "rows": [row(model) for model in order],
        "pairs": [(first, *(pair(first, second) for second in order)) for first in order],
    }


def _p(p: float) -> str:
    if not np.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
