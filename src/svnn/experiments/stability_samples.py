"""Networks trained with the true, sparse covariance and run on estimates from T samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._stability import MEASURES, QUARTILES, compare_estimates, figure
from svnn.experiments._synthetic import TRAINING, train_on_truth
from svnn.experiments._tables import distinct, summarise, where

CLAIM = (
    "Hard and soft thresholding give lower error and a smaller embedding difference than the sample covariance; "
    "PCA-SVM is the least stable."
)
FULL = {
    **TRAINING,
    "N": 100,
    "sizes": [50, 100, 200, 400, 800, 1600, 3200],
    "components": [10, 20, 50],
    "repeats": 5,
}
QUICK = {"sizes": [100, 400, 1600], "epochs": 20, "repeats": 2}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every repeat."""
    return [Job(measure, {"repeat": r}, {"settings": dict(settings)}) for r in range(settings["repeats"])]


def measure(repeat: int, settings: Mapping[str, Any]) -> list[Row]:
    """Train one network and run it on all estimates."""
    trained = train_on_truth("SparseCov", settings, repeat, settings["N"])
    seed = derive_seed(settings["seed"], "stability-samples", repeat)
    return compare_estimates(trained, settings["sizes"], settings, seed)


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats."""
    return {"summary": summarise(rows, ["model", "T"], MEASURES, QUARTILES)}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return error and embedding difference at the middle T."""
    sizes = distinct(found["summary"], "T")
    T = sizes[len(sizes) // 2]
    names = ["model", *(f"{m}_{s}" for m in ("mae", "embedding_error", "covariance_error") for s in ("mean", "std"))]
    names.append("density_mean")
    return {f"T = {T}": [{n: row[n] for n in names} for row in where(found["summary"], T=T)]}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure: error, embedding difference, error of the covariance itself."""
    return {"stability_samples": figure(found["summary"], "T", settings["sizes"], "number of samples T", "mae")}
