"""The commands of ``svnn``. Heavy imports wait until a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Optional

import typer

from svnn import __version__
from svnn.cli._signals import Stopped, stopping_in_order

app = typer.Typer(
    help="Sparse covariance neural networks.",
    add_completion=False,
    no_args_is_help=True,
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
    """Exit with 2, and one line, where what was asked for cannot be done."""
    try:
        yield
    except (OSError, ValueError) as error:
        _complain(error)
        raise typer.Exit(2) from None


@contextmanager
def _working(stopped: str) -> Iterator[None]:
    """Exit with 1, and one line, where the work fails; say ``stopped`` where a signal ends it."""
    try:
        with stopping_in_order():
            yield
    except Stopped as stop:
        _complain(stopped, "yellow")
        raise typer.Exit(128 + stop.args[0]) from None
    except BrokenPipeError:  # nobody reads what is shown
        raise typer.Exit(1) from None
    except (OSError, ValueError) as error:
        _complain(error)
        raise typer.Exit(1) from None


@app.callback()
def options(
    version: Annotated[
        Optional[bool],  # noqa: UP045  typer reads the annotation at run time
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = None,
) -> None:
    """Sparse covariance neural networks."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write results.csv and results.png to.")] = Path("runs/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A few epochs only, to see that all works.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the data, the splits and the networks.")] = 0,
) -> None:
    """Train S-VNNs, the dense VNN and two baselines on built-in data; print and write a table and a plot."""
    from svnn.experiments._jobs import check_seed
    from svnn.experiments._store import check_folder

    with _checking():
        check_seed(seed)
        check_folder(out)
    from svnn.experiments.demo import run_demo

    with _working("stopped."):
        run_demo(out, quick=quick, seed=seed)


@app.command()
def reproduce(
    name: Annotated[Optional[str], typer.Argument(help='A figure or table, or "all".')] = None,  # noqa: UP045
    list_: Annotated[bool, typer.Option("--list", help="Show what can be reproduced, and exit.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small settings: minutes instead of hours.")] = False,
    datasets: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Data sets to use, with commas between, such as ixi,dsads; by default all that are there. "
            "Tables and plots are of these alone."
        ),
    ] = None,
    repeats: Annotated[Optional[int], typer.Option(help="Repeats; by default 5, with --quick 2.")] = None,  # noqa: UP045
    jobs: Annotated[Optional[int], typer.Option(help="Processes beside each other; one a core by default.")] = None,  # noqa: UP045
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Results go to OUT/NAME; runs/reproduce, or runs/reproduce-quick, by default."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed that all others follow from.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget results that are there, and start over.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed jobs again.")] = False,
) -> None:
    """Reproduce a figure or table of the paper: tables as CSV, plots as PNG and PDF, and a manifest.

    Every result is written as it comes. After an interruption the same command goes on where it stopped, and
    ends with the same tables.
    """
    from svnn.experiments import EXPERIMENTS

    if list_ or name is None:
        for each, what in EXPERIMENTS.items():
            typer.echo(f"{each:26} {what}")
        typer.echo(f"{'all':26} everything")
        if not list_:
            typer.secho("svnn: name one of these, or all.", fg="red", err=True)
        raise typer.Exit(0 if list_ else 2)
    with _checking():
        from svnn.experiments._reproduce import prepare, run_prepared

        planned = prepare(
            name,
            out,
            quick=quick,
            datasets=None if datasets is None else [part.strip() for part in datasets.split(",") if part.strip()],
            repeats=repeats,
            jobs=jobs,
            seed=seed,
            fresh=fresh,
        )
    with _working("stopped; the same command goes on from here."):
        failed = run_prepared(planned, jobs=jobs, fresh=fresh, retry_failed=retry_failed)
    if failed:
        raise typer.Exit(1)
