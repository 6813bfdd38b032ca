"""Which pairs are related? F1, precision and recall of the support against the number of samples."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold
from svnn.datasets import make_sparse_covariance
from svnn.experiments import _style as style
from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._tables import distinct, summarise, where
from svnn.metrics import SupportRecovery, support_recovery

CLAIM = (
    "Thresholding recovers the support perfectly as T grows; ACV improves on the sample covariance but does not, "
    "because it is random; RCV is less accurate."
)
FULL = {
    "N": 100,
    "sizes": [50, 100, 200, 400, 800, 1600, 3200, 6400],
    "densities": [0.05, 0.2],
    "kinds": ["random", "block"],
    "repeats": 5,
    "draws": 10,
}
QUICK = {"N": 60, "sizes": [50, 200, 800, 3200], "repeats": 2, "draws": 3}
MEASURES = ("f1", "precision", "recall")


def estimators(seed: int) -> dict[str, Any]:
    """Return the estimators by name."""
    return {
        "sample": SampleCovariance(),
        "hard": HardThreshold(),
        "soft": SoftThreshold(),
        "hard, cv": HardThreshold(tau="cv", random_state=seed),
        "adaptive": AdaptiveThreshold(),
        "ACV": ACV(random_state=seed),
        **{f"RCV p={p}": RCV(p=p, random_state=seed) for p in (0.75, 0.5, 0.25)},
    }


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every support and repeat."""
    grid = product(settings["kinds"], settings["densities"], range(settings["repeats"]))
    arguments = {name: settings[name] for name in ("N", "sizes", "draws", "seed")}
    return [Job(recover, {"kind": k, "density": d, "repeat": r}, arguments) for k, d, r in grid]


def recover(kind: str, density: float, repeat: int, N: int, sizes: list[int], draws: int, seed: int) -> list[Row]:
    """Draw a covariance and samples, estimate from the first T of them, compare supports.

    For the random sparsifiers the scores are means over ``draws`` realisations.
    """
    source = derive_seed(seed, "support", kind, density, repeat)
    rng = np.random.default_rng(source)
    C = make_sparse_covariance(N, density, kind, rng)
    X = rng.multivariate_normal(np.zeros(N), C, max(sizes))
    rows = []
    for T in sizes:
        for name, estimator in estimators(source).items():
            estimator.fit(X[:T])
            found = [estimator.covariance_]
            if hasattr(estimator, "sample"):
                found = [estimator.sample(derive_seed(source, T, name, draw)) for draw in range(draws)]
            scores = np.mean([support_recovery(C, matrix) for matrix in found], axis=0)
            rows.append({"T": T, "estimator": name, **SupportRecovery(*map(float, scores))._asdict()})
    return rows


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats."""
    return {"summary": summarise(rows, ["kind", "density", "T", "estimator"], MEASURES)}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return F1 at the largest T, a column for every support."""
    summary = found["summary"]
    largest = where(summary, T=max(distinct(summary, "T")))
    out = []
    for name in distinct(summary, "estimator"):
        row: Row = {"estimator": name}
        for part in where(largest, estimator=name):
            support = f"{part['kind']} {part['density']:.0%}"
            row[f"{support}_mean"], row[f"{support}_std"] = part["f1_mean"], part["f1_std"]
        out.append(row)
    return {f"F1 at T = {largest[0]['T']}": out}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure: supports in rows, measures in columns."""
    summary = found["summary"]
    supports = list(product(distinct(summary, "kind"), distinct(summary, "density")))
    figure, axes = style.subplots(len(supports), 3, width=3.6, height=2.5, sharex=True, sharey=True)
    looks = style.look(distinct(summary, "estimator"))
    looks["hard"] |= {"markersize": 9, "fillstyle": "none"}  # soft has the same support, and lies on top of it
    for line, (kind, density) in zip(axes, supports, strict=True):
        part = where(summary, kind=kind, density=density)
        for axis, measure in zip(line, MEASURES, strict=True):
            for name, look in looks.items():
                style.curve(axis, where(part, estimator=name), "T", measure, label=name, **look)
            axis.set_ylim(-0.02, 1.03)
            if axis in axes[0]:
                axis.set_title({"f1": "F1 score"}.get(measure, measure.capitalize()))
            if axis in axes[-1]:
                style.sizes_axis(axis, settings["sizes"], "number of samples T")
        line[0].set_ylabel(f"{kind}, {density:.0%} of pairs")
    style.legend_below(figure, axes[0, 0], 9, "means, and bands of one standard deviation")
    return {"support_recovery": figure}
