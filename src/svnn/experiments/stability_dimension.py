"""Networks trained with the true, sparse covariance of N features and run on estimates from T = 250 samples."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._stability import MEASURES, QUARTILES, compare_estimates, figure
from svnn.experiments._synthetic import TRAINING, train_on_truth
from svnn.experiments._tables import distinct, summarise, where

CLAIM = "For every N, hard and soft thresholding change the error and the embeddings less than the sample covariance."
FULL = {
    **TRAINING,
    "T": 250,
    "features": [20, 50, 100, 200, 400],
    "components": [10, 20, 50],
    "repeats": 5,
}
QUICK = {"features": [20, 50, 100], "epochs": 20, "repeats": 2}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every N and repeat, the long ones first."""
    grid = product(sorted(settings["features"], reverse=True), range(settings["repeats"]))
    return [Job(measure, {"N": n, "repeat": r}, {"settings": dict(settings)}) for n, r in grid]


def measure(N: int, repeat: int, settings: Mapping[str, Any]) -> list[Row]:
    """Train one network and run it on all estimates."""
    trained = train_on_truth("SparseCov", settings, repeat, N)
    seed = derive_seed(settings["seed"], "stability-dimension", N, repeat)
    return compare_estimates(trained, [settings["T"]], settings, seed)


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats, in the order of N."""
    summary = summarise(rows, ["model", "N", "T"], MEASURES, QUARTILES)
    models = distinct(rows, "model")
    return {"summary": sorted(summary, key=lambda row: (models.index(row["model"]), row["N"]))}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return what changes at the largest N."""
    measures = ("mae_change", "embedding_error", "covariance_error")
    names = ["model", *(f"{m}_{s}" for m in measures for s in ("mean", "std"))]
    names.append("density_mean")
    N = max(distinct(found["summary"], "N"))
    rows = [row for row in where(found["summary"], N=N) if "true" not in row["model"]]
    return {f"N = {N}": [{n: row[n] for n in names} for row in rows]}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure: change of the error, embedding difference, error of the covariance itself."""
    label = f"number of features N (T = {settings['T']})"
    return {"stability_dimension": figure(found["summary"], "N", settings["features"], label, "mae_change")}
