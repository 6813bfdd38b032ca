"""Correlation graphs by svnn, numpy, Dask, deepgraph and CorALS as N grows: time and peak memory on two threads.

Two questions: the 0.1 % of all pairs with the largest |r|, and the pairs that are among the ten largest of
either feature. One in ten features of the float32 data belongs to a group of twenty that are correlated. Every
measurement has a process of its own, whose time and memory (with that of its own processes) have a limit; a
library that passed one, or would by the square of N, is not asked for more features. Times are of the
processors, all threads together, which other work on the machine changes least; the file has those of the clock
too. The libraries take turns with svnn: a ratio is to the run of svnn just before. What the exact ones find is
compared with what svnn finds.

``make bench-graph`` makes an environment with the libraries and writes ``docs/results/graph.json`` and
``graph.png``; ``--table`` prints the tables of ``docs/speed.md`` from that file and draws it again.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import Any

import _graph_plot
import _graph_ways
import numpy as np
from _graph_limits import TIME, limited, threads
from _measure import available_gb, describe, machine, markdown, number, parser, peaks, write_json
from scale import data

RESULTS = Path(__file__).parents[1] / "docs" / "results"
#: Where a library comes from, and whether all that it finds is right.
PACKAGES = {"numpy": "numpy", "Dask": "dask", "deepgraph": "deepgraph", "CorALS": "corals"}
EXACT = ("numpy", "Dask", "deepgraph")
CUML = "cuML is left out: it computes on NVIDIA GPUs only, and this is a benchmark of processors."
SHARE, TOP_K = 0.001, 10
#: An exact result has this share of our edges, and their |r| up to this.
SAME, ROUNDING = 0.999, 1e-5
#: Limits of a process: seconds of the processors, and memory.
SECONDS, GB = 150.0, 12.0
SIZES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
#: Question, samples, sizes, and who can answer it.
SERIES: tuple[tuple[dict[str, Any], int, tuple[int, ...], tuple[str, ...]], ...] = (
    ({"share": SHARE}, 100, SIZES, ("numpy", "Dask", "deepgraph", "CorALS")),
    ({"top_k": TOP_K}, 100, (1000, 5000, 10_000, 20_000, 50_000, 100_000), ("numpy", "Dask")),
    ({"share": SHARE}, 500, (20_000,), ("numpy", "Dask", "deepgraph", "CorALS")),
)
QUICK = (({"share": 0.02}, 40, (150,), tuple(PACKAGES)), ({"top_k": 3}, 40, (150,), ("numpy",)))


# -- one measurement ------------------------------------------------------------------------------


def run(way: str, question: dict[str, Any], table: Path, quick: bool) -> dict[str, Any]:
    """Measure one way on a stored table in a process of its own; it leaves its edges in ``{way}.npz`` beside it."""
    arguments = {"way": way, "question": question, "table": str(table), "out": str(table.with_name(f"{way}.npz"))}
    program = str(Path(__file__).with_name("_graph_ways.py"))
    command = [sys.executable, program, json.dumps(arguments | {"enough": 0.0 if quick else 1.0})]
    load = os.getloadavg()[0]
    return limited(command, threads(way), SECONDS, min(GB, available_gb() - 1)) | {"load": load}


def compare(ours: Path, theirs: Path) -> dict[str, float]:
    """Return the share of our edges that they have too, and how far |r| differs on those."""
    with np.load(ours) as a, np.load(theirs) as b:
        shared, mine, other = np.intersect1d(a["keys"], b["keys"], assume_unique=True, return_indices=True)
        apart = np.abs(a["r"][mine] - b["r"][other]).max(initial=0)
        return {"shared": len(shared) / len(a["keys"]), "apart": float(apart)}


# -- all of them ----------------------------------------------------------------------------------


def measure(quick: bool = False) -> list[dict[str, Any]]:
    """Return a row for every question, size and library, and one of ours beside each of them."""
    rows: list[dict[str, Any]] = []
    for question, samples, sizes, ways in QUICK if quick else SERIES:
        series: list[dict[str, Any]] = []
        for n in sizes:
            with tempfile.TemporaryDirectory() as folder:
                table = Path(folder) / "table.npy"
                np.save(table, data(n, samples))
                named = {**question, "t": samples, "N": n}
                for row in of_size(named, question, table, ways, series, quick):
                    series.append(row)
                    print(f"  {question}, t={samples}, N={n}, {row['way']}: {cell(row)}", flush=True)
        rows += series
    return rows


def of_size(
    named: dict[str, Any],
    question: dict[str, Any],
    table: Path,
    ways: tuple[str, ...],
    series: list[dict[str, Any]],
    quick: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one size: a library after a run of ours, as long as there is something to compare."""
    row: dict[str, Any] = {}
    for way in ways:
        why = "not installed" if not find_spec(PACKAGES[way]) else reason_not_to(way, named["N"], series)
        if why:
            yield {**named, "way": way, "left out": why}
            continue
        if not row or not quick:
            row = {**named, "way": "ours"} | run("ours", question, table, quick)
            yield row
        theirs = {**named, "way": way} | run(way, question, table, quick)
        if "seconds" in theirs:
            theirs |= compare(table.with_name("ours.npz"), table.with_name(f"{way}.npz"))
            theirs["ratio"] = theirs[TIME] / row[TIME]
            theirs["ratio by the clock"] = theirs["seconds"] / row["seconds"]
            if way in EXACT and (theirs["shared"] < SAME or theirs["apart"] > ROUNDING):
                theirs["differs"] = True
        yield theirs
    if not row:
        yield {**named, "way": "ours"} | run("ours", question, table, quick)


