"""``svnn reproduce``: the figures and tables of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from svnn.cli._app import Jobs, Scheduler, app, checking, complain, working


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
    jobs: Jobs = None,
    scheduler: Scheduler = None,
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
            datasets=None if datasets is None else [part.strip() for part in datasets.split(",") if part.strip()],
            repeats=repeats,
            jobs=jobs,
            seed=seed,
            fresh=fresh,
            retry_failed=retry_failed,
            scheduler=scheduler,
        )
        prepared = prepare(request)
    with working("stopped; the same command goes on from here."):
        failed = run_prepared(prepared, request)
    if failed:
        raise typer.Exit(1)
