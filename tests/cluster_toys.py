"""Jobs for the tests of clusters; the workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def add(number, table):
    return [{"sum": float(table.sum() + number), "writeable": bool(table.flags.writeable)}]


def wait_for_go(number, folder, table):
    """Leave a file that says which process works, and wait for the file `go`."""
    Path(folder, f"{number}-{os.getpid()}").touch()
    deadline = time.monotonic() + 60
    while not Path(folder, "go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return [{"sum": float(table.sum() + number)}]


def alone(number, folder):
    """Fail where another job runs at the same time."""
    path = Path(folder, "running")
    path.touch(exist_ok=False)
    time.sleep(0.05)
    path.unlink()
    return [{"number": number}]


def fail(number):
    raise ValueError(f"no luck with {number}")


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def threads(number):
    import torch
    from threadpoolctl import threadpool_info

    return [{"threads": max([torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())])}]
