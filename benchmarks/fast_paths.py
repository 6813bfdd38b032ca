"""The gain of every fast path of the shift operators: the same work without it and with it, in turns, in one run.

A path stays in the library if it gains at least 1.3 times on a shape that people have: tables of 150 × 30, 481 × 68
and 1000 × 117, one row of them, and the shapes of the filter benchmark. The gain is the time without the path over the
time with it: the median over rounds of both in turn, and over three passes through all shapes. Everything runs on one
thread, but for the threads themselves, which are two. Paths that were removed for gaining less are no longer measured;
their rows stay in the file as ``removed``, with the commit whose version of this script measured them.

    python benchmarks/fast_paths.py --out docs/results    # ten minutes or so; writes docs/results/fast_paths.json
    python benchmarks/fast_paths.py --quick               # does it run?
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _measure import describe, machine, markdown, number, once, parser, peaks, write_json
from filters import Workload, random_covariance, tensors
from torch import Tensor

from svnn import as_operator
from svnn.operators import BatchedOperator, CovarianceOperator, _batched, _cpu_passes, _dense, _operator

BAR, PASSES = 1.3, 3
#: Rows of a table × features, with one value per node, and the same tables in a hidden layer; one row at prediction.
TABLES = ((150, 30), (481, 68), (1000, 117))
FIRST = tuple(Workload(t, n, 1, 1.0, order=2) for t, n in TABLES)
HIDDEN = tuple(Workload(t, n, 32, 1.0, order=2) for t, n in TABLES)
ONE_ROW = tuple(Workload(1, n, 1, 1.0, order=2) for _, n in TABLES)
WIDE = Workload(1000, 117, 128, 1.0)
SPARSE_FIRST = (
    Workload(481, 68, 1, 0.1, order=2),
    Workload(1000, 117, 1, 0.1, order=2),
    Workload(64, 2000, 1, 0.05),
    Workload(16, 20_000, 1, 0.001, order=2),
)
SPARSE_HIDDEN = (
    Workload(481, 68, 32, 0.1, order=2),
    Workload(1000, 117, 32, 0.1, order=2),
    Workload(1000, 117, 128, 0.25),
    Workload(64, 2000, 32, 0.05),
    Workload(16, 20_000, 32, 0.001, order=2),
)
SPARSE_ROW = (Workload(1, 117, 1, 0.1, order=2), Workload(1, 2000, 1, 0.05), Workload(1, 2000, 32, 0.05))
QUICK_SHAPES = {"dense": (Workload(3, 8, 1, 1.0, order=2),), "csr": (Workload(3, 40, 1, 0.2, order=2),)}


Places = tuple[tuple[Any, str, Any], ...]


@contextmanager
def changed(places: Places) -> Iterator[None]:
    """Set attributes of modules for a while."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def inside(places: Places, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return the call with these attributes set around it."""

    def changed_call() -> Any:
        with changed(places):
            return call()

    return changed_call


#: Each path, the backend that has it, and what switches it off.
PATHS: dict[str, tuple[str, Places, tuple[Workload, ...]]] = {
    "compiled CSR passes": (
        "csr",
        ((sys.modules["svnn.operators._csr"], "kernels", lambda: None),),
        SPARSE_FIRST + SPARSE_HIDDEN + SPARSE_ROW,
    ),
    "weights mixed in the pass": ("csr", ((_cpu_passes, "_MIXED_VALUES", 0),), SPARSE_FIRST + SPARSE_ROW[:2]),
    "results past the caches": ("csr", ((_cpu_passes, "_STREAMED_BYTES", math.inf),), SPARSE_FIRST),
    "eigenbasis": ("dense", ((_dense, "EIGENBASIS_LIMIT", 0),), (*HIDDEN, WIDE)),
    "eigenbasis on a few samples at a time": ("dense", ((_dense, "_CHUNK_BYTES", 2**62),), (*HIDDEN, WIDE)),
    "a product per sample": ("dense", ((_operator, "_PER_SAMPLE_LIMIT", 0), (_dense, "EIGENBASIS_LIMIT", 0)), HIDDEN),
}


