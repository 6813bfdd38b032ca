"""A table that is ready to be split, and the scores of models on its splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

import numpy as np

from svnn._cluster import Scheduler
from svnn._cluster_jobs import workers
from svnn._jobs import Job, derive_seed
from svnn._types import ColumnLike, DataLike
from svnn._workers import Ended, run_here
from svnn.comparison._checks import check_seed, checked, targets
from svnn.comparison._comparison import Comparison
from svnn.comparison._fits import fit_and_score
from svnn.comparison._names import METRICS, TASKS
from svnn.comparison._splits import FOLDS, Plan, plan, splits
from svnn.comparison._task import guess_task

#: Called after every fit, with the number of fits so far, that of all, and the name of the model.
Callback: TypeAlias = Callable[[int, int, str], object]
#: The scores of these models are wanted: for each its name in ``build``, and the parameters of a network.
Models: TypeAlias = Mapping[str, tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, targets as numbers or codes of classes, groups as numbers, how they are split, and what to say of them."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None
    task: str
    classes: list[Any] | None
    how: Plan
    seed: int
    quick: bool
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        X: DataLike,
        y: ColumnLike,
        groups: ColumnLike | None,
        task: str | None,
        quick: bool,
        seed: int,
        max_rows: int | None = None,
    ) -> Problem:
        """Check a table; of more than ``max_rows`` rows take some at random."""
        values, target, group_codes, left_out = checked(X, y, groups)
        check_seed(seed)
        said = list(left_out)
        if task is None:
            task, reason = guess_task(target)
            said += [reason] if reason else []
        if task not in TASKS:
            raise ValueError(f"task must be {' or '.join(map(repr, TASKS))}, got {task!r}.")
        codes, classes = targets(target, task)
        if max_rows is not None and len(values) > max_rows:
            kept = some_rows(None if classes is None else codes, len(values), max_rows, seed)
            said.append(f"{len(kept)} of the {len(values)} rows are used, drawn at random (max_rows).")
            values, codes = values[kept], codes[kept]
            group_codes = None if group_codes is None else group_codes[kept]
        how = plan(codes if classes is None else np.array(classes)[codes], group_codes, task, quick)
        return cls(values, codes, group_codes, task, classes, how, int(seed), quick, (*said, *how.notes))


def some_rows(classes: np.ndarray | None, n_rows: int, max_rows: int, seed: int) -> np.ndarray:
    """Return random rows in their order; of every class at least as many as folds need, where there are as many."""
    order = np.random.default_rng(derive_seed(seed, "rows")).permutation(n_rows)
    if classes is not None:
        first = [order[classes[order] == each][:FOLDS] for each in np.unique(classes)]
        needed = np.concatenate(first)
        order = np.concatenate([needed, order[~np.isin(order, needed)]])
        max_rows = max(max_rows, len(needed))
    return np.sort(order[:max_rows])


def measured(
    problem: Problem,
    models: Models,
    *,
    name: str,
    settings: Mapping[str, object],
    notes: Iterable[str],
    n_jobs: int | None = None,
    scheduler: Scheduler | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Fit every model on every split, in this process, in several, or on a cluster."""
    jobs = list(_jobs(problem, models))
    scores: dict[str, list[float]] = {model: [] for model in models}
    seconds: dict[str, list[float]] = {model: [] for model in models}
    ends: dict[str, Ended] = {}
    for done, (job, ended) in enumerate(_run([job for _, job in jobs], n_jobs, scheduler), 1):
        ends[job.name] = ended
        if callback is not None:
            callback(done, len(jobs), str(job.key["model"]))
    failed: dict[str, str] = {}
    for model, job in jobs:  # in their order, whichever ended first
        ended = ends[job.name]
        if ended["status"] == "failed":
            failed.setdefault(model, ended["error"])
            continue
        (row,) = ended["rows"]
        scores[model].append(float(row["score"]))  # type: ignore[arg-type]
        seconds[model].append(float(row["fit_seconds"]))  # type: ignore[arg-type]
    said = [f"{model} is left out, because it failed: {' '.join(error.split())}" for model, error in failed.items()]
    finished = [model for model in models if model not in failed]
    if not finished:
        raise ValueError(f"No model could be fitted: {next(iter(failed.values()))}")
    return Comparison(
        name=name,
        task=problem.task,
        metric=METRICS[problem.task],
        scores={model: np.array(scores[model]) for model in finished},
        seconds={model: np.array(seconds[model]) for model in finished},
        n_samples=len(problem.X),
        n_features=problem.X.shape[1],
        n_groups=None if problem.groups is None else len(np.unique(problem.groups)),
        settings={
            "folds": problem.how.folds,
            "repeats": problem.how.repeats,
            "quick": problem.quick,
            "random_state": problem.seed,
            **({} if problem.classes is None else {"classes": [str(each) for each in problem.classes]}),
            **settings,
            "svnn": version("svnn"),
        },
        notes=(*notes, *said),
    )


def _jobs(problem: Problem, models: Models) -> Iterator[tuple[str, Job]]:
    """Yield a job for every split and model, in this order, so that the time left can be told early."""
    of, how = problem, problem.how
    table = {"X": of.X, "y": of.y, "groups": of.groups, "task": of.task, "group_folds": how.group_folds}
    for split, (train, test) in enumerate(splits(how, of.y, of.groups, of.task, of.seed)):
        rows = {**table, "train": train, "test": test, "seed": derive_seed(of.seed, "fit", split)}
        for label, (model, parameters) in models.items():
            more = {"builds": model, "parameters": parameters}
            yield label, Job(fit_and_score, {"model": label, "split": split}, {**rows, **more})


def _run(jobs: list[Job], n_jobs: int | None, scheduler: Scheduler | None) -> Iterator[tuple[Job, Ended]]:
    """Yield every job as it ends."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < 1):
        raise ValueError(f"n_jobs must be an integer >= 1 or None, got {n_jobs!r}.")
    if scheduler is None and n_jobs in (None, 1):
        yield from ((job, run_here(job.run, {**job.key, **job.arguments})) for job in jobs)
        return
    with workers(None if n_jobs is None else int(n_jobs), scheduler) as processes:
        yield from processes.work(jobs)
