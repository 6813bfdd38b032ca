"""Is the advice good? What ``svnn.stability.advise`` recommends, beside the best of all sparsifiers in hindsight.

Two senses of cross-validated error. *Covariance*: fitted on four fifths, compared with the correlations of the
last fifth; the advice sees the four fifths only. The error is that of a shifted signal, in closed form, and for
comparison the Frobenius norm. *Prediction*: the mean absolute error of a blend around ``SVNNRegressor(covariance=…)``
on the same folds, equal settings for all. A sparsifier drops at least a tenth of the pairs. Reads the data sets from
the folder that ``SVNN_DATA`` names; those not there are left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from _measure import markdown
from sklearn.base import clone
from sklearn.model_selection import KFold

from svnn import (
    ACV,
    RCV,
    AdaptiveThreshold,
    BlendRegressor,
    HardThreshold,
    SampleCovariance,
    SoftThreshold,
    SVNNRegressor,
)
from svnn.datasets import make_sparse_covariance
from svnn.paper import load_released, load_thickness, make_large_cov
from svnn.stability import advise, expected_error
from svnn.stability._candidates import candidates

#: What keeps more is no sparsifier.
MOST = 0.9
#: Outer folds of the comparison by correlations.
FOLDS = 5
#: Sensible settings, for the networks.
SPARSIFIERS = {
    "HardThreshold()": HardThreshold(),
    'HardThreshold(tau="cv")': HardThreshold(tau="cv"),
    'SoftThreshold(tau="cv")': SoftThreshold(tau="cv"),
    "AdaptiveThreshold()": AdaptiveThreshold(),
    "HardThreshold(density=0.5)": HardThreshold(density=0.5),
    "ACV()": ACV(),
    "ACV(density=0.5)": ACV(density=0.5),
    "ACV(density=0.5, unbiased=True)": ACV(density=0.5, unbiased=True),
    "RCV(p=0.5)": RCV(p=0.5),
    "RCV(p=0.75)": RCV(p=0.75),
}


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the three released draws and IXI, where they are."""
    loaders = {name: lambda name=name: load_released(name) for name in ("SparseCov", "LargeCov", "SmallCov")}
    loaders["IXI thickness → age"] = lambda: load_thickness("ixi")
    found = {}
    for name, load in loaders.items():
        try:
            data = load()
        except FileNotFoundError as error:
            print(f"{name} is left out: {error}")
            continue
        found[name] = data.X, data.y
    return found


def correlations(X: np.ndarray) -> np.ndarray:
    return SampleCovariance().fit((X - X.mean(0)) / X.std(0)).covariance_


def held_out(estimator: Any, train: np.ndarray, R: np.ndarray) -> tuple[float, float, float]:
    """Return the squared errors of the shift and of the matrix against ``R``, and the density."""
    fitted = clone(estimator)
    if "random_state" in fitted.get_params():
        fitted.set_params(random_state=0)
    fitted.fit((train - train.mean(0)) / train.std(0))
    random = hasattr(fitted, "probabilities_")
    C, P = (fitted.sample_covariance_, fitted.probabilities_) if random else (fitted.covariance_, 1.0)
    options = {"unbiased": random and fitted.unbiased, "reference": R}
    density = (P if random else C != 0).sum() / len(R)
    return (
        float(expected_error([0.0, 1.0], C, P, moment=R, **options)),
        float(expected_error([0.0, 1.0], C, P, **options)),
        float((density - 1) / (len(R) - 1)),
    )


def by_covariance(X: np.ndarray, folds: int = FOLDS) -> dict[str, str]:
    """Return the nested cross-validation of the advice by held-out correlations."""
    options = {option.label: option.estimator for option in candidates(MOST)}
    total = {label: np.zeros(3) for label in (*options, "advice")}
    labels = []
    for train, test in splits(X, folds):
        advice = advise(X[train], density=MOST, random_state=0)
        labels.append(advice.label)
        R = correlations(X[test])
        for label, estimator in (options | {"advice": advice.estimator}).items():
            total[label] += held_out(estimator, X[train], R)
    allowed = [label for label in options if total[label][2] / folds <= MOST + 1e-9]
    best = min(allowed, key=lambda label: total[label][0])
    best_matrix = min(allowed, key=lambda label: total[label][1])
    dense = total["SampleCovariance()"]
    return {
        "advice": " / ".join(dict.fromkeys(labels)),
        "best": best,
        "error / best": f"{np.sqrt(total['advice'][0] / total[best][0]):.3f}",
        "error / dense": f"{np.sqrt(total['advice'][0] / dense[0]):.3f}",
        "best by matrix": best_matrix,
        "matrix / best": f"{np.sqrt(total['advice'][1] / total[best_matrix][1]):.3f}",
    }


