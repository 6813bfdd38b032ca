"""On a GPU: correlation graphs of 1,575,538 features, checked against double precision on random rows.

Three questions: the pairs above a threshold, the ten largest of each feature, the ten million largest of all. The table
is noise of 292 float32 samples with some groups of features. The floor is the time of the products alone, as torch
multiplies tiles of 8192 × 8192 in float16 that nobody keeps. Seconds are the median of three fits.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from _measure import machine, markdown, number, parser, write_json

from svnn import HardThreshold

EDGES, TOP, GROUP, ROWS, REPEATS = 10_000_000, 10, 20, 64, 3
#: Correlations in single precision are right to this.
CLOSE = 2e-6


def table(t: int, n: int) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(t, n, generator=generator, device="cuda")
    groups = n // 10 // GROUP
    X[:, : groups * GROUP] += torch.randn(t, groups, generator=generator, device="cuda").repeat_interleave(GROUP, 1)
    X -= X.mean(0)
    X /= X.square().mean(0).sqrt()  # so that covariances are correlations
    return X


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, peak GB with the table, and the result of one call."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    return time.perf_counter() - start, torch.cuda.max_memory_allocated() / 1e9, result


def floor(t: int, n: int) -> float:
    """Return the seconds that the products of all pairs take alone."""
    a = torch.randn(8192, -(-t // 64) * 64, device="cuda").half()
    b = torch.randn_like(a)
    seconds, _, _ = timed(lambda: [a @ b.T for _ in range(50)])
    seconds, _, _ = timed(lambda: [a @ b.T for _ in range(50)])
    return seconds / 50 * (n / 8192) ** 2 / 2


def wrong(model: HardThreshold, X: torch.Tensor, what: str) -> int:
    """Return the number of edges of random rows that double precision contradicts; ties aside."""
    n, C = X.shape[1], model.covariance_
    rows = torch.randint(n, (ROWS,), generator=torch.Generator().manual_seed(1)).cuda()
    rows[: ROWS // 4] = torch.arange(0, GROUP * ROWS // 4, GROUP, device="cuda") % n  # some in groups
    starts, columns, values = C.crow_indices(), C.col_indices(), C.values()
    errors = 0
    Z = X.double()
    Z -= Z.mean(0)
    Z /= torch.linalg.vector_norm(Z, dim=0)
    cut = torch.as_tensor(model.threshold_, dtype=torch.float64, device="cuda").expand(n)
    for row in rows.tolist():
        exact = Z[:, row] @ Z
        exact[row] = 0
        inside = slice(int(starts[row]), int(starts[row + 1]))
        got = torch.zeros_like(exact)
        got[columns[inside]] = values[inside].double()
        got[row] = 0
        limit = torch.minimum(cut, cut[row])
        clear = (exact.abs() - limit).abs() > CLOSE
        errors += int(((got != 0) != (exact.abs() > limit))[clear].sum())
        errors += int(((got - exact).abs() > 1e-5)[got != 0].sum())
        if what == "top" and int((got != 0).sum()) < TOP:
            errors += 1
    return errors


def measure(n: int, t: int) -> list[dict[str, Any]]:
    X = table(t, n)
    products, n_pairs = floor(t, n), n * (n - 1) // 2
    edges = min(EDGES, n_pairs // 100)
    questions: list[tuple[str, str, dict[str, Any]]] = [
        ("pairs above the universal threshold", "threshold", {}),
        (f"the {TOP} largest of each feature", "top", {"top_k": TOP}),
        (f"the {edges:,} largest pairs", "edges", {"density": edges / n_pairs}),
    ]
    rows = []
    for name, what, options in questions:
        model = HardThreshold(sparse_output=True, dense_limit=0, **options)
        model.fit(X[:, :20_000].contiguous())  # compiles
        runs = [timed(lambda model=model: model.fit(X)) for _ in range(REPEATS)]
        seconds, peak = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
        del runs
        rows.append(
            {
                "what": name,
                "N": n,
                "t": t,
                "seconds": seconds,
                "floor": products,
                "peak GB": peak,
                "pairs": (model.covariance_.values().numel() - n) // 2,
                "wrong": wrong(model, X, what),
            }
        )
        print(rows[-1], flush=True)
        del model  # its matrix lies on the GPU
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    headers = ["", "features", "samples", "seconds", "× products alone", "peak memory (GB)", "pairs kept", "wrong"]
    lines = [
        [
            row["what"],
            f"{row['N']:,}",
            f"{row['t']:,}",
            number(row["seconds"]),
            number(row["seconds"] / row["floor"]),
            number(row["peak GB"]),
            f"{row['pairs']:,}",
            str(row["wrong"]),
        ]
        for row in rows
    ]
    return markdown(headers, lines)


def main() -> int:
    options = parser(__doc__).parse_args()
    if not torch.cuda.is_available():
        print("This part needs a GPU that torch can use; there is none here. `make bench` measures the CPU.")
        return 2
    sizes = [(20_000, 100)] if options.quick else [(100_000, 1000), (1_575_538, 292)]
    rows = [row for n, t in sizes for row in measure(n, t)]
    where = {**machine(), "gpu": torch.cuda.get_device_name()}
    print(f"GPU: {where['gpu']}; torch {torch.__version__}\n")
    print(report(rows))
    print("\nwritten:", write_json(options.out, "gpu_graph", {"machine": where, "gpu_graph": rows}))
    assert not any(row["wrong"] for row in rows), "some edges differ from double precision"
    return 0


if __name__ == "__main__":
    sys.exit(main())
