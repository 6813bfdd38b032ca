"""Run the jobs of an experiment that are not done yet, and keep every result from the moment it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from svnn.experiments._jobs import Job, Row
from svnn.experiments._pool import Pool
from svnn.experiments._store import Store

#: From the settings and the rows so far to the jobs; called again while it names new ones.
Plan = Callable[[Mapping[str, Any], list[Row]], list[Job]]
#: Seconds between two lines on the progress where there is no terminal for a bar.
_QUIET = 120.0


@dataclass
class Outcome:
    """What a run has, in the order of its jobs."""

    rows: list[Row] = field(default_factory=list)
    timings: list[Row] = field(default_factory=list)
    failures: list[Row] = field(default_factory=list)


def run(
    name: str,
    plan: Plan,
    settings: Mapping[str, Any],
    folder: Path,
    *,
    workers: int = 1,
    fresh: bool = False,
    retry_failed: bool = False,
) -> Outcome:
    """Run what is missing of an experiment.

    Parameters
    ----------
    name : str
        For the progress bar and the manifest.
    plan : callable
        ``plan(settings, rows)`` returns the jobs. It is called again with the rows of all of them once they
        ended, so that later jobs may build on earlier results, until it names no new one.
    settings : dict
    folder : Path
        Holds ``results.jsonl`` and ``manifest.json``. What is there already is not run again.
    workers : int
        Processes beside each other.
    fresh : bool
        Forget what is there.
    retry_failed : bool
        Run the jobs again that are there as failed.

    Returns
    -------
    Outcome
        The same, whatever the number of workers and however often the run was interrupted.
    """
    store = Store(folder)
    records = store.open(settings, fresh)
    store.describe(settings, experiment=name, finished=False)
    again = {key for key, record in records.items() if record["status"] == "failed"} if retry_failed else set()
    jobs: list[Job] = []
    said = time.monotonic()
    with Pool(workers) as pool, _progress() as bar:
        task = bar.add_task(name, total=None, failed=0)
        while True:
            planned = plan(settings, _collect(jobs, records).rows)
            if [job.name for job in planned] == [job.name for job in jobs]:
                break
            jobs = planned
            todo = [job for job in jobs if job.name not in records or job.name in again]
            done = len(jobs) - len(todo)
            bar.update(task, total=len(jobs), completed=done)
            for job, result in _work(pool, todo):
                records[job.name] = {"name": job.name, "key": job.key, **result}
                store.append(records[job.name])
                again.discard(job.name)
                done += 1
                bar.update(task, completed=done, failed=len(_collect(jobs, records).failures))
                if time.monotonic() > said + _QUIET and not bar.console.is_terminal:
                    said = time.monotonic()
                    bar.console.print(f"{name}: {done} of {len(jobs)} jobs done", highlight=False)
    outcome = _collect(jobs, records)
    counts = {"jobs": len(jobs), "failed": len(outcome.failures)}
    store.describe(settings, experiment=name, finished=True, **counts)
    return outcome


def _work(pool: Pool, jobs: list[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield jobs with their results: first those that may run beside each other, then the others one by one."""
    yield from pool.work([job for job in jobs if not job.alone])
    yield from pool.work([job for job in jobs if job.alone], size=1)


def _collect(jobs: list[Job], records: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """Return the rows of the jobs, timings apart, and the failures."""
    outcome = Outcome()
    for job in jobs:
        record = records.get(job.name)
        if record is None:
            continue
        if record["status"] == "failed":
            outcome.failures.append({**job.key, "error": record["error"]})
            continue
        for row in record["rows"]:
            outcome.rows.append({**job.key, **{k: v for k, v in row.items() if not is_timing(k)}})
        for row in [row for row in record["rows"] if any(map(is_timing, row))] or [{}]:
            labels = {k: v for k, v in row.items() if is_timing(k) or not isinstance(v, float)}
            outcome.timings.append({**job.key, **labels, "job_seconds": record["seconds"]})
    return outcome


def is_timing(name: str) -> bool:
    """Say whether a column holds times, which differ from run to run."""
    return name.endswith("_seconds")


def _progress() -> Progress:
    screen = Console(stderr=True)
    screen.quiet = not screen.is_terminal  # before its version 14.3, rich ends even a disabled bar with an empty line
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=screen.quiet,
        speed_estimate_period=600,
    )
