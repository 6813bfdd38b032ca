"""Fig. 10: networks that were trained with the sample covariance of real data run on random sparsifications of it.

The ways to sparsify are those of ``stochastic_synthetic.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.paper.experiments import _output as output
from svnn.paper.experiments._models import FIXED, Config, RealSettings, build, density
from svnn.paper.experiments._output import Tables, by_level, summarise
from svnn.paper.experiments._real_data import REAL, fit, load_split, lower_is_better, metric, proper_name
from svnn.paper.experiments._runner import job_grid
from svnn.paper.experiments.stochastic_synthetic import draw_changes, realisations, sparsifiers

CLAIM = (
    "On Realdisp the accuracy hardly changes with p; on the brain data, whose covariances are large, the error grows "
    "for p < 0.5; on MHEALTH the accuracy drops for p < 0.5."
)
DATASETS = REAL


@dataclass(frozen=True, kw_only=True)
class StochasticRealSettings(RealSettings):
    """The network, mean keep-probabilities p, and draws for each of them."""

    config: Config = field(default_factory=lambda: FIXED)
    levels: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9)
    draws: int = 10


FULL = StochasticRealSettings()
QUICK = replace(FULL, epochs=40, levels=(0.1, 0.25, 0.5, 0.75), repeats=2, draws=3, limit=300)


def jobs(settings: StochasticRealSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every data set and repeat."""
    return job_grid(measure, settings, dataset=settings.datasets, repeat=range(settings.repeats))


def measure(dataset: str, repeat: int, settings: StochasticRealSettings) -> list[Row]:
    """Train a dense VNN and score it on the sample covariance, on its diagonal, and on all sparsified ones."""
    split = load_split(dataset, repeat, settings.seed, settings.limit)
    seed = derive_seed(settings.seed, "stochastic-real", dataset, repeat)
    model = fit(build("VNN", split.classes, settings.config, settings, seed), split)
    X, C = split.test[0], np.asarray(model.covariance_)
    base = split.score(model.predict(X))
    bare = split.score(model.on(np.diag(np.diag(C))).predict(X))
    rows: list[Row] = [
        {"method": "sample covariance", "score": base, "change": 0.0},
        {"method": "no edges", "score": bare, "change": bare - base},
    ]
    for how in sparsifiers(C, settings.levels, seed):
        for draw, sparse in enumerate(realisations(C, how, settings.draws, seed)):
            score = split.score(model.on(sparse).predict(X))
            labels = {"method": how.method, "p": how.p, "draw": draw}
            rows.append({**labels, "score": score, "change": score - base, "density": density(sparse)})
    return rows


def tables(rows: pd.DataFrame, settings: StochasticRealSettings) -> Tables:
    """Return the means over repeats and draws."""
    return {"summary": summarise(rows, ["dataset", "method", "p"], ["score", "change", "density"], ["score", "change"])}


def headline(frames: Tables) -> Tables:
    """Return the score of every method, with p in columns."""
    sets = frames["summary"].groupby("dataset", sort=False)
    return {f"{dataset}: median test {metric(dataset)}": by_level(part, "score") for dataset, part in sets}


def plots(frames: Tables, settings: StochasticRealSettings) -> output.Figures:
    """Return the score against p, with a panel for every data set."""
    summary = frames["summary"]
    figure, axes = output.panels(summary["dataset"].unique(), 4, width=4.2, height=3.4)
    for dataset, axis in axes.items():
        draw_changes(axis, summary[summary["dataset"] == dataset], "score", ("sample covariance", "no edges"))
        if lower_is_better(dataset):
            output.log_y(axis)
        axis.set(ylabel=f"test {metric(dataset)}", title=proper_name(dataset))
    output.legend_below(figure, axis, min(8, 2 * len(axes) + 1), output.ADDED)
    return {"stochastic_real": figure}
