"""Fig. 8: networks that were trained with the true covariance of N features run on estimates from T = 250 samples.

The networks, the estimates and the figure are those of ``stability_samples.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.paper.experiments import _figure_style as style
from svnn.paper.experiments import stability_samples as samples
from svnn.paper.experiments._settings import job_grid
from svnn.paper.experiments._summaries import Tables, summarise
from svnn.paper.experiments._trained_on_truth import train_on_truth

CLAIM = "For every N, hard and soft thresholding change the error and the embeddings less than the sample covariance."


@dataclass(frozen=True, kw_only=True)
class DimensionSettings(samples.StabilitySettings):
    """Number of samples, and numbers of features."""

    T: int = 250
    features: tuple[int, ...] = (20, 50, 100, 200, 400)


FULL = DimensionSettings()
QUICK = replace(FULL, features=(20, 50, 100), epochs=20, repeats=2)


def jobs(settings: DimensionSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every N and repeat, those that take longest first."""
    return job_grid(measure, settings, N=sorted(settings.features, reverse=True), repeat=range(settings.repeats))


def measure(N: int, repeat: int, settings: DimensionSettings) -> list[Row]:
    """Train one network and run it on all estimates."""
    trained = train_on_truth("SparseCov", settings, repeat, N)
    seed = derive_seed(settings.seed, "stability-dimension", N, repeat)
    return samples.compare_estimates(trained, [settings.T], settings.components, seed)


def tables(rows: pd.DataFrame, settings: DimensionSettings) -> Tables:
    """Return the means over repeats; N grows within each model."""
    summary = summarise(rows, ["model", "N", "T"], samples.MEASURES, samples.CHANGES)
    ordered = [part.sort_values("N") for _, part in summary.groupby("model", sort=False)]
    return {"summary": pd.concat(ordered, ignore_index=True)}


def headline(found: Tables) -> Tables:
    """Return all changes at the largest N."""
    summary = found["summary"]
    N = summary["N"].max()
    estimates = summary[(summary["N"] == N) & ~summary["model"].isin(samples.TRUTH)]
    return {f"N = {N}": samples.means(estimates, samples.CHANGES)}


def plots(found: Tables, settings: DimensionSettings) -> style.Figures:
    """Return the figure: changes of the error and of the embeddings, and the error of the covariance itself."""
    label = f"number of features N (T = {settings.T})"
    return {"stability_dimension": samples.draw(found["summary"], "N", settings.features, label)}
