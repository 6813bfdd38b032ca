"""``svnn reproduce``: run an experiment, write its tables and plots, and say where they are."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from svnn import __version__
from svnn.experiments import EXPERIMENTS
from svnn.experiments import _style as style
from svnn.experiments._jobs import check_seed
from svnn.experiments._runner import Outcome, run
from svnn.experiments._store import Store, check_folder
from svnn.experiments._tables import shown, write_csv


@dataclass
class Prepared:
    """An experiment that can run: its module, settings and folder."""

    name: str
    module: Any
    settings: dict[str, Any]
    folder: Path


def reproduce(
    name: str,
    out: Path | None = None,
    *,
    quick: bool = False,
    datasets: Sequence[str] | None = None,
    repeats: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    fresh: bool = False,
    retry_failed: bool = False,
) -> int:
    """Run one experiment, or ``"all"``; return the number of failed jobs.

    Parameters
    ----------
    name : str
        One of ``EXPERIMENTS``, or "all".
    out : Path, optional
        Results go to ``out/name``; by default ``runs/reproduce``, or ``runs/reproduce-quick``.
    quick : bool, default=False
        Small settings, for minutes instead of hours.
    datasets : sequence of str, optional
        Which data sets, of those that the experiment knows.
    repeats : int, optional
        Splits, draws of the data or seeds, whichever an experiment repeats over.
    jobs : int, optional
        Processes beside each other; by default one a core.
    seed : int, default=0
        Seed that all others follow from.
    fresh, retry_failed : bool
        Start over; run failed jobs again.

    Returns
    -------
    int
    """
    prepared = prepare(name, out, quick=quick, datasets=datasets, repeats=repeats, jobs=jobs, seed=seed, fresh=fresh)
    return run_prepared(prepared, jobs=jobs, fresh=fresh, retry_failed=retry_failed)


def prepare(
    name: str,
    out: Path | None,
    *,
    quick: bool,
    datasets: Sequence[str] | None,
    repeats: int | None,
    jobs: int | None,
    seed: int,
    fresh: bool,
) -> list[Prepared]:
    """Check all that was asked for, and write nothing; see :func:`reproduce` for the parameters."""
    if name != "all" and name not in EXPERIMENTS:
        raise ValueError(f"{name!r} is not known; `svnn reproduce --list` shows what there is.")
    check_seed(seed)
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}.")
    if repeats is not None and repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {repeats}.")
    out = out or Path("runs/reproduce-quick" if quick else "runs/reproduce")
    check_folder(out)
    planned = _plan(list(EXPERIMENTS) if name == "all" else [name], quick, datasets, repeats, seed, _console())
    for each, (_, settings) in planned.items():
        check_folder(out / each)
        if not fresh:  # before hours are spent on the first of them
            Store(out / each).check(settings)
    return [Prepared(each, module, settings, out / each) for each, (module, settings) in planned.items()]


def run_prepared(prepared: list[Prepared], *, jobs: int | None, fresh: bool, retry_failed: bool) -> int:
    """Run what :func:`prepare` has checked; return the number of failed jobs."""
    failed = 0
    for each in prepared:
        outcome = run(
            each.name,
            each.module.jobs,
            each.settings,
            each.folder,
            workers=jobs or cores(),
            fresh=fresh,
            retry_failed=retry_failed,
        )
        report(each.module, each.name, each.settings, outcome, each.folder, _console())
        failed += len(outcome.failures)
    return failed


def _console() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = 120
    return console


def _plan(
    names: list[str],
    quick: bool,
    datasets: Sequence[str] | None,
    repeats: int | None,
    seed: int,
    console: Console,
) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the modules and settings of the experiments that can run."""
    modules = {name: importlib.import_module(f"svnn.experiments.{name.replace('-', '_')}") for name in names}
    known = {each: None for module in modules.values() for each in getattr(module, "DATASETS", ())}
    unknown = [each for each in datasets or () if each not in known]
    if datasets is not None and not known:
        raise ValueError(f"{names[0]} has no choice of data sets; leave out --datasets.")
    if datasets is not None and not datasets:
        raise ValueError(f"--datasets names none; there are {', '.join(known)}.")
    if unknown:
        raise ValueError(f"--datasets: {', '.join(unknown)} not known; there are {', '.join(known)}.")
    planned = {}
    for name, module in modules.items():
        settings = {**module.FULL, **(module.QUICK if quick else {}), "seed": seed, "svnn": __version__}
        if repeats is not None and "repeats" in settings:
            settings["repeats"] = repeats
        if hasattr(module, "DATASETS"):
            settings["datasets"] = _present(name, module.DATASETS, datasets, console)
            if not settings["datasets"]:
                why = "it uses none of these data sets" if datasets else "none of its data sets is there"
                console.print(f"{name}: left out, {why}.", highlight=False)
                continue
        planned[name] = module, settings
    return planned