def row(path: str, work: str, on: Callable[[], Any], off: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return the milliseconds with a path and without it, and what it gains: the median over rounds of both in turn."""
    for call in (on, off, on, off):
        call()
    calls = max(1, min(50, int(0.005 / once(on))))
    rounds: list[tuple[float, float]] = []
    while len(rounds) < 3 or sum(map(sum, rounds)) * calls < seconds:
        times = [sum(once(call) for _ in range(calls)) / calls for call in (on, off)]
        rounds.append((times[0], times[1]))
    return named(path, work, rounds)


def named(path: str, work: str, rounds: list[tuple[float, float]]) -> dict[str, Any]:
    on, off = np.median(rounds, axis=0)
    gain = np.median([off / on for on, off in rounds])
    return {"path": path, "work": work, "ms with": 1e3 * on, "ms without": 1e3 * off, "gain": float(gain)}


def switched(path: str, work: str, call: Callable[[], Any], places: Places, seconds: float) -> dict[str, Any]:
    """Return a row of one call as it is and with these attributes changed; setting them takes its time in both."""
    as_it_is = tuple((owner, name, getattr(owner, name)) for owner, name, _ in places)
    return row(path, work, inside(as_it_is, call), inside(places, call), seconds)


def bank(operator: CovarianceOperator, w: Workload) -> dict[str, Callable[[], Any]]:
    """Return the calls of a filter bank: forward, and forward and backward."""
    x, weight, bias, g = tensors(w)

    def forward() -> Tensor:
        with torch.no_grad():
            return operator.filter(x, weight, bias)

    def both() -> Any:
        return torch.autograd.grad(operator.filter(x, weight, bias), [x, weight, bias], g)

    return {"forward": forward, "forward and backward": both}


def shape(w: Workload) -> str:
    return f"{w.shape}→{w.out_features}, K={w.order}, density {w.density:g}"


def banks(path: str, seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for every shape of a path of the filter bank, forward and with backward."""
    backend, places, shapes = PATHS[path]
    for w in QUICK_SHAPES[backend] if quick else shapes:
        operator = as_operator(random_covariance(w.nodes, w.density), backend=backend)
        for direction, call in bank(operator, w).items():
            yield switched(path, f"{shape(w)}, {direction}", call, places, seconds)


def shared_matrices(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Rows of a few groups, each with the covariance of its group."""
    for t, n, groups in ((6, 5, 2),) if quick else ((150, 30, 5), (481, 68, 4), (1000, 117, 10)):
        matrices = np.stack([random_covariance(n, 1.0, seed).toarray() for seed in range(groups)])
        operator = as_operator(matrices)[torch.arange(t) % groups]
        call = bank(operator, Workload(t, n, 1, 1.0, order=2))["forward and backward"]
        work = f"{t} rows of {n} nodes in {groups} groups, forward and backward"
        off = ((_batched, "_SAVED_ENTRIES", math.inf),)
        yield switched("rows of one matrix filtered together", work, call, off, seconds)


def norms(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Norms of a batch of matrices in one call of LAPACK, or one after the other."""
    for b, n in ((3, 5),) if quick else ((64, 68), (32, 117), (150, 30)):
        matrices = torch.from_numpy(np.stack([random_covariance(n, 1.0, seed).toarray() for seed in range(b)]))
        call = partial(lambda matrices: BatchedOperator(matrices).norms(), matrices)
        off = ((_batched, "EXACT_LIMIT", 0),)
        yield switched("norms of a batch at once", f"{b} matrices of {n} nodes", call, off, seconds)


def twins(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """A filter bank in another backend than the matrix is stored in, with ``backend="auto"``."""
    shapes = [
        Workload(t, n, width, density, order=order)
        for t, n in TABLES[1:]
        for width in (1, 32, 128)
        for density in (0.1, 0.3)
        for order in (1, 2, 3)
        if t * n * width < 2e7
    ]
    for w in shapes[:1] if quick else shapes:
        on, off = (as_operator(random_covariance(w.nodes, w.density)) for _ in range(2))
        off.adaptive = False
        call = bank(on, w)["forward and backward"]
        call()
        if "twin" in on.__dict__.get("_memo", {}) or quick:  # otherwise the work is the same
            work = f"{shape(w)}, stored as {on.backend}, forward and backward"
            path = 'another backend for the bank with backend="auto"'
            yield row(path, work, call, bank(off, w)["forward and backward"], seconds)


def threads(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """The threads of torch's own OpenMP, or plain ones."""
    torch.set_num_threads(2)
    try:
        for w in QUICK_SHAPES["csr"] if quick else SPARSE_FIRST + SPARSE_HIDDEN + SPARSE_ROW:
            call = bank(as_operator(random_covariance(w.nodes, w.density), backend="csr"), w)["forward and backward"]
            off = ((_cpu_passes, "_gnu_parallel", lambda: None),)
            yield switched("OpenMP's threads, two of them", f"{shape(w)}, forward and backward", call, off, seconds)
    finally:
        torch.set_num_threads(1)


OTHERS = (shared_matrices, norms, twins, threads)


def one_pass(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for every path and shape."""
    for path in PATHS:
        yield from banks(path, seconds, quick)
    for part in OTHERS:
        yield from part(seconds, quick)


def measure(rates: dict[str, float], quick: bool = False) -> list[dict[str, Any]]:
    """Return a row for every path and shape, with the medians over the passes."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(1 if quick else PASSES):
            for one in one_pass(0.001 if quick else 0.6, quick):
                found.setdefault((one["path"], one["work"]), []).append(one)
                if not quick:
                    print(f"  {one['gain']:.2f}  {one['path']}: {one['work']}", flush=True)
    finally:
        torch.set_num_threads(n_threads)
    numbers = ("ms with", "ms without", "gain")
    return [
        rows[0] | {name: float(np.median([one[name] for one in rows])) for name in numbers} for rows in found.values()
    ]


def report(rows: list[dict[str, Any]]) -> str:
    """Return the largest gain of every path and where it is, the smallest beside it."""
    table = []
    for path in dict.fromkeys(one["path"] for one in rows):
        mine = sorted((one for one in rows if one["path"] == path), key=lambda one: -one["gain"])
        reach = "yes" if mine[0]["gain"] >= BAR else "no"
        table.append([path, number(mine[0]["gain"]), mine[0]["work"], number(mine[-1]["gain"]), reach])
    return markdown(["path", "largest gain", "where", "smallest", f"≥ {BAR:g}"], table)


def removed(folder: str) -> list[dict[str, Any]]:
    """Return the rows of removed paths that the file in this folder has."""
    path = Path(folder) / "fast_paths.json"
    return json.loads(path.read_text())["removed"] if path.exists() else []


if __name__ == "__main__":
    options = parser(__doc__).parse_args()
    where, rates = machine(), peaks(options.quick)
    rows = measure(rates, options.quick)
    print(describe(where, rates), report(rows), sep="\n\n")
    result = {"machine": where, "peaks": rates, "bar": BAR, "fast_paths": rows, "removed": removed(options.out)}
    print("\nwritten:", write_json(options.out, "fast_paths", result))
