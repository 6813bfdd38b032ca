"""``svnn datasets`` and ``info``: which data there are, and what this machine has."""

from __future__ import annotations

import os
import platform

import typer

from svnn._jobs import cores
from svnn.cli._app import Json, app, checking, say_json


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