def report(
    module: Any, name: str, settings: dict[str, Any], outcome: Outcome, folder: Path, console: Console
) -> list[Path]:
    """Write tables and plots of a finished run, print the headline and where the files are."""
    if not outcome.rows:
        first = outcome.failures[0]["error"] if outcome.failures else "there was nothing to run"
        console.print(f"{name}: no results; {first}", style="red", highlight=False, markup=False)
        return []
    found = module.tables(outcome.rows, settings)
    files = [write_csv(folder / "results.csv", outcome.rows)]
    files += [write_csv(folder / f"{table}.csv", rows) for table, rows in found.items()]
    files.append(write_csv(folder / "timings.csv", outcome.timings))
    found["timings"] = outcome.timings
    if hasattr(module, "times"):
        found["times"] = module.times(outcome.timings)
        files.append(write_csv(folder / "times.csv", found["times"]))
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        console.print('No plots: matplotlib is missing; pip install "svnn\\[plot]" adds it.')
    else:
        try:
            with style.context():
                for stem, figure in module.plots(found, settings).items():
                    files += style.save(figure, folder / stem)
        except Exception as error:  # the tables are there, and the experiments that follow want to run
            console.print(f"{name}: no plot ({type(error).__name__}: {error})", style="red", markup=False)
    console.print(f"{name}: {EXPERIMENTS[name]}", style="bold", highlight=False)
    for title, rows in module.headline(found).items():
        console.print(shown(title, rows))
    console.print(f"The paper: {module.CLAIM}", highlight=False)
    for note in module.notes() if hasattr(module, "notes") else ():
        console.print(note, markup=False, highlight=False)
    _print_failures(outcome, folder, console)
    listed = ", ".join(path.name for path in [*files, folder / "manifest.json"])
    console.print(f"In {folder}: {listed}", soft_wrap=True, highlight=False, markup=False)
    return files


def _present(name: str, known: Sequence[str], wanted: Sequence[str] | None, console: Console) -> list[str]:
    """Return the data sets to use.

    What was asked for by name has to be there. Otherwise what is absent is skipped, with a line that says so.
    """
    from svnn.experiments._data import missing

    chosen = [each for each in known if wanted is None or each in wanted]
    absent = {each: reason for each in chosen if (reason := missing(each))}
    if absent and wanted is not None:
        raise FileNotFoundError(next(iter(absent.values())))
    if absent:
        where = "set SVNN_DATA to their folder" if "SVNN_DATA" not in os.environ else "not in SVNN_DATA"
        console.print(f"{name}: skipping {', '.join(absent)} ({where}).", highlight=False)
    return [each for each in chosen if each not in absent]


def _print_failures(outcome: Outcome, folder: Path, console: Console) -> None:
    if not outcome.failures:
        return
    total = len(outcome.failures)
    console.print(f"{total} jobs failed; --retry-failed runs them again. The first:", style="red")
    for failure in outcome.failures[:3]:
        key = ", ".join(f"{k}={v}" for k, v in failure.items() if k != "error")
        console.print(f"  {key}: {failure['error']}", style="red", highlight=False, markup=False, soft_wrap=True)
    console.print(f"  all of them: {folder / 'results.jsonl'}", highlight=False, markup=False, soft_wrap=True)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
