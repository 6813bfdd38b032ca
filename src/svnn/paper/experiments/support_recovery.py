"""Fig. 7: which pairs are related? F1 (and in the tables precision and recall) against the number of samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from svnn._jobs import Job, Row, derive_seed
from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold
from svnn.datasets import make_sparse_covariance
from svnn.metrics import SupportRecovery, support_recovery
from svnn.paper.experiments import _figure_style as style
from svnn.paper.experiments._settings import Settings, job_grid
from svnn.paper.experiments._summaries import Tables, summarise

CLAIM = (
    "Thresholding finds exactly the related pairs as T grows; ACV improves on the sample covariance but does not find "
    "them exactly, because it is random; RCV is less accurate."
)
MEASURES = ("f1", "precision", "recall")
#: The estimators that have a line in the figure, and its label.
SHOWN = {
    "hard, cv": "hard, cross-validated",
    "hard": "hard or soft, universal",
    "adaptive": "adaptive",
    "ACV": "ACV",
    "sample": "all pairs kept",
}


@dataclass(frozen=True, kw_only=True)
class SupportSettings(Settings):
    """Number of features and of samples; share of related pairs and how they lie; draws of random sparsifiers."""

    N: int = 100
    sizes: tuple[int, ...] = (50, 100, 200, 400, 800, 1600, 3200, 6400)
    densities: tuple[float, ...] = (0.05, 0.2)
    kinds: tuple[str, ...] = ("random", "block")
    repeats: int = 5
    draws: int = 10


FULL = SupportSettings()
QUICK = replace(FULL, N=60, sizes=(50, 200, 800, 3200), repeats=2, draws=3)


def estimators(seed: int) -> dict[str, BaseEstimator]:
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


def jobs(settings: SupportSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every true covariance and repeat."""
    repeats = range(settings.repeats)
    return job_grid(recover, settings, kind=settings.kinds, density=settings.densities, repeat=repeats)


def recover(kind: str, density: float, repeat: int, settings: SupportSettings) -> list[Row]:
    """Draw a covariance and samples, estimate from the first T of them, and compare the related pairs.

    The scores of the random sparsifiers are means over several realisations.
    """
    seed = derive_seed(settings.seed, "support", kind, density, repeat)
    rng = np.random.default_rng(seed)
    C = make_sparse_covariance(settings.N, density, kind, rng)
    X = rng.multivariate_normal(np.zeros(settings.N), C, max(settings.sizes))
    rows: list[Row] = []
    for T in settings.sizes:
        for name, estimator in estimators(seed).items():
            estimator.fit(X[:T])
            found = [estimator.covariance_]
            if hasattr(estimator, "sample"):
                found = [estimator.sample(derive_seed(seed, T, name, draw)) for draw in range(settings.draws)]
            scores = np.mean([support_recovery(C, matrix) for matrix in found], axis=0)
            rows.append({"T": T, "estimator": name, **SupportRecovery(*map(float, scores))._asdict()})
    return rows


def tables(rows: pd.DataFrame, settings: SupportSettings) -> Tables:
    """Return the means over repeats."""
    return {"summary": summarise(rows, ["kind", "density", "T", "estimator"], MEASURES)}


def headline(found: Tables) -> Tables:
    """Return F1 at the largest T, with a column for every kind of true covariance."""
    summary = found["summary"]
    T = summary["T"].max()
    largest = summary[summary["T"] == T]
    out = pd.DataFrame({"estimator": largest["estimator"].unique()})
    for (kind, density), part in largest.groupby(["kind", "density"], sort=False):
        for name in ("mean", "std"):
            out[f"{kind} {density:.0%}_{name}"] = out["estimator"].map(part.set_index("estimator")[f"f1_{name}"])
    return {f"F1 at T = {T}": out}


def plots(found: Tables, settings: SupportSettings) -> style.Figures:
    """Return the figure: F1 against T, with a panel for every true covariance.

    Hard and soft thresholding keep the same pairs, so they are one line. The levels of RCV are a band.
    """
    summary = found["summary"]
    supports = list(summary.groupby(["kind", "density"], sort=False))
    figure, axes = style.subplots(-(-len(supports) // 2), 2, width=4.9, height=3.0, sharex=True, sharey=True)
    for axis, ((kind, density), part) in zip(axes.flat, supports, strict=False):
        _draw_support(axis, part)
        lie = {"random": "at random", "block": "in blocks"}.get(kind, kind)
        axis.set_title(f"{density:.0%} of the pairs are related, {lie}".replace("%", " %"))
    for axis in axes[:, 0]:
        axis.set_ylabel("F1 score of the pairs found")
    for axis in axes[-1]:
        style.sizes_axis(axis, settings.sizes, "number of samples T")
    return {"support_recovery": figure}


def _draw_support(axis: style.Axes, summary: pd.DataFrame) -> None:
    ends = []
    for (estimator, label), look in zip(SHOWN.items(), style.looks(list(SHOWN)).values(), strict=True):
        part = summary[summary["estimator"] == estimator]
        if estimator == "sample":
            look = {"color": style.GREY, "linestyle": "--"}
        style.curve(axis, part, "T", "f1", label=label, look=look)
        ends.append((label, part["f1_mean"].iloc[-1], look["color"]))
    levels = summary[summary["estimator"].str.startswith("RCV")].groupby("T")["f1_mean"].agg(["min", "max"])
    colour = style.PALETTE[4]
    axis.fill_between(levels.index, levels["min"], levels["max"], color=colour, alpha=0.4, linewidth=0)
    ends.append(("RCV, p from 0.25 to 0.75", float(levels.iloc[-1].mean()), colour))
    axis.set_ylim(-0.03, 1.05)
    style.label_ends(axis, ends, gap=0.085)
