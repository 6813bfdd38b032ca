"""Fig. 1 and 3: frequency responses of PCA, of trained covariance filters, and of a filter over two shifts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.functional import rcv_probabilities, sample_moments, sparsify
from svnn.paper.experiments import _output as output
from svnn.paper.experiments._models import SyntheticSettings, train_on_truth
from svnn.paper.experiments._output import Tables
from svnn.paper.experiments._runner import job_grid
from svnn.stability import generalized_response, layer_response, pca_response

CLAIM = (
    "The response of PCA jumps between eigenvalues that are close to each other; that of a covariance filter is a "
    "smooth polynomial. The generalised response depends on the coefficients only; random realisations of the "
    "covariance decide where it is evaluated."
)


@dataclass(frozen=True, kw_only=True)
class ResponseSettings(SyntheticSettings):
    """Number of features, of PCA's components and of filters shown; RCV's level; points on the axis of eigenvalues."""

    N: int = 100
    components: int = 20
    filters: int = 6
    p: float = 0.5
    grid: int = 101


FULL = ResponseSettings()
QUICK = replace(FULL, epochs=20)


def jobs(settings: ResponseSettings, rows: list[Row]) -> list[Job]:
    """Return the only job."""
    return job_grid(measure, settings, dataset=["SparseCov"])


def measure(dataset: str, settings: ResponseSettings) -> list[Row]:
    """Train a network; return the responses of PCA and of its first layer, and of one filter over two eigenvalues."""
    trained = train_on_truth(dataset, settings, 0, settings.N)
    C, scale = trained.covariance, float(trained.model.operator_.scale or 1)
    lam = np.linalg.eigvalsh(C)
    grid = np.linspace(0, 1.1 * lam[-1], settings.grid)
    rows = _rows(kind="PCA", lam=lam, h=pca_response(lam, settings.components))
    layer = trained.first_layer
    responses = layer_response(layer, grid, scale)[:, 0]
    order = np.argsort(-np.ptp(responses, axis=0), kind="stable")[: settings.filters]
    for rank, f in enumerate(order):
        rows += _rows(kind=f"filter {rank + 1}", lam=grid, h=responses[:, f])
    # Two shifts: the response with the coefficients of order 0, 1 and 2 of the first of these filters.
    h = layer.weight.detach().double().numpy()[:3, 0, order[0]]
    sample = sample_moments(trained.standardised(trained.train[0])).covariance / scale
    spectra = []
    for draw in range(4):
        seed = derive_seed(settings.seed, "frequency", draw)
        spectra.append(np.linalg.eigvalsh(sparsify(sample, rcv_probabilities(sample, settings.p, seed), seed)))
    both = np.concatenate(spectra)
    axis = np.linspace(min(both.min(), 0) * 1.1, both.max() * 1.1, 61)
    pairs = {"surface": np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)}
    for number, (first, second) in enumerate((spectra[:2], spectra[2:]), 1):
        pairs[f"realisation {number}"] = np.stack([first, second], -1)[::-1][::5]
    for kind, at in pairs.items():
        rows += _rows(kind=kind, lam=at[:, 0], lam2=at[:, 1], h=generalized_response(h, at))
    return rows


def _rows(**columns: object) -> list[Row]:
    rows: list[Row] = pd.DataFrame(columns).to_dict("records")
    return rows


def tables(rows: pd.DataFrame, settings: ResponseSettings) -> Tables:
    """Return the responses over one eigenvalue, and those over two."""
    one = rows["lam2"].isna()
    return {
        "curves": rows[one].drop(columns="lam2"),
        "surface": rows.loc[~one, ["dataset", "kind", "lam", "lam2", "h"]],
    }


def headline(frames: Tables) -> Tables:
    """Return the range of each response, and its steepest slope between neighbouring points."""
    out = []
    for kind, part in frames["curves"].groupby("kind", sort=False):
        part = part.sort_values("lam", kind="stable")
        steepest = (part["h"].diff() / part["lam"].diff().clip(lower=1e-12)).abs().max()
        out.append({"response": kind, "range": np.ptp(part["h"]), "steepest slope": steepest})
    return {"responses": pd.DataFrame(out)}


def plots(frames: Tables, settings: ResponseSettings) -> output.Figures:
    """Return PCA beside trained filters, and the response over two eigenvalues."""
    return {
        "frequency_responses": _draw_curves(frames["curves"], settings),
        "generalized_response": _draw_surface(frames["surface"]),
    }


def _draw_curves(curves: pd.DataFrame, settings: ResponseSettings) -> output.Figure:
    """Draw PCA and the filters on the same axes; beyond the eigenvalues, which the strokes show, filters are thin."""
    figure, axes = output.subplots(1, 2, width=4.6, height=3.6, sharex=True, sharey=True)
    left, right = axes[0]
    pca = curves[curves["kind"] == "PCA"]
    filters = curves[curves["kind"] != "PCA"]
    left.step(pca["lam"], pca["h"], where="mid", color=output.PALETTE[0])
    left.set(title=f"PCA with {settings.components} components jumps", ylabel="response h(λ)")
    looks = output.looks(filters["kind"].unique())
    for kind, part in filters.groupby("kind", sort=False):
        seen = part["lam"].between(pca["lam"].min(), pca["lam"].max())
        right.plot(part["lam"], part["h"], color=looks[kind]["color"], linewidth=0.8, alpha=0.6)
        right.plot(part["lam"][seen], part["h"][seen], color=looks[kind]["color"], linewidth=2)
    right.set_title(f"{filters['kind'].nunique()} trained filters are smooth")
    bottom = right.get_ylim()[0]
    for axis in axes[0]:
        axis.plot(pca["lam"], np.full(len(pca), bottom), "|", color=output.GREY, markersize=8, clip_on=False)
        axis.set_ylim(bottom=bottom)
        axis.set_xlabel("eigenvalue λ of the covariance (strokes: where they are)")
    return figure


def _draw_surface(rows: pd.DataFrame) -> output.Figure:
    """Draw the response as a map, and beside it along the diagonal, where the points of realisations lie."""
    figure, axes = output.subplots(1, 2, width=4.9, height=4.0)
    left, right = axes[0]
    surface = rows[rows["kind"] == "surface"].pivot(index="lam2", columns="lam", values="h")
    filled = left.contourf(surface.columns, surface.index, surface, levels=12, cmap="cividis")
    figure.colorbar(filled, ax=left, label="response h(λ₁, λ₂)")
    right.plot(surface.columns, np.diag(surface), color=output.GREY, label="h(λ, λ), one matrix for both shifts")
    for number, marker, colour in ((1, "o", "#FFFFFF"), (2, "^", output.PALETTE[1])):
        part = rows[rows["kind"] == f"realisation {number}"]
        for axis, x, y in ((left, part["lam"], part["lam2"]), (right, part[["lam", "lam2"]].mean(axis=1), part["h"])):
            axis.plot(
                x, y, marker, color=colour, markeredgecolor="black", label=f"pair of draws {number}", markersize=6
            )
    left.grid(False)
    left.set_aspect("equal")
    left.set_title(r"$h(\lambda_1, \lambda_2) = h_0 + h_1\lambda_1 + h_2\lambda_1\lambda_2$")
    left.set(xlabel="λ₁, eigenvalue of the first draw (scaled)", ylabel="λ₂, eigenvalue of the second draw (scaled)")
    right.set(title="Other draws, other points, the same response", xlabel="mean of λ₁ and λ₂ (scaled)")
    right.set_ylabel("response h(λ₁, λ₂)")
    right.legend(loc="best")
    return figure
