"""Fig. 9: networks that were trained with the true, dense covariance run on random sparsifications of an estimate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.functional import acv_probabilities, rcv_probabilities, sample_moments, sparsify
from svnn.paper.experiments import _output as output
from svnn.paper.experiments._models import SyntheticSettings, Trained, compare, density, train_on_truth
from svnn.paper.experiments._output import QUARTILES, Tables, by_level, summarise
from svnn.paper.experiments._runner import job_grid
from svnn.stability import expected_error

CLAIM = (
    "On LargeCov the error of RCV grows as p falls; on SmallCov it hardly changes. ACV is stable on both, but "
    "sparsifies little where covariances are large."
)
DATASETS = ("LargeCov", "SmallCov")
#: The two rules of the paper, and ACV with a budget p; each also with kept entries divided by their probability.
METHODS = tuple(f"{rule}{form}" for rule in ("RCV", "ACV", "ACV, budget") for form in ("", ", unbiased"))
#: Covariances without random choices, to compare with.
REFERENCES = ("true covariance", "sample covariance", "no edges")
MEASURES = ("mae", "mae_change", "embedding_error", "filter_bias", "filter_variance", "density")


@dataclass(frozen=True, kw_only=True)
class StochasticSettings(SyntheticSettings):
    """Number of features, mean keep-probabilities p, and draws for each of them."""

    N: int = 100
    levels: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9)
    repeats: int = 5
    draws: int = 10
    datasets: tuple[str, ...] = ()


FULL = StochasticSettings()
QUICK = replace(FULL, levels=(0.1, 0.25, 0.5, 0.75), epochs=20, repeats=2, draws=3)


class Dropping(NamedTuple):
    """A method with its keep-probabilities and the requested p, which is None for a rule without a budget."""

    method: str
    p: float | None
    probabilities: np.ndarray
    unbiased: bool


def sparsifiers(C: np.ndarray, levels: Sequence[float], seed: int) -> Iterator[Dropping]:
    """Yield every method at every level for the covariance ``C``."""
    for method in METHODS:
        unbiased = method.endswith("unbiased")
        if method.startswith("ACV") and "budget" not in method:
            yield Dropping(method, None, acv_probabilities(C), unbiased)
            continue
        for p in levels:
            P = rcv_probabilities(C, p, derive_seed(seed, "ranks", p)) if "RCV" in method else acv_probabilities(C, p)
            yield Dropping(method, p, P, unbiased)


def realisations(C: np.ndarray, how: Dropping, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield ``draws`` sparsified covariances. The biased and the unbiased form of a rule keep the same pairs."""
    rule = how.method.removesuffix(", unbiased")
    for draw in range(draws):
        yield sparsify(C, how.probabilities, derive_seed(seed, rule, how.p, draw), how.unbiased)


