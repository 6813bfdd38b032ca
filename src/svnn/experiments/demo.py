"""The demo: networks on sparse covariances, on the dense covariance, and two plain baselines, on built-in data."""

from __future__ import annotations

import csv
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold
from svnn.datasets import make_sparse_cov
from svnn.estimators import SVNNClassifier, SVNNRegressor
from svnn.experiments._models import density, median_time
from svnn.experiments._terminal import console, progress_bar


@dataclass
class Task:
    """A data set, and how predictions on it are scored."""

    name: str
    metric: str
    X: np.ndarray
    y: np.ndarray
    score: Callable[[np.ndarray, np.ndarray], float]
    lower_is_better: bool

    def best(self, results: Sequence[Result]) -> float:
        """Return the best score."""
        return (min if self.lower_is_better else max)(result.score for result in results)


@dataclass
class Result:
    """How one model did on one task; the density is NaN for a model without a covariance."""

    task: str
    model: str
    score: float
    density: float
    fit_seconds: float
    predict_ms: float


def tasks(seed: int) -> list[Task]:
    """Return a regression on data with a sparse covariance, and a classification."""
    sparse = make_sparse_cov(random_state=seed)
    X, y = load_breast_cancer(return_X_y=True)
    return [
        Task("SparseCov", "MAE", sparse.X, sparse.y, lambda p, y: float(np.abs(p - y).mean()), True),
        Task("Breast cancer", "accuracy", X, y, lambda p, y: float((p == y).mean()), False),
    ]


def models(task: Task, quick: bool, seed: int) -> dict[str, BaseEstimator]:
    """Return the models for a task: two baselines, then a network on each covariance."""
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
    covariances = {
        "VNN (dense)": SampleCovariance(),
        "S-VNN hard": HardThreshold(),
        "S-VNN soft": SoftThreshold(),
        "S-VNN adaptive": AdaptiveThreshold(),
        "S-VNN ACV": ACV(density=0.25, random_state=seed),
        "S-VNN RCV": RCV(p=0.25, random_state=seed),
    }
    network = SVNNRegressor if regression else SVNNClassifier
    return {
        "ridge" if regression else "logistic": make_pipeline(StandardScaler(), linear),
        "MLP": make_pipeline(StandardScaler(), mlp),
        **{
            name: network(covariance=covariance, max_epochs=epochs if quick else "auto", random_state=seed)
            for name, covariance in covariances.items()
        },
    }


def measure(task: Task, name: str, model: BaseEstimator, seed: int) -> Result:
    """Fit on 80 % of the rows, score on the other rows, and take the time of both."""
    X_train, X_test, y_train, y_test = train_test_split(
        task.X, task.y, test_size=0.2, random_state=seed, stratify=None if task.lower_is_better else task.y
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        # scikit-learn warns about few epochs, or about defaults that will change: nothing the reader can act on.
        warnings.filterwarnings("ignore", module="sklearn")
        model.fit(X_train, y_train)
    fit_seconds = time.perf_counter() - start
    C = getattr(model, "covariance_", None)
    return Result(
        task.name,
        name,
        score=task.score(model.predict(X_test), y_test),
        density=math.nan if C is None else density(C),
        fit_seconds=fit_seconds,
        predict_ms=1000 * median_time(lambda: model.predict(X_test), 5),
    )


def run_demo(out: Path, quick: bool = False, seed: int = 0) -> list[Result]:
    """Run the demo, print its tables, and write ``results.csv`` and ``results.png`` to the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    both = tasks(seed)
    todo = [(task, name, model) for task in both for name, model in models(task, quick, seed).items()]
    results = []
    with progress_bar() as bar:
        progress = bar.add_task("", total=len(todo))
        for task, name, model in todo:
            bar.update(progress, description=f"{task.name}: {name}".ljust(30))
            results.append(measure(task, name, model, seed))
            bar.advance(progress)
    screen = console()
    for task in both:
        screen.print(_table(task, [result for result in results if result.task == task.name]))
    screen.print("density: the share of the pairs of features whose covariance a network uses", style="italic")
    if quick:
        screen.print("This was a quick run of a few epochs: the scores mean nothing.", style="yellow")
    with (out / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(results[0])))
        writer.writeheader()
        writer.writerows(asdict(result) for result in results)
    written = [out / "results.csv", *_plot(results, both, out / "results.png")]
    screen.print("Wrote " + " and ".join(str(path) for path in written), markup=False, highlight=False)
    return results


def _table(task: Task, results: Sequence[Result]) -> Table:
    samples, features = task.X.shape
    better = "lower" if task.lower_is_better else "higher"
    title = f"[bold]{task.name}[/bold]: {samples} samples, {features} features"
    table = Table(title=title, title_justify="left", box=box.ROUNDED)
    table.add_column("model")
    for column in (f"{task.metric} ({better} is better)", "density", "fit (s)", "predict (ms)"):
        table.add_column(column, justify="right")
    best = task.best(results)
    for result in results:
        share = "–" if math.isnan(result.density) else f"{result.density:.3f}"
        numbers = (f"{result.score:.3f}", share, f"{result.fit_seconds:.2f}", f"{result.predict_ms:.1f}")
        table.add_row(result.model, *numbers, style="bold green" if result.score == best else None)
    return table


def _plot(results: Sequence[Result], both: Sequence[Task], path: Path) -> list[Path]:
    """Draw the scores and return the file, or say what is missing."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        Console(stderr=True).print('No plot, because matplotlib is missing: pip install "svnn[plot]".', markup=False)
        return []
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(both), figsize=(11, 3.8), layout="constrained")
    for axis, task in zip(axes, both, strict=True):
        part = [result for result in results if result.task == task.name][::-1]
        best, scores = task.best(part), [result.score for result in part]
        spread = max(max(scores) - min(scores), 0.02 * abs(best))
        labels = []
        for i, result in enumerate(part):
            network = result.model.startswith(("S-VNN", "VNN"))
            weight = "bold" if result.score == best else "normal"
            axis.plot(result.score, i, "o", color="#4c78a8" if network else "#8c8c8c", markersize=8)
            axis.text(result.score + 0.04 * spread, i, f"{result.score:.3f}", va="center", fontsize=9, weight=weight)
            labels.append(result.model + (f" ({100 * result.density:.0f} % of edges)" if network else ""))
        axis.set_yticks(range(len(part)), labels)
        axis.set_xlim(min(scores) - 0.1 * spread, max(scores) + 0.25 * spread)
        axis.grid(axis="y", color="#e5e5e5")
        axis.set_axisbelow(True)
        better = "lower is better" if task.lower_is_better else "higher is better"
        axis.set_xlabel(f"{task.metric} on held-out data ({better})", fontsize=9)
        axis.set_title(task.name)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return [path]
