"""``HardThreshold(correlation=...).fit``: time, in units of Pearson's, and peak memory.

On a busy machine, compare the seconds of the processors: those of all threads in the first fit.

The data is that of ``scale.py``: 500 samples of float32. Every fit runs in a process of its own, after a small fit
that loads and compiles. Kendall's correlation is measured at the smallest size: beyond ``dense_limit`` features, where
tiles are multiplied, it is an error.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from _measure import fresh_process, markdown, number, once, resident, run_part
from scale import SAMPLES, data

from svnn import HardThreshold

SMALL, SIZES, FULL_SIZES = 1000, (20_000,), (100_000,)


def fit(n: int, samples: int, correlation: str) -> dict[str, Any]:
    """Time the fit on N features; for a fresh process."""
    for limit in (0, 4096):
        HardThreshold(dense_limit=limit, correlation="biweight").fit(data(200, 50))  # loads and warms
    X = data(n, samples)
    before, model = resident(), HardThreshold(correlation=correlation)
    started = time.process_time()
    times = [once(lambda: model.fit(X))]
    used = time.process_time() - started
    peak = resident(peak=True)
    while sum(times) < 2 and len(times) < 5:
        times.append(once(lambda: model.fit(X)))
    return {"seconds": statistics.median(times), "CPU seconds": used, "peak GB": peak, "GB before": before}


def measure(rates: dict[str, float], quick: bool = False, full: bool = False) -> list[dict[str, Any]]:
    sizes = (200, 300) if quick else (SMALL, *SIZES, *(FULL_SIZES if full else ()))
    samples = 50 if quick else SAMPLES
    rows: list[dict[str, Any]] = []
    for n in sizes:
        usual = None
        for correlation in ("pearson", "spearman", "biweight", *(("kendall",) if n == sizes[0] else ())):
            row = {"N": n, "t": samples, "correlation": correlation}
            row |= fresh_process("correlations", "fit", n=n, samples=samples, correlation=correlation)
            usual = usual or row["seconds"]
            row["times Pearson's"] = row["seconds"] / usual
            rows.append(row)
            print(f"  N={n}, {correlation}: {number(row['seconds'])} s", flush=True)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    keys = ["seconds", "times Pearson's", "CPU seconds", "peak GB", "GB before"]
    table = [[f"{row['N']:,}", row["t"], row["correlation"], *(number(row[key]) for key in keys)] for row in rows]
    return "## Other correlations: `HardThreshold(correlation=...).fit(X)`\n\n" + (
        "Peak GB: of the whole process. GB before: the same with the libraries and the data loaded.\n\n"
        + markdown(["N", "t", "correlation", *keys], table)
    )


if __name__ == "__main__":
    run_part(__doc__, "correlations", measure, report, full="also N = 100,000")
