"""Fig. 8: networks that were trained with the true covariance of N features run on estimates from T = 250 samples.

The networks, the estimates and the figure are those of ``stability_samples.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import pandas as pd

from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._summaries import summarise
from svnn.experiments._trained_on_truth import train_on_truth
from svnn.experiments.stability_samples import (
    CHANGES,
    MEASURES,
    TRUTH,
    StabilitySettings,
    compare_estimates,
    draw,
    means,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = "For every N, hard and soft thresholding change the error and the embeddings less than the sample covariance."


@dataclass(frozen=True, kw_only=True)
class DimensionSettings(StabilitySettings):
    """Number of samples, and numbers of features."""

    T: int = 250
    features: tuple[int, ...] = (20, 50, 100, 200, 400)


FULL = DimensionSettings()
QUICK = replace(FULL, features=(20, 50, 100), epochs=20, repeats=2)


def jobs(settings: DimensionSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every N and repeat, those that take longest first."""
    grid = product(sorted(settings.features, reverse=True), range(settings.repeats))
    return [Job(measure, {"N": n, "repeat": r}, {"settings": settings}) for n, r in grid]


def measure(N: int, repeat: int, settings: DimensionSettings) -> list[Row]:
    """Train one network and run it on all estimates."""
    trained = train_on_truth("SparseCov", settings, repeat, N)
    seed = derive_seed(settings.seed, "stability-dimension", N, repeat)
    return compare_estimates(trained, [settings.T], settings.components, seed)


def tables(rows: pd.DataFrame, settings: DimensionSettings) -> dict[str, pd.DataFrame]:
    """Return the means over repeats; N grows within each model."""
    summary = summarise(rows, ["model", "N", "T"], MEASURES, CHANGES)
    ordered = [part.sort_values("N") for _, part in summary.groupby("model", sort=False)]
    return {"summary": pd.concat(ordered, ignore_index=True)}


def headline(found: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return all changes at the largest N."""
    summary = found["summary"]
    N = summary["N"].max()
    return {f"N = {N}": means(summary[(summary["N"] == N) & ~summary["model"].isin(TRUTH)], CHANGES)}


def plots(found: dict[str, pd.DataFrame], settings: DimensionSettings) -> dict[str, Figure]:
    """Return the figure: changes of the error and of the embeddings, and the error of the covariance itself."""
    label = f"number of features N (T = {settings.T})"
    return {"stability_dimension": draw(found["summary"], "N", settings.features, label, absolute=False)}
