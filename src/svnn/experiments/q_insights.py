"""The stability term Q = Σ c²(1-p) of Theorem 5 under ACV and RCV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svnn.experiments import _style as style
from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._tables import column, distinct, summarise, where
from svnn.functional import acv_probabilities, rcv_probabilities
from svnn.stability import sparsification_error

CLAIM = (
    "With ACV an entry adds little to Q where it is close to zero or to the maximum. With RCV Q grows with the size "
    "of the covariances, the more so the smaller p; with ACV it stays at a consistent level."
)
FULL = {
    "N": 100,
    "means": [round(0.05 * i, 2) for i in range(1, 20)],
    "spread": 0.1,
    "levels": [0.75, 0.5, 0.25],
    "repeats": 5,
}
QUICK = {"repeats": 2}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every repeat."""
    return [Job(measure, {"repeat": r}, {"settings": dict(settings)}) for r in range(settings["repeats"])]


def measure(repeat: int, settings: Mapping[str, Any]) -> list[Row]:
    """Return Q, a pair, for covariances drawn about each mean; variances are 1, so that 1 is the maximum."""
    N, rows = settings["N"], []
    for mean in settings["means"]:
        rng = np.random.default_rng(derive_seed(settings["seed"], "q", mean, repeat))
        C = np.triu(np.clip(rng.normal(mean, settings["spread"], (N, N)), 0, 1), 1)
        C += C.T + np.eye(N)
        probabilities = {"ACV": acv_probabilities(C)}
        probabilities |= {f"RCV p={p}": rcv_probabilities(C, p, rng) for p in settings["levels"]}
        for method, P in probabilities.items():
            Q = sparsification_error(C, P)
            parts = {name: value / (N * (N - 1)) for name, value in Q._asdict().items()}
            rows.append({"method": method, "mean": mean, **parts, "kept": float((P.sum() - N) / (N * (N - 1)))})
    return rows


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats, and the curve of one entry."""
    c = np.linspace(0, 1, 101)
    entry = [{"c": float(x), "q": float(q)} for x, q in zip(c, c**2 * (1 - c), strict=True)]
    return {"summary": summarise(rows, ["method", "mean"], ["Q", "bias", "variance", "kept"]), "entries": entry}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return Q for small, middling and large covariances."""
    out = []
    for method in distinct(found["summary"], "method"):
        part = where(found["summary"], method=method)
        picked = [min(part, key=lambda row: abs(row["mean"] - m)) for m in (0.2, 0.5, 0.8)]
        out.append({"method": method, **{f"covariances about {row['mean']:g}": row["Q_mean"] for row in picked}})
    return {"Q / N(N-1)": out}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return both panels of the paper's figure."""
    figure, axes = style.subplots(1, 2, width=4.4, height=3.3)
    left, right = axes[0]
    entries, summary = found["entries"], found["summary"]
    left.plot(column(entries, "c"), column(entries, "q"), color=style.PALETTE[0])
    left.axvline(2 / 3, color="#5A5A5A", linestyle=":", linewidth=1.2)
    left.annotate("largest at 2/3", (2 / 3, 0.01), xytext=(-6, 0), textcoords="offset points", ha="right", fontsize=9)
    left.set_xlabel(r"$|\hat c_{in}| \,/\, \hat c_{\max}$")
    left.set_ylabel(r"$q_{in} \,/\, \hat c_{\max}^2$")
    left.set_title("ACV: what one entry adds to Q")
    for name, look in style.look(distinct(summary, "method")).items():
        style.curve(right, where(summary, method=name), "mean", "Q", label=name, **(look | {"markersize": 4}))
    right.set_xlabel("mean of the covariances")
    right.set_ylabel("Q / N(N−1)")
    right.set_title("Q against the size of the covariances")
    right.legend()
    return {"q_insights": figure}
