"""``svnn compare`` and ``svnn demo``: which model suits a table, and does the covariance help?"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svnn.cli._app import (
    Covariance,
    Drop,
    File,
    Group,
    Jobs,
    Json,
    Scheduler,
    Seed,
    Target,
    Task,
    app,
    checking,
    complain,
    parts,
    say_json,
    say_notes,
    working,
)

if TYPE_CHECKING:
    from rich.table import Table as ScreenTable

    from svnn.comparison import Comparison, Table

Quick = Annotated[bool, typer.Option("--quick", help="One round of five folds instead of five rounds.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("runs/demo"),
    quick: Quick = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    json_: Json = False,
) -> None:
    """Compare models on near-infrared spectra of meat that come with the package.

    The same as svnn compare on a table of your own: how much fat is in the meat, and does the covariance of the
    wavelengths help to tell?
    """
    with checking():
        _check(out, seed, jobs)
        from svnn.comparison import Table
        from svnn.datasets import load_tecator

        data = load_tecator("fat")
        name = "Tecator (fat in meat)"
        table = Table(data.X, data.y, None, data.feature_names, "regression", "fat", name, ())
    _compare(table, out, quick, seed, jobs, json_)
    if not json_:
        typer.echo(
            "\nIn comparison.png a dot is the mean error of a model on rows that it was not trained on, and its line\n"
            "is the 95 % interval. The distance between S-VNN and the same network without edges is what the\n"
            "covariance of the wavelengths brings."
        )


@app.command()
def compare(
    file: File,
    target: Target,
    group: Group = None,
    task: Task = None,
    covariance: Covariance = "hard",
    drop: Drop = None,
    quick: Quick = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the results. By default runs/compare/NAME; with --json none is written."),
    ] = None,
    json_: Json = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
) -> None:
    """Compare covariance networks with other models on a table, by repeated cross-validation.

    The models are the S-VNN, as it comes or with --covariance, the same network without edges and on the dense
    covariance, ridge or logistic regression, a support vector machine, boosting, a Gaussian process or discriminant
    analysis. The result is a table with intervals, three sentences in plain words, scores.csv, comparison.json,
    comparison.png, and a report.
    """
    with checking():
        _check(out, seed, jobs)
        from svnn.comparison import read_table
        from svnn.comparison._covariance import check_covariance
        from svnn.comparison._names import DEFAULT
        from svnn.comparison._scores import Problem
        from svnn.comparison._splits import splits

        table = read_table(file, target, group, task, drop=parts(drop))
        of = Problem.of(table.X, table.y, table.groups, table.task, quick, seed)
        list(splits(of.how, of.y, of.groups, of.task, seed))  # what cannot be split is an error here
        if covariance != DEFAULT:
            check_covariance(covariance, of)
        folder = out if out or json_ else Path("runs/compare") / table.name
        _check(folder, seed, jobs)
        if scheduler is not None:
            from svnn._cluster import check_scheduler

            check_scheduler(scheduler)
    _compare(table, folder, quick, seed, jobs, json_, scheduler, covariance)


def _check(out: Path | None, seed: int, jobs: int | None) -> None:
    from svnn._jobs import check_seed
    from svnn.paper.experiments._run_folder import check_folder

    check_seed(seed)
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}.")
    if out is not None:
        check_folder(out)


def _compare(
    table: Table,
    folder: Path | None,
    quick: bool,
    seed: int,
    jobs: int | None,
    json_: bool,
    scheduler: str | None = None,
    covariance: str = "hard",
) -> None:
    """Measure, print, and write."""
    from rich.progress import TextColumn, TimeRemainingColumn

    from svnn.comparison import compare
    from svnn.paper.experiments._reproduce import cores
    from svnn.paper.experiments._terminal import console, progress_bar

    say_notes(table.notes, quiet=json_)
    with working():
        with progress_bar(TextColumn("left"), TimeRemainingColumn()) as bar:
            task = bar.add_task("starting", total=None)
            found = compare(
                table.X,
                table.y,
                groups=table.groups,
                task=table.task,
                quick=quick,
                random_state=seed,
                n_jobs=jobs or (cores() if scheduler is None else None),
                scheduler=scheduler,
                covariance=covariance,
                callback=lambda done, total, model: bar.update(task, total=total, completed=done, description=model),
                name=table.name,
                notes=table.notes,
            )
        say_notes(found.notes[len(table.notes) :], quiet=json_)
        if json_:
            say_json(found.to_dict(seconds=False))
        else:
            screen = console()
            screen.print(_screen_table(found))
            for sentence in found.sentences():
                screen.print(sentence, markup=False, highlight=False)
        if folder is not None:
            written = _write(folder, found, table, seed)
            if not json_:
                typer.echo("Wrote " + ", ".join(str(path) for path in written))


def _screen_table(found: Comparison) -> ScreenTable:
    """Return the scores as a table for the terminal; the best is bold, and ours has an arrow."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from svnn.comparison._names import OURS

    groups = "" if found.n_groups is None else f" in {found.n_groups} groups"
    title = f"{found.name}: {found.n_samples} rows{groups}, {found.n_features} features, {found.n_splits} splits"
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("model")
    best = found.best()
    for column in (f"{found.metric}, lower is better", "± (95 %)", f"p against {best}", "fit (s)"):
        table.add_column(column, justify="right")
    for model, values in found.seconds.items():
        mean, low, _ = found.interval(model)
        p = "" if model == best else _p(found.paired_test(model, best).p)
        cells = ("→" if model == OURS else "", model, f"{mean:.3f}", f"{mean - low:.3f}", p, f"{values.mean():.2f}")
        table.add_row(*cells, style="bold" if model == best else None)
    return table


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _write(folder: Path, found: Comparison, table: Table, seed: int) -> list[Path]:
    """Write the scores, the report, and the picture where matplotlib is there."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "scores.csv", folder / "comparison.json"]
    found.to_csv(written[0])
    found.to_json(written[1])
    if find_spec("matplotlib") is None:
        complain('no picture, because matplotlib is missing: pip install "svnn[compare]".', "yellow")
    else:
        from svnn.comparison import plot

        plot(found, folder / "comparison.png")
        written.append(folder / "comparison.png")
    return [*written, _write_report(folder / "report.html", found, table, seed)]


def _write_report(path: Path, found: Comparison, table: Table, seed: int) -> Path:
    """Write the report, with a network that was trained on the rows of one split and looks at the other rows."""
    from svnn.comparison._fits import complete
    from svnn.comparison._models import build, fit
    from svnn.comparison._names import DEFAULT, OURS
    from svnn.comparison._splits import plan, splits
    from svnn.reporting import write_report

    how = plan(table.y, table.groups, table.task, quick=True)
    train, test = next(splits(how, table.y, table.groups, table.task, seed))
    X_train, X_test = complete(table.X[train], table.X[test])
    model = build(OURS, table.task, table.X.shape[1], seed, how.group_folds)
    model.set_params(covariance=found.settings.get("covariance", DEFAULT))
    fit(model, X_train, table.y[train], None if table.groups is None else table.groups[train])
    write_report(path, comparison=found, model=model, X=X_test, y=table.y[test], names=table.names)
    return path
