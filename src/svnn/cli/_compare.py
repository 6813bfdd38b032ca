"""``svnn compare``, ``demo`` and ``advise``: which model suits a table, and which covariance?"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svnn._jobs import check_run, cores
from svnn._progress import console, progress_bar
from svnn.cli import _app as cli
from svnn.cli._app import app, checking, complain, say_json, say_notes, working

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table as ScreenTable

    from svnn.comparison import Comparison, Dataset
    from svnn.comparison._compare import Callback
    from svnn.comparison._plan import Plan

Quick = Annotated[bool, typer.Option("--quick", help="One round of five folds instead of five rounds.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("runs/demo"),
    quick: Quick = False,
    seed: cli.Seed = 0,
    jobs: cli.Jobs = None,
    json_: cli.Json = False,
) -> None:
    """Compare models on near-infrared spectra of meat that come with the package.

    The same as svnn compare on a table of your own: how much fat is in the meat, and does the covariance of the
    wavelengths help to tell?
    """
    with checking():
        check_run(seed, jobs, out)
        from svnn.comparison import Dataset
        from svnn.datasets import load_tecator

        meat = load_tecator("fat")
        name = "Tecator (fat in meat)"
        data = Dataset(meat.X, meat.y, None, meat.feature_names, "regression", "fat", name, ())
        plan = _plan(data, quick, seed)
    _measure(plan, data, out, jobs, None, json_)
    if not json_:
        typer.echo(
            "\nIn comparison.png a dot is the mean error of a model on rows that it was not trained on, and its line\n"
            "is the 95 % interval. The distance between S-VNN and the same network without edges is what the\n"
            "covariance of the wavelengths brings."
        )


@app.command()
def compare(
    file: cli.File,
    target: cli.Target,
    group: cli.Group = None,
    task: cli.Task = None,
    covariance: cli.Covariance = "hard",
    drop: cli.Drop = None,
    quick: Quick = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the results. By default runs/compare/NAME; with --json none is written."),
    ] = None,
    json_: cli.Json = False,
    seed: cli.Seed = 0,
    jobs: cli.Jobs = None,
    scheduler: cli.Scheduler = None,
) -> None:
    """Compare covariance networks with other models on a table, by repeated cross-validation.

    The models are the S-VNN, as it comes or with --covariance, the same network without edges and on the dense
    covariance, ridge or logistic regression, a support vector machine, boosting, a Gaussian process or discriminant
    analysis. The result is a table with intervals, three sentences in plain words, scores.csv, comparison.json,
    comparison.png, and a report.
    """
    with checking():
        check_run(seed, jobs, out)
        from svnn.comparison import read_table

        data = read_table(file, target, group, task, drop=cli.parts(drop))
        plan = _plan(data, quick, seed, covariance)
        folder = out if out or json_ else Path("runs/compare") / data.name
        check_run(seed, jobs, folder)
        if scheduler is not None:
            from svnn._cluster import check_scheduler

            check_scheduler(scheduler)
    _measure(plan, data, folder, jobs, scheduler, json_)


@app.command()
def advise(
    file: cli.File,
    target: Annotated[
        str | None, typer.Option(help="The column to predict. With it covariances are ranked by prediction.")
    ] = None,
    group: cli.Group = None,
    task: cli.Task = None,
    drop: cli.Drop = None,
    seed: cli.Seed = 0,
    jobs: cli.Jobs = None,
    json_: cli.Json = False,
) -> None:
    """Recommend a covariance for a table, and say why.

    With --target networks with each of several covariances, and without edges, predict rows that were held out. Without
    it estimates are compared with the covariance of such rows, which cannot say whether predictions get better.
    """
    with checking():
        check_run(seed, jobs)
        from svnn.comparison import _advisor, read_table
        from svnn.comparison._models import complete

        if target is None and (group is not None or task is not None):
            raise ValueError("--group and --task need --target, the column to predict.")
        data = read_table(file, target, group, task, drop=cli.parts(drop))
        rows, features = data.X.shape
        if target is not None:
            plan = _advisor.plan_advice(data.X, data.y, data.groups, data.task, seed=seed)
        elif rows < 10 or features < 2:
            raise ValueError(f"{file} has {rows} rows and {features} features; advice needs at least 10 and 2.")
    say_notes(data.notes, quiet=json_)
    with working():
        advice: Any
        if target is not None:
            with progress_bar() as bar:
                advice = _advisor.advise(plan, target, jobs or cores(), _shown(bar))
            more = {"settings": advice.comparison.to_dict(seconds=False)["settings"]}
            said = {"recommended": advice.covariance, "reasons": list(advice.reasons)}
        else:
            from svnn.stability import advise as advise_by_covariance

            advice = advise_by_covariance(complete(data.X, data.X)[0], random_state=seed)
            more = {}
            said = {"looks": advice.looks, "recommended": advice.label, "reasons": list(advice.reasons)}
    if json_:
        say_json({**said, "table": [dict(row) for row in advice.table], **more, "notes": data.notes})
    else:
        typer.echo(str(advice))


def _plan(data: Dataset, quick: bool, seed: int, covariance: str = "hard") -> Plan:
    """Return the plan of a comparison, or raise an error where the table cannot be compared."""
    from svnn.comparison._compare import with_models
    from svnn.comparison._plan import prepare

    plan = prepare(data.X, data.y, data.groups, data.task, quick, seed)
    return with_models(plan, covariance=covariance, notes=data.notes)


def _shown(bar: Progress) -> Callback:
    """Return a callback that moves a bar after every fit."""
    shown = bar.add_task("starting", total=None)
    return lambda done, total, model: bar.update(shown, total=total, completed=done, description=model)


def _measure(
    plan: Plan, data: Dataset, folder: Path | None, jobs: int | None, scheduler: str | None, json_: bool
) -> None:
    """Run a plan, print the result, and write it."""
    from rich.progress import TextColumn, TimeRemainingColumn

    from svnn.comparison._compare import run

    say_notes(plan.notes, quiet=json_)
    with working():
        with progress_bar(TextColumn("left"), TimeRemainingColumn()) as bar:
            n_jobs = jobs or (cores() if scheduler is None else None)
            result = run(plan, data.name, n_jobs, scheduler, _shown(bar))
        say_notes(result.notes[len(plan.notes) :], quiet=json_)
        if json_:
            say_json(result.to_dict(seconds=False))
        else:
            screen = console()
            screen.print(_screen_table(result))
            for sentence in result.sentences():
                screen.print(sentence, markup=False, highlight=False)
        if folder is not None:
            written = _write(folder, result, plan, data)
            if not json_:
                typer.echo("Wrote " + ", ".join(str(path) for path in written))


def _screen_table(result: Comparison) -> ScreenTable:
    """Return the scores as a table for the terminal; the best is bold, and ours has an arrow."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from svnn.comparison._comparison import OURS

    groups = "" if result.n_groups is None else f" in {result.n_groups} groups"
    title = f"{result.name}: {result.n_samples} rows{groups}, {result.n_features} features, {result.n_splits} splits"
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("model")
    best = result.best()
    for column in (f"{result.metric}, lower is better", "± (95 %)", f"p against {best}", "fit (s)"):
        table.add_column(column, justify="right")
    for model, values in result.seconds.items():
        mean, low, _ = result.interval(model)
        p = "" if model == best else result.paired_test(model, best).p_in_words
        cells = ("→" if model == OURS else "", model, f"{mean:.3f}", f"{mean - low:.3f}", p, f"{values.mean():.2f}")
        table.add_row(*cells, style="bold" if model == best else None)
    return table


