"""Do contributions find the features that a target was made of, and how long do they take?

Tables of 40 features, six of which make half of the target's variance; the rest is noise. The default model is fitted
on 100 rows, and each method ranks the features by 40 others: svnn's ``feature_contributions``, scikit-learn's
``permutation_importance`` and SHAP's sampling of Shapley values. A ranking is scored by the area under its ROC curve
(AUC): 1 where all six come first. SHAP gets 15 of the 40 rows, since it takes so long.

On real tables (``SVNN_DATA`` names their folder) nobody knows the truth. There it is measured how exactly contributions
add up to the predictions, in standard deviations of the target or in probability. Times are those of the
processor, all cores together, since other work may go on beside.

Writes ``docs/results/inspection.csv``, from which the tables of ``docs/inspection.md`` are made: ``python
benchmarks/inspection.py --table`` prints them again without measuring anything.
``--plot docs/results/inspection.png`` draws the page's picture.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _inspection_plot import draw
from _measure import markdown, write_rows
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score

from svnn import BlendClassifier, BlendRegressor, SVNNRegressor
from svnn.datasets import load_genes
from svnn.inspection import edge_contributions, eigenvector_contributions, feature_contributions
from svnn.paper import load_thickness

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "inspection.csv"
COLUMNS = ("data", "samples", "features", "seed", "method", "auc", "sum_error", "seconds")
KINDS = ("linear", "nonlinear", "correlated")
TRAIN, EXPLAINED, FEATURES, PLANTED = 100, 40, 40, 6
#: Rows that SHAP ranks by, and the evaluations of the model that it may spend on one.
SHAP_ROWS, SHAP_SAMPLES = 15, 800
REAL = ("IXI thickness → age", "golub")


def planted(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and which features y was made of; "correlated" has blocks of five features, correlated by 0.6."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((TRAIN + EXPLAINED, FEATURES))
    if kind == "correlated":
        common = rng.standard_normal((len(X), FEATURES // 5)).repeat(5, axis=1)
        X = np.sqrt(0.6) * common + np.sqrt(0.4) * X
    chosen = rng.permutation(FEATURES)[:PLANTED]
    effects = X[:, chosen] * rng.choice([-1.0, 1.0], PLANTED) * rng.uniform(0.5, 1.0, PLANTED)
    if kind == "nonlinear":
        effects = np.concatenate([np.tanh(2 * effects[:, :3]), np.maximum(effects[:, 3:], 0) ** 2], axis=1)
    y = effects.sum(1)
    return X, y + y.std() * rng.standard_normal(len(y)), np.isin(np.arange(FEATURES), chosen)


def by_contributions(model: BlendRegressor, X: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    return feature_contributions(model, X).importance


def by_permutation(model: BlendRegressor, X: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    found: np.ndarray = permutation_importance(model, X, y, n_repeats=5, random_state=0).importances_mean
    return found


def by_shap(model: BlendRegressor, X: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    import shap

    np.random.seed(0)  # noqa: NPY002 - what SHAP draws from
    values = shap.SamplingExplainer(model.predict, train).shap_values(X[:SHAP_ROWS], nsamples=SHAP_SAMPLES, silent=True)
    return np.asarray(abs(values).mean(0))


Ranking = Callable[[BlendRegressor, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
RANKINGS: dict[str, Ranking] = {
    "svnn, contributions": by_contributions,
    "scikit-learn, permutation": by_permutation,
    "SHAP, sampling": by_shap,
}


def rank(kind: str, seed: int, **changes: Any) -> list[dict[str, Any]]:
    """Return a row for every method on one planted table; ``changes`` are parameters other than the defaults."""
    X, y, truth = planted(kind, seed)
    model = BlendRegressor(SVNNRegressor(**changes), random_state=seed).fit(X[:TRAIN], y[:TRAIN])
    rows = []
    for method, ranking in RANKINGS.items():
        start = time.process_time()
        importance = ranking(model, X[TRAIN:], y[TRAIN:], X[:TRAIN])
        row = {"auc": round(float(roc_auc_score(truth, importance)), 4), "seconds": time.process_time() - start}
        rows.append({"data": kind, "samples": EXPLAINED, "features": FEATURES, "seed": seed, "method": method} | row)
    return rows


def real(name: str) -> list[dict[str, Any]]:
    """Return a row for every function on a real table: all samples, and edges for some of them: all on IXI."""
    data = load_thickness("ixi") if name == "IXI thickness → age" else load_genes("golub")
    X, y = data.X, data.y
    model: Any
    if name == "golub":
        model, unit, options = BlendClassifier(random_state=0).fit(X, y), 1.0, {"class_": np.unique(y)[0]}
        prediction = model.predict_proba(X)[:, 0]
    else:
        model, unit, options = BlendRegressor(random_state=0).fit(X, y), float(np.std(y)), {}
        prediction = model.predict(X)
    feature_contributions(model, X[:2], **options)  # compiles what is compiled
    rows = []
    for function in (feature_contributions, eigenvector_contributions, edge_contributions):
        few, more = X, options
        if function is edge_contributions:
            few, more = X[:EXPLAINED], options | ({"edges": 50} if name == "golub" else {})
        start = time.process_time()
        found = function(model, few, **more)
        row: dict[str, Any] = {"seconds": time.process_time() - start}
        if function is not edge_contributions:
            total = found.baseline + found.contributions.sum(1) + getattr(found, "rest", 0.0)
            row["sum_error"] = f"{abs(total - prediction).max() / unit:.1e}"
        method = f"{function.__name__} of {found.contributions.shape[1]}"
        rows.append({"data": name, "samples": len(few), "features": X.shape[1], "seed": 0, "method": method} | row)
    return rows


# -- measuring and reporting ----------------------------------------------------------------------


def run(path: Path, seeds: range, only: str = "", **changes: Any) -> None:
    """Measure the tables whose names begin with ``only`` and write a row for every method; others stay."""
    names = [name for name in (*KINDS, *REAL) if name.startswith(only)]
    kept = stored(path) if path.exists() else []
    rows: list[dict[str, Any]] = [row for row in kept if row["data"] not in names]
    for name in names:
        found = real(name) if name in REAL else [row for seed in seeds for row in rank(name, seed, **changes)]
        rows += [{**row, "seconds": f"{row['seconds']:.2g}"} for row in found]
        print(*rows[-len(found) :], sep="\n", flush=True)
    rows.sort(key=lambda row: (*KINDS, *REAL).index(row["data"]))
    write_rows(path, COLUMNS, rows)
    print("written:", path)


def stored(path: Path) -> list[dict[str, str]]:
    """Return the rows of an earlier run."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tables(path: Path = RESULTS) -> tuple[str, str]:
    """Return the stored results as two tables in Markdown: planted features, and real tables."""
    rows = stored(path)
    ranked = []
    for method in RANKINGS:
        own = {kind: [row for row in rows if row["method"] == method and row["data"] == kind] for kind in KINDS}
        aucs = [np.array([float(row["auc"]) for row in own[kind]]) for kind in KINDS]
        seconds = np.median([float(row["seconds"]) for kind in KINDS for row in own[kind]])
        ranked.append([method, *(f"{auc.mean():.3f} ± {auc.std():.3f}" for auc in aucs), f"{seconds:.2g}"])
    measured = [
        [
            f"{row['data']} ({row['samples']} × {row['features']})",
            f"`{row['method'].split()[0]}`",
            row["method"].split()[-1],
            row["sum_error"] or "–",
            row["seconds"],
        ]
        for row in rows
        if not row["auc"]
    ]
    return (
        markdown(["ranking by", *KINDS, "CPU seconds"], ranked),
        markdown(["data (samples × features)", "function", "contributions", "error of sums", "CPU seconds"], measured),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the stored results, measure nothing")
    parser.add_argument("--repeats", type=int, default=5, help="number of planted tables of each kind")
    parser.add_argument("--only", default="", help="how the names of the tables begin; stored rows of the others stay")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the CSV file to write")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw the page's picture, measure nothing")
    options = parser.parse_args()
    if options.plot:
        print("written:", draw(options.plot))
        raise SystemExit
    if not options.table:
        run(options.out, range(options.repeats), options.only)
    print("\n\n".join(tables(options.out)))
