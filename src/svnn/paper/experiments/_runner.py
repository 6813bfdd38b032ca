"""From settings to results: the jobs of an experiment are run, and every result is on disk as soon as it exists."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TypeGuard, TypeVar

from rich.progress import TextColumn, TimeRemainingColumn

from svnn import __version__
from svnn._cluster import Scheduler
from svnn._jobs import Ended, Job, Row
from svnn._progress import progress_bar
from svnn._versions import versions
from svnn._workers import run_jobs

#: Settings that only say which jobs there are. Where they change, the results of finished jobs can still be used.
EXTENT = ("repeats", "datasets", "models")
#: Without a terminal for a bar, a line reports the progress after this many seconds.
_SECONDS_BETWEEN_LINES = 120.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an experiment; every experiment adds fields of its own.

    They are stored beside the results. Results of other settings are never mixed with them.
    """

    seed: int = 0
    svnn: str = __version__

    def as_json(self) -> Row:
        """Return the settings as they look after they were written to a JSON file and read again."""
        stored: Row = json.loads(json.dumps(asdict(self)))
        return stored


AnySettings = TypeVar("AnySettings", bound=Settings)


def job_grid(run: Callable[..., list[Row]], settings: Settings, **axes: Iterable[object]) -> list[Job]:
    """Return a job for every combination of values, such as ``dataset=("ixi", "dsads"), repeat=range(5)``."""
    keys = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [Job(run, key, {"settings": settings}) for key in keys]


# -- jobs -----------------------------------------------------------------------------------------------------


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
        It depends neither on the number and place of the workers nor on how often the run was interrupted.
    """
    store = RunFolder(folder)
    records = store.open(settings, fresh)
    store.describe(settings, experiment=name, finished=False)
    again = {key for key, record in records.items() if record["status"] == "failed"} if retry_failed else set()
    jobs: list[Job] = []
    last_line = time.monotonic()
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
                    if bar.disable and time.monotonic() > last_line + _SECONDS_BETWEEN_LINES:
                        last_line = time.monotonic()
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
    """Return whether a column holds measured times, which differ from run to run."""
    return name.endswith("_seconds")


# -- results on disk ------------------------------------------------------------------------------------------


class Record(Ended):
    """A line of ``results.jsonl``: a job, and how it ended."""

    name: str
    key: Row


class RunFolder:
    """The folder of one experiment.

    ``results.jsonl`` has a line for every job that ended. Where two lines belong to the same job, the later one counts.
    ``manifest.json`` has the settings that the results belong to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results.jsonl"
        self.manifest = folder / "manifest.json"

    def open(self, settings: Settings, fresh: bool = False) -> dict[str, Record]:
        """Check that the results are of these settings, and return them by the names of their jobs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            self.results.unlink(missing_ok=True)
            self.manifest.unlink(missing_ok=True)
        self.check(settings)
        return self._read()

    def check(self, settings: Settings) -> None:
        """Raise an error where the folder has results of other settings."""
        advice = "Choose another --out, or start over with --fresh."
        if not self.manifest.exists():
            if self.results.exists():
                raise ValueError(f"{self.results} has no manifest.json beside it. {advice}")
            return
        try:
            before = dict(json.loads(self.manifest.read_text(encoding="utf-8"))["settings"].items())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{self.manifest} cannot be read. {advice}") from None
        now = settings.as_json()
        for name in {**before, **now}:
            old, new = before.get(name), now.get(name)
            if name not in EXTENT and old != new:
                raise ValueError(
                    f"{self.folder} has results of other settings ({name} was {old!r}, is now {new!r}). {advice}"
                )

    def _read(self) -> dict[str, Record]:
        if not self.results.exists():
            return {}
        text = self.results.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):  # the process was killed while it wrote
            with self.results.open("r+b") as file:
                file.truncate(len(whole))
        records: dict[str, Record] = {}
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                if not _is_record(record):
                    raise ValueError
                records[record["name"]] = record
            except (ValueError, RecursionError):
                raise ValueError(
                    f"{self.results}: line {number} is damaged. Remove this line, or start over with --fresh."
                ) from None
        return records

    def append(self, record: Record) -> None:
        """Write one line, and wait until it is on the disk."""
        with self.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False, default=lambda number: number.item()) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def describe(self, settings: Settings, **more: object) -> None:
        """Write the manifest: the settings, and the versions, the machine and the command that they ran with."""
        manifest = {
            **more,
            "settings": settings.as_json(),
            "seeds": "sha256 of (settings.seed, what the numbers are for, data set, repeat, …); see derive_seed",
            "command": _command(sys.argv[1:]),
            "versions": {"python": platform.python_version(), **versions()},
            "machine": {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count()},
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        new = self.manifest.with_suffix(".new")
        new.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(self.manifest)


def _is_record(record: object) -> TypeGuard[Record]:
    """Return whether a line is complete: it has a name, a time, and rows or an error."""
    match record:
        case {"name": str(), "status": "failed", "error": str()}:
            return True
        case {"name": str(), "status": "done", "rows": [*rows], "seconds": int() | float()}:
            return all(isinstance(row, dict) for row in rows)
    return False


def _command(arguments: list[str]) -> str:
    """Return the command without its --out. A path may tell more about its owner than a manifest should.

    Examples
    --------
    >>> _command(["reproduce", "table", "--out", "/home/ann/runs", "--jobs", "2"])
    'svnn reproduce table --jobs 2'
    """
    pairs = zip(["", *arguments], arguments, strict=False)
    kept = [each for before, each in pairs if "--out" not in (before, each) and not each.startswith("--out=")]
    return " ".join(["svnn", *kept])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
