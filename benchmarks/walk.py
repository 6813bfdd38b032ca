"""How much of the code a reader crosses in one ``fit``: files, functions, switches between files, depth.

A profiler follows small jobs through the package and counts what is entered. Kernels of numba are machine code
and count as nothing, the Python functions that start them count.

    python benchmarks/walk.py            # the table
    python benchmarks/walk.py --list fit # every function of one job, in the order of the first visit
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

import svnn
import svnn.stability
from svnn import HardThreshold, SVNNRegressor

PACKAGE = str(Path(svnn.__file__).parent)


@dataclass
class Walk:
    """What a profiler saw: functions in the order of their first visit, switches between files, largest depth."""

    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    switches: int = 0
    depth: int = 0

    @property
    def files(self) -> list[str]:
        """The files entered, in the order of the first visit."""
        return list(dict.fromkeys(file for file, _ in self.functions))


def walk(job: Callable[[], Any]) -> Walk:
    """Follow ``job`` through the package."""
    seen = Walk()
    stack: list[str] = []

    def follow(frame: FrameType, event: str, _: Any) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        # Comprehensions are part of the function that they stand in.
        if not file.startswith(PACKAGE) or name.rpartition(".")[2] in ("<listcomp>", "<genexpr>", "<dictcomp>"):
            return
        if event == "call":
            seen.functions.setdefault((file[len(PACKAGE) + 1 :], name))
            seen.switches += bool(stack) and stack[-1] != file
            stack.append(file)
            seen.depth = max(seen.depth, len(stack))
        elif event == "return" and stack:
            stack.pop()

    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def jobs() -> dict[str, Callable[[], Any]]:
    """Return the jobs, each run once before so that nothing is imported or compiled in them."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    wide = rng.standard_normal((40, 300))
    model = SVNNRegressor(max_epochs=3, random_state=0).fit(X, y)
    other = HardThreshold().fit(X[:30])
    found: dict[str, Callable[[], Any]] = {
        "fit": lambda: SVNNRegressor(max_epochs=3, random_state=0).fit(X, y),
        "predict": lambda: model.predict(X),
        "tiled HardThreshold.fit": lambda: HardThreshold(dense_limit=100).fit(wide),
        "certificate": lambda: svnn.stability.certificate(model, model.covariance_, other, X),
    }
    for job in found.values():
        job()
    return found


def main() -> None:
    """Print the table, or the walk of one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="JOB", help="print every function of one job")
    chosen = parser.parse_args().list
    if chosen:
        for file, name in walk(jobs()[chosen]).functions:
            print(f"{file:45s} {name}")
        return
    print(f"{'job':26s}{'files':>8s}{'functions':>11s}{'switches':>10s}{'depth':>7s}")
    for name, job in jobs().items():
        seen = walk(job)
        print(f"{name:26s}{len(seen.files):8d}{len(seen.functions):11d}{seen.switches:10d}{seen.depth:7d}")


if __name__ == "__main__":
    main()
