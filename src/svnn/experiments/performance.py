"""What sparsity buys: score against the time of a forward pass, all networks of the same architecture."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from svnn.experiments import _style as style
from svnn.experiments._data import FEATURES, REAL, metric
from svnn.experiments._jobs import Job, Row
from svnn.experiments._models import NETWORKS, TRAINING
from svnn.experiments._real import fit_and_score, take_times
from svnn.experiments._tables import distinct, summarise, where

CLAIM = (
    "S-VNNs are substantially faster than the dense VNN, and the best score is always that of an S-VNN; the level of "
    "sparsity hardly matters to the score."
)
DATASETS = (*REAL, *FEATURES)
FULL = {
    **TRAINING,
    "features": 32,
    "config": {"layers": 2, "order": 2, "dropout": 0.0},
    "models": list(NETWORKS),
    "repeats": 5,
    "timings": 15,
    "limit": None,
}
QUICK = {"epochs": 30, "repeats": 2, "timings": 5, "limit": 300}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every fit; times are taken afterwards, with nothing else running."""
    arguments = {"settings": dict(settings), "config": settings["config"]}
    pairs = list(product(settings["datasets"], settings["models"]))
    fits = [
        Job(fit_and_score, {"dataset": d, "model": m, "repeat": r}, arguments)
        for d, m in pairs
        for r in range(settings["repeats"])
    ]
    times = [Job(take_times, {"dataset": d, "model": m, "what": "times"}, arguments, alone=True) for d, m in pairs]
    return [*fits, *times]


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats."""
    scores = [row for row in rows if "what" not in row]
    return {"summary": summarise(scores, ["dataset", "model"], ["score", "validation", "density", "epochs"])}


def times(timings: list[Row]) -> list[Row]:
    """Return the times of a pass, and of fitting, for every data set and model."""
    fits = summarise([row for row in timings if "what" not in row], ["dataset", "model"], ["fit_seconds"])
    out = []
    for row in fits:
        taken = [t for t in where(timings, dataset=row["dataset"], model=row["model"]) if "what" in t]
        names = ("rows", "setup_seconds", "forward_seconds", "predict_seconds", "backend")
        row.pop("n")
        out.append({**row, **{name: taken[0].get(name) for name in names if taken}})
    return out


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return score, density and times side by side, a table for every data set."""
    out: dict[str, list[Row]] = {}
    for row in found["summary"]:
        (time,) = where(found["times"], dataset=row["dataset"], model=row["model"])
        title = metric(row["dataset"])
        part: Row = {"model": row["model"], f"{title}_mean": row["score_mean"], f"{title}_std": row["score_std"]}
        part["density"] = row["density_mean"]
        forward = time.get("forward_seconds")
        part |= {"forward (ms)": None if forward is None else 1e3 * forward, "fit (s)": time["fit_seconds_mean"]}
        out.setdefault(row["dataset"], []).append(part)
    return out


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return score against time, a panel for every data set; the larger a marker, the denser its covariance."""
    summary, taken = found["summary"], found["times"]
    figure, axes = style.panels(distinct(summary, "dataset"), 4, width=4.4, height=3.6)
    families = list(dict.fromkeys(name.split(" p=")[0] for name in settings["models"]))
    for dataset, axis in axes.items():
        for family, look in style.look(families).items():
            x, y, spread, sizes = [], [], [], []
            for row in where(summary, dataset=dataset):
                (time,) = where(taken, dataset=dataset, model=row["model"])
                if row["model"].split(" p=")[0] == family and time.get("forward_seconds") is not None:
                    x.append(1e3 * time["forward_seconds"])
                    y.append(row["score_mean"])
                    spread.append(row["score_std"])
                    sizes.append(30 + 90 * row["density_mean"])
            colour = look["color"]
            axis.errorbar(x, y, yerr=spread, fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.35)
            axis.scatter(x, y, sizes, color=colour, marker=look["marker"], label=family, zorder=3)
        axis.set_xlabel("forward pass over the test rows (ms)")
        axis.set_ylabel(f"test {metric(dataset)}")
    style.legend_below(figure, axis, 8, "means and one standard deviation; the larger a marker, the denser")
    for handle in figure.legends[0].legend_handles:
        handle.set_sizes([45])
    return {"performance": figure}
