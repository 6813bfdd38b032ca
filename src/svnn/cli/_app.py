"""The app that all commands belong to, and how each of them complains, stops and speaks to machines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from svnn import __version__
from svnn.cli import Stopped, stopping_in_order

app = typer.Typer(
    help="Sparse covariance neural networks: from a table to an answer, and every figure and table of the paper.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # it joins the lines of a paragraph
    pretty_exceptions_enable=False,
)

# Options that several commands have.
Target = Annotated[str, typer.Option(help="The column to predict.")]
Group = Annotated[
    str | None,
    typer.Option(help="The column that says which rows belong together, such as a person's. They are never split."),
]
Task = Annotated[
    str | None,
    typer.Option(help="regression or classification. By default text and at most ten different integers are classes."),
]
Covariance = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The covariance of the S-VNN, such as sample or ledoit_wolf. svnn advise compares them."
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, separated by commas.")]
Seed = Annotated[int, typer.Option(help="The seed that all other seeds follow from.")]
Jobs = Annotated[int | None, typer.Option(help="The number of processes. By default one per core.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786, instead of on this machine. "
        "Then --jobs is the largest number of jobs at the same time.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
File = Annotated[str, typer.Argument(help='The table: CSV, Parquet, Feather or NPZ; "-" reads CSV from a pipe.')]
Model = Annotated[Path, typer.Argument(help="A model that svnn fit has written.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"svnn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Sparse covariance neural networks: from a table to an answer, and every figure and table of the paper."""


def complain(text: object, colour: str = "red") -> None:
    """Print one line on standard error."""
    typer.secho(f"svnn: {' '.join(str(text).split())}", fg=colour, err=True)


@contextmanager
def checking() -> Iterator[None]:
    """Exit with code 2, and one line, where the request cannot be met."""
    try:
        yield
    except (ImportError, OSError, ValueError, MemoryError) as error:
        complain(str(error) or type(error).__name__)
        raise typer.Exit(2) from None


@contextmanager
def working(stopped: str = "stopped.") -> Iterator[None]:
    """Print ``stopped`` where a signal ends the work. Errors of the work are told by :func:`svnn.cli.main`."""
    try:
        with stopping_in_order():
            yield
    except Stopped as stop:
        complain(stopped, "yellow")
        raise typer.Exit(128 + stop.args[0]) from None


def say_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def say_notes(notes: object, quiet: bool) -> None:
    """Print notes line by line, unless only JSON may be printed."""
    if not quiet:
        for note in notes:  # type: ignore[attr-defined]
            typer.echo(f"- {' '.join(str(note).split())}")


def parts(text: str | None) -> list[str]:
    """Return the parts of a list that is separated by commas."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def check_file(path: Path, option: str = "--out") -> None:
    """Raise an error where a file cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(f"{option}: {path} is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise NotADirectoryError(f"{option}: there is no folder {path.parent}; make it first.")
