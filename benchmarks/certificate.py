"""How long a stability certificate takes: a trained network on 10,000 features, sparse covariances.

One feature in ten belongs to a group of twenty that are correlated. The network is trained on the 1 % largest
covariances and compared with itself on the 0.1 % largest, for every input of norm one and for a few test
rows, for which the true change is shown beside the bound.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from svnn import HardThreshold, SVNNRegressor
from svnn.stability import certificate

GROUP = 20


def data(n: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, n))
    for start in range(0, n // 10 - GROUP + 1, GROUP):
        X[:, start : start + GROUP] += rng.standard_normal((samples, 1))
    return X, X[:, : n // 10].mean(1) + 0.1 * rng.standard_normal(samples)


def measure(n: int = 10_000, samples: int = 200, epochs: int = 5) -> dict[str, Any]:
    X, y = data(n, samples)
    seconds: dict[str, float] = {}

    def timed(name: str, call: Any) -> Any:
        start = time.perf_counter()
        result = call()
        seconds[name] = time.perf_counter() - start
        return result

    model = SVNNRegressor(
        covariance=HardThreshold(density=0.01, sparse_output=True), hidden=(32, 32), max_epochs=epochs, random_state=0
    )
    timed("fit", lambda: model.fit(X[:-8], y[:-8]))
    standardised = (X[:-8] - X[:-8].mean(0)) / X[:-8].std(0)
    C, C_hat = model.covariance_, HardThreshold(density=0.001, sparse_output=True).fit(standardised).covariance_
    rows = X[-8:]
    general = timed("certificate", lambda: certificate(model, C, C_hat))
    own = timed("certificate of 8 rows", lambda: certificate(model, C, C_hat, rows))
    certain = timed("deterministic certificate", lambda: certificate(model, C, C_hat, deterministic=True))
    moved = np.abs(model.on(C_hat).predict(rows) - model.predict(rows))
    if (moved > own.per_sample).any():
        raise AssertionError("a prediction moved further than its certificate allows.")
    return {
        "seconds": seconds,
        "nnz": (C.nnz, C_hat.nnz),
        "output": (float(general), float(certain)),
        "rows": (float(moved.max()), float(own)),
        "table": str(general),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    result = measure(arguments.nodes, epochs=arguments.epochs)
    print(f"N = {arguments.nodes}, hidden (32, 32), K = 2; {result['nnz'][0]} and {result['nnz'][1]} non-zeros")
    for name, value in result["seconds"].items():
        print(f"{name:>28}: {value:7.2f} s")
    print("output bound for norm one: {:.4g}, deterministic {:.4g}".format(*result["output"]))
    print("8 test rows: moved by up to {:.3g}, certificate {:.3g}".format(*result["rows"]))
    print(result["table"])


if __name__ == "__main__":
    main()
