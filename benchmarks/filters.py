"""One covariance filter bank against its rivals: forward, and forward + backward.

``Y[b] = Σ_k C^k X[b] W_k + bias``, X (B, N, F_in) → 32 features, float32, random symmetric patterns with
their diagonal. The gradients are those of the weight, the bias and x, as in a hidden layer; "forward"
is without a graph. Times are medians of interleaved calls in one run; a call of more than a second is
made once. Every rival's output and gradients are compared with ours before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import _peers as peers
import numpy as np
import scipy.sparse as sp
import torch
from _measure import SLOW, markdown, number, once, round_robin, run_part, sgemm
from torch import Tensor

OUT_FEATURES = 32
#: A rival that would need more memory than this is left out.
MEMORY_GB = 6.0
#: Edge lists are tried up to so many products of a forward pass; beyond, they are far slower than CSR.
EDGE_PRODUCTS = 3e8
#: From this N on the dense rivals, whose time does not depend on the density, are timed once a shape.
LARGE = 10_000
DENSE, PYG = ("textbook", "torch dense"), ("PyG edges", "PyG CSR")
NAMES = ("ours", *DENSE, *PYG, "torch CSR", "scipy")


@dataclass(frozen=True)
class Sizes:
    """Samples of some nodes with some values each, and the density of their covariance."""

    batch: int
    nodes: int
    features: int
    density: float


@dataclass(frozen=True)
class Workload(Sizes):
    """Sizes, and the multiples asked for: × textbook and × PyG, forward and with backward."""

    textbook: tuple[float, float] | None = None
    pyg: tuple[float, float] | None = None
    order: int = 3
    out_features: int = OUT_FEATURES

    @property
    def shape(self) -> str:
        return f"{self.batch}×{self.nodes}×{self.features}"

    def flops(self, nnz: int, backward: bool) -> float:
        """Return the useful operations: shifts of the narrower side and mixing, twice and thrice with backward."""
        shifts = 2 * self.order * nnz * self.batch * min(self.features, self.out_features)
        mixing = 2 * (self.order + 1) * self.batch * self.nodes * self.features * self.out_features
        return 2 * shifts + 3 * mixing if backward else shifts + mixing


WORKLOADS = (
    Workload(1000, 68, 1, 1, (1.9, 2.6), (13, 14), order=2),
    Workload(1000, 117, 128, 1, (5.4, 4.3), (7.1, 21)),
    Workload(1000, 117, 128, 0.75, (4.9, 3.7), (6.2, 14)),
    Workload(1000, 117, 128, 0.5, (5.0, 3.7), (5.2, 10)),
    Workload(1000, 117, 128, 0.25, (5.5, 4.0), (3.8, 6.5)),
    Workload(1000, 117, 128, 0.05, (8.5, 4.4), (2.7, 3.7)),
    Workload(64, 2000, 1, 0.25, (3.5, 3.8), (15, 45)),
    Workload(64, 2000, 1, 0.05, (9.3, 9.5), (9.9, 22)),
    Workload(64, 2000, 1, 0.01, (12, 11), (5.2, 7.5)),
    Workload(64, 2000, 32, 0.25, (2.6, 2.4), (2.5, 65)),
    Workload(64, 2000, 32, 0.05, (9.5, 7.7), (2.3, 19)),
    Workload(64, 2000, 32, 0.01, (19, 13), (2.0, 7.2)),
    Workload(16, 20_000, 1, 0.001, (165, 131), (3.5, 6.7), order=2),
    Workload(16, 20_000, 1, 0.0002, (167, 139), (2.7, 2.9), order=2),
    Workload(16, 20_000, 32, 0.001, (154, 153), (2.4, 6.8), order=2),
    Workload(16, 20_000, 32, 0.0002, (225, 191), (1.8, 3.1), order=2),
)
QUICK = (Workload(4, 30, 1, 1, (1, 1), (1, 1)), Workload(3, 40, 40, 0.2, (1, 1), (1, 1)))


def random_covariance(n: int, density: float, seed: int = 0) -> sp.csr_array:
    """Return a symmetric matrix of norm about one: random values on a random pattern, with its diagonal."""
    rng = np.random.default_rng(seed)
    upper = sp.triu(sp.random_array((n, n), density=density, random_state=rng, data_sampler=rng.standard_normal), 1)
    C = sp.csr_array(upper + upper.T + sp.diags_array(rng.standard_normal(n)))
    return sp.csr_array(C / (2 * max(n * density, 1) ** 0.5), dtype=np.float32)


def needed_gb(name: str, w: Workload, nnz: int) -> float:
    """Return the memory a rival needs beyond inputs and outputs, roughly."""
    if name in DENSE:
        return 4e-9 * w.nodes**2
    if name == "PyG edges":  # a message for every edge and sample, gathered and weighted
        return 8e-9 * w.batch * nnz * w.features
    return 36e-9 * w.batch * nnz if name == "PyG CSR" else 0.0  # the blocks, and their transpose on the way back


def left_out(name: str, w: Workload, nnz: int) -> str | None:
    """Return why a rival is not run on a workload, if it is not."""
    if name in PYG and find_spec("torch_geometric") is None:
        return "torch_geometric is not installed"
    if (gb := needed_gb(name, w, nnz)) > MEMORY_GB:
        return f"would need about {gb:.0f} GB"
    if name == "PyG edges" and w.batch * nnz * w.features * w.order > EDGE_PRODUCTS:
        return "far slower than its CSR form at this size"
    return None


def candidate(name: str, C: sp.csr_array, weight: Tensor, bias: Tensor, batch: int) -> peers.Candidate:
    """Return a way to compute the filter bank by its name."""
    if name in PYG:
        return peers.pyg(C, weight, bias, batch, name.removeprefix("PyG ").lower())
    if name in DENSE:
        make = peers.textbook if name == "textbook" else peers.torch_dense
        return make(torch.from_numpy(C.toarray()), weight, bias)
    return {"ours": peers.ours, "torch CSR": peers.torch_csr, "scipy": peers.scipy_csr}[name](C, weight, bias)


def tensors(w: Workload) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return x, the weight, the bias, all of which ask for gradients, and the gradient of the output."""
    torch.manual_seed(0)
    x = torch.randn(w.batch, w.nodes, w.features, requires_grad=True)
    weight = torch.randn(w.order + 1, w.features, w.out_features) / (w.features * (w.order + 1)) ** 0.5
    return (
        x,
        weight.requires_grad_(),
        torch.randn(w.out_features, requires_grad=True),
        torch.randn(w.batch, w.nodes, w.out_features),
    )


