"""The comparison: every model on every split, in this process, in several, or on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svnn._cluster import Scheduler
from svnn._types import ColumnLike, CovarianceLike, DataLike
from svnn.comparison._checks import chosen, within_limits
from svnn.comparison._comparison import Comparison
from svnn.comparison._covariance import check_covariance, in_words
from svnn.comparison._names import DEFAULT, OURS
from svnn.comparison._scores import Callback, Problem, measured


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
    problem = Problem.of(X, y, groups, task, quick, random_state)
    tried, too_large = within_limits(chosen(models, problem.task), problem.X.shape, problem.how)
    said = [*notes, *problem.notes, *too_large]
    named = covariance if isinstance(covariance, str) else repr(covariance)
    if named != DEFAULT and OURS in tried:
        check_covariance(covariance, problem)
        said.append(f"The {OURS} uses covariance={in_words(covariance)}.")
    return measured(
        problem,
        {model: (model, {"covariance": covariance} if model == OURS else {}) for model in tried},
        name=name,
        settings={"covariance": named} if OURS in tried else {},
        notes=said,
        n_jobs=n_jobs,
        scheduler=scheduler,
        callback=callback,
    )