def jobs(settings: StochasticSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every data set and repeat."""
    return job_grid(measure, settings, dataset=settings.datasets, repeat=range(settings.repeats))


def measure(dataset: str, repeat: int, settings: StochasticSettings) -> list[Row]:
    """Train a network; run it on the true and the sample covariance, on its diagonal, and on all sparsified ones.

    ``mae_change`` and ``embedding_error`` compare with the dense sample covariance. ``filter_bias`` and
    ``filter_variance`` are the exact parts of the first layer's expected squared error, relative to its output.
    """
    trained = train_on_truth(dataset, settings, repeat, settings.N)
    model, (X, y) = trained.model, trained.test
    C = sample_moments(trained.standardised(trained.train[0])).covariance
    seed = derive_seed(settings.seed, "stochastic-synthetic", dataset, repeat)
    dense = model.on(C)
    references = zip(REFERENCES, (model, dense, model.on(np.diag(np.diag(C)))), strict=True)
    rows: list[Row] = [{"method": name, **compare(dense, other, X, y)} for name, other in references]
    for how in sparsifiers(C, settings.levels, seed):
        parts = filter_error(trained, C, how)
        for draw, sparse in enumerate(realisations(C, how, settings.draws, seed)):
            changes = compare(dense, model.on(sparse), X, y)
            labels = {"method": how.method, "p": how.p, "draw": draw}
            rows.append({**labels, **changes, "density": density(sparse), **parts})
    return rows


def filter_error(trained: Trained, C: np.ndarray, how: Dropping) -> dict[str, float]:
    """Return the bias and the variance of the first layer's filters, relative to the energy of their output.

    The network uses one realisation in all its shifts. For order 2 there is a formula for that; for other orders each
    shift is taken to have another realisation.
    """
    W = trained.first_layer.weight.detach().double().numpy()
    shift = C / trained.model.operator_.scale
    error = expected_error(W, shift, how.probabilities, unbiased=how.unbiased, shared=W.shape[0] == 3, moment=C)
    H = np.tensordot(W[:, 0].T, np.stack([np.linalg.matrix_power(shift, k) for k in range(len(W))]), 1)
    energy = float(np.einsum("fij,jk,fik->", H, C, H, optimize=True))
    return {"filter_bias": error.bias / energy, "filter_variance": error.variance / energy}


def tables(rows: pd.DataFrame, settings: StochasticSettings) -> Tables:
    """Return the means over repeats and draws."""
    return {"summary": summarise(rows, ["dataset", "method", "p"], MEASURES, MEASURES[:3])}


def headline(frames: Tables) -> Tables:
    """Return the error of every method, with p in columns."""
    sets = frames["summary"].groupby("dataset", sort=False)
    return {f"{dataset}: median test MAE": by_level(part, "mae") for dataset, part in sets}


def plots(frames: Tables, settings: StochasticSettings) -> output.Figures:
    """Return the error against p, and the bias and variance that explain it."""
    return {"stochastic_synthetic": _draw_errors(frames["summary"]), "bias_variance": _draw_parts(frames["summary"])}


def _draw_errors(summary: pd.DataFrame) -> output.Figure:
    figure, axes = output.panels(summary["dataset"].unique(), 2, width=4.6, height=3.6)
    for dataset, axis in axes.items():
        draw_changes(axis, summary[summary["dataset"] == dataset], "mae", REFERENCES)
        axis.set_ylabel("test MAE")
        output.log_y(axis)
    output.legend_below(figure, axis, note=output.ADDED)
    return figure


def draw_changes(axis: output.Axes, summary: pd.DataFrame, score: str, references: Sequence[str]) -> None:
    """Draw the score of every method against p, and the references as horizontal lines.

    Scores differ between data sets and splits. So a curve is the mean score on the sample covariance, plus the median
    of the change that sparsification makes.
    """
    change = "change" if score == "score" else f"{score}_change"
    methods = dict(list(summary.groupby("method", sort=False)))
    base = methods["sample covariance"][f"{score}_mean"].item()
    for name, look in output.looks(METHODS).items():
        output.curve_over_levels(axis, methods[name], change, base=base, label=name, look=look)
    for name in references:
        output.reference(axis, base + methods[name][f"{change}_q50"].item(), name)
    axis.set_xlabel("mean keep-probability p, or share kept")


def _draw_parts(summary: pd.DataFrame) -> output.Figure:
    datasets = summary["dataset"].unique()
    figure, axes = output.subplots(len(datasets), 3, width=3.6, height=2.8, sharex=True, sharey="row")
    squared = {f"embedding_error_q{q}": summary[f"embedding_error_q{q}"] ** 2 for q in QUARTILES}
    summary = summary.assign(**squared)
    titles = {
        "filter_bias": "first layer: bias",
        "filter_variance": "first layer: variance",
        "embedding_error": "whole network",
    }
    for line, dataset in zip(axes, datasets, strict=True):
        for axis, measure in zip(line, titles, strict=True):
            for name, look in output.looks(METHODS).items():
                part = summary[(summary["dataset"] == dataset) & (summary["method"] == name)]
                output.curve_over_levels(axis, part, measure, label=name, look=look)
        line[0].set(ylabel=f"{dataset}\nrelative squared error", yscale="log")
        line[0].set_ylim(bottom=max(line[0].get_ylim()[0], 1e-4))
    for top, bottom, title in zip(axes[0], axes[-1], titles.values(), strict=True):
        top.set_title(title)
        bottom.set_xlabel("p, or share kept")
    output.legend_below(figure, axes[0, 0])
    return figure
