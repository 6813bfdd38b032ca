"""A Dask cluster of two worker processes, one of them killed while it works: the same edges as on one machine?

``HardThreshold()`` of 50,000 features and 2,000 samples, chunked both ways. The workers have one thread and 3 GB each.
When some tasks are done, the worker that holds most of the data is killed by SIGKILL; Dask starts another, and what it
held is computed again. Then the same fit runs without a cluster.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from _measure import markdown, number, run_part
from distributed import Client, LocalCluster, SchedulerPlugin

from svnn import HardThreshold

FULL = {"n": 50_000, "t": 2000, "chunks": (500, 6000), "limit": 4096}
QUICK = {"n": 900, "t": 200, "chunks": (70, 400), "limit": 0}
MEMORY = "3GB"
#: Finished pairs of panels after which a worker is killed.
DEATH = 5


class Watch(SchedulerPlugin):
    """Counts finished tasks by the names of their functions; when enough pairs are done it kills a worker.

    It takes the one that holds most panels. ``pids`` are the processes of the workers, by their addresses; without
    them it only counts.
    """

    def __init__(self, scheduler: Any, pids: dict[str, int] | None = None) -> None:
        self.scheduler, self.pids, self.done, self.killed = scheduler, pids, Counter(), 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        if start != "processing" or finish != "memory":
            return
        # A key ends in a random number, or in a hash of the arguments.
        name = key.rsplit("-", 5)[0] if isinstance(key, str) else str(key[0]).rsplit("-", 1)[0]
        self.done[name] += 1
        if self.pids and not self.killed and self.done["_answered"] >= DEATH:
            panels = [task for task in self.scheduler.tasks.values() if str(task.key).startswith("_standardised")]
            held = Counter(worker.address for task in panels for worker in task.who_has)
            self.killed = self.pids[held.most_common(1)[0][0]]
            os.kill(self.killed, signal.SIGKILL)


class Peaks(threading.Thread):
    """Looks at the memory of processes twice a second, and keeps the peak of each."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(daemon=True)
        self.cluster, self.peaks, self.over = cluster, {}, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            for nanny in list(self.cluster.workers.values()):
                pid = getattr(nanny, "pid", None)
                path = Path(f"/proc/{pid}/status")
                try:
                    lines = path.read_text().splitlines()
                except OSError:
                    continue
                for line in lines:
                    if line.startswith("VmHWM:"):
                        self.peaks[pid] = int(line.split()[1]) / 1e6


def made_up(n: int, t: int, chunks: tuple[int, int]) -> da.Array:
    """Return noise, in which features in groups of five share some: every chunk is a function of its place alone."""

    def block(block_info: Any = None) -> np.ndarray:
        (a, b), (c, d) = block_info[None]["array-location"]
        first, last = c // 5, (d - 1) // 5 + 1
        shared = [np.random.default_rng([1, g, a]).standard_normal(b - a, dtype=np.float32) for g in range(first, last)]
        own = np.random.default_rng([2, a, c]).standard_normal((b - a, d - c), dtype=np.float32)
        return own + np.column_stack(shared)[:, np.arange(c, d) // 5 - first]

    shape = da.zeros((t, n), chunks=chunks, dtype=np.float32)
    return da.map_blocks(block, chunks=shape.chunks, dtype=np.float32)


def incoming(dask_worker: Any) -> float:
    """Return the bytes that a worker has fetched from others."""
    return float(sum(entry["total"] for entry in dask_worker.transfer_incoming_log))


def on_cluster(X: da.Array, model: HardThreshold) -> tuple[Any, dict[str, Any]]:
    """Fit on two worker processes, one of which dies."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": MEMORY, "dashboard_address": ":0"}
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "2 minutes"})  # a busy machine starts slowly
    with patient, LocalCluster(processes=True, **settings) as cluster:
        return with_a_death(X, model, cluster)


def with_a_death(X: da.Array, model: HardThreshold, cluster: LocalCluster) -> tuple[Any, dict[str, Any]]:
    """Fit on a cluster, and kill a worker in the middle."""
    with Client(cluster) as client:
        client.run(_warm)
        watch, peaks = Watch(cluster.scheduler, client.run(os.getpid)), Peaks(cluster)
        cluster.scheduler.add_plugin(watch, name="watch")
        peaks.start()
        started = time.perf_counter()
        try:
            found = model.fit(X).covariance_
        finally:
            peaks.over.set()
            cluster.scheduler.remove_plugin("watch")
        seconds = time.perf_counter() - started
        moved = sum(client.run(incoming).values())
        peaks.join()
        assert watch.killed, "no worker was killed"
        return found, {
            "seconds": seconds,
            "GB at most, of each worker": sorted(peaks.peaks.values(), reverse=True),
            "GB fetched by the workers that live": moved / 1e9,
            "tasks done": dict(watch.done),
            "panels computed again": watch.done["_standardised"] - watch.done["_small"],
            "pairs computed": watch.done["_answered"],
        }


def _warm() -> None:
    HardThreshold(dense_limit=0).fit(np.random.default_rng(0).standard_normal((20, 300)))


def measure(rates: dict[str, float], quick: bool = False) -> dict[str, Any]:
    return compare(QUICK if quick else FULL, on_cluster)


def compare(size: dict[str, Any], fit: Callable[..., tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    """Return what was measured by ``fit`` on the cluster and here; an error says where the edges differ."""
    X = made_up(size["n"], size["t"], size["chunks"])
    model = HardThreshold(dense_limit=size["limit"])
    _warm()
    found, row = fit(X, model)
    print(f"  on the cluster: {number(row['seconds'])} s", flush=True)
    here = X.compute()
    started = time.perf_counter()
    expected = model.fit(here).covariance_
    row["seconds here"] = time.perf_counter() - started
    same = np.array_equal(found.indptr, expected.indptr) and np.array_equal(found.indices, expected.indices)
    assert same, "the cluster found other edges"
    difference = float(abs(found.data - expected.data).max())
    assert difference <= 1e-6 * float(abs(expected.data).max()), f"values differ by {difference}"
    return {"N": size["n"], "t": size["t"], "edges": (found.nnz - size["n"]) // 2, "difference": difference, **row}


def table(row: dict[str, Any]) -> str:
    """Return what was measured."""
    rows = [
        ["features × samples", f"{row['N']:,} × {row['t']:,}"],
        ["edges", f"{row['edges']:,}"],
        ["seconds on two workers, one killed", number(row["seconds"])],
        ["seconds in one process", number(row["seconds here"])],
        ["largest difference of a covariance", f"{row['difference']:.2g}"],
        ["peak GB of each worker process", ", ".join(map(number, row["GB at most, of each worker"]))],
        ["GB fetched by the workers that live", number(row["GB fetched by the workers that live"])],
        ["panels computed again", row["panels computed again"]],
        ["pairs of panels computed", row["pairs computed"]],
    ]
    return markdown(["", ""], rows)


def report(row: dict[str, Any]) -> str:
    return f"## A cluster of two workers, one of them killed\n\n{table(row)}"


if __name__ == "__main__":
    run_part(__doc__, "cluster", measure, report)
