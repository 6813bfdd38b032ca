"""Run the jobs of an experiment that have no result yet, and write every result to disk as soon as it exists."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rich.progress import TextColumn, TimeRemainingColumn

from svnn._cluster import Scheduler
from svnn._jobs import Job, Row
from svnn._progress import progress_bar
from svnn._workers import run_jobs
from svnn.paper.experiments._run_folder import Record, RunFolder
from svnn.paper.experiments._settings import Settings

AnySettings = TypeVar("AnySettings", bound=Settings)
#: Without a terminal for a bar, a line tells the progress after so many seconds.
_SECONDS_BETWEEN_LINES = 120.0


@dataclass
class Outcome:
    """The results of a run, in the order of its jobs."""

    rows: list[Row] = field(default_factory=list)
    timings: list[Row] = field(default_factory=list)
    failures: list[Row] = field(default_factory=list)


def run(
    name: str,
    plan: Callable[[AnySettings, list[Row]], list[Job]],
    settings: AnySettings,
    folder: Path,
    *,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
) -> Outcome:
    """Run the jobs of an experiment that have no result in the folder yet.

    Parameters
    ----------
    name : str
        A name for the progress bar and the manifest.
    plan : callable
        ``plan(settings, rows)`` returns the jobs. When all of them have ended it is called again with their rows, so
        that later jobs can build on earlier results, until it returns no new job.
    settings : Settings
    folder : Path
        The folder of ``results.jsonl`` and ``manifest.json``.
    workers : int, optional
        The number of processes, by default one. With a scheduler it is the largest number of jobs at the same time.
    scheduler : str or distributed.Client, optional
        The address of a Dask scheduler, or a client: the jobs run on its workers.
    fresh : bool
        Delete the results that the folder has, and start over.
    retry_failed : bool
        Run jobs again that have failed before.

    Returns
    -------
    Outcome
        It does not depend on the workers, their number or where they are, nor on how often the run was interrupted.
    """
    store = RunFolder(folder)
    records = store.open(settings, fresh)
    store.describe(settings, experiment=name, finished=False)
    again = {key for key, record in records.items() if record["status"] == "failed"} if retry_failed else set()
    jobs: list[Job] = []
    said = time.monotonic()
    columns = TextColumn("{task.fields[failed]} failed"), TextColumn("left"), TimeRemainingColumn()
    with progress_bar(*columns) as bar:
        task = bar.add_task(name, total=None, failed=0)
        while True:
            planned = plan(settings, collect(jobs, records).rows)
            if [job.name for job in planned] == [job.name for job in jobs]:
                break
            jobs = planned
            todo = [job for job in jobs if job.name not in records or job.name in again]
            done = len(jobs) - len(todo)
            bar.update(task, total=len(jobs), completed=done)
            with closing(run_jobs(todo, workers, scheduler)) as ends:
                for job, ended in ends:
                    records[job.name] = {"name": job.name, "key": job.key, **ended}
                    store.append(records[job.name])
                    again.discard(job.name)
                    done += 1
                    bar.update(task, completed=done, failed=len(collect(jobs, records).failures))
                    if bar.disable and time.monotonic() > said + _SECONDS_BETWEEN_LINES:
                        said = time.monotonic()
                        print(f"{name}: {done} of {len(jobs)} jobs done", file=sys.stderr, flush=True)
    outcome = collect(jobs, records)
    store.describe(settings, experiment=name, finished=True, jobs=len(jobs), failed=len(outcome.failures))
    return outcome


def collect(jobs: list[Job], records: Mapping[str, Record]) -> Outcome:
    """Return the rows of the jobs, the times that they measured, and the failures."""
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
    """Say whether a column holds measured times, which differ from run to run."""
    return name.endswith("_seconds")
