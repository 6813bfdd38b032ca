"""Which covariance predicts best? The network with each of a few covariances on the same held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from svnn._types import ColumnLike, DataLike
from svnn.comparison._compare import Callback, check_name, run
from svnn.comparison._comparison import ALPHA, CONTROL, DEFAULT, OURS, Comparison, PairedTest
from svnn.comparison._plan import LEAST_ROWS, Plan, prepare
from svnn.sources._dataset import REGRESSION
from svnn.stability._inputs import check_integer
from svnn.stability._records import Records, aligned

#: The covariances that are compared by default.
CANDIDATES = (DEFAULT, "soft", "sample", "ledoit_wolf", "factors", "acv", "rcv")
#: Networks of half as many members as usual train in half of the time, and rank covariances alike.
MEMBERS = 4
#: Of larger tables this number of rows is drawn.
MOST_ROWS = 500


def advise_by_prediction(
    X: DataLike,
    y: ColumnLike,
    *,
    groups: ColumnLike | None = None,
    task: str | None = None,
    covariances: Sequence[str] | None = None,
    max_rows: int = MOST_ROWS,
    n_jobs: int | None = None,
    random_state: int = 0,
    callback: Callback | None = None,
) -> PredictionAdvice:
    """Rank covariances by how well the network predicts held-out rows; see :func:`svnn.advise`."""
    plan = plan_advice(X, y, groups, task, covariances, max_rows, random_state)
    unit = getattr(y, "name", None)
    return advise(plan, "y" if unit is None else str(unit), n_jobs, callback)


def plan_advice(
    X: DataLike,
    y: ColumnLike,
    groups: ColumnLike | None = None,
    task: str | None = None,
    covariances: Sequence[str] | None = None,
    max_rows: int = MOST_ROWS,
    seed: int = 0,
) -> Plan:
    """Return the plan of a comparison of covariances; those that are too large for the table are left out."""
    max_rows = check_integer(max_rows, f"max_rows must be an integer >= {LEAST_ROWS}", LEAST_ROWS)
    plan = prepare(X, y, groups, task, True, seed, max_rows)
    names, notes = _candidates(covariances, plan.X.shape[1])
    models = {name: (OURS, {"parts__covariance": name, "parts__members": MEMBERS}) for name in names}
    models[CONTROL] = (CONTROL, {"parts__members": MEMBERS})
    settings = {"members": MEMBERS, "max_rows": max_rows}
    return replace(plan, models=models, settings=settings, notes=(*plan.notes, *notes))


def advise(plan: Plan, unit: str, n_jobs: int | None = None, callback: Callback | None = None) -> PredictionAdvice:
    """Measure the covariances of a plan; errors are in the units of ``unit``."""
    comparison = run(plan, "advice", n_jobs, callback=callback)
    if DEFAULT not in comparison.scores:
        why = next(note for note in comparison.notes if note.startswith(f"{DEFAULT} is left out"))
        raise ValueError(f"advise: {why}")
    return PredictionAdvice(comparison, unit)


def _candidates(covariances: Sequence[str] | None, n_features: int) -> tuple[list[str], list[str]]:
    """Return the covariances to try, the default first, and notes on those that are too large."""
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


@dataclass(frozen=True, eq=False, repr=False)
class PredictionAdvice:
    """The answer of ``svnn.advise(X, y)``; ``print(advice)`` shows it as text.

    Attributes
    ----------
    comparison : Comparison
        The errors of the network with each covariance and without edges, on the same splits of the rows.
    unit : str
        The name of the target, in whose units errors are.

    Examples
    --------
    >>> import numpy as np
    >>> scores = {"hard": np.array([1.0, 1.2, 1.1, 1.1]), "soft": np.array([0.5, 0.7, 0.61, 0.6])}
    >>> scores["without edges"] = scores["hard"] + [0.9, 1.0, 1.0, 1.1]
    >>> advice = PredictionAdvice(
    ...     Comparison("meat", "regression", "MAE", scores, {}, 40, 5, None, {"folds": 4, "repeats": 1}), "fat"
    ... )
    >>> advice.covariance
    'soft'
    >>> print(advice.reasons[0])
    soft: mean absolute error 0.603 in the units of fat, 0.5 ± 0.012 less than hard, the default.
    """

    comparison: Comparison
    unit: str = "y"

    @property
    def covariance(self) -> str:
        """The name of the recommended covariance, ready for ``SVNNRegressor(covariance=…)``.

        The default, unless another one has an error that is smaller by more than chance would make it.
        """
        means = self.comparison.means()
        return min((name for name in self._others if self._gains(name)), key=means.__getitem__, default=DEFAULT)

    @property
    def label(self) -> str:
        """The same name."""
        return self.covariance

    @property
    def table(self) -> Records:
        """A row for each covariance, the recommended one first, the others by their errors.

        Columns: ``covariance``, the mean ``error`` on held-out rows, its ``difference`` to that of the default, half
        of the 95 % ``interval`` of this difference, and the ``p`` of the paired test.
        """
        means = self.comparison.means()
        names = sorted(means, key=lambda name: (name != self.covariance, means[name]))
        tests = {name: self.comparison.paired_test(name, DEFAULT) for name in names}
        return Records(
            {
                "covariance": name,
                "error": means[name],
                "difference": test.difference,
                "interval": _half(test),
                "p": test.p,
            }
            for name, test in tests.items()
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences: the gain, whether the covariance matters at all, and how that was measured."""
        of = self.comparison
        groups = "" if of.n_groups is None else f" in {of.n_groups} groups that are never split"
        how = (
            f"Measured on {of.n_samples} rows{groups}, each predicted by networks whose covariance and weights come "
            f"from other rows ({of.n_splits} splits)."
        )
        if self._others:
            how += (
                f" Another covariance is recommended only where chance alone would make any of the {len(self._others)} "
                f"tried look as good in less than {ALPHA:.0%} of tables."
            )
        return self._gain(), self._edges(), how.replace("%", " %"), *of.notes

    @property
    def _others(self) -> list[str]:
        return [name for name in self.comparison.scores if name not in (DEFAULT, CONTROL)]

    def _gains(self, name: str) -> bool:
        """Return whether the error is clearly below that of the default: a one-sided test, corrected for all tries."""
        test = self.comparison.paired_test(name, DEFAULT)
        return test.difference < 0 and test.p / 2 < ALPHA / len(self._others)

    def _gain(self) -> str:
        means = self.comparison.means()
        best = self.covariance
        if best != DEFAULT:
            return f"{best}: {self._error(best)}, {self._against(best, DEFAULT)}, the default."
        start = f"{DEFAULT}, the default: {self._error(DEFAULT)}."
        if not self._others:
            return start
        near = min(self._others, key=means.__getitem__)
        within = ", which is within chance" if means[near] < means[DEFAULT] else ""
        return f"{start} No other covariance gains anything: {near} has {self._against(near, DEFAULT)}{within}."

    def _edges(self) -> str:
        if CONTROL not in self.comparison.scores:
            return "Whether the covariance matters was not measured."
        test = self.comparison.paired_test(CONTROL, self.covariance)
        error = f"the same network without edges has {self._against(CONTROL, self.covariance)}"
        if not test.clear:
            return f"The covariance does not matter here, as far as these rows show: {error}, which is within chance."
        if test.difference > 0:
            return f"The covariance matters: {error}."
        return f"The covariance does harm here: {error}. Use order=0, which ignores it, or another model."

    def _error(self, name: str) -> str:
        mean = self.comparison.means()[name]
        if self.comparison.task == REGRESSION:
            return f"mean absolute error {mean:.3g} in the units of {self.unit}"
        return f"{mean:.3g} % of the rows get a wrong {self.unit}"

    def _against(self, name: str, other: str) -> str:
        test = self.comparison.paired_test(name, other)
        if not test.difference:
            return f"the same error as {other}"
        more = "more" if test.difference > 0 else "less"
        unit = "" if self.comparison.task == REGRESSION else " points"
        return f"{abs(test.difference):.2g} ± {_half(test):.2g}{unit} {more} than {other}"

    def __str__(self) -> str:
        table = self.table
        header = ["", "covariance", "error", f"against {DEFAULT}", "±", "p"]
        rows = [["→" if row is table[0] else "", *row.values()] for row in table]
        text = [f'Recommended: covariance="{self.covariance}"', *(f"- {reason}" for reason in self.reasons)]
        return "\n".join([*text, "", aligned(header, rows, ".3g")])

    def __repr__(self) -> str:
        return f"<PredictionAdvice: {self.covariance}>"


def _half(test: PairedTest) -> float:
    """Return half of the 95 % interval."""
    return test.high - test.difference
