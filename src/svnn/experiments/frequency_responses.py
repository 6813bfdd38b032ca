"""Frequency responses: PCA's ideal filter, trained covariance filters, the generalised response over two shifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svnn.experiments import _style as style
from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._synthetic import TRAINING, train_on_truth
from svnn.experiments._tables import column, distinct, where
from svnn.functional import rcv_probabilities, sample_moments, sparsify
from svnn.stability import generalized_response, layer_response, pca_response

CLAIM = (
    "PCA's filter jumps between close eigenvalues; a covariance filter is a smooth polynomial. The generalised "
    "response depends on the coefficients only, realisations say where it is evaluated."
)
FULL = {**TRAINING, "N": 100, "components": 20, "filters": 6, "p": 0.5, "grid": 101}
QUICK = {"epochs": 20}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return the one job."""
    return [Job(measure, {"dataset": "SparseCov"}, {"settings": dict(settings)})]


def measure(dataset: str, settings: Mapping[str, Any]) -> list[Row]:
    """Train a network; return responses of PCA and of the first layer, and of one filter over two eigenvalues."""
    trained = train_on_truth(dataset, settings, 0, settings["N"])
    C, scale = trained.covariance, float(trained.model.operator_.scale or 1)
    lam = np.linalg.eigvalsh(C)
    grid = np.linspace(0, 1.1 * lam[-1], settings["grid"])
    rows: list[Row] = [
        {"kind": "PCA", "lam": x, "h": h} for x, h in zip(lam, pca_response(lam, settings["components"]), strict=True)
    ]
    layer: Any = trained.model.module_.get_submodule("filters.0")
    responses = layer_response(layer, grid, scale)[:, 0]
    order = np.argsort(-np.ptp(responses, axis=0), kind="stable")[: settings["filters"]]
    for rank, f in enumerate(order):
        rows += [{"kind": f"filter {rank + 1}", "lam": x, "h": h} for x, h in zip(grid, responses[:, f], strict=True)]
    # Two shifts: the response of the first filter's coefficients of order 0, 1 and 2.
    h = layer.weight.detach().double().numpy()[:3, 0, order[0]]
    sample = sample_moments(trained.standardised(trained.X_train)).covariance / scale
    spectra = []
    for draw in range(4):
        seed = derive_seed(settings["seed"], "frequency", draw)
        spectra.append(np.linalg.eigvalsh(sparsify(sample, rcv_probabilities(sample, settings["p"], seed), seed)))
    both = np.concatenate(spectra)
    axis = np.linspace(min(both.min(), 0) * 1.1, both.max() * 1.1, 61)
    pairs = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
    surface = generalized_response(h, pairs)
    rows += [
        {"kind": "surface", "lam": float(pairs[i, j, 0]), "lam2": float(pairs[i, j, 1]), "h": float(surface[i, j])}
        for i in range(len(axis))
        for j in range(len(axis))
    ]
    for number, (first, second) in enumerate((spectra[:2], spectra[2:])):
        # The leading eigenvalue of one with that of the other, the next with the next, and so on.
        for a, b in zip(first[::-1][::5], second[::-1][::5], strict=True):
            at = float(generalized_response(h, [a, b]))
            rows.append({"kind": f"realisation {number + 1}", "lam": float(a), "lam2": float(b), "h": at})
    return rows


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the curves; there is nothing to average."""
    return {"curves": [row for row in rows if "lam2" not in row], "surface": [row for row in rows if "lam2" in row]}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return how steep each response is between neighbouring eigenvalues or grid points."""
    out = []
    for kind in distinct(found["curves"], "kind"):
        part = sorted(where(found["curves"], kind=kind), key=lambda row: row["lam"])
        lam, h = column(part, "lam"), column(part, "h")
        steepest = abs(np.diff(h) / np.maximum(np.diff(lam), 1e-12)).max()
        out.append({"response": kind, "range": float(np.ptp(h)), "steepest slope": float(steepest)})
    return {"responses": out}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return PCA against filters, and the surface with two realisations."""
    return {
        "frequency_responses": _curves(found["curves"], settings),
        "generalized_response": _surface(found["surface"]),
    }


def _curves(rows: list[Row], settings: Mapping[str, Any]) -> Any:
    figure, axes = style.subplots(1, 2, width=4.4, height=3.2, sharex=True)
    left, right = axes[0]
    pca = where(rows, kind="PCA")
    lam = column(pca, "lam")
    left.step(lam, column(pca, "h"), where="mid", color=style.PALETTE[0])
    left.plot(lam, column(pca, "h"), "o", color=style.PALETTE[0], markersize=3.5)
    left.set_title(f"PCA with {settings['components']} components")
    left.set_ylabel("response h(λ)")
    for kind, look in style.look([k for k in distinct(rows, "kind") if k != "PCA"]).items():
        part = where(rows, kind=kind)
        right.plot(column(part, "lam"), column(part, "h"), color=look["color"])
    right.plot(lam, np.full(len(lam), right.get_ylim()[0]), "|", color="#5A5A5A", markersize=9, clip_on=False)
    right.set_title(f"{settings['filters']} trained filters of the first layer")
    for axis in axes[0]:
        axis.set_xlabel("eigenvalue λ of the covariance")
    return figure


def _surface(rows: list[Row]) -> Any:
    figure, axes = style.subplots(1, 1, width=5.0, height=4.0)
    axis = axes[0, 0]
    surface = where(rows, kind="surface")
    x = np.unique(column(surface, "lam"))
    h = column(surface, "h").reshape(len(x), len(x))
    filled = axis.contourf(x, x, h.T, levels=20, cmap="cividis")
    figure.colorbar(filled, ax=axis, label=r"$h(\lambda_1, \lambda_2) = h_0 + h_1\lambda_1 + h_2\lambda_1\lambda_2$")
    for number, marker in ((1, "o"), (2, "^")):
        part = where(rows, kind=f"realisation {number}")
        colour = ("#FFFFFF", "#D55E00")[number - 1]
        pairs = column(part, "lam"), column(part, "lam2")
        axis.plot(*pairs, marker, color=colour, markeredgecolor="black", label=f"realisation {number}", markersize=5)
    axis.grid(False)
    axis.set_xlabel(r"$\lambda_1$, an eigenvalue of $\tilde C_1$ (scaled)")
    axis.set_ylabel(r"$\lambda_2$, an eigenvalue of $\tilde C_2$ (scaled)")
    axis.legend(loc="upper left", frameon=True, framealpha=0.9)
    return figure
