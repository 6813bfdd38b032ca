"""Fig. 6: networks that were trained with the true, sparse covariance run on estimates from T samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from svnn._jobs import Job, Row, derive_seed
from svnn._types import Matrix
from svnn.covariance import HardThreshold, SoftThreshold
from svnn.functional import sample_moments
from svnn.paper.baselines import PCASVMRegressor
from svnn.paper.experiments import _output as output
from svnn.paper.experiments._models import SyntheticSettings, Trained, compare, density, train_on_truth
from svnn.paper.experiments._output import Tables, summarise
from svnn.paper.experiments._runner import job_grid

CLAIM = (
    "Hard and soft thresholding give a lower error and a smaller change of the embeddings than the sample covariance; "
    "PCA-SVM is the least stable."
)
CHANGES = ("mae_change", "embedding_error", "covariance_error")
MEASURES = ("mae", "mae_change", "embedding_error", "embedding_distance", "covariance_error", "density")
#: The models on the true covariance: what the error of an estimate is compared with.
TRUTH = ("VNN, true covariance", "PCA-SVM, true covariance")


@dataclass(frozen=True, kw_only=True)
class StabilitySettings(SyntheticSettings):
    """The components of PCA-SVM that are tried, and the number of repeats."""

    components: tuple[int, ...] = (10, 20, 50)
    repeats: int = 5


@dataclass(frozen=True, kw_only=True)
class SamplesSettings(StabilitySettings):
    """Number of features, and numbers of samples."""

    N: int = 100
    sizes: tuple[int, ...] = (50, 100, 200, 400, 800, 1600, 3200)


FULL = SamplesSettings()
QUICK = replace(FULL, sizes=(100, 400, 1600), epochs=20, repeats=2)


def jobs(settings: SamplesSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every repeat."""
    return job_grid(measure, settings, repeat=range(settings.repeats))


def measure(repeat: int, settings: SamplesSettings) -> list[Row]:
    """Train one network and run it on all estimates."""
    trained = train_on_truth("SparseCov", settings, repeat, settings.N)
    seed = derive_seed(settings.seed, "stability-samples", repeat)
    return compare_estimates(trained, settings.sizes, settings.components, seed)


def compare_estimates(trained: Trained, sizes: Sequence[int], components: Sequence[int], seed: int) -> list[Row]:
    """Return a row for every model, estimate and number of samples, and rows for the true covariance.

    The threshold is chosen by sample splitting. The universal threshold, which lets hardly any unrelated pair through,
    is too large to come close to the truth at every T: soft thresholding subtracts it from what it keeps. The diagonal
    alone shows how much of the gain comes from the pairs that are kept, and how much from those that are dropped.
    """
    pool = trained.standardised(trained.samples(max(sizes), derive_seed(seed, "pool")))
    svm = pca_svm(trained, components)
    hard, soft = HardThreshold(tau="cv", random_state=seed), SoftThreshold(tau="cv", random_state=seed)
    estimates: dict[str, tuple[BaseEstimator, Callable[[np.ndarray], Matrix]]] = {
        "S-VNN, hard": (trained.model, lambda X: hard.fit(X).covariance_),
        "S-VNN, soft": (trained.model, lambda X: soft.fit(X).covariance_),
        "VNN, sample covariance": (trained.model, lambda X: sample_moments(X).covariance),
        "VNN, diagonal only": (trained.model, lambda X: np.diag(np.diag(sample_moments(X).covariance))),
        "PCA-SVM, dense": (svm, lambda X: sample_moments(X).covariance),
        "PCA-SVM, sparse": (svm, lambda X: hard.fit(X).covariance_),
    }
    X, y = trained.test
    rows: list[Row] = []
    for name, (model, estimate) in estimates.items():
        for T in sizes:
            C = estimate(pool[:T])
            error = np.linalg.norm(C - trained.covariance, 2) / np.linalg.norm(trained.covariance, 2)
            changes = compare(model, model.on(C), X, y)
            rows.append({"T": T, "model": name, **changes, "covariance_error": float(error), "density": density(C)})
    truth: list[tuple[str, BaseEstimator]] = list(zip(TRUTH, (trained.model, svm), strict=True))
    for name, model in truth:
        mae = float(abs(model.predict(X) - y).mean())
        rows += [{"T": T, "model": name, "mae": mae} for T in sizes]
    return rows


def pca_svm(trained: Trained, components: Sequence[int]) -> PCASVMRegressor:
    """Return PCA-SVM on the true covariance, with the number of components that has the smallest validation error."""
    (X, y), N = trained.validation, len(trained.covariance)
    sizes = sorted({min(k, N) for k in components})
    fitted = [PCASVMRegressor(n_components=k, covariance=trained.covariance).fit(*trained.train) for k in sizes]
    return min(fitted, key=lambda model: abs(model.predict(X) - y).mean())


def tables(rows: pd.DataFrame, settings: SamplesSettings) -> Tables:
    """Return the means over repeats."""
    return {"summary": summarise(rows, ["model", "T"], MEASURES, CHANGES)}


def headline(frames: Tables) -> Tables:
    """Return the error and the change of the embeddings at the middle T."""
    summary = frames["summary"]
    sizes = summary["T"].unique()
    T = sizes[len(sizes) // 2]
    return {f"T = {T}": means(summary[summary["T"] == T], ("mae", "embedding_error", "covariance_error"))}


def means(summary: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Return the columns to print: means and spreads of some measures, and the density."""
    return summary[["model", *(f"{m}_{part}" for m in measures for part in ("mean", "std")), "density_mean"]]


def plots(frames: Tables, settings: SamplesSettings) -> output.Figures:
    """Return the figure: changes of the error and of the embeddings, and the error of the covariance itself."""
    return {"stability_samples": draw(frames["summary"], "T", settings.sizes, "number of samples T")}


def draw(summary: pd.DataFrame, x: str, ticks: Sequence[int], label: str) -> output.Figure:
    """Return a figure of all changes against the number of samples or of features.

    Errors differ between data sets, so the first panel shows what an estimate adds to the error with the true
    covariance. Its axis is linear up to 0.1 and logarithmic beyond: small and large changes are both seen.
    """
    figure, axes = output.subplots(1, 3, width=4.2, height=3.7)
    first, *others = axes[0]
    estimates = summary[~summary["model"].isin(TRUTH)]
    looks = output.looks(estimates["model"].unique())
    for name, part in estimates.groupby("model", sort=False):
        output.curve(first, part, x, "mae_change", label=name, look=looks[name])
        for axis, measure in zip(others, CHANGES[1:], strict=True):
            if not (measure == "covariance_error" and "SVM" in name):  # the networks have the same estimates
                output.curve(axis, part, x, measure, label=name, look=looks[name])
    first.set_yscale("symlog", linthresh=0.1, linscale=0.7)
    first.yaxis.set_major_formatter("{x:g}")
    first.axhline(0, color=output.GREY, linewidth=1, zorder=1)
    for axis in others:
        output.log_y(axis)
    texts = (
        ("Error of the predictions", "test MAE added by the estimate"),
        ("Embeddings of the network", "relative change by the estimate"),
        ("The estimate itself", "relative error (spectral norm)"),
    )
    for axis, (title, quantity) in zip(axes[0], texts, strict=True):
        output.sizes_axis(axis, ticks, label)
        axis.set(title=title, ylabel=quantity)
    output.legend_below(figure, first)
    return figure
