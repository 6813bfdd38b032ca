"""Every covariance estimator on data that it is made for, against ``HardThreshold``.

Each data set is drawn anew from a known truth for every seed. The score is a miss, the less the better: the distance of
the estimated correlations to the true ones, in units of the length of these, or one minus the F1 of the edges. No seed
is used by a test. Writes ``docs/results/shifts.csv``, a row for every fit, from which the tables of
``docs/covariance.md`` are made: ``python benchmarks/shifts.py --table`` prints them again without measuring anything.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _measure import markdown, write_rows
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from svnn import covariance as cov

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "shifts.csv"
COLUMNS = ("data", "samples", "features", "score", "estimator", "seed", "value")
FIRST_SEED, DRAWS, EDGE_DRAWS = 15000, 20, 200
HARD = {"hard": cov.HardThreshold(), "hard, tau by cross-validation": cov.HardThreshold(tau="cv", random_state=0)}
RANKS = {kind: cov.HardThreshold(correlation=kind) for kind in ("spearman", "kendall", "biweight")}
#: The level of the tests whose false edges are counted, and the size of the data whose fits are timed.
ALPHA, COST = 0.1, (500, 1000)

Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


class Case(NamedTuple):
    """Data with a truth of the same size, the estimators that are made for it, and the score."""

    draw: Draw
    estimators: dict[str, Any]
    score: str = "distance"


# -- truths and data ------------------------------------------------------------------------------


def groups(n: int, size: int = 3, r: float = 0.6) -> np.ndarray:
    """Return correlations of groups of neighbours; beyond its group a feature has none."""
    C = np.kron(np.eye(n // size), np.full((size, size), r))
    np.fill_diagonal(C, 1.0)
    return C


def normal(rng: np.random.Generator, truth: np.ndarray, t: int) -> np.ndarray:
    X: np.ndarray = rng.multivariate_normal(np.zeros(len(truth)), truth, t, method="cholesky")
    return X


def heavy_tails(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A multivariate t distribution with 2 degrees of freedom: no variances."""
    truth = groups(30)
    return normal(rng, truth, 120) / np.sqrt(rng.chisquare(2, (120, 1)) / 2), truth


