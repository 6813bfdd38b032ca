"""What every fast path of the shift operators gains: the same work without it and with it, in turns, in one run.

A path stays in the library where it gains at least 1.3 times on a shape that people have: tables of 150 × 30, 481 × 68
and 1000 × 117, one row of them, and the shapes of the filter benchmark. The gain is the median time without the path
over the median time with it, on one thread (the threads themselves on two).

    python benchmarks/fast_paths.py --out docs/results    # a few minutes; writes docs/results/fast_paths.json
    python benchmarks/fast_paths.py --quick               # does it run?
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from _measure import markdown, number, once, run_part
from filters import Workload, random_covariance, tensors
from torch import Tensor

from svnn import as_operator
from svnn.nn import SVNN
from svnn.operators import (
    BatchedOperator,
    CovarianceOperator,
    DenseOperator,
    _buffers,
    _cpu_passes,
    _dense,
    _openmp,
    _operator,
    _per_sample,
    _selected,
    _spectral_bank,
)

BAR = 1.3
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


def fresh(role: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return new memory in place of a kept buffer."""
    return torch.empty(shape, dtype=dtype)


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
    "huge pages, CSR": ("csr", ((_buffers, "_madvise", lambda: None),), SPARSE_FIRST + SPARSE_HIDDEN),
    "kept buffers, CSR": ("csr", ((_cpu_passes, "workspace", fresh),), SPARSE_FIRST + SPARSE_HIDDEN + SPARSE_ROW),
    "huge pages and kept buffers, CSR": (
        "csr",
        ((_buffers, "_madvise", lambda: None), (_cpu_passes, "workspace", fresh)),
        SPARSE_FIRST + SPARSE_HIDDEN + SPARSE_ROW,
    ),
    "eigenbasis": ("dense", ((_dense, "EIGENBASIS_LIMIT", 0),), (*HIDDEN, WIDE)),
    "eigenbasis as an autograd function": (
        "dense",
        ((_dense, "spectral_filter_bank", _spectral_bank.plain_spectral_bank),),
        (*HIDDEN, WIDE),
    ),
    "huge pages and kept buffers, eigenbasis": (
        "dense",
        ((_buffers, "_madvise", lambda: None), (_spectral_bank, "workspace", fresh)),
        (*HIDDEN, WIDE),
    ),
    "dense passes in their own memory": (
        "dense",
        ((_dense, "_LARGE_BYTES", math.inf),),
        (*FIRST, Workload(1000, 68, 1, 1.0, order=2)),
    ),
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
    for t, n, groups in ((6, 5, 2),) if quick else ((481, 68, 4), (256, 117, 16), (150, 30, 5)):
        matrices = np.stack([random_covariance(n, 1.0, seed).toarray() for seed in range(groups)])
        operator = as_operator(matrices)[torch.arange(t) % groups]
        call = bank(operator, Workload(t, n, 1, 1.0, order=2))["forward and backward"]
        work = f"{t} rows of {n} nodes in {groups} groups, forward and backward"
        off = ((_selected, "_SAVED_ENTRIES", math.inf),)
        yield switched("rows of one matrix filtered together", work, call, off, seconds)


def norms(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Norms of a batch of matrices in one call of LAPACK, or one after the other."""
    for b, n in ((3, 5),) if quick else ((64, 68), (32, 117), (150, 30)):
        matrices = torch.from_numpy(np.stack([random_covariance(n, 1.0, seed).toarray() for seed in range(b)]))
        call = partial(lambda matrices: BatchedOperator(matrices).norms(), matrices)
        off = ((_per_sample, "EXACT_LIMIT", 0),)
        yield switched("norms of a batch at once", f"{b} matrices of {n} nodes", call, off, seconds)


def twins(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """A filter bank in another backend than the matrix is stored in, with ``backend="auto"``."""
    shapes = [
        Workload(t, n, width, density, order=order)
        for t, n in ((481, 68), (1000, 117), (150, 300), (64, 1000), (16, 2000))
        for width in (1, 32)
        for density in (0.02, 0.1, 0.3, 1.0)
        for order in (2, 4)
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
            off = ((_openmp, "_gnu_parallel", lambda: None),)
            yield switched("OpenMP's threads, two of them", f"{shape(w)}, forward and backward", call, off, seconds)
    finally:
        torch.set_num_threads(1)


class InDictionaries(DenseOperator):
    """A dense operator whose tensor is where ``nn.Module`` keeps it, behind ``__getattr__``."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(matrix)
        self.__dict__["_held"] = {"matrix": self.__dict__.pop("matrix")}

    def __getattr__(self, name: str) -> Any:
        for where in ("_none", "_held", "_modules"):
            kept = self.__dict__.get(where)
            if kept is not None and name in kept:
                return kept[name]
        raise AttributeError(name)


def attributes(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Tensors as plain attributes of an operator, or in the dictionaries of ``nn.Module``."""
    for w in QUICK_SHAPES["dense"] if quick else (*ONE_ROW, *FIRST):
        C = torch.from_numpy(random_covariance(w.nodes, w.density).toarray())
        x, weight, bias, _ = tensors(w)
        network = SVNN(1, 1, hidden=(32,), normalize=False).eval()
        uses: dict[str, Callable[..., Any]] = {
            "shift": lambda x, weight, bias, network, operator: operator @ x,
            "filter": lambda x, weight, bias, network, operator: operator.filter(x, weight, bias),
            "network": lambda x, weight, bias, network, operator: network(x, operator),
        }
        with torch.no_grad():
            for what, use in uses.items():
                on, off = (partial(use, x, weight, bias, network, make(C)) for make in (DenseOperator, InDictionaries))
                yield row("tensors as plain attributes", f"{w.shape}, {what}", on, off, seconds)


def imports(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """Imports without the garbage collector."""
    off = "; svnn.uncollected = contextlib.nullcontext"
    commands = [[sys.executable, "-c", f"import contextlib, svnn{change}; svnn.SVNNRegressor"] for change in ("", off)]
    rounds = []
    for _ in range(1 if quick else 10):
        times = [once(partial(subprocess.run, command, check=True)) for command in commands]
        rounds.append((times[0], times[1]))
    yield named("imports without the garbage collector", "svnn.SVNNRegressor in a new process", rounds)


OTHERS = (shared_matrices, norms, twins, threads, attributes, imports)


def measure(rates: dict[str, float], quick: bool = False) -> list[dict[str, Any]]:
    """Return a row for every path and shape."""
    seconds, rows = (0.001 if quick else 1.0), []
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        parts = [banks(name, seconds, quick) for name in PATHS] + [part(seconds, quick) for part in OTHERS]
        for part in parts:
            for one in part:
                rows.append(one)
                if not quick:
                    print(f"  {one['gain']:.2f}  {one['path']}: {one['work']}", flush=True)
    finally:
        torch.set_num_threads(n_threads)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """Return the largest gain of every path and where it is, the smallest beside it."""
    table = []
    for path in dict.fromkeys(one["path"] for one in rows):
        mine = sorted((one for one in rows if one["path"] == path), key=lambda one: -one["gain"])
        reach = "yes" if mine[0]["gain"] >= BAR else "no"
        table.append([path, number(mine[0]["gain"]), mine[0]["work"], number(mine[-1]["gain"]), reach])
    return markdown(["path", "largest gain", "where", "smallest", f"≥ {BAR:g}"], table)


if __name__ == "__main__":
    run_part(__doc__, "fast_paths", measure, report)
