"""The comparison: a plan, every model on every split of it, and the result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeAlias

import numpy as np

from svnn._cluster import Scheduler
from svnn._jobs import Ended, Job, derive_seed, run_here
from svnn._types import ColumnLike, CovarianceLike, DataLike
from svnn._workers import run_jobs
from svnn.comparison._comparison import DEFAULT, DENSE, OURS, Comparison
from svnn.comparison._models import METRICS, MODELS, complete, fit_and_score
from svnn.comparison._plan import Plan, prepare
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.estimators._units import Standardizer

#: Called after every fit, with the number of fits so far, that of all, and the name of the model.
Callback: TypeAlias = Callable[[int, int, str], object]
#: The most features or training rows with which a model is still tried, and what it would do beyond.
LIMITS = {
    "LDA": ("features", 3000, "it solves with a full covariance matrix"),
    "VNN": ("features", 15000, "its covariance matrix would be full"),
    "GP": ("rows", 2500, "its time grows with the third power of the rows"),
    "SVM": ("rows", 6000, "its time grows with the square of the rows, and a grid is searched"),
}
#: Covariances that are full matrices, whatever the number of features.
FULL = ("sample", "ledoit_wolf", "oas", "graphical_lasso")


def compare(
    X: DataLike,
    y: ColumnLike,
    *,
    groups: ColumnLike | None = None,
    task: str | None = None,
    quick: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
    scheduler: Scheduler | None = None,
    models: Sequence[str] | None = None,
    covariance: CovarianceLike = DEFAULT,
    callback: Callback | None = None,
    name: str = "table",
    notes: Iterable[str] = (),
) -> Comparison:
    """Compare svnn's networks with the models that one would try, by repeated cross-validation.

    The models are the S-VNN as it comes, the same network without edges (``order=0``) and on the dense covariance
    (VNN), ridge or logistic regression, a support vector machine, gradient boosting, a Gaussian process or linear
    discriminant analysis, and a floor that knows the targets only. Each sees the same splits. What has to be chosen,
    scaled or filled in is learned from the training rows of each split.

    Parameters
    ----------
    X : array or data frame of shape (t, N)
        Numbers; missing ones are NaN.
    y : array of shape (t,)
        Numbers or classes.
    groups : array of shape (t,), optional
        Rows of one group, such as those of one person, are never on both sides of a split. Rows whose group is missing
        are left out, and ``notes`` says so.
    task : {"regression", "classification"}, optional
        By default text, booleans and at most ten different integers are classes.
    quick : bool, default=False
        One round of five folds instead of five rounds.
    random_state : int, default=0
        Seed of the folds and of all models.
    n_jobs : int, optional
        The number of processes. By default all fits run in this one. The scores do not depend on it. With a scheduler
        it is the largest number of fits at the same time, by default as many as the workers have threads.
    scheduler : str or distributed.Client, optional
        The address of a Dask scheduler, or a client: the fits run on its workers. The scores do not depend on it.
    models : sequence of str, optional
        Only these models.
    covariance : str or estimator, default="hard"
        The covariance of the S-VNN, by its name or as an estimator; :func:`svnn.advise` says which one predicts best.
    callback : callable, optional
        ``callback(done, total, model)`` is called after every fit.
    name : str, default="table"
        The name of the result.
    notes : sequence of str
        What a reader of the result should know, such as ``read_table(...).notes``.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from svnn.comparison import compare
    >>> from svnn.datasets import load_tecator
    >>> data = load_tecator()
    >>> result = compare(data.X[::3], data.y[::3], quick=True, models=["ridge", "always the mean"])
    >>> result.best(), result.n_splits
    ('ridge', 5)
    """
    plan = prepare(X, y, groups, task, quick, random_state)
    return run(with_models(plan, models, covariance, notes), name, n_jobs, scheduler, callback)


def with_models(
    plan: Plan, models: Sequence[str] | None = None, covariance: CovarianceLike = DEFAULT, notes: Iterable[str] = ()
) -> Plan:
    """Return the plan of a comparison of models; those that would take too long are left out, with a note."""
    known = MODELS[plan.task]
    if models is not None and not (models and set(models) <= set(known)):
        raise ValueError(f"models must be some of {', '.join(known)}; got {', '.join(models) or 'none'}.")
    chosen = [model for model in known if models is None or model in models]
    size = {"features": plan.X.shape[1], "rows": len(plan.X) - len(plan.X) // plan.folds}
    over = [model for model in chosen if model in LIMITS and size[LIMITS[model][0]] > LIMITS[model][1]]
    if len(over) == len(chosen):
        over = []
    said = [*notes, *plan.notes]
    said += [f"{model} is left out beyond {LIMITS[model][1]} {LIMITS[model][0]}: {LIMITS[model][2]}." for model in over]
    tried = [model for model in chosen if model not in over]
    named = covariance if isinstance(covariance, str) else repr(covariance)
    if named != DEFAULT and OURS in tried:
        _check_covariance(covariance, plan)
        said.append(f"The {OURS} uses covariance={_in_words(covariance)}.")
    return replace(
        plan,
        models={model: (model, {"parts__covariance": covariance} if model == OURS else {}) for model in tried},
        settings={"covariance": named} if OURS in tried else {},
        notes=tuple(said),
    )


def run(
    plan: Plan,
    name: str,
    n_jobs: int | None = None,
    scheduler: Scheduler | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Fit every model of a plan on every split, in this process, in several, or on a cluster."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1):
        raise ValueError(f"n_jobs must be an integer >= 1 or None, got {n_jobs!r}.")
    jobs = list(_jobs(plan))
    here = scheduler is None and n_jobs in (None, 1)
    ends: dict[str, Ended] = {}
    with closing(_run_here(jobs) if here else run_jobs(jobs, n_jobs and int(n_jobs), scheduler)) as running:
        for done, (job, ended) in enumerate(running, 1):
            ends[job.name] = ended
            if callback is not None:
                callback(done, len(jobs), str(job.key["model"]))
    rows: dict[str, list[Any]] = {model: [] for model in plan.models}
    failed: dict[str, str] = {}
    for job in jobs:  # in their order, whichever ended first
        ended, model = ends[job.name], str(job.key["model"])
        if ended["status"] == "failed":
            failed.setdefault(model, ended["error"])
        else:
            rows[model] += ended["rows"]
    finished = [model for model in plan.models if model not in failed]
    if not finished:
        raise ValueError(f"No model could be fitted: {next(iter(failed.values()))}")
    said = [f"{model} is left out, because it failed: {' '.join(error.split())}" for model, error in failed.items()]
    return Comparison(
        name=name,
        task=plan.task,
        metric=METRICS[plan.task],
        scores={model: np.array([row["score"] for row in rows[model]]) for model in finished},
        seconds={model: np.array([row["fit_seconds"] for row in rows[model]]) for model in finished},
        n_samples=len(plan.X),
        n_features=plan.X.shape[1],
        n_groups=None if plan.groups is None else len(np.unique(plan.groups)),
        settings={
            "folds": plan.folds,
            "repeats": plan.repeats,
            "quick": plan.quick,
            "random_state": plan.seed,
            **({} if plan.classes is None else {"classes": [str(each) for each in plan.classes]}),
            **plan.settings,
            "svnn": version("svnn"),
        },
        notes=(*plan.notes, *said),
    )


def check_name(covariance: CovarianceLike, n_features: int) -> None:
    """Raise a ``ValueError`` where no covariance has this name, or where it would be too large a matrix."""
    resolve(covariance)
    _, most, why = LIMITS[DENSE]
    if covariance in FULL and n_features > most:
        raise ValueError(
            f"covariance={_in_words(covariance)} takes at most {most} features, because {why}; there are {n_features}."
        )


def _check_covariance(covariance: CovarianceLike, plan: Plan) -> None:
    """Raise a ``ValueError`` where this covariance cannot be fitted to the training rows of the first split."""
    check_name(covariance, plan.X.shape[1])
    train, _ = plan.splits[0]
    X, _ = complete(plan.X[train], plan.X[train])
    try:
        fit_covariance(resolve(covariance, plan.seed), Standardizer.fit(X, np.ones(len(X)))(X), y=plan.y[train])
    except (ValueError, MemoryError) as error:
        raise ValueError(f"covariance={_in_words(covariance)} cannot be fitted to this table: {error}") from error


def _in_words(covariance: CovarianceLike) -> str:
    """Return a covariance as one writes it.

    Examples
    --------
    >>> _in_words("soft")
    '"soft"'
    """
    return f'"{covariance}"' if isinstance(covariance, str) else repr(covariance)


def _jobs(plan: Plan) -> Iterator[Job]:
    """Yield a job for every split and model, in this order, so that the time left is known early."""
    table = {"X": plan.X, "y": plan.y, "groups": plan.groups, "task": plan.task, "group_folds": plan.group_folds}
    for split, (train, test) in enumerate(plan.splits):
        rows = {**table, "train": train, "test": test, "seed": derive_seed(plan.seed, "fit", split)}
        for label, (model, parameters) in plan.models.items():
            more = {"builds": model, "parameters": parameters}
            yield Job(fit_and_score, {"model": label, "split": split}, {**rows, **more})


def _run_here(jobs: Iterable[Job]) -> Generator[tuple[Job, Ended], None, None]:
    """Run jobs in this process, one by one."""
    for job in jobs:
        yield job, run_here(job.run, {**job.key, **job.arguments})
