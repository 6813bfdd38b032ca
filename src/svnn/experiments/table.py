"""The main table: every variant and baseline on every real data set, settings searched on validation data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from svnn.experiments import _style as style
from svnn.experiments._data import FEATURES, REAL, lower_is_better, metric
from svnn.experiments._jobs import Job, Row, canonical
from svnn.experiments._models import BASELINES, GRID, LIBRARY, MODELS, SPARSE, TRAINING, configurations
from svnn.experiments._real import fit_and_score, take_times
from svnn.experiments._tables import cell, distinct, summarise, where

CLAIM = (
    "On all data sets the best score is that of an S-VNN; the MLP is worse than most on the brain data and Realdisp; "
    "PCA helps it; neighbour sampling is worse than the VNN; GL is the best of the wearable data, at a high cost."
)
DATASETS = (*REAL, *FEATURES)
FULL = {
    **TRAINING,
    "grid": GRID,
    "features": GRID["features"],
    "models": list(MODELS),
    "repeats": 5,
    "timings": 15,
    "limit": None,
}
#: The S-VNN that a user would take: the one with the best validation score of the repeat.
PICKED = {
    "S-VNN, by validation": SPARSE,
    "svnn, by validation": tuple(name for name in LIBRARY if name != "svnn VNN"),
}
QUICK = {
    "models": [name for name in MODELS if name != "Sparse PCA + MLP"],  # half a minute a fit
    "epochs": 30,
    "grid": {**GRID, "layers": [1, 2], "order": [2], "dropout": [0.0], "mlp": [[32, 32]], "components": [10]},
    "repeats": 2,
    "timings": 3,
    "limit": 300,
}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return the search on the first split, then the chosen settings on the others, then their times."""
    arguments = {"settings": dict(settings)}
    names = [name for name in settings["models"] if name != "NeighSampl" or find_spec("torch_geometric")]
    planned = [
        Job(fit_and_score, {"dataset": d, "model": m, "config": config, "repeat": 0}, arguments)
        for d in settings["datasets"]
        for m in names
        for config in configurations(m, settings["grid"])
    ]
    for (dataset, model), config in chosen(rows).items():
        key = {"dataset": dataset, "model": model, "config": config}
        planned += [Job(fit_and_score, {**key, "repeat": r}, arguments) for r in range(1, settings["repeats"])]
        planned.append(Job(take_times, {**key, "what": "times"}, arguments, alone=True))
    return planned


def notes() -> list[str]:
    """Return what a reader should know about this installation."""
    said = [
        "Models named svnn … have the library's defaults (a learned readout among them); all others the paper's.",
        "Settings are searched on the first split and kept for the others, whose test rows may have validated there.",
        "By validation: in every repeat the test score of the S-VNN that validated best. differences.csv compares the "
        "models split by split.",
    ]
    if not find_spec("torch_geometric"):
        said.append('NeighSampl is left out: it needs torch_geometric, which pip install "svnn[gnn]" adds.')
    return said


