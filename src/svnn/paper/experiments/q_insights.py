"""Fig. 4: the stability term Q = Σ c²(1-p) of Theorem 5 with ACV and with RCV."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from svnn._jobs import Job, Row, derive_seed
from svnn.functional import acv_probabilities, rcv_probabilities
from svnn.paper.experiments import _output as output
from svnn.paper.experiments._output import Tables, summarise
from svnn.paper.experiments._runner import Settings, job_grid
from svnn.stability import sparsification_error

CLAIM = (
    "With ACV an entry adds little to Q where it is close to zero or to the maximum. With RCV, Q grows with the size "
    "of the covariances, and the smaller p is, the faster; with ACV it stays at a consistent level."
)


@dataclass(frozen=True, kw_only=True)
class QSettings(Settings):
    """Number of features; means and spread of the covariances that are drawn; RCV's levels."""

    N: int = 100
    means: tuple[float, ...] = tuple(round(0.05 * i, 2) for i in range(1, 20))
    spread: float = 0.1
    levels: tuple[float, ...] = (0.75, 0.5, 0.25)
    repeats: int = 5


FULL = QSettings()
QUICK = replace(FULL, repeats=2)


def jobs(settings: QSettings, rows: list[Row]) -> list[Job]:
    """Return a job for every repeat."""
    return job_grid(measure, settings, repeat=range(settings.repeats))


def measure(repeat: int, settings: QSettings) -> list[Row]:
    """Return Q, per pair, for covariances that are drawn around each mean; all variances are 1, the maximum."""
    N = settings.N
    rows: list[Row] = []
    for mean in settings.means:
        rng = np.random.default_rng(derive_seed(settings.seed, "q", mean, repeat))
        C = np.triu(np.clip(rng.normal(mean, settings.spread, (N, N)), 0, 1), 1)
        C += C.T + np.eye(N)
        probabilities = {"ACV": acv_probabilities(C)}
        probabilities |= {f"RCV p={p}": rcv_probabilities(C, p, rng) for p in settings.levels}
        for method, P in probabilities.items():
            Q = sparsification_error(C, P)
            parts = {name: value / (N * (N - 1)) for name, value in Q._asdict().items()}
            rows.append({"method": method, "mean": mean, **parts, "kept": float((P.sum() - N) / (N * (N - 1)))})
    return rows


def tables(rows: pd.DataFrame, settings: QSettings) -> Tables:
    """Return the means over repeats, and what a single entry adds to Q with ACV."""
    c = np.linspace(0, 1, 101)
    return {
        "summary": summarise(rows, ["method", "mean"], ["Q", "bias", "variance", "kept"]),
        "entries": pd.DataFrame({"c": c, "q": c**2 * (1 - c)}),
    }


def headline(frames: Tables) -> Tables:
    """Return Q for small, middling and large covariances."""
    wide = frames["summary"].pivot(index="method", columns="mean", values="Q_mean")
    nearest = [min(wide.columns, key=lambda mean: abs(mean - wanted)) for wanted in (0.2, 0.5, 0.8)]
    wide = wide.loc[frames["summary"]["method"].unique(), nearest]
    wide.columns = [f"covariances about {mean:g}" for mean in nearest]
    return {"Q / N(N-1)": wide.reset_index()}


def plots(frames: Tables, settings: QSettings) -> output.Figures:
    """Return what one entry adds to Q, and Q against the size of the covariances."""
    figure, axes = output.subplots(1, 2, width=4.4, height=3.3)
    left, right = axes[0]
    left.plot(frames["entries"]["c"], frames["entries"]["q"], color=output.PALETTE[0])
    left.axvline(2 / 3, color=output.GREY, linestyle=":", linewidth=1.2)
    left.annotate("largest at 2/3", (2 / 3, 0.01), xytext=(-6, 0), textcoords="offset points", ha="right", fontsize=9)
    left.set(xlabel=r"$|\hat c_{in}| \,/\, \hat c_{\max}$", ylabel=r"$q_{in} \,/\, \hat c_{\max}^2$")
    left.set_title("ACV: what one entry adds to Q")
    looks = output.looks(frames["summary"]["method"].unique())
    for name, part in frames["summary"].groupby("method", sort=False):
        output.curve(right, part, "mean", "Q", label=name, look={**looks[name], "markersize": 4})
    right.set(xlabel="mean of the covariances", ylabel="Q / N(N−1)", title="Q against the size of the covariances")
    right.legend()
    return {"q_insights": figure}
