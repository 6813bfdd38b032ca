"""A process with limits of time and memory, which count the processes that it starts too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import _graph_ways
from _measure import number

TIME = "processor seconds"
#: Seconds of the clock after which a process is stopped whatever it used.
CLOCK = 400.0


def threads(way: str) -> dict[str, str]:
    """Return the environment in which a way uses two threads: of BLAS, or its own with one of BLAS each."""
    count = str(_graph_ways.THREADS if way in ("ours", "numpy") else 1)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return os.environ | dict.fromkeys(names, count)


def memory_of_group(group: int) -> float:
    """Return the memory of a group of processes in GB, counting once what they share."""
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[2]) == group:
                members.append(folder)
        except (OSError, IndexError):  # it has ended
            continue
    key, file = ("Pss:", "smaps_rollup") if len(members) > 1 else ("VmRSS:", "status")
    total = 0
    for folder in members:
        try:
            lines = (folder / file).read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(key))
    return total / 1e6


def limited(
    command: list[str], environment: dict[str, str], seconds: float, gb: float, clock: float = CLOCK
) -> dict[str, Any]:
    """Run a program that prints a result as JSON on its last line; stop it, and say so, at a limit."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors, env=environment, start_new_session=True)
        started, peak, stopped = time.perf_counter(), 0.0, dict[str, Any]()
        try:
            while not stopped and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                time.sleep(0.1)
                peak = max(peak, memory_of_group(child.pid))
                if peak > gb:
                    stopped = {"stopped": f"> {number(gb)} GB", "at least": {"peak GB": gb}}
                elif _graph_ways.processor_seconds(child.pid) > seconds:
                    stopped = {"stopped": f"> {number(seconds)} s", "at least": {TIME: seconds}}
                elif time.perf_counter() - started > clock:
                    stopped = {"stopped": f"> {number(clock)} s of the clock"}
        finally:
            os.killpg(child.pid, signal.SIGKILL)  # with the processes that it started; it is not waited for yet
            child.wait()
        if stopped:
            return stopped | {"peak GB": peak}
        output.seek(0)
        errors.seek(0)
        if child.returncode:
            text = errors.read()
            last = (text.strip().splitlines() or [f"status {child.returncode}"])[-1]
            return {"stopped": "out of memory" if "MemoryError" in text else "failed", "message": last}
        result: dict[str, Any] = json.loads(output.read().splitlines()[-1])
        return result | {"peak GB": max(peak, result["peak GB"])}