def _write(folder: Path, result: Comparison, plan: Plan, data: Dataset) -> list[Path]:
    """Write the scores, the picture where matplotlib is there, and the report.

    The report shows a network that was trained on the rows of one split, on the other rows.
    """
    from svnn.comparison import plot
    from svnn.comparison._comparison import DEFAULT, OURS
    from svnn.comparison._models import build, complete, fit
    from svnn.reporting import write_report

    folder.mkdir(parents=True, exist_ok=True)
    names = ["scores.csv", "comparison.json", "comparison.png", "report.html"]
    result.to_csv(folder / names[0])
    result.to_json(folder / names[1])
    if find_spec("matplotlib") is None:
        complain('no picture, because matplotlib is missing: pip install "svnn[compare]".', "yellow")
        del names[2]
    else:
        plot(result, folder / names[2])
    train, test = plan.splits[0]
    X_train, X_test = complete(data.X[train], data.X[test])
    model = build(OURS, data.task, data.X.shape[1], plan.seed, plan.group_folds)
    model.set_params(parts__covariance=result.settings.get("covariance", DEFAULT))
    fit(model, X_train, data.y[train], None if data.groups is None else data.groups[train])
    rows = {"X": X_test, "y": data.y[test], "names": data.names}
    write_report(folder / names[-1], comparison=result, model=model, **rows)
    return [folder / name for name in names]
