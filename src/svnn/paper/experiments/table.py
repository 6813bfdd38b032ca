"""Tables II and III: every variant and baseline on every real data set, with settings searched on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from svnn._jobs import Job, Row, canonical
from svnn.paper.experiments import _output as output
from svnn.paper.experiments import _real_data as real
from svnn.paper.experiments._models import BASELINES, GRID, LIBRARY, MODELS, SPARSE, Grid, TimedSettings, configurations
from svnn.paper.experiments._output import Tables, cell, summarise
from svnn.paper.experiments.performance import join_times

CLAIM = (
    "On all data sets the best score is that of an S-VNN; the MLP is worse than most on the brain data and Realdisp; "
    "PCA helps it; neighbour sampling is worse than the VNN; GL is the best of the wearable data, at a high cost."
)
DATASETS = (*real.REAL, *real.FEATURES)
#: A user would take the S-VNN with the best validation score. These rows of the table show its test score.
PICKED = {"S-VNN, by validation": SPARSE, "svnn, by validation": tuple(name for name in LIBRARY if name != "svnn VNN")}
#: Two models that all others are compared with on the same splits, and the column of the difference.
RIVALS = {"VNN": "over_vnn", "PCA + MLP": "over_pca_mlp"}


@dataclass(frozen=True, kw_only=True)
class TableSettings(TimedSettings):
    """The models, and what is searched."""

    models: tuple[str, ...] = MODELS
    grid: Grid = field(default_factory=lambda: GRID)


FULL = TableSettings()
QUICK = replace(
    FULL,
    models=tuple(name for name in MODELS if name != "Sparse PCA + MLP"),  # each of its fits takes half a minute
    epochs=30,
    grid={"layers": (1, 2), "order": (2,), "dropout": (0.0,), "mlp": ([32, 32],), "components": (10,)},
    repeats=2,
    timings=3,
    limit=300,
)


def jobs(settings: TableSettings, rows: list[Row]) -> list[Job]:
    """Return the search on the first split, then the chosen settings on the other splits, then their times."""
    arguments = {"settings": settings}
    planned = [
        Job(real.fit_and_score, {"dataset": d, "model": m, "config": config, "repeat": 0}, arguments)
        for d in settings.datasets
        for m in settings.models
        for config in configurations(m, settings.grid)
    ]
    if not rows:
        return planned
    for (dataset, model), config in chosen(pd.DataFrame(rows)).items():
        key = {"dataset": dataset, "model": model, "config": config}
        planned += [Job(real.fit_and_score, {**key, "repeat": r}, arguments) for r in range(1, settings.repeats)]
        planned.append(Job(real.take_times, {**key, "what": "times"}, arguments, alone=True))
    return planned


def notes() -> list[str]:
    """Return what a reader should know about the table."""
    return [
        "Models named svnn … have the defaults of this library, among them a learned readout. All other networks are "
        "those of the paper.",
        "Settings are searched on the first split and kept for the others. Test rows of the others may have been "
        "validation rows of the first.",
        "By validation: in every repeat, the test score of the S-VNN with the best validation score. differences.csv "
        "compares the models on the same splits.",
    ]


def chosen(rows: pd.DataFrame) -> pd.Series:
    """Return the settings with the best validation score on the first split, for every data set and model."""
    first = rows[(rows["repeat"] == 0) & rows["validation"].notna()]
    return best_validation(first, ["dataset", "model"]).set_index(["dataset", "model"])["config"]


def best_validation(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the row with the best validation score of every group; the first of several that are equally good."""
    ranked = rows.assign(rank=-better(rows, "validation")).sort_values("rank", kind="stable")
    return ranked.drop_duplicates(list(by)).sort_index().drop(columns="rank")


def better(rows: pd.DataFrame, score: str) -> pd.Series:
    """Return scores with their sign changed where they are errors, so that larger is better."""
    return rows[score].mask(rows["dataset"].map(real.lower_is_better).astype(bool), -rows[score])


