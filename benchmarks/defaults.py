"""How well the default estimators predict, beside the linear model a user would try first.

Mean over random 80/10/10 splits; no parameter is tuned to a data set. With ``SVNN_DATA`` set to a
folder of the real data sets, those are measured too. Prints a table in Markdown and fails where a
bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.datasets import load_genes, load_meats
from svnn.paper import load_released, load_thickness

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


def regressions() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {name: load_released(name) for name in ("SparseCov", "LargeCov", "SmallCov")}
    found["IXI thickness → age"] = load_thickness("ixi")
    found["meats → fat"] = load_meats(target="fat")
    return {name: (data.X, data.y) for name, data in found.items()}


def classifications(real: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {
        "digits": load_digits(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "wine": load_wine(return_X_y=True),
    }
    if real:
        golub = load_genes("golub")
        found["golub"] = golub.X, golub.y
    return found


def splits(y: np.ndarray, seeds: range, stratify: bool):
    for seed in seeds:
        rows = np.arange(len(y))
        train, test = train_test_split(rows, test_size=0.1, random_state=seed, stratify=y if stratify else None)
        labels = y[train] if stratify else None
        train, valid = train_test_split(train, test_size=1 / 9, random_state=seed, stratify=labels)
        yield seed, train, valid, test


@dataclass
class Result:
    """Mean score of the default estimator and of the linear model, and whether the bar is met."""

    name: str
    shape: tuple[int, ...]
    model: str
    ours: float
    linear: float
    seconds: float

    @property
    def regression(self) -> bool:
        return self.model.startswith("regressor")

    @property
    def margin(self) -> float:
        """The ratio of the errors, or the difference of the accuracies."""
        return self.ours / self.linear if self.regression else self.ours - self.linear

    @property
    def met(self) -> bool:
        bar = BARS[self.name]
        return self.margin <= bar if self.regression else self.margin >= -bar - 1e-9

    def __str__(self) -> str:
        bar, mark = BARS[self.name], "yes" if self.met else "**no**"
        size = f"{self.shape[0]} × {self.shape[1]}"
        if self.regression:
            numbers = f"MAE {self.ours:.3f} | {self.linear:.3f} | {self.margin:.3f} × | ≤ {bar:g} ×"
        else:
            numbers = (
                f"{100 * self.ours:.1f} % | {100 * self.linear:.1f} % "
                f"| {100 * self.margin:+.1f} points | ≥ −{100 * bar:g}"
            )
        return f"| {self.name} | {size} | {self.model} | {numbers} | {mark} | {self.seconds:.1f} |"


def measure(name: str, X: np.ndarray, y: np.ndarray, model: str, seeds: range = range(5)) -> Result:
    """Compare the default ``model``, such as "regressor, hard", with the linear model on random splits."""
    kind, covariance = model.split(", ")
    regression = kind == "regressor"
    network: BlendRegressor | BlendClassifier = BlendClassifier(SVNNClassifier(covariance=covariance))
    if regression:
        network = BlendRegressor(SVNNRegressor(covariance=covariance))
    linear = make_pipeline(
        StandardScaler(), RidgeCV(np.logspace(-4, 4, 25)) if regression else LogisticRegressionCV(max_iter=2000)
    )
    scores, seconds = [], []
    for seed, train, valid, test in splits(y, seeds, stratify=not regression):
        start = time.perf_counter()
        network.set_params(random_state=seed).fit(X[train], y[train], validation_data=(X[valid], y[valid]))
        seconds.append(time.perf_counter() - start)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="sklearn")
            linear.fit(X[train], y[train])
        predictions = (network.predict(X[test]), linear.predict(X[test]))
        scores.append([np.abs(p - y[test]).mean() if regression else np.mean(p == y[test]) for p in predictions])
    ours, theirs = np.mean(scores, axis=0)
    return Result(name, X.shape, model, float(ours), float(theirs), float(np.mean(seconds)))


def main(seeds: range, only: str) -> int:
    real = bool(os.environ.get("SVNN_DATA"))
    print("| data | t × N | model | score | linear model | ratio or difference | asked for | met | fit (s) |")
    print("|---|---|---|---|---|---|---|---|---|")
    jobs = [
        (name, data, f"regressor, {covariance}")
        for name, data in (regressions() if real else {}).items()
        for covariance in ("hard", "sample")
    ]
    jobs += [(name, data, "classifier, hard") for name, data in classifications(real).items()]
    missed = 0
    for name, (X, y), model in jobs:
        if only.lower() not in f"{name}, {model}".lower():
            continue
        result = measure(name, X, y, model, seeds)
        missed += not result.met
        print(result, flush=True)
    return missed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="number of random splits")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first split; the next ones follow")
    parser.add_argument("--only", default="", help="part of the name of a data set or model")
    options = parser.parse_args()
    first = options.first_seed
    sys.exit(bool(main(range(first, first + options.repeats), options.only)))
