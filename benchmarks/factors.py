"""Factors with a sparse rest: the filter bank of a sum of operators, and how well criteria count factors.

``python benchmarks/factors.py`` prints both tables. Times are medians of interleaved calls in one run on one thread.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from _measure import markdown, round_robin

from svnn import as_operator
from svnn.functional import LowRankPlusSparse
from svnn.functional.spectrum import candidate_factors, growth_ratio_factors

RANK, PER_ROW = 5, 10  # factors, and entries of a row of the rest
SAMPLES, DRAWS = ((30, 60), (100, 60), (60, 200), (200, 100), (400, 60)), 20  # (N, t)


def factored(n: int) -> LowRankPlusSparse:
    """Return a matrix of a few factors and a sparse rest."""
    rng = np.random.default_rng(0)
    half = sp.random_array((n, n), density=PER_ROW / 2 / n, random_state=rng, dtype=np.float32)
    return LowRankPlusSparse(rng.standard_normal((n, RANK)).astype(np.float32), half + half.T + sp.eye_array(n))


def bank(sizes: tuple[int, ...] = (1000, 2000, 4000, 8000)) -> str:
    """Return the milliseconds of a bank of order 3 on 8 signals of 16 values, for the sum, its parts and dense."""
    rows = []
    for n in sizes:
        total = as_operator(factored(n), dtype=torch.float32).normalized()
        total.adaptive = False  # time the sum itself
        x, weight = torch.randn(8, n, 16), torch.randn(4, 16, 16)
        dense = as_operator(total, backend="dense")
        operators = {"sum": total, "low rank": total.parts[0], "CSR": total.parts[1], "dense": dense}
        with torch.no_grad():
            for operator in operators.values():
                operator.filter(x, weight)
            times = round_robin({name: partial(op.filter, x, weight) for name, op in operators.items()})
        rows.append([n, total.nnz, *(f"{1e3 * times[name]:.2f}" for name in operators)])
    return markdown(["N", "stored", "sum ms", "low rank ms", "CSR ms", "dense ms"], rows)


def criteria(eigenvalues: np.ndarray, n: int, t: int) -> dict[str, int]:
    """Return the number of factors by IC_p1 to IC_p3 (Bai & Ng 2002) and the two ratios (Ahn & Horenstein 2013)."""
    m, total, most = min(n, t), eigenvalues.sum(), candidate_factors(n, t)
    rest = total - np.concatenate([[0.0], eigenvalues.cumsum()])
    penalties = {
        "IC_p1": (n + t) / (n * t) * np.log(n * t / (n + t)),
        "IC_p2": (n + t) / (n * t) * np.log(m),
        "IC_p3": np.log(m) / m,
    }
    k = np.arange(most + 1)
    found = {name: int(np.argmin(np.log(rest[: most + 1] / n) + k * p)) for name, p in penalties.items()}
    with_zero = np.concatenate([[total / np.log(m)], eigenvalues])[: most + 2]
    found["eigenvalue ratio"] = int(np.argmax(with_zero[:-1] / with_zero[1:]))
    found["growth ratio"] = growth_ratio_factors(eigenvalues[: most + 1], total, m)
    return found


def draw(rng: np.random.Generator, n: int, t: int, r: int, strength: float, blocks: bool) -> np.ndarray:
    """Return data of r factors of a strength, and residuals that are independent or correlated in blocks of four."""
    loadings = rng.standard_normal((n, r)) * np.sqrt(strength / max(r, 1))
    rest = rng.standard_normal((t, n))
    for a in range(0, n - 4, 20) if blocks else ():
        rest[:, a : a + 4] = np.sqrt(0.4) * rest[:, a : a + 4] + np.sqrt(0.6) * rng.standard_normal((t, 1))
    X: np.ndarray = rng.standard_normal((t, r)) @ loadings.T + rest
    return X * rng.uniform(0.3, 3, n)


def counts(draws: int = DRAWS) -> str:
    """Return the share of draws in which each criterion finds the true number of factors."""
    right: dict[str, dict[tuple[int, bool], list[bool]]] = {}
    for r in (0, 1, 3, 5):
        for blocks in (False, True):
            for n, t in SAMPLES:
                for strength in (0.5, 1.0, 2.0) if r else (1.0,):
                    for seed in range(draws):
                        X = draw(np.random.default_rng(seed), n, t, r, strength, blocks)
                        Z = (X - X.mean(0)) / X.std(0)
                        eigenvalues = np.linalg.svd(Z, compute_uv=False) ** 2 / t
                        for name, found in criteria(eigenvalues, n, t).items():
                            right.setdefault(name, {}).setdefault((r, blocks), []).append(found == r)
    cases = [(r, blocks) for r in (0, 1, 3, 5) for blocks in (False, True)]
    rows = []
    for name, of in right.items():
        shares = [float(np.mean(of[case])) for case in cases]
        rows.append([name, *(f"{share:.2f}" for share in shares), f"{np.mean(shares):.3f}"])
    rows.sort(key=lambda row: row[-1], reverse=True)
    return markdown(["criterion", *(f"{r}{', blocks' if blocks else ''}" for r, blocks in cases), "mean"], rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("Filter bank of order 3, 8 × N × 16 → 16, float32:\n")
    print(bank())
    print("\nShare of draws in which the number of factors is right:\n")
    print(counts())