def tables(rows: pd.DataFrame, settings: TableSettings) -> Tables:
    """Return the means, the chosen settings in every repeat, the differences, and the search that led to them."""
    best = chosen(rows)
    fits = rows[rows["repeat"].notna()].drop(columns=["what", "rows", "backend"], errors="ignore")
    fits = fits.join(best.rename("chosen"), on=["dataset", "model"], how="inner")
    final = fits[fits["config"].map(canonical) == fits["chosen"].map(canonical)].drop(columns="chosen")
    picked = [rows for name in PICKED if len(rows := pick(final, name))]
    final = pd.concat([final, *picked], ignore_index=True)
    order = {"dataset": settings.datasets, "model": (*settings.models, *PICKED)}
    final = final.sort_values(
        ["dataset", "model", "repeat"],
        key=lambda column: column.map(order[column.name].index) if column.name in order else column,
    )
    summary = summarise(final, ["dataset", "model"], ["score", "validation", "density", "epochs"])
    summary = summary.join(best, on=["dataset", "model"])
    search = fits[fits["repeat"] == 0].drop(columns="chosen")
    return {"summary": summary, "repeats": final, "differences": differences(final), "search": search}


def pick(final: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return, for every data set and repeat, the one of the models that has the best validation score."""
    best = best_validation(final[final["model"].isin(PICKED[name])], ["dataset", "repeat"])
    return best.assign(model=name, picked=best["model"])


def differences(final: pd.DataFrame) -> pd.DataFrame:
    """Return how much better every model is than the VNN and PCA + MLP on the same splits; positive is better."""
    final = final.assign(score=better(final, "score"))
    for rival, column in RIVALS.items():
        theirs = final[final["model"] == rival].set_index(["dataset", "repeat"])["score"]
        final = final.join(theirs.rename(column), on=["dataset", "repeat"])
        final[column] = final["score"] - final[column]
    return summarise(final, ["dataset", "model"], list(RIVALS.values()))


def times(timings: pd.DataFrame) -> pd.DataFrame:
    """Return the times of a fit and of a prediction with the chosen settings, for every data set and model."""
    timings = timings.assign(config=timings["config"].map(cell))
    columns = ["rows", "setup_seconds", "predict_seconds", "forward_seconds", "backend"]
    return join_times(timings, ["dataset", "model", "config"], columns).dropna(subset=["rows"])


def headline(frames: Tables) -> Tables:
    """Return a table for every data set: the scores, the times, and the settings that were chosen."""
    out = {}
    both = frames["summary"].merge(frames["times"].drop(columns="config"), how="left", on=["dataset", "model"])
    for dataset, part in both.groupby("dataset", sort=False):
        scores = {f"{real.metric(dataset)}_{kind}": part[f"score_{kind}"] for kind in ("mean", "std")}
        times = {"setup (s)": part["setup_seconds"], "fit (s)": part["fit_seconds_mean"]}
        times["predict (ms)"] = 1e3 * part["predict_seconds"]
        out[dataset] = pd.DataFrame({"model": part["model"], **scores, **times, "chosen": part["config"].map(cell)})
    return out


def plots(frames: Tables, settings: TableSettings) -> output.Figures:
    """Return the scores as points with their spread, with a panel for every data set."""
    datasets = frames["summary"]["dataset"].unique()
    figure, axes = output.subplots(1, len(datasets), width=3.4, height=5.2, sharey=True)
    models = list(frames["summary"]["model"].unique())[::-1]
    for axis, dataset in zip(axes[0], datasets, strict=True):
        for row in frames["summary"].query("dataset == @dataset").itertuples():
            colour = output.PALETTE[1 if row.model.startswith("svnn") else 0]
            if row.model in (*BASELINES, "VNN", "No edges"):
                colour = output.GREY
            at = models.index(row.model)
            axis.errorbar(row.score_mean, at, xerr=row.score_std, fmt="o", color=colour, capsize=2)
        axis.set_yticks(range(len(models)), models)
        axis.set_title(real.proper_name(dataset))
        best = "lower" if real.lower_is_better(dataset) else "higher"
        axis.set_xlabel(f"test {real.metric(dataset)}, {best} is better")
    return {"table": figure}