def bad_cells(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One value in fifty is an outlier."""
    truth = groups(30)
    X = normal(rng, truth, 120)
    return np.where(rng.random(X.shape) < 0.02, 50 * rng.standard_normal(X.shape), X), truth


def bad_rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One row in twenty is another kind of thing altogether."""
    truth = groups(30)
    X = normal(rng, truth, 120)
    X[::20] = 20 * rng.standard_normal((6, 30))
    return X, truth


def skewed(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Normal features behind an exponential function."""
    truth = groups(30)
    return np.exp(2 * normal(rng, truth, 120)), truth


def three_factors(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three factors that move all features, and residuals that are related in pairs."""
    B = rng.standard_normal((120, 3))
    truth = B @ B.T + groups(120, 2)
    return normal(rng, truth, 150), truth


def drift(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Half of the groups come apart and the other half form, while the rows come in; the truth is that of the last."""
    t, old, new = 400, np.eye(40), np.eye(40)
    old[:20, :20], new[20:, 20:] = groups(20, 4, 0.8), groups(20, 4, 0.8)
    roots = np.linalg.cholesky([old + share * (new - old) for share in np.linspace(0, 1, t)])
    return np.einsum("kij,kj->ki", roots, rng.standard_normal((t, 40))), new


def in_order(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Correlations that fall with the distance of two columns and end five columns away."""
    place = np.arange(60)
    truth = np.clip(1 - abs(place - place[:, None]) / 6, 0, None)
    return normal(rng, truth, 60), truth


def planted_edges(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten pairs of related features among forty."""
    truth = np.eye(40)
    truth[:20, :20] = groups(20, 2, 0.5)
    return normal(rng, truth, 60), truth


def chain(n: int, t: int, strength: float) -> Draw:
    """Features related to their two neighbours when all others are held fixed; the truth is the precision."""

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        truth = np.eye(n) + strength * (np.eye(n, k=1) + np.eye(n, k=-1))
        return normal(rng, np.linalg.inv(truth), t), truth

    return draw


def spiked(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One common factor, weak in every single feature, and noise."""
    truth = np.eye(60) + np.full((60, 60), 0.1)
    return normal(rng, truth, 120), truth


CASES = {
    "heavy tails (t with 2 degrees of freedom)": Case(
        heavy_tails, RANKS | {"tyler": cov.TylerCovariance(), "base=tyler": cov.HardThreshold(base="tyler")}
    ),
    "one value in fifty is wrong": Case(bad_cells, RANKS),
    "one row in twenty is wrong": Case(
        bad_rows,
        {
            "tyler": cov.TylerCovariance(),
            "huber": cov.HuberCovariance(),
            "base=tyler": cov.HardThreshold(base="tyler"),
            "base=huber": cov.HardThreshold(base="huber"),
        },
    ),
    "skewed columns": Case(skewed, {kind: RANKS[kind] for kind in ("spearman", "kendall")}),
    "three factors and a sparse rest": Case(three_factors, {"factors": cov.FactorThreshold()}),
    "drift": Case(drift, {"halflife=60": cov.HardThreshold(halflife=60)}),
    "columns in order": Case(
        in_order, {"banding": cov.Banding(random_state=0), "tapering": cov.Tapering(random_state=0)}
    ),
    "planted edges": Case(planted_edges, {"significant": cov.SignificantEdges()}, "edges"),
    "a chain, t > N": Case(chain(12, 200, 0.4), {"significant, partial": cov.SignificantEdges(partial=True)}, "edges"),
    "a chain, t < N": Case(
        chain(120, 100, 0.48), {"significant, partial": cov.SignificantEdges(partial=True)}, "edges"
    ),
    "one weak factor and noise": Case(
        spiked, {"spectral clip": cov.Spectral(function="clip"), "spectral shrink": cov.Spectral(function="shrink")}
    ),
}


# -- scores ---------------------------------------------------------------------------------------


def correlations(C: np.ndarray) -> np.ndarray:
    sd = np.sqrt(C.diagonal())
    R: np.ndarray = C / np.outer(sd, sd)
    return R


def edges(C: np.ndarray) -> np.ndarray:
    return np.triu(np.asarray(C) != 0, 1)


def miss(C: np.ndarray, truth: np.ndarray, score: str) -> float:
    """Return how far an estimate is from the truth: 0 is perfect; see the top of this file."""
    if score == "edges":
        found, right = edges(C), edges(truth)
        return 1 - 2 * int((found & right).sum()) / int(found.sum() + right.sum())
    R = correlations(truth)
    return float(np.linalg.norm(correlations(C) - R) / np.linalg.norm(R))


def false_share(C: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of the edges found that are not there."""
    found = edges(C)
    return int((found & ~edges(truth)).sum()) / max(int(found.sum()), 1)


# -- measuring and reporting ----------------------------------------------------------------------


def measure(name: str, seed: int) -> list[dict[str, Any]]:
    """Return the misses of all estimators on one draw of the data of a name."""
    case = CASES[name]
    X, truth = case.draw(np.random.default_rng(seed))
    of = {"data": name, "samples": len(X), "features": X.shape[1], "score": case.score, "seed": seed}
    return [
        {**of, "estimator": each, "value": round(miss(clone(estimator).fit(X).covariance_, truth, case.score), 4)}
        for each, estimator in {**case.estimators, **HARD}.items()
    ]


def false_edges(seed: int) -> list[dict[str, Any]]:
    """Return the shares of false edges of the tests on one draw of planted edges."""
    X, truth = planted_edges(np.random.default_rng(seed))
    of = {"data": "planted edges", "samples": len(X), "features": X.shape[1], "score": "false", "seed": seed}
    return [
        {**of, "estimator": method, "value": round(false_share(estimator.fit(X).covariance_, truth), 4)}
        for method in ("bh", "by", "bonferroni")
        for estimator in [cov.SignificantEdges(alpha=ALPHA, method=method)]
    ]


def cost(repeat: int) -> list[dict[str, Any]]:
    """Return the seconds of a processor that each estimator takes on data with one common factor, on one thread."""
    rng = np.random.default_rng(repeat)
    X = rng.standard_normal(COST) + rng.standard_normal((COST[0], 1))
    of = {"data": "cost", "samples": COST[0], "features": COST[1], "score": "seconds", "seed": repeat}
    estimators = {"sample": cov.SampleCovariance()} | HARD
    for case in CASES.values():
        estimators |= case.estimators
    rows = []
    with threadpool_limits(1):
        for name, estimator in estimators.items():
            started = time.process_time()
            clone(estimator).fit(X)
            rows.append({**of, "estimator": name, "value": round(time.process_time() - started, 4)})
    return rows


def run(path: Path, draws: int = DRAWS, edge_draws: int = EDGE_DRAWS, repeats: int = 3) -> None:
    """Measure everything and write a row for every fit."""
    rows = []
    for name in CASES:
        for seed in range(FIRST_SEED, FIRST_SEED + draws):
            rows += measure(name, seed)
        print(name, flush=True)
    for seed in range(FIRST_SEED, FIRST_SEED + edge_draws):
        rows += false_edges(seed)
    for repeat in range(repeats):
        rows += cost(repeat)
    write_rows(path, COLUMNS, rows)
    print("written:", path)


def stored(path: Path = RESULTS) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def values(rows: list[dict[str, str]], data: str, score: str, estimator: str) -> np.ndarray:
    """Return the stored values of an estimator on some data, seed by seed."""
    wanted = (data, score, estimator)
    return np.array([float(r["value"]) for r in rows if (r["data"], r["score"], r["estimator"]) == wanted])


def mean(found: np.ndarray) -> str:
    """Return a mean and its standard error, with spaces at which no line breaks."""
    return f"{found.mean():.2f}\u00a0±\u00a0{found.std(ddof=1) / len(found) ** 0.5:.2f}"


def table(path: Path = RESULTS) -> str:
    """Return the misses as a table in Markdown: means over the draws and their standard errors."""
    rows, lines = stored(path), []
    for name, case in CASES.items():
        size = next(f"{row['samples']}\u00a0×\u00a0{row['features']}" for row in rows if row["data"] == name)
        usual = [mean(values(rows, name, case.score, each)) for each in HARD]
        for i, each in enumerate(case.estimators):  # what all of them share stands in the first row only
            first, last = ([name, size, case.score], usual) if i == 0 else ([""] * 3, [""] * 2)
            lines.append([*first, f"`{each}`", mean(values(rows, name, case.score, each)), *last])
    return markdown(["data", "t × N", "score", "estimator", "its miss", "`hard`", '`hard` with `tau="cv"`'], lines)


def costs(path: Path = RESULTS) -> str:
    """Return the processor seconds as a table in Markdown: medians over the repeats."""
    rows = [row for row in stored(path) if row["data"] == "cost"]
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    found = {name: float(np.median(values(rows, "cost", "seconds", name))) for name in names}
    lines = [[f"`{name}`", f"{found[name]:.2f}"] for name in sorted(names, key=lambda name: found[name])]
    return markdown(["estimator", "seconds"], lines)


def false_sentence(path: Path = RESULTS) -> str:
    """Return a sentence about the shares of false edges."""
    rows = stored(path)
    of = {method: values(rows, "planted edges", "false", method) for method in ("bh", "by", "bonferroni")}
    shares = ", ".join(f'{mean(found)} with `"{method}"`' for method, found in of.items())
    return f"With `alpha={ALPHA}` the share of false edges over {len(of['bh'])} draws was {shares}."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the stored results, measure nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the CSV file to write")
    options = parser.parse_args()
    if not options.table:
        run(options.out)
    print(table(options.out), costs(options.out), false_sentence(options.out), sep="\n\n")
