"""How wrong networks can be with few rows: every covariance and shift, from five rows to three times the features.

A cell is a table, a number of rows, a covariance, what filters are polynomials of (``use``) and a number of members.
Its test error is divided by the larger of two others on the same rows: that of ridge regression (logistic regression
for classes), and that of a constant. A network is never to be much worse than both. Writes every fit into a CSV file,
resumes there, prints the worst cells, and fails where one is above the bar.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.covariance._resolve import NAMES
from svnn.datasets import load_genes, load_tecator, make_spiked
from svnn.paper import load_thickness, make_large_cov, make_small_cov, make_sparse_cov

#: Covariances for more than a thousand features; the others take minutes there.
WIDE = ("hard", "sample", "soft", "acv")
#: The most that a test error may be, as a multiple of the larger of ridge's and the constant's.
BAR = 1.15
TEST_ROWS = 400
KEYS = ("table", "rows", "covariance", "use", "members", "seed")
COLUMNS = (*KEYS, "error", "linear", "constant", "ratio", "seconds", "refused")
GENERATORS = {"SparseCov": make_sparse_cov, "LargeCov": make_large_cov, "SmallCov": make_small_cov}


@dataclass(frozen=True)
class Cell:
    """One fit of the grid."""

    table: str
    rows: int
    covariance: str
    use: str
    members: int
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """The cell as it stands in the file of results."""
        return tuple(map(str, (self.table, self.rows, self.covariance, self.use, self.members, self.seed)))


@cache
def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table and its target; made-up ones are drawn anew for every seed."""
    kind = name.removesuffix(" classes")
    if kind in GENERATORS:
        data = GENERATORS[kind](random_state=seed)
        X, y = data.X, data.y
        return (X, (y > np.median(y)).astype(int)) if name.endswith("classes") else (X, y)
    if name == "Spiked":
        data = make_spiked(1000, 60, random_state=seed)
        X = data.X
        rng = np.random.default_rng(seed)
        y = np.abs(X @ rng.standard_normal(X.shape[1])) + rng.standard_normal(len(X))
        return X, y
    if name in ("ixi", "braindev"):
        data = load_thickness(name)
    elif name == "meats":
        data = load_tecator()
    elif name == "digits":
        return load_digits(return_X_y=True)
    else:
        data = load_genes(name)
    return data.X, data.y


TABLES = ("SparseCov", "LargeCov", "SmallCov", "Spiked", "LargeCov classes", "SparseCov classes", "digits", "meats")
REAL = ("ixi", "braindev", "golub")


def is_classes(name: str) -> bool:
    return name.endswith("classes") or name in ("digits", "golub")