def check(name: str, results: list[Tensor], expected: list[Tensor]) -> None:
    """Compare the output and the gradients of x, weight and bias with ours."""
    parts = ("output", "gradient of x", "gradient of weight", "gradient of bias")
    for what, a, b in zip(parts, results, expected, strict=False):  # scipy has an output only
        error = float((a - b).abs().max() / b.abs().max())
        if not error <= 1e-3:
            raise AssertionError(f"{name}: the {what} differs from ours by {error:.2g} of its largest value.")


def compare(
    w: Workload,
    names: tuple[str, ...] = NAMES,
    seconds: float = 0.5,
    forward: bool = True,
    known: dict[str, list[float]] | None = None,
) -> dict[str, Any]:
    """Check and time the candidates on a workload; return ``times`` in ms, ``[forward, with backward]``.

    ``known`` holds times that need no second measurement.
    """
    C = random_covariance(w.nodes, w.density)
    x, weight, bias, g = tensors(w)
    reasons = {n: reason for n in names if (reason := left_out(n, w, C.nnz))}
    running: dict[str, peers.Candidate] = {}
    first: dict[str, float] = {}
    expected: list[Tensor] = []
    for name in names:
        if name in reasons or name in (known or {}):
            continue
        running[name] = one = candidate(name, C, weight, bias, w.batch)
        results: list[Tensor] = []

        def call(one: peers.Candidate = one, results: list[Tensor] = results) -> None:
            results.append(y := one.forward(x))
            results.extend(one.gradients(x, y, g) if one.parameters else ())

        first[name] = once(call)
        results = [r.detach() for r in results]
        expected = expected or results  # ours comes first
        check(name, results, expected)
        if name == "ours" and first[name] > SLOW:  # compiling is not the measurement
            first[name] = 0.0
    size = 2048 if w in WORKLOADS else 256
    calls: dict[str, Callable[[], Any]] = {"sgemm": sgemm(size)} if forward else {}
    for name, one in running.items():  # both kinds take turns with each other, too
        if forward:
            calls[f"{name}, forward"] = torch.no_grad()(lambda one=one: one.forward(x))
        if one.parameters:
            calls[f"{name}, both"] = lambda one=one: one.step(x, g)
    seen = {f"{name}, both": t for name, t in first.items()}
    medians = {call: 1e3 * t for call, t in round_robin(calls, seconds, seen).items()}
    times = {name: [medians.get(f"{name}, {kind}") for kind in ("forward", "both")] for name in running}
    result = {"nnz": C.nnz, "times": {**times, **(known or {})}, "left out": reasons}
    return {**result, "sgemm GFLOP/s": 2 * size**3 / medians["sgemm"] / 1e6} if forward else result


