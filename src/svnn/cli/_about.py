"""``svnn advise``, ``datasets`` and ``info``: what suits the data, which data there are, and what this machine has."""

from __future__ import annotations

import os
import platform
from typing import Annotated

import typer

from svnn.cli._app import Drop, File, Json, Seed, app, checking, parts, say_json, say_notes, working


@app.command()
def advise(
    file: File,
    target: Annotated[str | None, typer.Option(help="The column to predict, which is no feature.")] = None,
    drop: Drop = None,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Recommend a way to make the covariance of a table sparse, and say why."""
    with checking():
        from svnn._jobs import check_seed
        from svnn.comparison._fits import complete
        from svnn.comparison._table import read_all_features

        check_seed(seed)
        X, names, notes = read_all_features(file, [*([] if target is None else [target]), *parts(drop)])
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
    """List the data sets that svnn.datasets can load, and which of them are here."""
    with checking():
        from svnn.datasets._catalogue import CATALOGUE

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

        from svnn.experiments._reproduce import cores
        from svnn.experiments._run_folder import versions

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
