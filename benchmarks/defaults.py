"""How well the default estimators predict, beside the linear model a user would try first.

Mean over random 80/10/10 splits; no parameter is tuned to a data set. With ``SVNN_DATA`` set to a
folder of the real data sets, those are measured too. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import SVNNClassifier, SVNNRegressor

#: What the defaults must reach: at most this multiple of ridge's error, or at most this much below
#: the logistic regression's accuracy.
BARS = {
    "SparseCov": 1.08,
    "LargeCov": 1.08,
    "SmallCov": 1.08,
    "IXI thickness → age": 0.92,
    "meats → fat": 1.1,
    "digits": 0.01,
    "breast cancer": 0.01,
    "wine": 0.01,
    "golub": 0.01,
}


def read(path: Path) -> tuple[list[str], np.ndarray]:
    with gzip.open(path, "rt", newline="") as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows, dtype=object)


def regressions(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {}
    for name in ("SparseCov", "LargeCov", "SmallCov"):
        names, rows = read(folder / f"{name}.csv.gz")
        values = rows.astype(float)[:, 1 if names[0] == "" else 0 :]  # some files have an index column
        found[name] = values[:, :-1], values[:, -1]
    names, rows = read(folder / "ixi_dk_thickness_age.csv.gz")
    regions = [i for i, n in enumerate(names) if n.endswith("_thickness") and "MeanThickness" not in n]
    found["IXI thickness → age"] = rows[:, regions].astype(float), rows[:, names.index("age")].astype(float)
    names, rows = read(folder / "meats.csv.gz")
    spectrum = [i for i, n in enumerate(names) if n.startswith("x_")]
    found["meats → fat"] = rows[:, spectrum].astype(float), rows[:, names.index("fat")].astype(float)
    return found


def classifications(folder: Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {
        "digits": load_digits(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "wine": load_wine(return_X_y=True),
    }
    if folder:
        golub = np.load(folder / "genes_golub.npz", allow_pickle=False)
        found["golub"] = golub["x"], golub["y"]
    return found


def splits(y: np.ndarray, repeats: int, stratify: bool):
    for seed in range(repeats):
        rows = np.arange(len(y))
        train, test = train_test_split(rows, test_size=0.1, random_state=seed, stratify=y if stratify else None)
        labels = y[train] if stratify else None
        train, valid = train_test_split(train, test_size=1 / 9, random_state=seed, stratify=labels)
        yield seed, train, valid, test


def compare(X, y, model, baseline, score, repeats, stratify):
    """Return the mean scores of model and baseline, and the model's mean seconds to fit."""
    scores, seconds = [], []
    for seed, train, valid, test in splits(y, repeats, stratify):
        start = time.perf_counter()
        fitted = model.set_params(random_state=seed).fit(X[train], y[train], validation_data=(X[valid], y[valid]))
        seconds.append(time.perf_counter() - start)
        reference = baseline.fit(X[train], y[train])
        scores.append([score(m.predict(X[test]), y[test]) for m in (fitted, reference)])
    return *np.mean(scores, axis=0), np.mean(seconds)


def main(repeats: int) -> None:
    warnings.filterwarnings("ignore", module="sklearn")
    folder = Path(os.environ["SVNN_DATA"]) if os.environ.get("SVNN_DATA") else None
    print("| data | t × N | model | score | linear model | ratio or difference | asked for | fit (s) |")
    print("|---|---|---|---|---|---|---|---|")
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 25)))
    logistic = make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=2000))
    for name, (X, y) in (regressions(folder) if folder else {}).items():
        for covariance in ("hard", "sample"):
            model = SVNNRegressor(covariance=covariance)
            ours, theirs, seconds = compare(X, y, model, ridge, lambda p, y: np.abs(p - y).mean(), repeats, False)
            print(
                f"| {name} | {X.shape[0]} × {X.shape[1]} | regressor, {covariance} | MAE {ours:.3f} | {theirs:.3f} "
                f"| {ours / theirs:.3f} × | ≤ {BARS[name]:g} × | {seconds:.1f} |",
                flush=True,
            )
    for name, (X, y) in classifications(folder).items():
        model = SVNNClassifier(covariance="hard")
        ours, theirs, seconds = compare(X, y, model, logistic, lambda p, y: np.mean(p == y), repeats, True)
        print(
            f"| {name} | {X.shape[0]} × {X.shape[1]} | classifier, hard | {100 * ours:.1f} % | {100 * theirs:.1f} % "
            f"| {100 * (ours - theirs):+.1f} points | ≥ −{100 * BARS[name]:g} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    main(parser.parse_args().repeats)
