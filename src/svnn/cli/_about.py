"""``svnn advise``, ``datasets`` and ``info``: what suits the data, which data there are, and what this machine has."""

from __future__ import annotations

import os
import platform
from typing import Annotated

import typer

from svnn.cli._app import (
    Drop,
    File,
    Group,
    Jobs,
    Json,
    Seed,
    Task,
    app,
    checking,
    parts,
    say_json,
    say_notes,
    working,
)


@app.command()
def advise(
    file: File,
    target: Annotated[
        str | None, typer.Option(help="The column to predict. With it covariances are ranked by prediction.")
    ] = None,
    group: Group = None,
    task: Task = None,
    drop: Drop = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    json_: Json = False,
) -> None:
    """Recommend a covariance for a table, and say why.

    With --target networks with each of several covariances, and without edges, predict rows that were held out. Without
    it estimates are compared with the covariance of such rows, which cannot say whether predictions get better.
    """
    if target is None:
        _advise_by_covariance(file, group, task, drop, seed, json_)
    else:
        _advise_by_prediction(file, target, group, task, drop, seed, jobs, json_)


def _advise_by_prediction(
    file: str,
    target: str,
    group: str | None,
    task: str | None,
    drop: str | None,
    seed: int,
    jobs: int | None,
    json_: bool,
) -> None:
    with checking():
        from svnn._jobs import check_seed
        from svnn.comparison import read_table
        from svnn.comparison._scores import Problem
        from svnn.comparison._splits import splits

        check_seed(seed)
        if jobs is not None and jobs < 1:
            raise ValueError(f"--jobs must be at least 1, got {jobs}.")
        table = read_table(file, target, group, task, drop=parts(drop))
        of = Problem.of(table.X, table.y, table.groups, table.task, True, seed)
        list(splits(of.how, of.y, of.groups, of.task, seed))  # what cannot be split is an error here
    say_notes(table.notes, quiet=json_)
    with working():
        import pandas as pd

        from svnn.comparison._advisor import advise_by_prediction
        from svnn.paper.experiments._reproduce import cores
        from svnn.paper.experiments._terminal import progress_bar

        with progress_bar() as bar:
            shown = bar.add_task("starting", total=None)
            advice = advise_by_prediction(
                table.X,
                pd.Series(table.y, name=target),
                groups=table.groups,
                task=table.task,
                n_jobs=jobs or cores(),
                random_state=seed,
                callback=lambda done, total, name: bar.update(shown, total=total, completed=done, description=name),
            )
    if json_:
        found = {"recommended": advice.covariance, "reasons": list(advice.reasons)}
        measured = advice.comparison.to_dict(seconds=False)["settings"]
        say_json({**found, "table": [dict(row) for row in advice.table], "settings": measured, "notes": table.notes})
    else:
        typer.echo(str(advice))


def _advise_by_covariance(
    file: str, group: str | None, task: str | None, drop: str | None, seed: int, json_: bool
) -> None:
    with checking():
        from svnn._jobs import check_seed
        from svnn.comparison._fits import complete
        from svnn.comparison._table import read_all_features

        check_seed(seed)
        if group is not None or task is not None:
            raise ValueError("--group and --task need --target, the column to predict.")
        X, names, notes = read_all_features(file, parts(drop))
        if len(X) < 10 or len(names) < 2:
            raise ValueError(f"{file} has {len(X)} rows and {len(names)} features; advice needs at least 10 and 2.")
    say_notes(notes, quiet=json_)
    with working():
        from svnn.stability import advise

        advice = advise(complete(X, X)[0], random_state=seed)
    if json_:
        found = {"looks": advice.looks, "recommended": advice.label, "reasons": list(advice.reasons)}
        say_json({**found, "table": [dict(row) for row in advice.table], "notes": notes})
    else:
        typer.echo(str(advice))


@app.command()
def datasets(json_: Json = False) -> None:
    """List the data sets that svnn.datasets and svnn.paper can load, and which of them are here."""
    with checking():
        from svnn.paper.data._catalogue import CATALOGUE

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
def info(json_: Json = False) -> None:
    """Show versions, threads, compiled kernels and GPUs, for instance for a report of a problem."""
    with checking():
        import torch

        from svnn.paper.experiments._reproduce import cores
        from svnn.paper.experiments._run_folder import versions

        found = {
            "versions": {"python": platform.python_version(), **versions()},
            "system": platform.platform(),
            "cores": cores(),
            "threads": torch.get_num_threads(),
            "kernels": _kernels(),
            "gpu": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        }
    if json_:
        say_json(found)
        return
    for name, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{package} {number}" for package, number in value.items())
        typer.echo(f"{name:9} {', '.join(value) or 'none' if isinstance(value, list) else value}")


def _kernels() -> str:
    """Say whether the kernels are compiled, will be, or cannot be."""
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
