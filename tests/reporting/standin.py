"""A comparison of models with made-up scores, in the shape that the report reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Difference(NamedTuple):
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class StandIn:
    scores: dict[str, np.ndarray]
    name: str = "a table"
    task: str = "regression"
    metric: str = "MAE"
    seconds: dict[str, np.ndarray] = field(default_factory=dict)
    n_samples: int = 215
    n_features: int = 100
    n_groups: int | None = None
    settings: dict[str, object] = field(default_factory=lambda: {"folds": 5, "repeats": 2, "random_state": 0})
    notes: tuple[str, ...] = ("Rows without a target were left out.",)

    def means(self):
        return {name: float(values.mean()) for name, values in self.scores.items()}

    def best(self):
        return min(self.means(), key=self.means().get)

    def interval(self, model):
        mean, half = _mean_and_half(self.scores[model])
        return mean, mean - half, mean + half

    def paired_test(self, a, b):
        mean, half = _mean_and_half(self.scores[a] - self.scores[b])
        return Difference(mean, mean - half, mean + half, 0.0004 if abs(mean) > half else 0.25)

    def sentences(self):
        return (
            f"{self.best()} is best with {self.means()[self.best()]:.2f}.",
            "The covariance helps.",
            "Use this network here.",
        )


def _mean_and_half(values):
    if len(values) < 2:
        return float(values.mean()), float("nan")
    return float(values.mean()), 2 * float(values.std(ddof=1)) / len(values) ** 0.5


def made_up(n_splits: int = 10) -> StandIn:
    rng = np.random.default_rng(0)
    centres = {"S-VNN hard": 1.05, "S-VNN soft": 1.1, "no edges": 1.9, "ridge": 1.96, "PLS": 1.84, "boosting": 5.0}
    scores = {name: centre + 0.15 * rng.standard_normal(n_splits) for name, centre in centres.items()}
    return StandIn(scores, seconds={name: np.full(n_splits, 0.5) for name in scores if name != "PLS"})
