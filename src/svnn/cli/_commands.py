"""The commands of ``svnn``. Slow imports wait until a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from svnn import __version__
from svnn.cli._interrupts import Stopped, stopping_in_order

app = typer.Typer(
    help="Sparse covariance neural networks: a demo, and every figure and table of the paper.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # it joins the lines of a paragraph
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"svnn {__version__}")
        raise typer.Exit


def _complain(text: object, colour: str = "red") -> None:
    typer.secho(f"svnn: {text}", fg=colour, err=True)


@contextmanager
def _checking() -> Iterator[None]:
    """Exit with code 2, and one line, where the request cannot be met."""
    try:
        yield
    except (ImportError, OSError, ValueError) as error:
        _complain(error)
        raise typer.Exit(2) from None


@contextmanager
def _working(stopped: str) -> Iterator[None]:
    """Say ``stopped`` where a signal ends the work. Errors of the work are told by :func:`svnn.cli.main`."""
    try:
        with stopping_in_order():
            yield
    except Stopped as stop:
        _complain(stopped, "yellow")
        raise typer.Exit(128 + stop.args[0]) from None


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Sparse covariance neural networks: a demo, and every figure and table of the paper."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for results.csv and results.png.")] = Path("runs/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Train for a few epochs only, to see that everything works.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the data, the splits and the networks.")] = 0,
) -> None:
    """Compare networks on sparse and dense covariances with two baselines, on data that come with the package.

    The scores are printed as tables, and written as a CSV file and a plot.
    """
    from svnn._jobs import check_seed
    from svnn.experiments._run_folder import check_folder

    with _checking():
        check_seed(seed)
        check_folder(out)
    from svnn.experiments.demo import run_demo

    with _working("stopped."):
        run_demo(out, quick=quick, seed=seed)


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
    jobs: Annotated[int | None, typer.Option(help="The number of processes. By default one per core.")] = None,
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
    from svnn.experiments import EXPERIMENTS

    if list_ or name is None:
        for each, what in {**EXPERIMENTS, "all": "all of these"}.items():
            typer.echo(f"{each:26} {what}")
        if not list_:
            _complain('name one of these experiments, or "all".')
        raise typer.Exit(0 if list_ else 2)
    with _checking():
        from svnn.experiments._reproduce import Request, prepare, run_prepared

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
        )
        prepared = prepare(request)
    with _working("stopped; the same command goes on from here."):
        failed = run_prepared(prepared, request)
    if failed:
        raise typer.Exit(1)
