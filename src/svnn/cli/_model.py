"""``svnn fit``, ``predict``, ``stability``, ``explain`` and ``export``: one network, kept in a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from svnn._jobs import check_run
from svnn.cli import _app as cli
from svnn.cli._app import app, checking, complain, say_json, say_notes, working

Out = Annotated[Path | None, typer.Option(help="The CSV file to write. By default the result is printed.")]


@app.command()
def fit(
    file: cli.File,
    target: cli.Target,
    out: Annotated[Path, typer.Option(help="The file for the model, such as model.safetensors.")],
    group: cli.Group = None,
    task: cli.Task = None,
    covariance: cli.Covariance = "hard",
    drop: cli.Drop = None,
    seed: cli.Seed = 0,
    json_: cli.Json = False,
) -> None:
    """Fit a model to a table, and keep it in a file.

    The model is a blend of S-VNNs, of networks without edges and of a linear model, weighted by held-out rows.
    """
    with checking():
        from svnn.comparison import read_table
        from svnn.comparison._compare import check_name

        check_run(seed)
        cli.check_file(out)
        table = read_table(file, target, group, task, drop=cli.parts(drop))
        check_name(covariance, table.X.shape[1])
    say_notes(table.notes, quiet=json_)
    with working():
        import pandas as pd

        from svnn.comparison._models import blend, complete

        X, _ = complete(table.X, table.X)
        model = blend(table.task, seed, covariance=covariance)
        with checking():  # what is wrong with a table may show only here
            model.fit(pd.DataFrame(X, columns=table.names), table.y, groups=table.groups)
        model.save(out)
    rows, features = X.shape
    if json_:
        found = {"model": str(out), "task": table.task, "n_samples": rows, "n_features": features}
        say_json({**found, "covariance": covariance, "features": table.names, "notes": list(table.notes)})
    else:
        typer.echo(f"Wrote {out}: {table.task} of {target} from {features} features, fitted to {rows} rows.")


@app.command()
def predict(
    model: cli.Model,
    file: cli.File,
    out: Out = None,
    std: Annotated[bool, typer.Option("--std", help="Add a standard deviation to every predicted number.")] = False,
    json_: cli.Json = False,
) -> None:
    """Predict the target of every row of a table."""
    with checking():
        import numpy as np

        network, rows = _read(model, file, out)
        if std and hasattr(network, "classes_"):
            raise ValueError("--std is for predicted numbers; this model predicts classes.")
        whole = np.isfinite(np.asarray(rows)).all(1)
        if not whole.any():
            raise ValueError(f"{file}: every row has missing values; fill them in first.")
    with working():
        found = network.predict(rows[whole], return_std=True) if std else (network.predict(rows[whole]),)
    if not whole.all():
        complain(
            f"predictions are empty where values are missing: {int((~whole).sum())} of {len(rows)} rows.", "yellow"
        )
    columns: dict[str, Any] = {"row": range(len(rows))}
    for name, values in zip(("prediction", "std"), found, strict=False):
        columns[name] = np.full(len(rows), None, dtype=object)
        columns[name][whole] = values.astype(object)
    _give([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], out, json_)


@app.command()
def stability(
    model: cli.Model,
    file: cli.File,
    repeats: Annotated[int, typer.Option(help="Draws for each number of rows.")] = 5,
    out: Out = None,
    seed: cli.Seed = 0,
    json_: cli.Json = False,
) -> None:
    """Show how far a model moves when its covariance is estimated from fewer rows.

    Half of the rows of the table are drawn from, the other half is predicted. A change of 0 is no change.
    """
    with checking():
        check_run(seed)
        if repeats < 1:
            raise ValueError(f"--repeats must be at least 1, got {repeats}.")
        network, rows = _read(model, file, out, fill_in=True)
        sizes = sorted({max(2, len(rows) // 2 * share // 8) for share in (1, 2, 4, 6)})
        if len(rows) < 20:
            raise ValueError(f"{file} has {len(rows)} rows; a curve needs at least 20.")
    with working():
        import numpy as np
        from sklearn.base import clone

        from svnn.inspection._fitted import network_of
        from svnn.stability import stability_curve

        estimator = clone(network_of(network).covariance_estimator_)
        options: Any = {"repeats": repeats, "random_state": seed}
        curve = stability_curve(network, rows[1::2], estimator, np.asarray(rows)[::2], sizes, **options)
    names = ("n_samples", "covariance_error", "embedding_error", "prediction_change")
    _give([{name: row[name] for name in names} for row in curve.mean("n_samples")], out, json_, aligned=True)


@app.command()
def explain(
    model: cli.Model,
    file: cli.File,
    top: Annotated[int, typer.Option(help="The number of features to show.")] = 20,
    out: Annotated[Path | None, typer.Option(help="The CSV file for the contributions of every row.")] = None,
    json_: cli.Json = False,
) -> None:
    """Show which features carry the predictions of a model."""
    with checking():
        if top < 1:
            raise ValueError(f"--top must be at least 1, got {top}.")
        network, rows = _read(model, file, out, fill_in=True)
    with working():
        from svnn.inspection import feature_contributions

        found = feature_contributions(network, rows)
        if out is not None:
            found.to_frame().to_csv(out, index=False, lineterminator="\n")
    _give([{"feature": name, "contribution": value} for name, value in found.top(top)], None, json_, aligned=True)


@app.command()
def export(
    model: cli.Model,
    out: Annotated[Path, typer.Option(help="The file to write: .onnx for ONNX, .pt2 for torch.export.")],
    double: Annotated[bool, typer.Option("--double", help="Compute in double precision.")] = False,
) -> None:
    """Write a model as a file that runs without svnn."""
    with checking():
        cli.check_file(out)
        network = _loaded(model)
    with working(), checking():
        import torch

        network.export(out, dtype=torch.float64 if double else torch.float32)
    typer.echo(f"Wrote {out}")


def _loaded(model: Path) -> Any:
    """Return the model of a file."""
    from svnn import load

    if not model.is_file():
        raise FileNotFoundError(f"{model}: there is no such model; svnn fit writes one.")
    return load(model)


def _read(model: Path, file: str, out: Path | None, fill_in: bool = False) -> tuple[Any, Any]:
    """Return the model, and the rows of the table as it knows them: a frame where it was fitted with names.

    With ``fill_in`` missing values are filled in with medians, which is said.
    """
    import numpy as np
    import pandas as pd

    from svnn.comparison import read_table
    from svnn.comparison._models import complete

    if out is not None:
        cli.check_file(out)
    network = _loaded(model)
    names = getattr(network, "feature_names_in_", None)
    X = read_table(file, names=None if names is None else [str(name) for name in names]).X
    if X.shape[1] != network.n_features_in_:
        raise ValueError(
            f"{file} has {X.shape[1]} columns of numbers, but the model was fitted with {network.n_features_in_}."
        )
    if fill_in and np.isnan(X).any():
        complain("missing values are taken to be the medians of the table.", "yellow")
        X, _ = complete(X, X)
    return network, X if names is None else pd.DataFrame(X, columns=names)


def _give(rows: list[dict[str, Any]], out: Path | None, json_: bool, aligned: bool = False) -> None:
    """Print rows as JSON, CSV or an aligned table, or write them to a CSV file."""
    if out is not None or not (json_ or aligned):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if out is None:
            typer.echo(text.getvalue(), nl=False)
        else:
            out.write_text(text.getvalue(), encoding="utf-8", newline="\n")
    if json_:
        say_json(rows)
    elif out is not None:
        typer.echo(f"Wrote {out}")
    elif aligned:
        from svnn.stability._records import Records

        typer.echo(str(Records(rows)))
