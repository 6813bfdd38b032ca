"""``svnn graph``: the largest correlations between the columns of a file, as a file of edges."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svnn.cli import _app as cli
from svnn.cli._app import app, checking, say_json, say_notes, working

if TYPE_CHECKING:
    from svnn.graphs import Graph

_OPTIONS = (
    *("top_k", "density", "threshold", "edges", "correlation", "memory_limit"),
    *("layer", "dataset", "drop", "out", "device", "scheduler"),
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="The table: .h5ad, .h5 (also FILE.h5:NAME), .zarr, .parquet, a folder of Parquet files, .npy, .npz, CSV "
        'or Feather; "-" reads CSV from a pipe. Rows are samples.',
    ),
]


@app.command()
def graph(
    file: Source,
    out: Annotated[
        Path,
        typer.Option(help="Where the edges go: .parquet, .csv, .npz (the matrix), or a new folder for Parquet files."),
    ],
    top_k: Annotated[int | None, typer.Option(help="Keep this number of correlations of every feature.")] = None,
    density: Annotated[float | None, typer.Option(help="Keep this share of all pairs.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Keep correlations of at least this size.")] = None,
    edges: Annotated[int | None, typer.Option(help="Keep this number of pairs.")] = None,
    correlation: Annotated[str, typer.Option(help="pearson, spearman (of ranks) or biweight (robust).")] = "pearson",
    layer: Annotated[str | None, typer.Option(help="The layer of an AnnData file. By default X.")] = None,
    dataset: Annotated[str | None, typer.Option(help="The array in an HDF5, Zarr or NPZ file.")] = None,
    drop: cli.Drop = None,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")] = "auto",
    scheduler: cli.Scheduler = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory to use, such as 2GB. By default half of what there is.")
    ] = None,
    json_: cli.Json = False,
) -> None:
    """Find the largest correlations between the features of a table, and write them as the edges of a graph.

    Give one of --top-k, --density, --threshold and --edges. Correlations count by their size, whatever their sign. The
    result is exact, and the matrix of all correlations is never formed: 75,000 genes need no large machine.
    """
    with checking(), _named_as_options():
        choices: dict[str, Any] = {"top_k": top_k, "density": density, "threshold": threshold, "edges": edges}
        given = [name for name, value in choices.items() if value is not None]
        if len(given) != 1:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in choices)
            raise ValueError(f"give one of {options}; got {' and '.join(given) or 'none of them'}.")
        from svnn.graphs._files import check_target
        from svnn.sources import open_table

        check_target(out)
        table: Any
        if scheduler is not None:
            from svnn._cluster import check_scheduler

            check_scheduler(scheduler)
            table = _lazy(file, layer, dataset, cli.parts(drop))
        else:
            table = open_table(file, layer=layer, dataset=dataset, drop=cli.parts(drop))
        notes = list(getattr(table, "notes", ()))
    say_notes(notes, quiet=json_)
    with working(), checking(), _named_as_options(), _on_cluster(scheduler):
        from svnn.graphs import correlation_graph

        start = time.monotonic()
        how: dict[str, Any] = {"correlation": correlation, "device": device, "memory_limit": memory_limit}
        found = correlation_graph(table, **choices, **how, verbose=not json_, out=out)
        seconds = time.monotonic() - start
    said = _summary(found)
    if json_:
        say_json({"file": file, **said, "seconds": round(seconds, 3), "out": str(out), "notes": notes})
        return
    from svnn._progress import duration

    degree = said["degree"]
    typer.echo(f"{said['rows']:,} rows, {said['features']:,} features ({said['constant']:,} constant).")
    typer.echo(
        f"{said['edges']:,} edges. A feature has {degree['mean']:.1f} on average (median {degree['median']:g}, at most "
        f"{degree['max']:,}); {degree['none']:,} have none."
    )
    typer.echo(f"Wrote {out} in {duration(seconds)}.")


def _lazy(file: str, layer: str | None, dataset: str | None, drop: list[str]) -> Any:
    """Return a file as an array or a data frame of Dask, which the workers read themselves."""
    ending = Path(file).suffix.lower()
    if layer is not None:
        raise ValueError("layer is for AnnData files, which workers do not read; write it as a Zarr array first.")
    if ending == ".zarr" and drop:
        raise ValueError("drop is for columns with names, which a Zarr array has not.")
    if ending == ".zarr":
        import dask.array

        return dask.array.from_zarr(file, component=dataset)
    if ending in (".parquet", ".pq") or Path(file).is_dir():
        import dask.dataframe

        frame = dask.dataframe.read_parquet(file)
        unknown = sorted(set(drop) - set(frame.columns))
        if unknown:
            raise ValueError(f"drop: there is no column {unknown[0]!r} in {file}.")
        return frame.drop(columns=drop)
    raise ValueError(f"scheduler: workers read Zarr and Parquet files themselves, but not {file}; convert it first.")


@contextmanager
def _on_cluster(scheduler: str | None) -> Iterator[None]:
    """Let the workers of a scheduler compute, where one is given."""
    if scheduler is None:
        yield
        return
    from svnn._cluster import connected

    with connected(scheduler) as client, client.as_current():
        yield


@contextmanager
def _named_as_options() -> Iterator[None]:
    """Name arguments in errors as the command line has them."""
    try:
        yield
    except (ValueError, OSError) as error:
        text = re.sub(rf"^({'|'.join(_OPTIONS)})\b", lambda name: "--" + name[0].replace("_", "-"), str(error))
        raise type(error)(text) if type(error) in (ValueError, FileExistsError, NotADirectoryError) else error from None


def _summary(found: Graph) -> dict[str, Any]:
    """Return the facts about a graph that are printed."""
    import numpy as np

    degrees = found.degrees
    degree = {"mean": float(degrees.mean()), "median": float(np.median(degrees)), "max": int(degrees.max())}
    return {
        "rows": found.n_samples,
        "features": found.n_features,
        "constant": 0 if found.constant is None else len(found.constant),
        "edges": found.n_edges,
        "degree": {**degree, "none": int((degrees == 0).sum())},
        "threshold": float(found.threshold) if isinstance(found.threshold, float) else None,
    }