def best_pyg(times: dict[str, Any]) -> list[float | None]:
    both = [times[name] for name in PYG if name in times]
    return [min((t[i] for t in both), default=None) for i in (0, 1)]


def measure(rates: dict[str, float], quick: bool = False, seconds: float = 0.4) -> list[dict[str, Any]]:
    """Measure every workload; returns one row per workload, for the table and the JSON."""
    rows: list[dict[str, Any]] = []
    dense: dict[str, dict[str, list[float]]] = {}
    for w in QUICK if quick else WORKLOADS:
        row = compare(w, seconds=0.01 if quick else seconds, known=dense.get(w.shape))
        times = row["times"]
        if w.nodes >= LARGE:
            dense[w.shape] = {n: times[n] for n in DENSE if n in times}
        times["best PyG"] = best_pyg(times)
        ours = times["ours"]
        row |= {"workload": w.shape, "order": w.order, "density": w.density}
        row["GFLOP/s"] = [w.flops(row["nnz"], both) / t / 1e6 for both, t in zip((False, True), ours, strict=True)]
        row["share of sgemm"] = [rate / row["sgemm GFLOP/s"] for rate in row["GFLOP/s"]]
        for rival, asked in (("textbook", w.textbook), ("best PyG", w.pyg)):
            ratios = [t and t / o for t, o in zip(times.get(rival, (None, None)), ours, strict=True)]
            met = [None if r is None else r >= 0.9 * bar for r, bar in zip(ratios, asked, strict=True)]
            row[f"× {rival}"] = {"reached": ratios, "asked": list(asked), "met": met}
        rows.append(row)
        print(f"  {w.shape:>12} {w.density:<7g} ours {pair(ours)} ms, textbook {pair(times['textbook'])}", flush=True)
    return rows


def pair(values: Any) -> str:
    return "–" if values is None else "/".join(number(v) for v in values)


def report(rows: list[dict[str, Any]]) -> str:
    """Return the table: forward / forward + backward in every cell."""
    columns = ("textbook", "best PyG", "torch dense", "torch CSR", "scipy", "ours")
    headers = ["B × N × F_in", "K", "density", *columns, "GFLOP/s", "sgemm", "% of sgemm"]
    headers += [h for rival in ("textbook", "PyG") for h in (f"× {rival}", "asked", "met")]
    table, missed, asked = [], 0, 0
    for row in rows:
        cells = [row["workload"], row["order"], f"{row['density']:g}"]
        cells += [pair(row["times"].get(name)) for name in columns]
        cells += [pair(row["GFLOP/s"]), number(row["sgemm GFLOP/s"])]
        cells += ["/".join(f"{100 * share:.0f}" for share in row["share of sgemm"])]
        for rival in ("× textbook", "× best PyG"):
            result = row[rival]
            marks = ["–" if m is None else "yes" if m else "no" for m in result["met"]]
            missed, asked = missed + marks.count("no"), asked + len(marks) - marks.count("–")
            cells += [pair(result["reached"]), pair(result["asked"]), "/".join(marks)]
        table.append(cells)
    return (
        "## Filter bank: forward / forward + backward, ms\n\n"
        "Gradients of weight, bias and x. Best PyG: the faster of edge lists and CSR. scipy has no backward.\n"
        "GFLOP/s count useful operations: shifts of the narrower side, and the mixing of features;\n"
        "% of sgemm: of a matrix product that took turns with the candidates, its own rate beside it.\n\n"
        + markdown(headers, table)
        + f"\n\nMultiples met within 10 %: {asked - missed} of {asked}."
    )


if __name__ == "__main__":
    run_part(__doc__, "filters", measure, report)