def row_counts(name: str, seed: int) -> list[int]:
    """Return the numbers of training rows of a table, from 5 to three times its features or what it has."""
    X, _ = load(name, seed)
    n = X.shape[1]
    most = min(3 * n, len(X) * 3 // 4)
    wanted = {5, 8, 12, 20, 40, n // 2, round(0.8 * n), n, round(1.2 * n), 2 * n, 3 * n, most}
    return sorted(t for t in wanted if 5 <= t <= most)


def uses(covariance: str) -> tuple[str, ...]:
    return (
        ("covariance", "log", "precision")
        if covariance in ("graphical_lasso", "ledoit_wolf")
        else ("covariance", "log")
    )


def grid(tables: tuple[str, ...], seeds: range) -> Iterator[Cell]:
    for name, seed in itertools.product(tables, seeds):
        for rows, covariance, members in itertools.product(row_counts(name, seed), NAMES, (1, 8)):
            if load(name, seed)[0].shape[1] > 1000 and covariance not in WIDE:
                continue
            for use in uses(covariance):
                if use == "log" and load(name, seed)[0].shape[1] > 1000:
                    continue
                yield Cell(name, rows, covariance, use, members, seed)


@cache
def split(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows; each class has a training row where there are enough."""
    X, y = load(name, seed)
    order = np.random.default_rng([seed, rows]).permutation(len(X))
    if is_classes(name):
        first = [int(order[np.flatnonzero(y[order] == label)[0]]) for label in np.unique(y)][:rows]
        order = np.concatenate([first, order[~np.isin(order, first)]])
    return order[:rows], order[rows : rows + TEST_ROWS]


@cache
def references(name: str, rows: int, seed: int) -> tuple[float, float]:
    """Return the test errors of the linear model and of the constant."""
    X, y = load(name, seed)
    train, test = split(name, rows, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_classes(name):
            linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X[train], y[train])
            labels, counts = np.unique(y[train], return_counts=True)
            constant = labels[counts.argmax()]
            return float(np.mean(linear.predict(X[test]) != y[test])), float(np.mean(constant != y[test]))
        linear = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 25))).fit(X[train], y[train])
        errors = [np.abs(p - y[test]).mean() for p in (linear.predict(X[test]), y[train].mean())]
        return float(errors[0]), float(errors[1])


def measure(cell: Cell) -> dict[str, object]:
    """Return a fitted cell as a row of the results."""
    X, y = load(cell.table, cell.seed)
    train, test = split(cell.table, cell.rows, cell.seed)
    settings: dict[str, Any] = {"covariance": cell.covariance, "use": cell.use, "members": cell.members}
    model: Any = BlendRegressor(SVNNRegressor(**settings), random_state=cell.seed)
    if is_classes(cell.table):
        model = BlendClassifier(SVNNClassifier(**settings), random_state=cell.seed)
    start = time.perf_counter()
    result: dict[str, object] = dict(zip(KEYS, cell.key, strict=True))
    linear, constant = references(cell.table, cell.rows, cell.seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = model.fit(X[train], y[train]).predict(X[test])
    except ValueError as error:  # said in words: no number is wrong
        return result | {"refused": str(error).split(";")[0].replace("\n", " ")[:80]}
    wrong = predicted != y[test] if is_classes(cell.table) else np.abs(predicted - y[test])
    error = float(np.mean(wrong))
    numbers = {"error": error, "linear": linear, "constant": constant, "ratio": error / max(linear, constant)}
    return result | {k: f"{v:.5g}" for k, v in numbers.items()} | {"seconds": f"{time.perf_counter() - start:.2f}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/few_rows.csv"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tables", default="", help="names, separated by commas")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the cells, drawn at random")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="covariances, separated by commas")
    options = parser.parse_args()
    tables = (*TABLES, *(REAL if os.environ.get("SVNN_DATA") else ()))
    if options.tables:
        tables = tuple(options.tables.split(","))
    cells = list(grid(tables, range(options.seeds)))
    if options.only:
        cells = [cell for cell in cells if cell.covariance in options.only.split(",")]
    kept = np.random.default_rng(0).random(len(cells)) < options.sample
    cells = [cell for cell, keep in zip(cells, kept, strict=True) if keep]
    known: list[dict[str, object]] = []
    if options.out.exists():
        known = list(csv.DictReader(options.out.open()))
    done = {tuple(row[name] for name in KEYS) for row in known}
    left = [cell for cell in cells if cell.key not in done]
    print(f"{len(cells)} cells, {len(left)} to measure", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        if not known:
            writer.writeheader()
        for row in joblib.Parallel(options.jobs, return_as="generator_unordered")(map(joblib.delayed(measure), left)):
            writer.writerow(row)
            file.flush()
            known.append({k: str(v) for k, v in row.items()})
    return report(known)


def report(rows: list[dict[str, object]]) -> int:
    """Print the worst cells, and return how many are above the bar."""
    measured = [row for row in rows if row.get("ratio")]
    ratios = np.array([float(str(row["ratio"])) for row in measured])
    for i in np.argsort(-ratios, kind="stable")[:25]:
        print(*(measured[i].get(name, "") for name in COLUMNS), sep="  ")
    above = int((ratios > BAR).sum())
    print(f"{above} of {len(measured)} cells above {BAR}; the largest ratio is {ratios.max():.2f}")
    for reason, count in Counter(row["refused"] for row in rows if row.get("refused")).most_common():
        print(f"{count} fits ended in an error: {reason}")
    return above


if __name__ == "__main__":
    from few_rows import main  # by its name, under which other processes find it too

    sys.exit(bool(main()))
