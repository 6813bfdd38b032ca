"""Networks trained with the true, dense covariance and run on random sparsifications of the sample covariance."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from svnn.experiments import _style as style
from svnn.experiments._draws import METHODS, Sparsifier, density, realisations, sparsifiers
from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._stability import compare
from svnn.experiments._synthetic import TRAINING, train_on_truth
from svnn.experiments._tables import by_level, distinct, summarise, where
from svnn.functional import sample_moments
from svnn.stability import expected_error

CLAIM = (
    "On LargeCov the error of RCV grows as p falls; on SmallCov it hardly changes. ACV is stable on both, but "
    "sparsifies little where covariances are large."
)
DATASETS = ("LargeCov", "SmallCov")
FULL = {**TRAINING, "N": 100, "levels": [0.1, 0.25, 0.5, 0.75, 0.9], "repeats": 5, "draws": 10}
QUICK = {"levels": [0.1, 0.25, 0.5, 0.75], "epochs": 20, "repeats": 2, "draws": 3}
QUARTILES = ("mae", "mae_change", "embedding_error")
#: Covariances without a p that the others are compared with.
REFERENCES = ("true covariance", "sample covariance", "no edges")
MEASURES = ("mae", "mae_change", "embedding_error", "filter_bias", "filter_variance", "density")


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every data set and repeat."""
    grid = product(settings["datasets"], range(settings["repeats"]))
    return [Job(measure, {"dataset": d, "repeat": r}, {"settings": dict(settings)}) for d, r in grid]


def measure(dataset: str, repeat: int, settings: Mapping[str, Any]) -> list[Row]:
    """Train one network; run it on the true and the sample covariance, on its diagonal, and on all sparsified ones.

    ``mae_change`` and ``embedding_error`` compare with the dense sample covariance; ``filter_bias`` and
    ``filter_variance`` are the exact parts of the first layer's expected squared error, relative to its output.
    """
    trained = train_on_truth(dataset, settings, repeat, settings["N"])
    model, X, y = trained.model, trained.X_test, trained.y_test
    C = sample_moments(trained.standardised(trained.X_train)).covariance
    seed = derive_seed(settings["seed"], "stochastic-synthetic", dataset, repeat)
    dense = model.on(C)
    references = dict(zip(REFERENCES, (model, dense, model.on(np.diag(np.diag(C)))), strict=True))
    rows: list[Row] = [{"method": name, **compare(dense, other, X, y)} for name, other in references.items()]
    for how in sparsifiers(C, settings["levels"], seed):
        parts = filter_error(model, C, how)
        for draw, sparse in enumerate(realisations(C, how, settings["draws"], seed)):
            changes = compare(dense, model.on(sparse), X, y)
            row = {"method": how.method, "p": how.p, "draw": draw, **changes, "density": density(sparse), **parts}
            rows.append(row)
    return rows


def filter_error(model: Any, C: np.ndarray, how: Sparsifier) -> dict[str, float]:
    """Return bias and variance of the first layer's filters, relative to the energy of their output.

    The network has one realisation in all its shifts. Order 2 has a closed form for that; other orders are given as
    if each shift had its own.
    """
    W = model.module_.filters[0].weight.detach().double().numpy()
    shift = C / model.operator_.scale
    error = expected_error(W, shift, how.probabilities, unbiased=how.unbiased, shared=W.shape[0] == 3, moment=C)
    H = np.tensordot(W[:, 0].T, np.stack([np.linalg.matrix_power(shift, k) for k in range(len(W))]), 1)
    energy = float(np.einsum("fij,jk,fik->", H, C, H, optimize=True))
    return {"filter_bias": error.bias / energy, "filter_variance": error.variance / energy}


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats and draws."""
    return {"summary": summarise(rows, ["dataset", "method", "p"], MEASURES, QUARTILES)}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the error of every method, p in columns."""
    summary = found["summary"]
    return {f"{d}: median test MAE": by_level(where(summary, dataset=d), "mae") for d in distinct(summary, "dataset")}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error against p, and the bias and variance that explain it."""
    summary = found["summary"]
    return {"stochastic_synthetic": _errors(summary), "bias_variance": _split(summary)}


def _errors(summary: list[Row]) -> Any:
    figure, axes = style.panels(distinct(summary, "dataset"), 2, width=4.6, height=3.6)
    looks = style.look(METHODS)
    for dataset, axis in axes.items():
        part = where(summary, dataset=dataset)
        base = where(part, method="sample covariance")[0]["mae_mean"]
        for name, look in looks.items():
            # Errors differ between data sets; the curve is what sparsification adds to them.
            style.level(axis, where(part, method=name), "mae_change", base=base, label=name, **look)
        for name in REFERENCES:
            style.reference(axis, base + where(part, method=name)[0]["mae_change_q50"], name)
        axis.set_xlabel("mean keep-probability p, or share kept")
        axis.set_ylabel("test MAE")
        style.log_y(axis)
    style.legend_below(figure, axis, note=style.ADDED)
    return figure


def _split(summary: list[Row]) -> Any:
    datasets = distinct(summary, "dataset")
    figure, axes = style.subplots(len(datasets), 3, width=3.6, height=2.8, sharex=True, sharey="row")
    titles = {
        "filter_bias": "first layer: bias",
        "filter_variance": "first layer: variance",
        "embedding_error": "whole network",
    }
    for line, dataset in zip(axes, datasets, strict=True):
        part = where(summary, dataset=dataset)
        for axis, measure in zip(line, titles, strict=True):
            for name, look in style.look(METHODS).items():
                rows = where(part, method=name)
                if measure == "embedding_error":
                    keys = [f"{measure}_q{q}" for q in (25, 50, 75)]
                    rows = [{**row, **{key: row[key] ** 2 for key in keys}} for row in rows]
                style.level(axis, rows, measure, label=name, **look)
        line[0].set_ylabel(f"{dataset}\nrelative squared error")
        line[0].set_yscale("log")
        line[0].set_ylim(bottom=max(line[0].get_ylim()[0], 1e-4))
    for top, bottom, title in zip(axes[0], axes[-1], titles.values(), strict=True):
        top.set_title(title)
        bottom.set_xlabel("p, or share kept")
    style.legend_below(figure, axes[0, 0])
    return figure
