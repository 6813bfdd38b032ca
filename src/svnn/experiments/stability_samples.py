"""Networks trained with the true, sparse covariance and run on estimates from T samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svnn.experiments import _style as style
from svnn.experiments._jobs import Job, Row, derive_seed
from svnn.experiments._stability import MEASURES, QUARTILES, compare_estimates
from svnn.experiments._synthetic import TRAINING, train_on_truth
from svnn.experiments._tables import distinct, summarise, where

CLAIM = (
    "Hard and soft thresholding give lower error and a smaller embedding difference than the sample covariance; "
    "PCA-SVM is the least stable."
)
FULL = {
    **TRAINING,
    "N": 100,
    "sizes": [50, 100, 200, 400, 800, 1600, 3200],
    "components": [10, 20, 50],
    "repeats": 5,
}
QUICK = {"sizes": [100, 400, 1600], "epochs": 20, "repeats": 2}


def jobs(settings: Mapping[str, Any], rows: list[Row]) -> list[Job]:
    """Return a job for every repeat."""
    return [Job(measure, {"repeat": r}, {"settings": dict(settings)}) for r in range(settings["repeats"])]


def measure(repeat: int, settings: Mapping[str, Any]) -> list[Row]:
    """Train one network and run it on all estimates."""
    trained = train_on_truth("SparseCov", settings, repeat, settings["N"])
    seed = derive_seed(settings["seed"], "stability-samples", repeat)
    return compare_estimates(trained, settings["sizes"], settings, seed)


def tables(rows: list[Row], settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return the means over repeats."""
    return {"summary": summarise(rows, ["model", "T"], MEASURES, QUARTILES)}


def headline(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return error and embedding difference at the middle T."""
    sizes = distinct(found["summary"], "T")
    T = sizes[len(sizes) // 2]
    names = ["model", *(f"{m}_{s}" for m in ("mae", "embedding_error", "covariance_error") for s in ("mean", "std"))]
    return {f"T = {T}": [{n: row[n] for n in names} for row in where(found["summary"], T=T)]}


def plots(found: dict[str, list[Row]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure: error, embedding difference, error of the covariance itself."""
    return {"stability_samples": figure(found["summary"], "T", settings["sizes"], "number of samples T", "mae")}


def figure(summary: list[Row], x: str, values: list[int], label: str, error: str) -> Any:
    """Return the task's error and the embedding difference against samples or features.

    Errors differ between data sets, so the first panel shows what an estimate adds to them, on top of the mean error
    with the true covariance where ``error`` is "mae".
    """
    figure, axes = style.subplots(1, 3, width=4.0, height=3.4)
    shown = {
        "mae_change": {"mae": "test MAE", "mae_change": "change of the test MAE"}[error],
        "embedding_error": "relative embedding difference",
        "covariance_error": "relative error of the covariance",
    }
    truth = {"VNN": "VNN, true covariance", "SVM": "PCA-SVM, true covariance"}
    base = {kind: where(summary, model=name)[0]["mae_mean"] for kind, name in truth.items()}
    looks = style.look([name for name in distinct(summary, "model") if name not in truth.values()])
    for axis, (measure, title) in zip(axes[0], shown.items(), strict=True):
        for name, look in looks.items():
            if measure == "covariance_error" and "PCA" in name:
                continue  # the same estimates as those of the networks
            start = base["SVM" if "SVM" in name else "VNN"] if (error, measure) == ("mae", "mae_change") else 0.0
            style.curve(axis, where(summary, model=name), x, measure, base=start, label=name, **look)
        if (error, measure) == ("mae", "mae_change"):
            for (kind, name), dash in zip(truth.items(), ("--", ":"), strict=True):
                axis.axhline(base[kind], color="#5A5A5A", linestyle=dash, linewidth=1.2, label=name)
        if (error, measure) == ("mae_change", "mae_change"):
            style.symlog_y(axis, 0.1)
        else:
            style.log_y(axis)
        style.sizes_axis(axis, values, label)
        axis.set_title(title)
    style.legend_below(figure, axes[0, 0])
    return figure
