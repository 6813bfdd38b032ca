"""The result of a comparison: scores of all models on the same splits, tests of their differences, and sentences."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from svnn.sources._dataset import CLASSIFICATION, REGRESSION

#: svnn as it comes; the same network without a covariance; the same on the dense sample covariance.
OURS, CONTROL, DENSE = "S-VNN", "without edges", "VNN"
#: The models that are one network with different edges.
FAMILY = (OURS, CONTROL, DENSE)
#: The covariance of our network where none is named.
DEFAULT = "hard"
#: The model that knows nothing but the targets.
FLOOR: Mapping[str, str] = {REGRESSION: "always the mean", CLASSIFICATION: "always the largest class"}
#: From the simplest model to the least simple one: of models that are equally good, the first one is to be used.
SIMPLEST_FIRST = (*FLOOR.values(), "ridge", "logistic", "LDA", "SVM", "GP", "boosting", CONTROL, DENSE, OURS)
#: A difference is called clear where its p is below this; intervals have a confidence of 95 %.
ALPHA = 0.05


class Interval(NamedTuple):
    """A mean, and the limits between which the true one lies with 95 % confidence.

    Examples
    --------
    >>> mean, low, high = Interval(1.0, 0.8, 1.2)
    >>> low < mean < high
    True
    """

    mean: float
    low: float
    high: float


class PairedTest(NamedTuple):
    """The difference of two models on the same splits.

    ``difference`` is the mean score of the first model minus that of the second one, ``low`` and ``high`` are its 95 %
    interval, and ``p`` is how probable a difference of this size is where there is none.

    Examples
    --------
    >>> test = PairedTest(difference=-0.5, low=-0.9, high=-0.1, p=0.02)
    >>> "the first one is better" if test.high < 0 else "not clear"
    'the first one is better'
    """

    difference: float
    low: float
    high: float
    p: float

    @property
    def clear(self) -> bool:
        """Whether the difference is more than chance."""
        return self.p < ALPHA

    @property
    def p_in_words(self) -> str:
        """The p for tables."""
        if not np.isfinite(self.p):
            return "–"
        return "< 0.001" if self.p < 0.001 else f"{self.p:.3f}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of several models on the same splits of a table, as :func:`svnn.comparison.compare` returns them.

    Attributes
    ----------
    name : str
        The name of the table.
    task : {"regression", "classification"}
    metric : {"MAE", "error (%)"}
        The score. Lower is better.
    scores : dict of str to array of shape (splits,)
        For every model its score on each split, in the order of the table.
    seconds : dict of str to array of shape (splits,)
        For every model the processor time of each fit.
    n_samples, n_features : int
    n_groups : int or None
        The number of groups where rows that belong together were kept together.
    settings : dict
        How the comparison was made: "folds", "repeats", "random_state" and so on.
    notes : tuple of str
        What a reader should know about the table and the models.

    Notes
    -----
    The training sets of two splits share most of their rows, so their scores are not independent, and the usual
    standard error is too small. Intervals and tests therefore use the variance that Nadeau and Bengio correct for it:
    with :math:`n` splits, differences of variance :math:`s^2`, and :math:`r` test rows for each training row,

    .. math:: \\left(\\frac1n + r\\right) s^2

    with :math:`n - 1` degrees of freedom.

    References
    ----------
    Nadeau & Bengio (2003), Inference for the generalization error. Machine Learning 52.

    Examples
    --------
    >>> import numpy as np
    >>> scores = {"S-VNN": np.array([1.0, 1.2, 1.1, 1.1]), "ridge": np.array([2.0, 2.3, 2.1, 2.2])}
    >>> result = Comparison("meat", "regression", "MAE", scores, {}, 40, 5, None, {"folds": 4, "repeats": 1})
    >>> result.best(), round(result.means()["ridge"], 3)
    ('S-VNN', 2.15)
    >>> test = result.paired_test("S-VNN", "ridge")
    >>> bool(test.high < 0), bool(test.p < 0.01)
    (True, True)
    >>> print(result.sentences()[2])
    Use this network here: every other kind of model is clearly worse, the nearest being ridge with 2.15.
    """

    name: str
    task: str
    metric: str
    scores: Mapping[str, np.ndarray]
    seconds: Mapping[str, np.ndarray]
    n_samples: int
    n_features: int
    n_groups: int | None
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def n_splits(self) -> int:
        """The number of splits."""
        return len(next(iter(self.scores.values())))

    def means(self) -> dict[str, float]:
        """Return the mean score of every model."""
        return {model: float(np.mean(values)) for model, values in self.scores.items()}

    def best(self) -> str:
        """Return the model with the lowest mean score."""
        means = self.means()
        return min(means, key=means.__getitem__)

    def interval(self, model: str) -> Interval:
        """Return the mean score of a model with its 95 % interval."""
        mean, half, _ = self._tested(model)
        return Interval(mean, mean - half, mean + half)

    def paired_test(self, a: str, b: str) -> PairedTest:
        """Return the difference of two models, its interval, and the p of the corrected resampled t-test."""
        mean, half, p = self._tested(a, b)
        return PairedTest(mean, mean - half, mean + half, p)

    def sentences(self) -> tuple[str, str, str]:
        """Return three sentences in plain words.

        Which model is best, and is that more than chance? Does the covariance help? Should one use this network here,
        or a simpler model?
        """
        return which_is_best(self), does_the_covariance_help(self), what_to_use(self)

    def to_dict(self, *, seconds: bool = True) -> dict[str, Any]:
        """Return the result as lists, numbers and text; without ``seconds`` the same seed gives the same."""
        best = self.best()
        return {
            "name": self.name,
            "task": self.task,
            "metric": self.metric,
            "n_samples": self.n_samples,
            "n_features": self.n_features,
            "n_groups": self.n_groups,
            "best": best,
            "sentences": list(self.sentences()),
            "models": {
                model: {
                    **_finite(self.interval(model)),
                    "against_best": None if model == best else _finite(self.paired_test(model, best)),
                    "scores": [float(value) for value in values],
                    **({"seconds": [float(s) for s in self.seconds.get(model, ())]} if seconds else {}),
                }
                for model, values in self.scores.items()
            },
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return :meth:`to_dict` as JSON text, and write it to ``path`` where one is given."""
        return _written(json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n", path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the scores as CSV text, a line for every model and split; write it to ``path`` where one is given."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["model", "split", "score"])
        for model, values in self.scores.items():
            writer.writerows([model, split, float(value)] for split, value in enumerate(values))
        return _written(text.getvalue(), path)

    def _tested(self, model: str, other: str | None = None) -> tuple[float, float, float]:
        """Return the mean score of a model, or its difference to another, half of its interval, and the p of zero."""
        for name in (model, other):
            if name is not None and name not in self.scores:
                raise ValueError(f"model must be one of {', '.join(self.scores)}, got {name!r}.")
        values = self.scores[model] - (0 if other is None else self.scores[other])
        n, mean = len(values), float(np.mean(values))
        if n < 2:
            return mean, float("nan"), float("nan")
        spread = float(np.std(values, ddof=1))
        # Where all values are equal, up to rounding, the mean is certain.
        if spread <= 1e-12 * float(np.abs(values).max()):
            return mean, 0.0, 1.0 if mean == 0 else 0.0
        error = spread * (1 / n + 1 / (self.settings["folds"] - 1)) ** 0.5
        half = float(stats.t.isf(ALPHA / 2, n - 1)) * error
        return mean, half, float(2 * stats.t.sf(abs(mean) / error, n - 1))


def _finite(values: NamedTuple) -> dict[str, float | None]:
    """Return the fields by name; JSON has no NaN, so it is null."""
    return {name: value if np.isfinite(value) else None for name, value in values._asdict().items()}


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    return text


# -- sentences: a difference is clear, or more than chance, where the paired test has p < 0.05 ----------------------


def worse(result: Comparison, model: str, than: str) -> bool:
    """Return whether a model is worse than another, for the advice on what to use.

    Its mean score is higher, and this is clear or the case on at least four splits of five and by more than a tenth:
    with few splits, a single bad one can hide a difference that all others show.
    """
    test = result.paired_test(model, than)
    lost = np.mean(result.scores[model] > result.scores[than])
    return test.difference > 0 and (test.clear or bool(lost >= 0.8 and test.difference > 0.1 * result.means()[than]))


def which_is_best(result: Comparison) -> str:
    """Return which model is best, and whether its lead over other kinds of models is more than chance."""
    means, best = result.means(), result.best()
    mean, low, _ = result.interval(best)
    start = f"{best} has the lowest {result.metric}, {mean:.3g} ± {mean - low:.3g}"
    kin = FAMILY if best in FAMILY else (best,)
    others = {model: value for model, value in means.items() if model not in kin}
    if not others:
        return f"{start}, and no other kind of model was measured."
    second = min(others, key=others.__getitem__)
    test = result.paired_test(best, second)
    what = "the best other kind of model" if best in FAMILY else "the next"
    lead = f"its lead over {what}, {second} with {means[second]:.3g}"
    if test.clear:
        return f"{start}, and {lead}, is more than chance ({_p(test)})."
    if f"{means[second]:.3g}" == f"{mean:.3g}":
        return f"{start}, and {second}, {what}, has the same."
    return f"{start}, but {lead}, may be chance ({_p(test)})."


def does_the_covariance_help(result: Comparison) -> str:
    """Return whether the edges of the covariance, and their sparsity, lower the error."""
    means = result.means()
    if OURS not in means or CONTROL not in means:
        return "Whether the covariance helps was not measured: that takes the S-VNN and the network without edges."
    ours, without = f"{means[OURS]:.3g}", f"{means[CONTROL]:.3g}"
    test = result.paired_test(OURS, CONTROL)
    if not test.clear:
        text = f"It is not clear that the covariance helps here: {ours} with its edges, {without} without ({_p(test)})"
    elif test.difference < 0:
        text = f"The covariance helps: the same network without its edges has {without} instead of {ours} ({_p(test)})"
    else:
        text = f"The covariance does harm here: {ours} with its edges, {without} without ({_p(test)})"
    if DENSE not in means:
        return f"{text}."
    chosen = result.settings.get("covariance", DEFAULT)
    ours = "the sparse covariance" if chosen == DEFAULT else f"the covariance {chosen}"
    if np.array_equal(result.scores[OURS], result.scores[DENSE]):
        return f"{text}; {ours} and the dense one have the same scores."
    dense = result.paired_test(OURS, DENSE)
    kind = "better than" if dense.difference < 0 else "worse than"
    kind = kind if dense.clear else "not clearly different from"
    return f"{text}; {ours} is {kind} the dense one, {means[DENSE]:.3g} ({_p(dense)})."


def what_to_use(result: Comparison) -> str:
    """Return the simplest of the models that are as good as the best one."""
    means, best, floor = result.means(), result.best(), FLOOR[result.task]
    rivals = {best, *({OURS} & means.keys())}
    as_good = [model for model in means if not any(worse(result, model, rival) for rival in rivals if rival != model)]
    if floor in as_good:
        always = f"always predicting {floor.removeprefix('always ')}, {means[floor]:.3g}"
        return f"Use none of them yet: no model is shown to be better than {always}."
    others = [model for model in as_good if model not in FAMILY]
    if others:
        places = {model: SIMPLEST_FIRST.index(model if model in SIMPLEST_FIRST else "boosting") for model in others}
        pick = min(others, key=lambda model: (places[model], means[model]))
        if OURS not in means:
            return f"Use {pick} here, {means[pick]:.3g}; the S-VNN was not measured."
        test = result.paired_test(pick, OURS)
        how = "clearly better" if test.clear else "as good as far as these splits can tell"
        return (
            f"Use {pick} here: it is simpler than this network and {how}, {means[pick]:.3g} against {means[OURS]:.3g} "
            f"({_p(test)})."
        )
    rest = {model: value for model, value in means.items() if model not in FAMILY}
    how = "" if OURS in as_good else ", but without edges" if best == CONTROL else ", but on the dense covariance"
    if not rest:
        return f"Use this network here{how}; whether a simpler model would do was not measured."
    nearest = min(rest, key=rest.__getitem__)
    named = f"{nearest} with {means[nearest]:.3g}"
    tests = {model: [result.paired_test(model, rival) for rival in rivals] for model in rest}
    if all(any(test.clear and test.difference > 0 for test in of_model) for of_model in tests.values()):
        return f"Use this network here{how}: every other kind of model is clearly worse, the nearest being {named}."
    return (
        f"Use this network here{how}: every other kind of model is worse, clearly or on at least four splits of five; "
        f"the nearest is {named}."
    )


def _p(test: PairedTest) -> str:
    return "p < 0.001" if test.p < 0.001 else f"p = {test.p:.2g}"
