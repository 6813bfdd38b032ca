"""A training step of one filter as density and size grow: time, and memory in a process of its own.

Forward + backward of 32 → 32 features, K=3, 16 samples. A rival drops out where its next point
would take too long or too much memory. The plot has one panel for each curve.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import filters
import scipy.sparse as sp
from _measure import available_gb, forget_peak, fresh_process, markdown, number, resident, run_part
from filters import Workload

NAMES = ("ours", "textbook", "torch CSR", "PyG CSR")
BATCH, FEATURES = 16, 32
DENSITIES = (0.002, 0.01, 0.05, 0.2, 0.5, 1.0)
SIZES = (100, 300, 1000, 3000, 8000)
MEMORY_SIZES = (1000, 4000, 16_000)
#: Of the curves over N.
DENSITY = 0.01
#: A point is left out where the one before it says that it would take longer than this (s).
LIMIT = 6.0


def workload(nodes: int, density: float, quick: bool = False) -> Workload:
    return Workload(2 if quick else BATCH, nodes, 2 if quick else FEATURES, density)


def timed(points: list[Workload], quick: bool) -> dict[str, list[float | None]]:
    """Return the ms of every name at every point; None where it was left out."""
    curves: dict[str, list[float | None]] = {name: [] for name in NAMES}
    for i, w in enumerate(points):
        names = ["ours"]
        for name in NAMES[1:]:
            last = curves[name][-1] if i else 0.0
            work = [max(p.nodes * p.density, 1) * p.nodes for p in points[max(i - 1, 0) : i + 1]]
            if name == "textbook":
                work = [p.nodes**2 for p in points[max(i - 1, 0) : i + 1]]
            if last is not None and last * work[-1] / work[0] < 1e3 * LIMIT:
                names.append(name)
        times = filters.compare(w, tuple(names), seconds=0.01 if quick else 0.25, forward=False)["times"]
        for name in NAMES:
            curves[name].append(times[name][1] if name in times else None)
        print(f"  N={w.nodes}, density {w.density:g}: ours {number(times['ours'][1])} ms", flush=True)
    return curves


def step_memory(name: str, path: str, quick: bool) -> float:
    """Return the GB that a step takes beside its sparse matrix, to be called in a fresh process."""
    C = sp.csr_array(sp.load_npz(path))
    small = C[:500, :500]
    for matrix in (small, C):  # the first compiles and loads
        w = workload(matrix.shape[0], DENSITY, quick)
        forget_peak()
        before = resident()
        x, weight, bias, g = filters.tensors(w)
        filters.candidate(name, matrix, weight, bias, w.batch).step(x, g)
    return max(resident(peak=True) - before, 0.0)


def memory(sizes: tuple[int, ...], quick: bool) -> dict[str, list[float | None]]:
    curves: dict[str, list[float | None]] = {name: [] for name in NAMES}
    for nodes in sizes:
        w = workload(nodes, DENSITY, quick)
        C = filters.random_covariance(nodes, DENSITY)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "covariance.npz")
            sp.save_npz(path, sp.csr_matrix(C), compressed=False)
            for name in NAMES:
                # The step itself may hold a few times what its matrices need.
                fits = 3 * filters.needed_gb(name, w, C.nnz) < available_gb()
                skip = filters.left_out(name, w, C.nnz) or not fits
                arguments = {"name": name, "path": path, "quick": quick}
                curves[name].append(None if skip else fresh_process("curves", "step_memory", **arguments))
        print(f"  N={nodes}: ours {number(curves['ours'][-1])} GB", flush=True)
    return curves


def measure(rates: dict[str, float], quick: bool = False) -> dict[str, Any]:
    nodes, densities = (60, (0.1, 1.0)) if quick else (2000, DENSITIES)
    sizes, memory_sizes = ((20, 60), (60,)) if quick else (SIZES, MEMORY_SIZES)
    over_density = timed([workload(nodes, d, quick) for d in densities], quick)
    over_size = timed([workload(n, DENSITY, quick) for n in sizes], quick)
    return {
        "batch": BATCH,
        "features": FEATURES,
        "density": {"nodes": nodes, "x": list(densities), "ms": over_density},
        "size": {"density": DENSITY, "x": list(sizes), "ms": over_size},
        "memory": {"density": DENSITY, "x": list(memory_sizes), "GB": memory(memory_sizes, quick)},
    }


def report(result: dict[str, Any]) -> str:
    parts = []
    for key, unit, axis in (("density", "ms", "density"), ("size", "ms", "N"), ("memory", "GB", "N")):
        curve = result[key]
        fixed = f"N = {curve['nodes']}" if key == "density" else f"density {curve['density']:g}"
        rows = [[f"{x:g}", *(number(curve[unit][n][i]) for n in NAMES)] for i, x in enumerate(curve["x"])]
        parts.append(f"Against {axis} at {fixed}, {unit}:\n\n" + markdown([axis, *NAMES], rows))
    title = f"## A training step of one filter, {result['batch']} samples, {result['features']} features"
    return "\n\n".join([title, *parts])


if __name__ == "__main__":
    run_part(__doc__, "curves", measure, report)
