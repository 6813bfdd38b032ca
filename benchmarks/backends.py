"""Where a CSR shift overtakes the dense one: the measurement behind ``as_operator(backend="auto")``.

Prints, for each size and density, the time of one dense and one CSR shift of 64 columns and their
ratio, both measured in turn in the same run, and whether "auto" picks the faster one.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
import torch

from svnn import as_operator

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
DENSITIES = (0.01, 0.05, 0.1, 0.2, 0.4)
COLUMNS = 64


def random_covariance(n: int, density: float) -> sp.csr_array:
    rng = np.random.default_rng(0)
    upper = sp.random_array((n, n), density=density / 2, rng=rng, dtype=np.float32)
    return sp.csr_array(upper + upper.T + sp.eye_array(n, dtype=np.float32))


def seconds(operators: list, x: torch.Tensor) -> list[float]:
    """Return the median time of a shift by each operator, taken in turn so that noise hits all alike."""
    times: list[list[float]] = [[] for _ in operators]
    for round_ in range(25):
        for operator, record in zip(operators, times, strict=True):
            start = time.perf_counter()
            operator @ x
            if round_ >= 5:
                record.append(time.perf_counter() - start)
    return [float(np.median(t)) for t in times]


def main() -> None:
    print(f"{torch.get_num_threads()} threads, float32, {COLUMNS} columns; times in µs")
    print(f"{'N':>6} {'density':>8} {'dense':>10} {'csr':>10} {'csr/dense':>10}  auto")
    for n in SIZES:
        x = torch.randn(n, COLUMNS, generator=torch.Generator().manual_seed(0))
        for density in DENSITIES:
            C = random_covariance(n, density)
            operators = [as_operator(C, backend=b) for b in ("dense", "csr")]
            dense, csr = seconds(operators, x)
            picked = as_operator(C).backend
            lost = {"dense": dense, "csr": csr}[picked] / min(dense, csr) - 1
            remark = "" if lost < 0.15 else f"  ({100 * lost:.0f} % slower than the other)"
            print(f"{n:6d} {density:8.2f} {1e6 * dense:10.0f} {1e6 * csr:10.0f} {csr / dense:10.2f}  {picked}{remark}")


if __name__ == "__main__":
    main()
