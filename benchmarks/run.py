"""The whole benchmark in one run: peaks, filters, curves, training, scale, auto; then all tables.

Ratios hold because rivals are timed in turns in this one run; milliseconds are this machine's, today.
Writes ``bench.json`` and ``bench.png``. ``gpu.py`` does the GPU part.
"""

from __future__ import annotations

import time
from pathlib import Path

import auto
import curves
import filters
import plot
import scale
import training
from _measure import describe, machine, parser, peaks, write_json

PARTS = {"filters": filters, "curves": curves, "training": training, "scale": scale, "auto": auto}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="only some of them")
    chosen = options.parse_args()
    started = time.perf_counter()
    where, rates = machine(), peaks(chosen.quick)
    print(describe(where, rates), flush=True)
    result = {"machine": where, "peaks": rates, "seconds": {}}
    for name in PARTS:
        if name in chosen.parts:
            print(f"\n{name} …", flush=True)
            begun = time.perf_counter()
            result[name] = PARTS[name].measure(rates, chosen.quick)
            result["seconds"][name] = time.perf_counter() - begun
    # The clock of a shared machine moves: the peaks once more, after everything.
    again = peaks(chosen.quick)
    result["peaks after"] = again
    for name in reversed(PARTS):  # the filters, which say the most, come last
        if name in result:
            print("\n" + PARTS[name].report(result[name]))
    print("\n" + describe(where, rates))
    print(f"At the end: sgemm {again['sgemm GFLOP/s']:.0f} GFLOP/s, copy {again['copy GB/s']:.1f} GB/s.")
    print(f"Took {(time.perf_counter() - started) / 60:.1f} minutes.")
    print("written:", write_json(chosen.out, "bench", result))
    if "curves" in result:
        print("written:", plot.draw(result["curves"], Path(chosen.out) / "bench.png"))


if __name__ == "__main__":
    main()
