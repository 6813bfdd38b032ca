"""Fig. 11: what sparsity gains. The score against the time of a forward pass, for networks of the same architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import pandas as pd

from svnn._jobs import Job, Row
from svnn.experiments import _figure_style as style
from svnn.experiments._models import FIXED, NETWORKS, Config, TimedSettings, fit_and_score, take_times
from svnn.experiments._real_data import FEATURES, REAL, metric
from svnn.experiments._summaries import Tables, summarise

CLAIM = (
    "S-VNNs are substantially faster than the dense VNN, and the best score is always that of an S-VNN; the level of "
    "sparsity hardly matters to the score."
)
DATASETS = (*REAL, *FEATURES)


@dataclass(frozen=True, kw_only=True)
class PerformanceSettings(TimedSettings):
    """The networks, and the architecture that they share."""

    models: tuple[str, ...] = tuple(NETWORKS)
    config: Config = field(default_factory=lambda: FIXED)


FULL = PerformanceSettings()
QUICK = replace(FULL, epochs=30, repeats=2, timings=5, limit=300)


def jobs(settings: PerformanceSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every fit. Times are taken afterwards, when nothing else runs."""
    arguments = {"settings": settings, "config": settings.config}
    pairs = list(product(settings.datasets, settings.models))
    fits = [
        Job(fit_and_score, {"dataset": d, "model": m, "repeat": r}, arguments)
        for d, m in pairs
        for r in range(settings.repeats)
    ]
    timed = [Job(take_times, {"dataset": d, "model": m, "what": "times"}, arguments, alone=True) for d, m in pairs]
    return [*fits, *timed]


def tables(rows: pd.DataFrame, settings: PerformanceSettings) -> Tables:
    """Return the means over repeats."""
    fits = rows[rows["repeat"].notna()]
    return {"summary": summarise(fits, ["dataset", "model"], ["score", "validation", "density", "epochs"])}


def times(timings: pd.DataFrame) -> pd.DataFrame:
    """Return the times of a fit and of a pass over the test rows, for every data set and model."""
    columns = ["rows", "setup_seconds", "forward_seconds", "predict_seconds", "backend"]
    return join_times(timings, ["dataset", "model"], columns).drop(columns="n")


def join_times(timings: pd.DataFrame, labels: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return the mean time of the fits that share ``labels``, beside the ``columns`` that were measured afterwards."""
    fits = summarise(timings[timings["repeat"].notna()], labels, ["fit_seconds"])
    measured = timings[timings["repeat"].isna()].reindex(columns=[*labels, *columns])
    return fits.merge(measured, how="left", on=list(labels))


def headline(found: Tables) -> Tables:
    """Return the score, the density and the times, with a table for every data set."""
    out = {}
    for dataset, part in _with_times(found).groupby("dataset", sort=False):
        scores = {f"{metric(dataset)}_{kind}": part[f"score_{kind}"] for kind in ("mean", "std")}
        times = {"forward (ms)": 1e3 * part["forward_seconds"], "fit (s)": part["fit_seconds_mean"]}
        out[dataset] = pd.DataFrame({"model": part["model"], **scores, "density": part["density_mean"], **times})
    return out


def _with_times(found: Tables) -> pd.DataFrame:
    return found["summary"].merge(found["times"], how="left", on=["dataset", "model"])


def plots(found: Tables, settings: PerformanceSettings) -> style.Figures:
    """Return the score against the time, with a panel for every data set; denser covariances have larger markers."""
    from matplotlib.collections import PathCollection

    known = _with_times(found).dropna(subset=["forward_seconds"])
    known = known.assign(family=known["model"].str.split(" p=").str[0])
    figure, axes = style.panels(found["summary"]["dataset"].unique(), 4, width=4.4, height=3.6)
    for dataset, axis in axes.items():
        for family, look in style.looks(known["family"].unique()).items():
            part = known[(known["dataset"] == dataset) & (known["family"] == family)]
            x, y, colour = 1e3 * part["forward_seconds"], part["score_mean"], look["color"]
            axis.errorbar(x, y, yerr=part["score_std"], fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.35)
            sizes = 30 + 90 * part["density_mean"]
            axis.scatter(x, y, sizes, color=colour, marker=look["marker"], label=family, zorder=3)
        axis.set_xlabel("forward pass over the test rows (ms)")
        axis.set_ylabel(f"test {metric(dataset)}")
    note = "means and one standard deviation; the larger a marker, the denser the covariance"
    style.legend_below(figure, axis, min(8, 3 * len(axes)), note)
    for handle in figure.legends[0].findobj(PathCollection):
        handle.set_sizes([45])
    return {"performance": figure}
