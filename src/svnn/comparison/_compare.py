"""The comparison: every model on every split, in this process, in several, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version

import numpy as np

from svnn._cluster import Scheduler
from svnn._cluster_jobs import workers
from svnn._jobs import Job, derive_seed
from svnn._types import ColumnLike, DataLike
from svnn._workers import Ended, run_here
from svnn.comparison._checks import check_seed, checked, chosen, targets, within_limits
from svnn.comparison._comparison import Comparison
from svnn.comparison._fits import fit_and_score
from svnn.comparison._names import METRICS, TASKS
from svnn.comparison._splits import Plan, plan, splits
from svnn.comparison._task import guess_task


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
    callback: Callable[[int, int, str], object] | None = None,
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
    callback : callable, optional
        ``callback(done, total, model)`` is called after every fit.
    name : str, default="table"
        What the result is called.
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
    >>> found = compare(data.X[::3], data.y[::3], quick=True, models=["ridge", "always the mean"])
    >>> found.best(), found.n_splits
    ('ridge', 5)
    """
    values, target, group_codes, left_out = checked(X, y, groups)
    check_seed(random_state)
    said = [*notes, *left_out]
    if task is None:
        task, reason = guess_task(target)
        said += [reason] if reason else []
    if task not in TASKS:
        raise ValueError(f"task must be {' or '.join(map(repr, TASKS))}, got {task!r}.")
    codes, classes = targets(target, task)
    how = plan(codes if classes is None else np.array(classes)[codes], group_codes, task, quick)
    tried, too_large = within_limits(chosen(models, task), values.shape, how)
    said += [*how.notes, *too_large]
    jobs = _jobs(values, codes, group_codes, task, how, tried, random_state)
    scores: dict[str, list[float]] = {model: [] for model in tried}
    seconds: dict[str, list[float]] = {model: [] for model in tried}
    ends: dict[str, Ended] = {}
    for done, (job, ended) in enumerate(_run(jobs, n_jobs, scheduler), 1):
        ends[job.name] = ended
        if callback is not None:
            callback(done, len(jobs), str(job.key["model"]))
    failed: dict[str, str] = {}
    for job in jobs:  # in their order, whichever ended first
        model, ended = str(job.key["model"]), ends[job.name]
        if ended["status"] == "failed":
            failed.setdefault(model, ended["error"])
            continue
        (row,) = ended["rows"]
        scores[model].append(float(row["score"]))  # type: ignore[arg-type]
        seconds[model].append(float(row["fit_seconds"]))  # type: ignore[arg-type]
    said += [f"{model} is left out, because it failed: {' '.join(error.split())}" for model, error in failed.items()]
    finished = [model for model in tried if model not in failed]
    if not finished:
        raise ValueError(f"No model could be fitted: {next(iter(failed.values()))}")
    return Comparison(
        name=name,
        task=task,
        metric=METRICS[task],
        scores={model: np.array(scores[model]) for model in finished},
        seconds={model: np.array(seconds[model]) for model in finished},
        n_samples=len(values),
        n_features=values.shape[1],
        n_groups=None if group_codes is None else len(np.unique(group_codes)),
        settings={
            "folds": how.folds,
            "repeats": how.repeats,
            "quick": quick,
            "random_state": int(random_state),
            **({} if classes is None else {"classes": [str(each) for each in classes]}),
            "svnn": version("svnn"),
        },
        notes=tuple(said),
    )


def _jobs(
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray | None,
    task: str,
    how: Plan,
    models: Sequence[str],
    seed: int,
) -> list[Job]:
    """Return a job for every split and model, in this order, so that the time left can be told early."""
    table = {"X": X, "y": y, "groups": groups, "task": task, "group_folds": how.group_folds}
    jobs = []
    for split, (train, test) in enumerate(splits(how, y, groups, task, seed)):
        rows = {**table, "train": train, "test": test, "seed": derive_seed(seed, "fit", split)}
        jobs += [Job(fit_and_score, {"model": model, "split": split}, rows) for model in models]
    return jobs


def _run(jobs: list[Job], n_jobs: int | None, scheduler: Scheduler | None) -> Iterator[tuple[Job, Ended]]:
    """Yield every job as it ends."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1):
        raise ValueError(f"n_jobs must be an integer >= 1 or None, got {n_jobs!r}.")
    if scheduler is None and n_jobs in (None, 1):
        yield from ((job, run_here(job.run, {**job.key, **job.arguments})) for job in jobs)
        return
    with workers(None if n_jobs is None else int(n_jobs), scheduler) as processes:
        yield from processes.work(jobs)
