"""Jobs that take a moment, fail or die, for the tests of the runner.

``python toys.py FOLDER JOBS PAUSE LINES`` runs them, and is killed with its workers once it has written LINES lines.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from svnn._jobs import Job, derive_seed
from svnn.paper.experiments._run_folder import RunFolder
from svnn.paper.experiments._runner import run
from svnn.paper.experiments._settings import Settings
from svnn.paper.experiments._summaries import summarise, write_csv


@dataclass(frozen=True, kw_only=True)
class ToySettings(Settings):
    repeats: int = 2
    pause: float = 0.0


def toss(model, repeat, pause, seed=0):
    rng = np.random.default_rng(derive_seed(seed, model, repeat))
    time.sleep(pause * rng.random())
    return [{"draw": i, "score": float(rng.normal()), "toss_seconds": time.perf_counter()} for i in range(2)]


def refine(model, start):
    return [{"draw": 0, "score": start / 2}]


def fail(model, repeat, marker):
    if not Path(marker).exists():
        raise ValueError(f"no luck with {model}")
    return [{"draw": 0, "score": 1.0}]


def die(model, repeat):
    os.kill(os.getpid(), signal.SIGKILL)


def threads(repeat):
    return [{"threads": os.environ["OMP_NUM_THREADS"]}]


def plan(settings, rows):
    first = [
        Job(toss, {"model": m, "repeat": r}, {"pause": settings.pause})
        for m in ("a", "b", "c")
        for r in range(settings.repeats)
    ]
    if not rows:
        return first
    # The second stage builds on the best of the first.
    best = max(row["score"] for row in rows if "repeat" in row)
    return [*first, Job(refine, {"model": "best", "start": best}, alone=True)]


def write(outcome, folder):
    rows = pd.DataFrame(outcome.rows)
    write_csv(folder / "results.csv", rows)
    write_csv(folder / "summary.csv", summarise(rows, ["model"], ["score"]))


def killed_after(lines):
    """Let SIGKILL end this process and its workers right after it has written this number of lines."""
    append, left = RunFolder.append, [lines]

    def then_die(store, record):
        append(store, record)
        left[0] -= 1
        if left[0] == 0:
            os.killpg(0, signal.SIGKILL)

    RunFolder.append = then_die


if __name__ == "__main__":
    # Where the tests run in the background of a shell, what they start would not hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    target, workers, pause, lines = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    killed_after(lines)
    import toys  # workers find functions of modules, not those of this program

    write(run("toys", toys.plan, toys.ToySettings(repeats=5, pause=pause), target, workers=workers), target)
