"""Fig. 1 and 3: frequency responses of PCA, of trained covariance filters, and of a filter over two shifts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.experiments import _figure_style as style
from svnn.experiments._settings import job_grid
from svnn.experiments._summaries import Tables
from svnn.experiments._trained_on_truth import SyntheticSettings, train_on_truth
from svnn.functional import rcv_probabilities, sample_moments, sparsify
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
    sample = sample_moments(trained.standardised(trained.X_train)).covariance / scale
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


def headline(found: Tables) -> Tables:
    """Return the range of each response, and its steepest slope between neighbouring points."""
    out = []
    for kind, part in found["curves"].groupby("kind", sort=False):
        part = part.sort_values("lam", kind="stable")
        steepest = (part["h"].diff() / part["lam"].diff().clip(lower=1e-12)).abs().max()
        out.append({"response": kind, "range": np.ptp(part["h"]), "steepest slope": steepest})
    return {"responses": pd.DataFrame(out)}


def plots(found: Tables, settings: ResponseSettings) -> style.Figures:
    """Return PCA beside trained filters, and the response over two eigenvalues."""
    return {
        "frequency_responses": _draw_curves(found["curves"], settings),
        "generalized_response": _draw_surface(found["surface"]),
    }


def _draw_curves(curves: pd.DataFrame, settings: ResponseSettings) -> style.Figure:
    figure, axes = style.subplots(1, 2, width=4.4, height=3.2, sharex=True)
    left, right = axes[0]
    pca = curves[curves["kind"] == "PCA"]
    filters = curves[curves["kind"] != "PCA"]
    left.step(pca["lam"], pca["h"], where="mid", color=style.PALETTE[0])
    left.plot(pca["lam"], pca["h"], "o", color=style.PALETTE[0], markersize=3.5)
    left.set_title(f"PCA with {settings.components} components")
    left.set_ylabel("response h(λ)")
    looks = style.looks(filters["kind"].unique())
    for kind, part in filters.groupby("kind", sort=False):
        right.plot(part["lam"], part["h"], color=looks[kind]["color"])
    bottom = np.full(len(pca), right.get_ylim()[0])
    right.plot(pca["lam"], bottom, "|", color=style.GREY, markersize=9, clip_on=False)
    right.set_title(f"{settings.filters} trained filters of the first layer")
    for axis in axes[0]:
        axis.set_xlabel("eigenvalue λ of the covariance")
    return figure


def _draw_surface(rows: pd.DataFrame) -> style.Figure:
    figure, axes = style.subplots(1, 1, width=5.0, height=4.0)
    axis = axes[0, 0]
    surface = rows[rows["kind"] == "surface"].pivot(index="lam2", columns="lam", values="h")
    filled = axis.contourf(surface.columns, surface.index, surface, levels=20, cmap="cividis")
    figure.colorbar(filled, ax=axis, label=r"$h(\lambda_1, \lambda_2) = h_0 + h_1\lambda_1 + h_2\lambda_1\lambda_2$")
    for kind, marker, colour in (("realisation 1", "o", "#FFFFFF"), ("realisation 2", "^", "#D55E00")):
        part = rows[rows["kind"] == kind]
        axis.plot(part["lam"], part["lam2"], marker, color=colour, markeredgecolor="black", label=kind, markersize=5)
    axis.grid(False)
    axis.set_xlabel(r"$\lambda_1$, an eigenvalue of $\tilde C_1$ (scaled)")
    axis.set_ylabel(r"$\lambda_2$, an eigenvalue of $\tilde C_2$ (scaled)")
    axis.legend(loc="upper left", frameon=True, framealpha=0.9)
    return figure
