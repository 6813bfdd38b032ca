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


def main() -> None:
    """Run the command line; errors are one line, without a stack trace."""
    try:
        app()
    except (OSError, ValueError) as error:
        typer.secho(f"svnn: {error}", fg="red", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
