"""How large are the covariances? Normalised absolute values of every data set, and the sizes of the sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svnn.experiments import _style as style
from svnn.experiments._data import REAL, load_split
from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._synthetic import MAKERS
from svnn.experiments._tables import column, distinct, where
from svnn.functional import sample_moments

CLAIM = "LargeCov and the brain data have large covariances, SmallCov and the wearable data mostly small ones."
DATASETS = (*MAKERS, *REAL)
FULL = {"bins": 40}
QUICK: dict[str, Any] = {}
PARTS = ("train", "validation", "test")


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every data set."""
    return [Job(measure, {"dataset": d}, {"settings": dict(settings)}) for d in settings["datasets"]]


def measure(dataset: str, settings: Mapping[str, Any]) -> list[Row]:
    """Return the histogram of |c_ij| / max|c|, i ≠ j, of the standardised training data, its quantiles, and sizes.

    Features are standardised as they are for the networks, so the maximum is a variance of 1.
    """
    seed = settings["seed"]
    if dataset in MAKERS:
        data = MAKERS[dataset](random_state=derive_seed(seed, "synthetic", dataset, 100, 0))
        counts: Row = dict(zip(PARTS, (800, 100, 100), strict=True))
        X = data.X[: counts["train"]]
    else:
        split = load_split(dataset, 0, seed)
        X, y = split.train
        counts = {part: len(getattr(split, part)[1]) for part in PARTS}
        counts["classes"] = len(np.unique(y)) if split.classes else None
    spread = X.std(0)
    Z = (X - X.mean(0)) / np.where(spread > 0, spread, 1)
    C = abs(sample_moments(Z).covariance)
    values = C[np.triu_indices(len(C), 1)] / C.max()
    share, edges = np.histogram(values, bins=settings["bins"], range=(0, 1))
    rows: list[Row] = [
        {"kind": "bin", "at": float(edges[i]), "share": float(share[i] / len(values))} for i in range(len(share))
    ]
    rows += [{"kind": "quantile", "at": q, "value": float(np.quantile(values, q))} for q in (0.1, 0.25, 0.5, 0.75, 0.9)]
    counts |= {"nodes": len(C), "features": X[0].size // len(C)}
    return [*rows, {"kind": "counts", **counts}]


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the quantiles, a line for every data set, the histograms, and the sizes."""
    quantiles = []
    names = ("nodes", "features", "classes", *PARTS)
    sizes = [{"dataset": row["dataset"], **{n: row.get(n) for n in names}} for row in where(rows, kind="counts")]
    for dataset in distinct(rows, "dataset"):
        part = where(rows, dataset=dataset)
        line: Row = {"dataset": dataset}
        for row in where(part, kind="quantile"):
            line[f"{row['at']:.0%} quantile"] = row["value"]
        quantiles.append(line)
    histograms = [{n: row[n] for n in ("dataset", "at", "share")} for row in where(rows, kind="bin")]
    return {"summary": quantiles, "histograms": histograms, "sizes": sizes}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the quantiles, and the sizes of the data sets."""
    return {"quantiles of |c| / max|c|": found["summary"], "sizes": found["sizes"]}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a panel for every data set."""
    datasets = distinct(found["histograms"], "dataset")
    figure, axes = style.panels(datasets, 3, width=3.2, height=2.3, sharex=True)
    medians = {row["dataset"]: row["50% quantile"] for row in found["summary"]}
    for i, (dataset, axis) in enumerate(axes.items()):
        part = where(found["histograms"], dataset=dataset)
        colour = style.PALETTE[0] if dataset in MAKERS else style.PALETTE[1]
        share = 100 * column(part, "share")
        axis.bar(column(part, "at"), share, width=1 / len(part), align="edge", color=colour)
        axis.axvline(medians[dataset], color="black", linestyle=":", linewidth=1.2)
        axis.set_title(f"{dataset} (median {medians[dataset]:.2f})")
        axis.set_xlim(0, 1)
        axis.tick_params(labelbottom=True)
        if i % 3 == 0:
            axis.set_ylabel("pairs (%)")
    figure.supxlabel(r"$|\hat c_{ij}| \,/\, \max|\hat c|$", fontsize=10)
    return {"covariance_distributions": figure}
