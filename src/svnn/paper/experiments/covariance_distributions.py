"""Table I and Fig. 5: how large the covariances of every data set are, and how many samples and features it has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.functional import sample_moments
from svnn.paper.experiments import _figure_style as style
from svnn.paper.experiments._real_data import PARTS, REAL, load_split, proper_name
from svnn.paper.experiments._settings import Settings, job_grid
from svnn.paper.experiments._summaries import Tables
from svnn.paper.experiments._trained_on_truth import MAKERS

CLAIM = "LargeCov and the brain data have large covariances, SmallCov and the wearable data mostly small ones."
DATASETS = (*MAKERS, *REAL)


@dataclass(frozen=True, kw_only=True)
class HistogramSettings(Settings):
    """Number of bars of a histogram, and the data sets."""

    bins: int = 40
    datasets: tuple[str, ...] = ()


FULL = QUICK = HistogramSettings()


def jobs(settings: HistogramSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every data set."""
    return job_grid(measure, settings, dataset=settings.datasets)


def measure(dataset: str, settings: HistogramSettings) -> list[Row]:
    """Return a histogram and quantiles of |c_ij| / max|c|, i ≠ j, of the training rows, and the sizes of the data set.

    Features are standardised as for the networks, so the maximum is a variance of 1.
    """
    sizes: Row
    if dataset in MAKERS:
        data = MAKERS[dataset](random_state=derive_seed(settings.seed, "synthetic", dataset, 100, 0))
        X = data.X[:800]
        sizes = dict(zip(PARTS, (800, 100, 100), strict=True))
    else:
        split = load_split(dataset, 0, settings.seed)
        X, y = split.train
        sizes = {part: len(getattr(split, part)[1]) for part in PARTS}
        sizes["classes"] = len(np.unique(y)) if split.classes else None
    spread = X.std(0)
    Z = (X - X.mean(0)) / np.where(spread > 0, spread, 1)
    C = abs(sample_moments(Z).covariance)
    values = C[np.triu_indices(len(C), 1)] / C.max()
    counts, edges = np.histogram(values, bins=settings.bins, range=(0, 1))
    rows: list[Row] = [
        {"kind": "bin", "at": float(edge), "share": float(count / len(values))}
        for edge, count in zip(edges[:-1], counts, strict=True)
    ]
    rows += [{"kind": "quantile", "at": q, "value": float(np.quantile(values, q))} for q in (0.1, 0.25, 0.5, 0.75, 0.9)]
    return [*rows, {"kind": "counts", **sizes, "nodes": len(C), "features": X[0].size // len(C)}]


def tables(rows: pd.DataFrame, settings: HistogramSettings) -> Tables:
    """Return the quantiles, with a row for every data set, the histograms, and the sizes."""
    quantiles = rows[rows["kind"] == "quantile"].pivot(index="dataset", columns="at", values="value")
    quantiles = quantiles.reindex(rows["dataset"].unique())
    quantiles.columns = [f"{q:.0%} quantile" for q in quantiles.columns]
    numbers = ["nodes", "features", "classes", *PARTS]
    sizes = rows[rows["kind"] == "counts"].reindex(columns=["dataset", *numbers])
    return {
        "summary": quantiles.reset_index(),
        "histograms": rows.loc[rows["kind"] == "bin", ["dataset", "at", "share"]],
        "sizes": sizes.astype(dict.fromkeys(numbers, "Int64")),
    }


def headline(found: Tables) -> Tables:
    """Return the quantiles, and the sizes of the data sets."""
    return {"quantiles of |c| / max|c|": found["summary"], "sizes": found["sizes"]}


def plots(found: Tables, settings: HistogramSettings) -> style.Figures:
    """Return a panel for every data set."""
    medians = found["summary"].set_index("dataset")["50% quantile"]
    figure, axes = style.panels(list(medians.index), 3, width=3.2, height=2.3, sharex=True)
    for i, (dataset, bars) in enumerate(found["histograms"].groupby("dataset", sort=False)):
        axis = axes[dataset]
        colour = style.PALETTE[0] if dataset in MAKERS else style.PALETTE[1]
        axis.bar(bars["at"], 100 * bars["share"], width=1 / len(bars), align="edge", color=colour)
        axis.axvline(medians[dataset], color="black", linestyle=":", linewidth=1.2)
        axis.set_title(f"{proper_name(dataset)} (median {medians[dataset]:.2f})")
        axis.set_xlim(0, 1)
        axis.tick_params(labelbottom=True)
        if i % 3 == 0:
            axis.set_ylabel("pairs (%)")
    figure.supxlabel(
        r"size of a covariance, as a share of the largest: $|\hat c_{ij}| \,/\, \max|\hat c|$", fontsize=10
    )
    return {"covariance_distributions": figure}