def chosen(rows: list[Row]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the settings of each model on each data set that are best on the first split's validation rows."""
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.get("repeat") == 0 and row["validation"] == row["validation"]:
            sign = -1 if lower_is_better(row["dataset"]) else 1
            at = (row["dataset"], row["model"])
            if at not in best or sign * row["validation"] > sign * best[at]["validation"]:
                best[at] = row
    return {at: row["config"] for at, row in best.items()}


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the chosen settings in every repeat, their means, paired differences, and the search that led to them."""
    best = chosen(rows)
    scored = [r for r in rows if "what" not in r and (r["dataset"], r["model"]) in best]
    final = [r for r in scored if canonical(r["config"]) == canonical(best[r["dataset"], r["model"]])]
    final += picked(final)
    order = [*settings["models"], *PICKED]
    final.sort(key=lambda r: (settings["datasets"].index(r["dataset"]), order.index(r["model"]), r["repeat"]))
    summary = summarise(final, ["dataset", "model"], ["score", "validation", "density", "epochs"])
    for row in summary:
        row["config"] = best.get((row["dataset"], row["model"]))
    search = [dict(row) for row in scored if row["repeat"] == 0]
    return {"summary": summary, "repeats": final, "differences": differences(final), "search": search}


def picked(final: list[Row]) -> list[Row]:
    """Return, for every repeat, the test score of the S-VNN with the best validation score."""
    out = []
    for name, models in PICKED.items():
        for dataset, repeat in dict.fromkeys((row["dataset"], row["repeat"]) for row in final):
            rivals = [row for row in where(final, dataset=dataset, repeat=repeat) if row["model"] in models]
            if rivals:
                best = (min if lower_is_better(dataset) else max)(rivals, key=lambda row: row["validation"])
                out.append({**best, "model": name, "picked": best["model"]})
    return out


def differences(final: list[Row]) -> list[Row]:
    """Return how much better every model is than the VNN and PCA + MLP on the same splits; positive is better."""
    rows = []
    for row in final:
        sign = -1 if lower_is_better(row["dataset"]) else 1
        line: Row = {name: row[name] for name in ("dataset", "model")}
        for name, rival in (("over_vnn", "VNN"), ("over_pca_mlp", "PCA + MLP")):
            for other in where(final, dataset=row["dataset"], repeat=row["repeat"], model=rival):
                line[name] = sign * (row["score"] - other["score"])
        rows.append(line)
    return summarise(rows, ["dataset", "model"], ["over_vnn", "over_pca_mlp"])


def times(timings: list[Row]) -> list[Row]:
    """Return the time to fit and to predict with the chosen settings, for every data set and model."""
    out = []
    for taken in where(timings, what="times"):
        labels = {name: taken[name] for name in ("dataset", "model", "config")}
        fits = [row for row in where(timings, **labels) if "what" not in row]
        names = ("rows", "setup_seconds", "predict_seconds", "forward_seconds", "backend")
        out += [row | {n: taken.get(n) for n in names} for row in summarise(fits, list(labels), ["fit_seconds"])]
    return out


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return a table for every data set: score, time to fit, time to predict, and the settings that were chosen."""
    out: dict[str, list[Row]] = {}
    for row in found["summary"]:
        title = metric(row["dataset"])
        taken = where(found["times"], dataset=row["dataset"], model=row["model"])
        names = ("fit_seconds_mean", "setup_seconds", "predict_seconds")
        fit, setup, predict = (taken[0][n] if taken else math.nan for n in names)
        line: Row = {"model": row["model"], f"{title}_mean": row["score_mean"], f"{title}_std": row["score_std"]}
        line |= {"setup (s)": setup, "fit (s)": fit, "predict (ms)": 1e3 * predict}
        out.setdefault(row["dataset"], []).append(line | {"chosen": cell(row["config"])})
    return out


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores as points with their spread, a panel for every data set."""
    datasets = distinct(found["summary"], "dataset")
    figure, axes = style.subplots(1, len(datasets), width=3.4, height=5.2, sharey=True)
    models = distinct(found["summary"], "model")[::-1]
    for axis, dataset in zip(axes[0], datasets, strict=True):
        for row in where(found["summary"], dataset=dataset):
            library = row["model"] in LIBRARY or row["model"].startswith("svnn")
            colour = style.PALETTE[6 if row["model"] in (*BASELINES, "VNN", "No edges") else 1 if library else 0]
            at = models.index(row["model"])
            axis.errorbar(row["score_mean"], at, xerr=row["score_std"], fmt="o", color=colour, capsize=2)
        axis.set_yticks(range(len(models)), models)
        axis.set_title(dataset)
        better = "lower" if lower_is_better(dataset) else "higher"
        axis.set_xlabel(f"test {metric(dataset)}, {better} is better")
    return {"table": figure}
