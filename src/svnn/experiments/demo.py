"""The demo: every sparsifier, the dense VNN and two plain baselines on built-in data."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold
from svnn.datasets import make_sparse_cov
from svnn.estimators import SVNNClassifier, SVNNRegressor
from svnn.experiments._draws import density as share_kept


@dataclass
class Row:
    """One line of the table."""

    task: str
    model: str
    score: float
    density: float
    fit_seconds: float
    predict_ms: float


@dataclass
class Task:
    """A data set and how to score predictions on it."""

    name: str
    metric: str
    X: np.ndarray
    y: np.ndarray
    score: Callable[[np.ndarray, np.ndarray], float]
    lower_is_better: bool


def tasks(seed: int) -> list[Task]:
    """Return a regression with a sparse covariance and a classification, both built in."""
    sparse = make_sparse_cov(random_state=seed)
    X, y = load_breast_cancer(return_X_y=True)
    return [
        Task("SparseCov", "MAE", sparse.X, sparse.y, lambda p, y: float(np.abs(p - y).mean()), True),
        Task("Breast cancer", "accuracy", X, y, lambda p, y: float((p == y).mean()), False),
    ]


def covariances(seed: int) -> dict[str, Any]:
    """Return the covariances that the demo compares."""
    return {
        "VNN (dense)": SampleCovariance(),
        "S-VNN hard": HardThreshold(),
        "S-VNN soft": SoftThreshold(),
        "S-VNN adaptive": AdaptiveThreshold(),
        "S-VNN ACV": ACV(density=0.25, random_state=seed),
        "S-VNN RCV": RCV(p=0.25, random_state=seed),
    }


def models(task: Task, quick: bool, seed: int) -> dict[str, Any]:
    """Return the estimators for ``task``, baselines first."""
    epochs, patience = (5, 5) if quick else (1000, 100)
    regression = task.lower_is_better
    linear = RidgeCV(np.logspace(-2, 4, 13)) if regression else LogisticRegressionCV(max_iter=2000)
    mlp = (MLPRegressor if regression else MLPClassifier)(
        hidden_layer_sizes=(32, 32),
        early_stopping=True,
        max_iter=epochs,
        n_iter_no_change=patience,
        random_state=seed,
    )
    network = SVNNRegressor if regression else SVNNClassifier
    return {
        "ridge" if regression else "logistic": make_pipeline(StandardScaler(), linear),
        "MLP": make_pipeline(StandardScaler(), mlp),
        **{
            name: network(covariance=covariance, max_epochs=epochs, patience=patience, random_state=seed)
            for name, covariance in covariances(seed).items()
        },
    }


def measure(task: Task, name: str, model: Any, seed: int) -> Row:
    """Fit on 80 % of the rows, score on the rest, and time both."""
    stratify = None if task.lower_is_better else task.y
    X_train, X_test, y_train, y_test = train_test_split(
        task.X, task.y, test_size=0.2, random_state=seed, stratify=stratify
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The baselines' own remarks, on few epochs or on defaults to come, do not concern the reader.
        warnings.filterwarnings("ignore", module="sklearn")
        model.fit(X_train, y_train)
    fitted = time.perf_counter() - start
    times = []
    for _ in range(5):
        start = time.perf_counter()
        predicted = model.predict(X_test)
        times.append(time.perf_counter() - start)
    return Row(task.name, name, task.score(predicted, y_test), density(model), fitted, 1000 * float(np.median(times)))


def density(model: Any) -> float:
    """Return the share of off-diagonal covariances that the model uses; NaN where it uses none."""
    C = getattr(model, "covariance_", None)
    return float("nan") if C is None else share_kept(C)


def run_demo(out: Path, quick: bool = False, seed: int = 0) -> list[Row]:
    """Run the demo, print its table and write ``results.csv`` and ``results.png`` to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    todo = [(task, name, model) for task in tasks(seed) for name, model in models(task, quick, seed).items()]
    rows = []
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    screen = Console(stderr=True)
    screen.quiet = not screen.is_terminal  # before its version 14.3, rich ends even a disabled bar with an empty line
    with Progress(*columns, console=screen, transient=True, disable=screen.quiet) as bar:
        progress = bar.add_task("", total=len(todo))
        for task, name, model in todo:
            bar.update(progress, description=f"{task.name}: {name}")
            rows.append(measure(task, name, model, seed))
            bar.advance(progress)
    for task in tasks(seed):
        console.print(_table(task, [r for r in rows if r.task == task.name]))
    if quick:
        console.print("Quick run: a few epochs only, the scores mean nothing.", style="yellow")
    with (out / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    written = [out / "results.csv"]
    if plot := _plot(rows, tasks(seed), out / "results.png"):
        written.append(plot)
    console.print("Wrote " + " and ".join(str(path) for path in written), markup=False)
    return rows


def _table(task: Task, rows: list[Row]) -> Table:
    arrow = "↓" if task.lower_is_better else "↑"
    table = Table(title=f"{task.name}: {task.X.shape[0]} samples, {task.X.shape[1]} features")
    table.add_column("model")
    for column in (f"{task.metric} {arrow}", "density", "fit (s)", "predict (ms)"):
        table.add_column(column, justify="right")
    best = (min if task.lower_is_better else max)(row.score for row in rows)
    for row in rows:
        shown = "–" if np.isnan(row.density) else f"{row.density:.3f}"
        style = "bold green" if row.score == best else None
        numbers = (f"{row.score:.3f}", shown, f"{row.fit_seconds:.2f}", f"{row.predict_ms:.1f}")
        table.add_row(row.model, *numbers, style=style)
    return table


def _plot(rows: list[Row], all_tasks: list[Task], path: Path) -> Path | None:
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        Console(stderr=True).print('No plot: matplotlib is missing; pip install "svnn\\[plot]" adds it.')
        return None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(all_tasks), figsize=(11, 3.8), layout="constrained")
    for axis, task in zip(axes, all_tasks, strict=True):
        part = [row for row in rows if row.task == task.name][::-1]
        scores = np.array([row.score for row in part])
        best = scores.min() if task.lower_is_better else scores.max()
        spread = max(scores.max() - scores.min(), 0.02 * abs(best))
        for i, row in enumerate(part):
            ours = row.model.startswith(("S-VNN", "VNN"))
            weight = "bold" if row.score == best else "normal"
            axis.plot(row.score, i, "o", color="#4c78a8" if ours else "#8c8c8c", markersize=8)
            axis.text(row.score + 0.04 * spread, i, f"{row.score:.3f}", va="center", fontsize=9, fontweight=weight)
        shares = ["" if np.isnan(row.density) else f" ({100 * row.density:.0f} % of edges)" for row in part]
        axis.set_yticks(range(len(part)), [row.model + share for row, share in zip(part, shares, strict=True)])
        axis.set_xlim(scores.min() - 0.1 * spread, scores.max() + 0.25 * spread)
        axis.grid(axis="y", color="#e5e5e5")
        axis.set_axisbelow(True)
        better = "lower is better" if task.lower_is_better else "higher is better"
        axis.set_xlabel(f"{task.metric} on held-out data ({better})", fontsize=9)
        axis.set_title(task.name)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