def splits(X: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(KFold(folds, shuffle=True, random_state=0).split(X))


def fold_errors(
    X: np.ndarray, y: np.ndarray, rows: tuple[np.ndarray, np.ndarray], seed: int, epochs: int
) -> tuple[str, dict[str, float]]:
    """Return the advice and the mean absolute error of a network on it, on every sparsifier and without any."""
    train, test = rows
    advice = advise(X[train], density=MOST, random_state=0)
    errors = {}
    for label, estimator in (
        SPARSIFIERS | {"advice": advice.estimator, "SampleCovariance()": SampleCovariance()}
    ).items():
        network = BlendRegressor(SVNNRegressor(covariance=estimator, max_epochs=epochs), random_state=seed)
        errors[label] = float(np.abs(network.fit(X[train], y[train]).predict(X[test]) - y[test]).mean())
    return advice.label, errors


def by_prediction(X: np.ndarray, y: np.ndarray, folds: int, epochs: int) -> tuple[str, dict[str, float]]:
    """Return the advice and the mean of the errors over the folds."""
    found = [fold_errors(X, y, rows, seed, epochs) for seed, rows in enumerate(splits(X, folds))]
    labels = " / ".join(dict.fromkeys(label for label, _ in found))
    return labels, {key: float(np.mean([errors[key] for _, errors in found])) for key in found[0][1]}


def recognised(seeds: range) -> list[list[Any]]:
    """Return how often a thresholding rule is recommended where that is right, and where it is not."""
    rows = []
    thresholds = (HardThreshold, SoftThreshold, AdaptiveThreshold)
    for truth in (0.05, 0.2, "LargeCov"):
        for t in (200, 500, 1000):
            found = []
            for seed in seeds:
                if truth == "LargeCov":
                    X = make_large_cov(t, random_state=seed).X
                else:
                    C = make_sparse_covariance(100, truth, "block", random_state=seed)
                    X = np.random.default_rng(seed).multivariate_normal(np.zeros(100), C, t)
                found.append(isinstance(advise(X, density=MOST, random_state=seed).estimator, thresholds))
            name = truth if truth == "LargeCov" else f"blocks, density {truth:g}"
            rows.append([name, t, f"{sum(found)} of {len(found)}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", default="", help="part of the name of a data set")
    parser.add_argument("--folds", type=int, default=3, help="of the predictions")
    parser.add_argument("--epochs", type=int, default=100, help="at most, for every network alike")
    parser.add_argument("--seeds", type=int, default=20, help="draws of every synthetic covariance")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="tau=")
    start = time.perf_counter()
    sets = {name: data for name, data in data_sets().items() if options.only.lower() in name.lower()}
    if "recognised" in options.parts:
        print("## How often a thresholding rule is recommended, N = 100\n")
        print(markdown(["truth", "t", "thresholding rule"], recognised(range(options.seeds))), flush=True)
    if "covariance" in options.parts:
        print(f"\n## By held-out correlations, {FOLDS} outer folds\n")
        header = (
            "data",
            "advice",
            "best in hindsight",
            "error / best",
            "error / dense",
            "best by matrix",
            "matrix / best",
        )
        rows = [[name, *by_covariance(X).values()] for name, (X, _) in sets.items()]
        print(markdown(header, rows), flush=True)
    if "prediction" in options.parts:
        print(f"\n## By prediction: MAE of BlendRegressor, {options.folds} folds, at most {options.epochs} epochs\n")
        for name, (X, y) in sets.items():
            advice, errors = by_prediction(X, y, options.folds, options.epochs)
            best = min(SPARSIFIERS, key=lambda label: errors[label])
            print(f"{name}: {advice}, {errors['advice'] / errors[best]:.3f} × the best, {best}\n")
            rows = [[label, f"{errors[label]:.3f}", f"{errors[label] / errors[best]:.3f}"] for label in errors]
            print(markdown(["covariance", "MAE", "× best sparsifier"], rows) + "\n", flush=True)
    print(f"Took {(time.perf_counter() - start) / 60:.1f} minutes.")


PARTS = ("recognised", "covariance", "prediction")

if __name__ == "__main__":
    main()
