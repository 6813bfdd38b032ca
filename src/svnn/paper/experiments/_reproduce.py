"""``svnn reproduce``: check a request, run the experiments, write their tables and plots, and print where they are."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from svnn._cluster import Scheduler, check_scheduler
from svnn._jobs import check_run, cores
from svnn._progress import console
from svnn.paper.experiments import EXPERIMENTS
from svnn.paper.experiments._runner import Outcome, RunFolder, Settings, run


@dataclass(frozen=True)
class Request:
    """The options of ``svnn reproduce``, whose ``--help`` explains each of them."""

    name: str
    out: Path | None = None
    quick: bool = False
    datasets: Sequence[str] | None = None
    repeats: int | None = None
    jobs: int | None = None
    seed: int = 0
    fresh: bool = False
    retry_failed: bool = False
    scheduler: Scheduler | None = None


@dataclass
class Prepared:
    """An experiment that can run: its module, its settings and its folder."""

    name: str
    module: ModuleType
    settings: Settings
    folder: Path


def prepare(request: Request) -> list[Prepared]:
    """Check a request without writing anything, and return the experiments to run."""
    if request.name != "all" and request.name not in EXPERIMENTS:
        raise ValueError(f"{request.name!r} is not an experiment; `svnn reproduce --list` shows all of them.")
    check_run(request.seed, request.jobs)
    if request.repeats is not None and request.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {request.repeats}.")
    if missing := [package for package in ("pandas", "matplotlib") if find_spec(package) is None]:
        raise ImportError(f'`svnn reproduce` needs {" and ".join(missing)}: pip install "svnn[experiments]".')
    out = request.out or Path("runs/reproduce-quick" if request.quick else "runs/reproduce")
    check_run(request.seed, request.jobs, out)
    prepared = [
        Prepared(name, module, settings, out / name)
        for name, module in _modules(request).items()
        if (settings := _settings(name, module, request)) is not None
    ]
    for each in prepared:
        check_run(request.seed, request.jobs, each.folder)
        if not request.fresh:  # better now than after hours of work on the first experiment
            RunFolder(each.folder).check(each.settings)
    if request.scheduler is not None:
        check_scheduler(request.scheduler)
    return prepared


def run_prepared(prepared: Sequence[Prepared], request: Request) -> int:
    """Run what :func:`prepare` has checked, and return the number of failed jobs."""
    failed = 0
    for each in prepared:
        outcome = run(
            each.name,
            each.module.jobs,
            each.settings,
            each.folder,
            workers=request.jobs or (cores() if request.scheduler is None else None),
            scheduler=request.scheduler,
            fresh=request.fresh,
            retry_failed=request.retry_failed,
        )
        report(each, outcome, console())
        failed += len(outcome.failures)
    return failed


def _modules(request: Request) -> dict[str, ModuleType]:
    """Return the modules of the experiments; raise an error where a data set of ``--datasets`` belongs to none."""
    names = list(EXPERIMENTS) if request.name == "all" else [request.name]
    modules = {name: importlib.import_module(f"svnn.paper.experiments.{name.replace('-', '_')}") for name in names}
    if request.datasets is not None:
        known = {dataset: None for module in modules.values() for dataset in getattr(module, "DATASETS", ())}
        unknown = [dataset for dataset in request.datasets if dataset not in known]
        if not known:
            raise ValueError(f"{request.name} has no choice of data sets; leave out --datasets.")
        if not request.datasets:
            raise ValueError(f"--datasets names no data set; the known ones are {', '.join(known)}.")
        if unknown:
            raise ValueError(f"--datasets: {', '.join(unknown)} not known; the known ones are {', '.join(known)}.")
    return modules


def _settings(name: str, module: ModuleType, request: Request) -> Settings | None:
    """Return the settings of an experiment, or None where it has no data set to run on."""
    settings: Settings = module.QUICK if request.quick else module.FULL
    changes: dict[str, Any] = {"seed": request.seed}
    if request.repeats is not None and hasattr(settings, "repeats"):
        changes["repeats"] = request.repeats
    if hasattr(module, "DATASETS"):
        changes["datasets"] = _present(name, module.DATASETS, request.datasets)
        if not changes["datasets"]:
            why = "it uses none of these data sets" if request.datasets else "the files of its data sets are not there"
            console().print(f"{name} is left out: {why}.", highlight=False)
            return None
    return replace(settings, **changes)


def _present(name: str, known: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the data sets to use.

    A data set without files is an error where it was requested by name; otherwise it is skipped, and a line says so.
    """
    from svnn.paper.experiments._real_data import missing

    chosen = [dataset for dataset in known if wanted is None or dataset in wanted]
    absent = {dataset: reason for dataset in chosen if (reason := missing(dataset))}
    if absent and wanted is not None:
        raise FileNotFoundError(next(iter(absent.values())))
    if absent:
        why = "their files are not in SVNN_DATA" if "SVNN_DATA" in os.environ else "set SVNN_DATA to their folder"
        console().print(f"{name}: skipping {', '.join(absent)} ({why}).", highlight=False)
    return tuple(dataset for dataset in chosen if dataset not in absent)


def report(done: Prepared, outcome: Outcome, screen: Console) -> list[Path]:
    """Write the tables and plots of a finished run, print the main results, and return the files."""
    import pandas as pd

    from svnn.paper.experiments import _output as output

    module, folder = done.module, done.folder
    if not outcome.rows:
        why = outcome.failures[0]["error"] if outcome.failures else "there was nothing to run"
        screen.print(f"{done.name}: no results; {why}", style="red", highlight=False, markup=False)
        return []
    rows, timings = pd.DataFrame(outcome.rows), pd.DataFrame(outcome.timings)
    tables = {**module.tables(rows, done.settings), "timings": timings}
    if hasattr(module, "times"):
        tables["times"] = module.times(timings)
    files = [output.write_csv(folder / f"{table}.csv", frame) for table, frame in {"results": rows, **tables}.items()]
    try:
        with output.context():
            for stem, figure in module.plots(tables, done.settings).items():
                files += output.save(figure, folder / stem)
    except Exception as error:  # the tables are written, and other experiments may follow
        screen.print(f"{done.name}: no plot ({type(error).__name__}: {error})", style="red", markup=False)
    screen.print(f"{done.name}: {EXPERIMENTS[done.name]}", style="bold", highlight=False)
    for title, frame in module.headline(tables).items():
        screen.print(output.screen_table(title, frame))
    screen.print(f"The paper: {module.CLAIM}", highlight=False)
    for note in module.notes() if hasattr(module, "notes") else ():
        screen.print(note, markup=False, highlight=False)
    _print_failures(outcome, folder, screen)
    listed = ", ".join(path.name for path in [*files, folder / "manifest.json"])
    screen.print(f"In {folder}: {listed}", soft_wrap=True, highlight=False, markup=False)
    return files


def _print_failures(outcome: Outcome, folder: Path, screen: Console) -> None:
    if not outcome.failures:
        return
    count = len(outcome.failures)
    failed = "1 job failed" if count == 1 else f"{count} jobs failed"
    screen.print(f"{failed}; the same command with --retry-failed tries again. The first errors:", style="red")
    for failure in outcome.failures[:3]:
        key = ", ".join(f"{name}={value}" for name, value in failure.items() if name != "error")
        screen.print(f"  {key}: {failure['error']}", style="red", highlight=False, markup=False, soft_wrap=True)
    screen.print(f"  All errors are in {folder / 'results.jsonl'}", highlight=False, markup=False, soft_wrap=True)
