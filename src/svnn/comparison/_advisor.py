"""Which covariance predicts best? The network with each of a few covariances, on the same held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

from svnn._types import ColumnLike, DataLike
from svnn.comparison._advice import PredictionAdvice
from svnn.comparison._covariance import check_name
from svnn.comparison._names import CONTROL, DEFAULT, OURS
from svnn.comparison._scores import Callback, Problem, measured
from svnn.comparison._splits import LEAST_ROWS
from svnn.stability._inputs import check_integer

#: The covariances that are tried, where none are named.
CANDIDATES = (DEFAULT, "soft", "sample", "ledoit_wolf", "factors", "acv", "rcv")
#: Networks of half as many members as usual train in half of the time, and rank covariances alike.
MEMBERS = 4


def advise_by_prediction(
    X: DataLike,
    y: ColumnLike,
    *,
    groups: ColumnLike | None = None,
    task: str | None = None,
    covariances: Sequence[str] | None = None,
    max_rows: int = 500,
    n_jobs: int | None = None,
    random_state: int = 0,
    callback: Callback | None = None,
) -> PredictionAdvice:
    """Rank covariances by how well the network predicts held-out rows; see :func:`svnn.advise`."""
    max_rows = check_integer(max_rows, f"max_rows must be an integer >= {LEAST_ROWS}", LEAST_ROWS)
    problem = Problem.of(X, y, groups, task, True, random_state, max_rows)
    names, notes = _candidates(covariances, problem.X.shape[1])
    networks = {name: (OURS, {"covariance": name, "members": MEMBERS}) for name in names}
    found = measured(
        problem,
        {**networks, CONTROL: (CONTROL, {"members": MEMBERS})},
        name="advice",
        settings={"members": MEMBERS, "max_rows": max_rows},
        notes=(*problem.notes, *notes),
        n_jobs=n_jobs,
        callback=callback,
    )
    if DEFAULT not in found.scores:
        raise ValueError("advise: " + next(note for note in found.notes if note.startswith(f"{DEFAULT} is left out")))
    named = getattr(y, "name", None)
    return PredictionAdvice(found, "y" if named is None else str(named))


def _candidates(covariances: Sequence[str] | None, n_features: int) -> tuple[list[str], list[str]]:
    """Return the covariances to try, the default first, and what is left out because it is too large."""
    if covariances is None:
        fitting, notes = [], []
        for name in CANDIDATES:
            try:
                check_name(name, n_features)
            except ValueError as error:
                notes.append(f"{name} is left out: {error}")
            else:
                fitting.append(name)
        return fitting, notes
    if isinstance(covariances, str) or not all(isinstance(name, str) for name in covariances):
        raise ValueError(f"covariances must be names such as ['soft', 'sample'], got {covariances!r}.")
    for name in covariances:
        check_name(name, n_features)
    return list(dict.fromkeys([DEFAULT, *covariances])), []
