"""``HardThreshold().fit`` as N grows: time, share of the matrix-product rate, peak memory, non-zeros.

500 samples of standard normal features, float32, of which one in ten belongs to a group of twenty that
are correlated. Every size runs in a process of its own, after a small fit that loads and compiles. The
operations counted are the N²t of one triangle, against a matrix product timed in turns. At the smallest
size numpy does the same, densely and in float64, and the results are compared.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import scipy.sparse as sp
from _measure import available_gb, fresh_process, markdown, number, once, resident, run_part, sgemm

from svnn import HardThreshold

SAMPLES, GROUP = 500, 20
SIZES, FULL_SIZES = (5000, 10_000, 20_000), (50_000, 100_000)


def data(n: int, samples: int) -> np.ndarray:
    """Return float32 data, made in place so that the peak is not that of making it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, n), dtype=np.float32)
    for start in range(0, n // 10 - GROUP + 1, GROUP):
        X[:, start : start + GROUP] += rng.standard_normal((samples, 1), dtype=np.float32)
    return X


def fit(n: int, samples: int) -> dict[str, Any]:
    """Time the fit on N features; for a fresh process."""
    HardThreshold(dense_limit=0).fit(data(200, 50))  # loads and warms the tiled path
    X = data(n, samples)
    before = resident()
    model = HardThreshold()
    times = [once(lambda: model.fit(X))]
    peak, product, products = resident(peak=True), sgemm(2048), []
    while not products or (sum(times) < 2 and len(times) < 5):
        products.append(once(product))
        times.append(once(lambda: model.fit(X)))
    return {
        "seconds": statistics.median(times),
        "sgemm GFLOP/s": 2 * 2048**3 / statistics.median(products) / 1e9,
        "peak GB": peak,
        "GB before": before,
        "nnz": int(sp.csr_array(model.covariance_).count_nonzero()),
    }


def numpy_fit(n: int, samples: int) -> dict[str, Any]:
    """Do it with a dense float64 matrix, then compare with ours; for a fresh process."""
    X = data(n, samples)
    before = resident()
    result = {}

    def call() -> None:
        Z = X.astype(np.float64)
        Z -= Z.mean(0)
        C = Z.T @ (Z / len(Z))
        sd = np.sqrt(C.diagonal())
        limit = 2 * np.sqrt(np.log(n) / len(Z))
        result["C"] = np.where(np.abs(C) >= limit * sd[:, None] * sd, C, 0)

    seconds, peak = once(call), resident(peak=True)
    theirs, ours = result["C"], HardThreshold(sparse_output=False).fit(X).covariance_
    apart = (theirs != 0) != (ours != 0)
    error = float(np.abs(np.where(apart, 0, ours - theirs)).max())
    if apart.sum() > 1e-3 * np.count_nonzero(theirs) or error > 1e-3:
        raise AssertionError(f"ours differs from numpy: {apart.sum()} entries in place, {error:.2g} in value.")
    return {"seconds": seconds, "peak GB": peak, "GB before": before, "nnz": int(np.count_nonzero(theirs))}


def measure(rates: dict[str, float], quick: bool = False, full: bool = False) -> list[dict[str, Any]]:
    sizes = (300, 600) if quick else SIZES + (FULL_SIZES if full else ())
    samples = 100 if quick else SAMPLES
    jobs = [("numpy float64", sizes[0], "numpy_fit"), *(("ours", n, "fit") for n in sizes)]
    rows: list[dict[str, Any]] = []
    for name, n, function in jobs:
        row: dict[str, Any] = {"name": name, "N": n, "t": samples}
        last = next((r for r in reversed(rows) if r["name"] == name and "seconds" in r), None)
        grown = last and (last["peak GB"] - last["GB before"]) * (n / last["N"]) ** 2
        if grown and grown > available_gb():
            row["left out"] = f"might need {grown:.0f} GB"
        else:
            row |= fresh_process("scale", function, n=n, samples=samples)
            row["GFLOP/s"] = n**2 * samples / row["seconds"] / 1e9
            row["share of sgemm"] = row["GFLOP/s"] / row.get("sgemm GFLOP/s", rates["sgemm GFLOP/s"])
        rows.append(row)
        print(f"  N={n}, {name}: {row.get('left out') or number(row['seconds']) + ' s'}", flush=True)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    headers = ["N", "t", "", "seconds", "GFLOP/s", "% of sgemm", "peak GB", "GB before", "N×N float32 GB", "nnz"]
    table = []
    for row in rows:
        cells = [f"{row['N']:,}", row["t"], row["name"]]
        if "left out" in row:
            cells += [row["left out"], *["–"] * 4]
        else:
            cells += [number(row[key]) for key in ("seconds", "GFLOP/s")] + [number(100 * row["share of sgemm"])]
            cells += [number(row[key]) for key in ("peak GB", "GB before")]
        table.append([*cells, number(4e-9 * row["N"] ** 2), f"{row['nnz']:,}" if "nnz" in row else "–"])
    return "## Thresholded covariance: `HardThreshold().fit(X)`\n\n" + (
        "Peak GB: of the whole process. GB before: the same with the libraries and the data loaded.\n\n"
        + markdown(headers, table)
    )


if __name__ == "__main__":
    run_part(__doc__, "scale", measure, report, full="also N = 50,000 and 100,000")
