"""The commands of ``svnn``, in the order of its help. Slow imports wait until a command runs."""

# isort: skip_file
from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated

import typer

from svnn._jobs import cores
from svnn.cli import _app as cli
from svnn.cli import _compare as _compare
from svnn.cli import _model as _model
from svnn.cli import _graph as _graph
from svnn.cli._app import app as app
from svnn.cli._app import checking, complain, say_json, working


@app.command()
def datasets(json_: cli.Json = False) -> None:
    """List the data sets that svnn.datasets and svnn.paper can load, and which of them are here."""
    with checking():
        from svnn.paper.data import CATALOGUE

        rows = [
            {"loader": each.call, "shape": each.shape, "what": each.what, "found": each.found()} for each in CATALOGUE
        ]
    if json_:
        say_json(rows)
        return
    for row in rows:
        typer.echo(f"{'✓' if row['found'] else '–'} {row['loader']:30} {row['shape']:16} {row['what']}")
    folder = os.environ.get("SVNN_DATA")
    typer.echo(
        f"Files are looked for in the folder of the environment variable SVNN_DATA ({folder or 'not set'}); "
        "load_tecator() comes with the package."
    )


@app.command()
def info(json_: cli.Json = False) -> None:
    """Show versions, threads, compiled kernels and GPUs, for instance for a report of a problem."""
    with checking():
        import torch

        from svnn._versions import versions

        facts = {
            "versions": {"python": platform.python_version(), **versions()},
            "system": platform.platform(),
            "cores": cores(),
            "threads": torch.get_num_threads(),
            "kernels": _kernels(),
            "gpu": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        }
    if json_:
        say_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{package} {number}" for package, number in value.items())
        typer.echo(f"{name:9} {', '.join(value) or 'none' if isinstance(value, list) else value}")


def _kernels() -> str:
    """Return in words whether the kernels are compiled, will be, or cannot be."""
    if os.environ.get("SVNN_NUMBA") == "0":
        return "switched off (SVNN_NUMBA=0)"
    try:
        from svnn._jit import cache_folder
    except ImportError:
        return "not there, because numba is missing: filters and training are slower"
    folder = cache_folder()
    if folder is None or not any(folder.glob("*.compiled")):
        return "not compiled yet; the first fit compiles them, which takes some seconds once"
    return "compiled"


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help='The name of an experiment, or "all".')] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use small settings, for minutes instead of hours.")] = False,
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Use only these data sets, separated by commas, such as ixi,dsads. "
            "By default all are used whose files are in the folder that SVNN_DATA names."
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="How often to repeat the experiment. By default 5 times, with --quick twice.")
    ] = None,
    jobs: cli.Jobs = None,
    scheduler: cli.Scheduler = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The results go to OUT/NAME. By default OUT is runs/reproduce, with --quick runs/reproduce-quick."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed that all other seeds follow from.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete earlier results in OUT/NAME and start over.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run jobs again that failed in an earlier run.")
    ] = False,
) -> None:
    """Run an experiment of the paper again, and write its figures and tables.

    Tables are written as CSV, plots as PNG and PDF, and the settings and versions to manifest.json. Every result is
    written as soon as it exists: after an interruption the same command continues where it stopped, and ends with the
    same tables.
    """
    from svnn.paper.experiments import EXPERIMENTS

    if list_ or name is None:
        for each, what in {**EXPERIMENTS, "all": "all of these"}.items():
            typer.echo(f"{each:26} {what}")
        if not list_:
            complain('name one of these experiments, or "all".')
        raise typer.Exit(0 if list_ else 2)
    with checking():
        from svnn.paper.experiments._reproduce import Request, prepare, run_prepared

        request = Request(
            name,
            out,
            quick=quick,
            datasets=None if datasets is None else cli.parts(datasets),
            repeats=repeats,
            jobs=jobs,
            seed=seed,
            fresh=fresh,
            retry_failed=retry_failed,
            scheduler=scheduler,
        )
        prepared = prepare(request)
    with working("stopped; the same command continues from here."):
        failed = run_prepared(prepared, request)
    if failed:
        raise typer.Exit(1)
