"""The default estimators beside the models that a user would try first, on the same random splits.

Every model gets the same 90 % of the rows and is scored on the rest; svnn takes its validation rows from those 90 %. No
parameter is tuned to a data set. ``SVNN_DATA`` names the folder of the real data sets. The seeds of the splits are
none of those by which svnn's defaults were chosen. Writes ``docs/results/rivals.csv``, from which the README's table
is made: ``python benchmarks/rivals.py --table`` prints it again without measuring anything.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from defaults import classifications, regressions
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from svnn import SVNNClassifier, SVNNRegressor

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "rivals.csv"
FIRST_SEED = 5000
COLUMNS = ("data", "samples", "features", "score", "model", "mean", "sd", "splits")
MODELS = ("svnn", "linear", "RBF SVM", "MLP", "boosted trees")


def untuned(name: str, regression: bool, seed: int) -> Any:
    """Return a model by its name; all but svnn, which does so itself, and the trees see standardised numbers."""
    if name == "svnn":
        return (SVNNRegressor if regression else SVNNClassifier)(random_state=seed)
    if name == "boosted trees":
        return (HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier)(random_state=seed)
    if name == "MLP":
        kind = MLPRegressor if regression else MLPClassifier
        model = kind(early_stopping=True, n_iter_no_change=100, max_iter=1000, random_state=seed)
    elif regression:
        model = {"linear": RidgeCV(np.logspace(-4, 4, 25)), "RBF SVM": SVR()}[name]
    else:
        model = {"linear": LogisticRegressionCV(max_iter=2000), "RBF SVM": SVC()}[name]
    scaled = make_pipeline(StandardScaler(), model)
    return TransformedTargetRegressor(scaled, transformer=StandardScaler()) if regression else scaled


def measure(X: np.ndarray, y: np.ndarray, model: str, regression: bool, seeds: range) -> list[float]:
    """Return the test score of every split: the mean absolute error, or the accuracy in per cent."""
    scores = []
    for seed in seeds:
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.1, random_state=seed, stratify=None if regression else y
        )
        one = untuned(model, regression, seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="sklearn")
            predicted = one.fit(X[train], y[train]).predict(X[test])
        scores.append(float(np.abs(predicted - y[test]).mean() if regression else 100 * np.mean(predicted == y[test])))
    return scores


def run(path: Path, seeds: range, only: str) -> None:
    """Measure all models on all data sets and write a row for each pair."""
    jobs = [(name, *data, True) for name, data in regressions().items()]
    jobs += [(name, *data, False) for name, data in classifications(real=False).items()]
    rows = []
    for name, X, y, regression in jobs:
        for model in MODELS if only.lower() in name.lower() else ():
            scores = measure(X, y, model, regression, seeds)
            unit = "MAE" if regression else "accuracy (%)"
            row = (name, *X.shape[:2], unit, model, round(np.mean(scores), 4), round(np.std(scores), 4), len(scores))
            rows.append(dict(zip(COLUMNS, row, strict=True)))
            print(*row, flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print("written:", path)


def table(path: Path = RESULTS) -> str:
    """Return the stored results as a table in Markdown, the best score of each row in bold."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = [f"| data (samples × features) | score | {' | '.join(MODELS)} |", "|---" * (2 + len(MODELS)) + "|"]
    for name in dict.fromkeys(row["data"] for row in rows):
        found = {row["model"]: row for row in rows if row["data"] == name}
        first = found[MODELS[0]]
        digits, best = (2, min) if first["score"] == "MAE" else (1, max)
        means = {model: round(float(found[model]["mean"]), digits) for model in MODELS}
        cells = []
        for model in MODELS:
            shown = f"{means[model]:.{digits}f}"
            mean = f"**{shown}**" if means[model] == best(means.values()) else shown
            cells.append(f"{mean} ± {float(found[model]['sd']):.{digits}f}")
        lines.append(f"| {name} ({first['samples']} × {first['features']}) | {first['score']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the stored results, measure nothing")
    parser.add_argument("--repeats", type=int, default=5, help="number of random splits")
    parser.add_argument("--only", default="", help="part of the name of a data set")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the CSV file to write")
    options = parser.parse_args()
    if not options.table:
        run(options.out, range(FIRST_SEED, FIRST_SEED + options.repeats), options.only)
    print(table(options.out))
