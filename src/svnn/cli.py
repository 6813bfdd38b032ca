"""The command line: ``svnn``. Heavy imports wait until a command runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from svnn import __version__

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
    from svnn.experiments.demo import run_demo

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
    from svnn.experiments._reproduce import reproduce as run

    try:
        failed = run(
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
    except KeyboardInterrupt:
        typer.secho("svnn: stopped; the same command goes on from here.", fg="yellow", err=True)
        raise typer.Exit(130) from None
    if failed:
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; errors are one line, without a stack trace."""
    try:
        app()
    except (OSError, ValueError) as error:
        typer.secho(f"svnn: {error}", fg="red", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
