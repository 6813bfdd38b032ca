"""Do the standard deviations of ``BlendRegressor().predict(X, return_std=True)`` say how far off a prediction is?

The default model on random splits of the regression tables, a quarter of the rows for the test. The seeds of the splits
are none of those by which svnn's defaults were chosen. ``SVNN_DATA`` names the folder of the real data sets. Writes
``docs/results/uncertainty.csv``, a row for every split, from which the table of ``docs/uncertainty.md`` is made:
``python benchmarks/uncertainty.py --table`` prints it again without measuring anything.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from _measure import markdown, write_rows
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from svnn import BlendRegressor, SVNNRegressor
from svnn.datasets import load_meats
from svnn.paper import load_released, load_thickness

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "uncertainty.csv"
FIRST_SEED = 13000
#: The coverage that intervals are made for, and the normal quantile that belongs to it.
COVERAGE, QUANTILE = 0.9, 1.645
COLUMNS = ("data", "samples", "features", "seed", "mae", "rank_correlation", "area", "gain", "coverage")

Table = tuple[np.ndarray, np.ndarray]


def regressions() -> dict[str, Table]:
    """Return the tables by name."""
    found = {
        "SparseCov": load_released("SparseCov"),
        "IXI thickness → age": load_thickness("ixi"),
        "braindev thickness → age": load_thickness("braindev"),
        "meats → fat": load_meats(target="fat"),
    }
    tables: dict[str, Table] = {name: (data.X, data.y) for name, data in found.items()}
    return tables | {"diabetes": load_diabetes(return_X_y=True)}


# -- what is measured -----------------------------------------------------------------------------


def rank_correlation(error: np.ndarray, std: np.ndarray) -> float:
    """Return Spearman's correlation; 0 where one of the two is constant, which ranks nothing."""
    ranks = [rankdata(values) for values in (error, std)]
    if any(np.ptp(r) == 0 for r in ranks):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])


def sparsification_area(error: np.ndarray, order_by: np.ndarray) -> float:
    """Return the mean error of the rows that are left, averaged over how many of them are set aside.

    The rows with the largest ``order_by`` are set aside first; rows with the same value count by their mean error.
    """
    _, group = np.unique(order_by, return_inverse=True)
    typical = np.bincount(group, error) / np.bincount(group)
    kept = np.sort(group)
    means = np.cumsum(typical[kept]) / np.arange(1, len(error) + 1)
    return float(means.mean())


def statistics(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """Return how well standard deviations tell errors, for one set of test rows.

    ``area`` is the area under the sparsification curve as a multiple of that of a random order, 1 where the standard
    deviations say nothing; ``gain`` is the share of what the errors themselves, as the order, would gain over it.
    """
    error = np.abs(y - mean)
    random, best = float(error.mean()), sparsification_area(error, error)
    found = sparsification_area(error, std)
    return {
        "mae": random,
        "rank_correlation": rank_correlation(error, std),
        "area": found / random,
        "gain": (random - found) / (random - best),
        "coverage": float(np.mean(error <= QUANTILE * std)),
    }


# -- measuring and reporting ----------------------------------------------------------------------


def measure(X: np.ndarray, y: np.ndarray, seed: int, **changes: Any) -> dict[str, float]:
    """Return the statistics of one split; ``changes`` are parameters of its S-VNN other than the defaults."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed)
    model = BlendRegressor(SVNNRegressor(**changes), random_state=seed).fit(X[train], y[train])
    return statistics(y[test], *model.predict(X[test], return_std=True))


def run(path: Path, seeds: range, only: str = "", **changes: Any) -> None:
    """Measure all tables and write a row for every split."""
    rows = []
    for name, (X, y) in regressions().items():
        for seed in seeds if only.lower() in name.lower() else ():
            found = {key: round(value, 4) for key, value in measure(X, y, seed, **changes).items()}
            rows.append({"data": name, "samples": len(X), "features": X.shape[1], "seed": seed, **found})
            print(*rows[-1].values(), flush=True)
    write_rows(path, COLUMNS, rows)
    print("written:", path)


def table(path: Path = RESULTS) -> str:
    """Return the stored results as a table in Markdown, means and standard deviations over the splits."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for name in dict.fromkeys(row["data"] for row in rows):
        found = [row for row in rows if row["data"] == name]
        cells = [f"{name} ({found[0]['samples']} × {found[0]['features']})"]
        for column, factor, digits in (
            ("rank_correlation", 1, 2),
            ("area", 1, 2),
            ("gain", 100, 0),
            ("coverage", 100, 1),
        ):
            values = factor * np.array([float(row[column]) for row in found])
            cells.append(f"{values.mean():.{digits}f} ± {values.std():.{digits}f}")
        lines.append(cells)
    headers = ["data (samples × features)", "rank correlation", "area / random", "gain / oracle (%)", "coverage (%)"]
    return markdown(headers, lines)


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