def reason_not_to(way: str, n: int, series: list[dict[str, Any]]) -> str:
    """Say what would pass its limit at N by what a way did with fewer features, or that something did already."""
    before = [row for row in series if row["way"] == way]
    if not before:
        return ""
    if "seconds" not in before[-1]:
        return "stopped before"
    square = (n / before[-1]["N"]) ** 2
    grown, seconds = square * (before[-1]["peak GB"] - before[-1]["GB before"]), square * before[-1][TIME]
    if way == "numpy" and grown > GB:  # the others do not hold the whole matrix
        return "memory"
    return "time" if seconds > 1.2 * SECONDS else ""


# -- tables ---------------------------------------------------------------------------------------


def cell(row: dict[str, Any] | None, key: str = TIME) -> str:
    """Return a measurement as text, with its ratio to ours where it is a time, or why there is none."""
    if row is None or row.get("left out") == "stopped before":
        return "–"
    if "seconds" not in row:
        return str(row.get("left out") or row["stopped"])
    ratio = f" ({number(row['ratio'], 2)} ×)" if key == TIME and "ratio" in row else ""
    return number(row[key]) + ratio + (" **differs**" if "differs" in row else "")


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with one of ours for each question and size: its median time, its largest memory."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row.get("share"), row.get("top_k"), row["t"], row["N"], row["way"]), []).append(row)
    merged = []
    for same in found.values():
        timed = [row for row in same if "seconds" in row]
        middle = {key: statistics.median(r[key] for r in timed) for key in (TIME, "seconds") if timed}
        merged.append(same[-1] | middle | ({"peak GB": max(r["peak GB"] for r in timed)} if timed else {}))
    return merged


def growth(rows: list[dict[str, Any]], way: str, key: str) -> str:
    """Return the power of N with which a column grows over the last two sizes that were measured."""
    points = [(row["N"], row[key]) for row in rows if row["way"] == way and "seconds" in row]
    if len(points) < 2:
        return "–"
    (n, a), (m, b) = points[-2:]
    return f"N^{log(b / a) / log(m / n):.1f}"


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return a title and a Markdown table for the seconds and the memory of every question."""
    found, rows = {}, summarise(rows)
    for share, top_k, samples in dict.fromkeys((r.get("share"), r.get("top_k"), r["t"]) for r in rows):
        of = [r for r in rows if (r.get("share"), r.get("top_k"), r["t"]) == (share, top_k, samples)]
        ways = ["ours", *(way for way in PACKAGES if any(r["way"] == way for r in of))]
        task = f"The {100 * share:g} % strongest pairs" if share else f"The {top_k} strongest of every feature"
        for key, unit in ((TIME, "seconds of the processors (times svnn's)"), ("peak GB", "peak GB")):
            lines = []
            for n in dict.fromkeys(r["N"] for r in of):
                at = {r["way"]: r for r in of if r["N"] == n}
                lines.append([f"{n:,}", *(cell(at.get(way), key) for way in ways)])
            if len(lines) > 1:
                lines.append(["grows with", *(growth(of, way, key) for way in ways)])
            found[f"{task}, t = {samples}: {unit}"] = markdown(["N", "svnn", *ways[1:]], lines)
    return found


def report(rows: list[dict[str, Any]]) -> str:
    text = [f"{title}\n\n{table}" for title, table in tables(rows).items()]
    if any(row.get("left out") in ("memory", "time") for row in rows):
        text.append("memory, time: not run, as it would pass the limit by the square of N.")
    approximate = [f"{r['N']:,} × {r['t']}: {r['shared']:.1%}" for r in rows if r["way"] == "CorALS" and "shared" in r]
    if approximate:
        text.append("Share of the strongest pairs that CorALS finds, which is approximate: " + ", ".join(approximate))
    missing = sorted({row["way"] for row in rows if row.get("left out") == "not installed"})
    if missing:
        text.append(f"Not installed here, so left out: {', '.join(missing)}. `make bench-graph` installs them.")
    return "\n\n".join([*text, CUML])


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES.values():
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--table", action="store_true", help="measure nothing: print and draw the stored result")
    chosen = options.parse_args()
    path = Path(chosen.out) / "graph.json"
    if chosen.table:
        result = json.loads(path.read_text())
    else:
        where, rates, begun = machine(), peaks(chosen.quick), time.perf_counter()
        where["versions"] |= versions()
        rows = measure(chosen.quick)
        limits = {TIME: SECONDS, "GB": GB, "threads": _graph_ways.THREADS}
        minutes = (time.perf_counter() - begun) / 60
        result = {"machine": where, "peaks": rates, "minutes": minutes, "limits": limits, "graph": rows}
        print("written:", write_json(chosen.out, "graph", result))
    print(describe(result["machine"], result["peaks"]), report(result["graph"]), sep="\n\n")
    print("written:", _graph_plot.draw(summarise(result["graph"]), path.with_suffix(".png")))
    return 1 if any("differs" in row for row in result["graph"]) else 0


if __name__ == "__main__":
    sys.exit(main())
