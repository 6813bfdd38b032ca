"""What every benchmark needs: fair timing, the machine's peaks, fresh processes, tables, files."""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

#: A call slower than this many seconds is measured once, others at least three times.
SLOW = 1.0
#: One slower than this is not even made twice: the call that checked its result is its measurement.
VERY_SLOW = 5.0
#: Fast calls are made in bursts of this many seconds, so that each finds its own data in the cache.
BURST = 0.03


def once(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def round_robin(
    calls: dict[str, Callable[[], Any]], seconds: float = 0.5, first: dict[str, float] | None = None
) -> dict[str, float]:
    """Return the median time of every call in seconds, taken in turns so that noise hits all alike.

    The calls have to be warm. ``first`` holds the times of calls made just before: a very slow one
    is not made again.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for name in calls:
        if first and first.get(name, 0.0) > VERY_SLOW:
            times[name].append(first[name])

    def done(taken: list[float]) -> bool:
        return bool(taken) and (taken[0] > SLOW or (len(taken) >= 3 and sum(taken) >= seconds))

    while waiting := [name for name in calls if not done(times[name])]:
        for name in waiting:
            started, burst = time.perf_counter(), [once(calls[name])]
            while time.perf_counter() - started < BURST:
                burst.append(once(calls[name]))
            # The first call of a burst finds the caches as the others left them.
            times[name] += burst[1:] or burst
    return {name: statistics.median(taken) for name, taken in times.items()}


def machine() -> dict[str, Any]:
    """Return what was measured on: processor, cores, threads and versions."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    versions = {"python": platform.python_version()}
    for package in ("torch", "numpy", "scipy", "numba", "torch_geometric", "svnn"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "cpu": name,
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def sgemm(n: int) -> Callable[[], Any]:
    """Return a float32 matrix product of 2n³ operations, to be timed beside others."""
    a, b, out = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
    torch.mm(a, b, out=out)
    return lambda: torch.mm(a, b, out=out)


def peaks(quick: bool = False) -> dict[str, float]:
    """Return the best rates seen here: float32 matrix product in GFLOP/s and copy in GB/s (read + written)."""
    best = 0.0
    for n in (512,) if quick else (1024, 2048, 3072):
        product = sgemm(n)
        best = max(best, 2 * n**3 / min(once(product) for _ in range(3 if quick else 8)) / 1e9)
    source = torch.ones(2**22 if quick else 2**26)
    target = torch.ones_like(source)
    copy = 8 * len(source) / min(once(lambda: target.copy_(source)) for _ in range(8)) / 1e9
    return {"sgemm GFLOP/s": best, "copy GB/s": copy}


def describe(where: dict[str, Any], rates: dict[str, float]) -> str:
    versions = ", ".join(f"{name} {text}" for name, text in where["versions"].items())
    load = where["load"] or 0.0
    busy = f"\nThe machine was busy at the start (load {load:.1f}): expect noise." if load > 0.5 else ""
    return (
        f"Machine: {where['cpu']}, {where['cores']} cores, {where['torch threads']} torch threads; float32.\n"
        f"Measured peaks: sgemm {rates['sgemm GFLOP/s']:.0f} GFLOP/s, "
        f"copy {rates['copy GB/s']:.1f} GB/s (read + written).\nVersions: {versions}.{busy}"
    )


# -- memory ---------------------------------------------------------------------------------------


def resident(peak: bool = False) -> float:
    """Return the resident memory of this process, or its peak, in GB."""
    status = Path("/proc/self/status")
    if status.exists():  # the kernel's own peak; rusage would start from the parent's
        key = "VmHWM:" if peak else "VmRSS:"
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(key)) / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)


def forget_peak() -> None:
    """Let the peak start anew from what is resident now, where the system can."""
    control = Path("/proc/self/clear_refs")
    if control.exists():
        control.write_text("5")


def available_gb() -> float:
    """Return the memory that can still be taken, in GB; unknown is infinite."""
    lines = Path("/proc/meminfo").read_text().splitlines() if os.path.exists("/proc/meminfo") else []
    return next((int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable")), float("inf"))


def fresh_process(module: str, function: str, **arguments: Any) -> Any:
    """Return ``module.function(**arguments)`` of this folder, run in a process of its own."""
    folder = str(Path(__file__).parent)
    code = (
        f"import json, sys; sys.path.insert(0, {folder!r}); import {module}; "
        f"result = {module}.{function}(**json.loads(sys.argv[1])); print(); print(json.dumps(result))"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(arguments)], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{module}.{function} ended with status {done.returncode}: {last}")
    return json.loads(done.stdout.splitlines()[-1])


# -- reports --------------------------------------------------------------------------------------


def markdown(headers: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table whose columns line up, so that it reads well unrendered too."""
    table = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(3, *(len(row[i]) for row in table)) for i in range(len(table[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in table]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def number(value: float | None, digits: int = 3) -> str:
    """Return three significant digits without an exponent, or a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def write_json(folder: str | Path, name: str, result: Any) -> Path:
    path = Path(folder) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def parser(doc: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="tiny workloads: does it run? The times mean nothing")
    made.add_argument("--out", default="runs/bench", help="folder for the JSON and the plot")
    return made


def run_part(
    doc: str | None, name: str, measure: Callable[..., Any], report: Callable[[Any], str], **flags: str
) -> None:
    """Measure one part from the command line: peaks first, then the part, its table and its JSON.

    ``flags`` are further switches of the part and their help; ``measure`` takes them as keywords.
    """
    made = parser(doc)
    for flag, text in flags.items():
        made.add_argument(f"--{flag}", action="store_true", help=text)
    options = made.parse_args()
    where, rates = machine(), peaks(options.quick)
    result = measure(rates, options.quick, **{flag: getattr(options, flag) for flag in flags})
    print(describe(where, rates), report(result), sep="\n\n")
    print("\nwritten:", write_json(options.out, name, {"machine": where, "peaks": rates, name: result}))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a CSV file, in place of what it held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
