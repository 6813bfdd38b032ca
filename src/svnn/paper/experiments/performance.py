"""Fig. 11: what sparsity gains. The score against the time of a forward pass, for networks of the same architecture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import pandas as pd

from svnn._jobs import Job, Row
from svnn.paper.experiments import _output as output
from svnn.paper.experiments import _real_data as real
from svnn.paper.experiments._models import FIXED, NETWORKS, Config, TimedSettings
from svnn.paper.experiments._output import Tables, summarise

CLAIM = (
    "S-VNNs are substantially faster than the dense VNN, and the best score is always that of an S-VNN; the level of "
    "sparsity hardly matters to the score."
)
DATASETS = (*real.REAL, *real.FEATURES)


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
        Job(real.fit_and_score, {"dataset": d, "model": m, "repeat": r}, arguments)
        for d, m in pairs
        for r in range(settings.repeats)
    ]
    timed = [Job(real.take_times, {"dataset": d, "model": m, "what": "times"}, arguments, alone=True) for d, m in pairs]
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


def headline(frames: Tables) -> Tables:
    """Return the score, the density and the times, with a table for every data set."""
    out = {}
    for dataset, part in _with_times(frames).groupby("dataset", sort=False):
        scores = {f"{real.metric(dataset)}_{kind}": part[f"score_{kind}"] for kind in ("mean", "std")}
        times = {"forward (ms)": 1e3 * part["forward_seconds"], "fit (s)": part["fit_seconds_mean"]}
        out[dataset] = pd.DataFrame({"model": part["model"], **scores, "density": part["density_mean"], **times})
    return out


def _with_times(frames: Tables) -> pd.DataFrame:
    return frames["summary"].merge(frames["times"], how="left", on=["dataset", "model"])


def plots(frames: Tables, settings: PerformanceSettings) -> output.Figures:
    """Return scores and times side by side: a row of panels each, a column for every data set, a line for a network.

    The band and the dashed line are the dense VNN's: what is inside it, or close to it, is no gain.
    """
    known = _with_times(frames)
    datasets, models = known["dataset"].unique(), list(known["model"].unique())
    looks = output.looks(list(dict.fromkeys(map(_family, models))))
    figure, axes = output.subplots(2, len(datasets), width=3.4, height=3.5, sharey=True)
    for (above, below), dataset in zip(axes.T, datasets, strict=True):
        part = known[known["dataset"] == dataset].set_index("model")
        for at, model in enumerate(part.index.map(models.index)):
            row, colour = part.iloc[at], looks[_family(part.index[at])]["color"]
            above.errorbar(row["score_mean"], model, xerr=row["score_std"], fmt="o", color=colour, capsize=2)
            below.barh(model, 1e3 * row["forward_seconds"], color=colour, height=0.65)
        if "VNN" in part.index:
            dense = part.loc["VNN"]
            low, high = (dense["score_mean"] + sign * dense["score_std"] for sign in (-1, 1))
            above.axvspan(low, high, color=output.PALETTE[0], alpha=0.1, linewidth=0)
            below.axvline(1e3 * dense["forward_seconds"], color=output.GREY, linestyle="--", linewidth=1)
        above.set_title(real.proper_name(dataset))
        best = "lower" if real.lower_is_better(dataset) else "higher"
        above.set_xlabel(f"test {real.metric(dataset)}, {best} is better")
        below.set_xlabel("forward pass over the test rows (ms)")
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(models)), models)
    axes[0, 0].invert_yaxis()  # the rows share their axis: the first network is on top in both
    figure.supxlabel(
        "means and one standard deviation; the band and the dashed line are those of the dense VNN", fontsize=9
    )
    return {"performance": figure}


def _family(model: str) -> str:
    """Return the name of a network without its level of sparsity."""
    return model.split(" p=")[0]
