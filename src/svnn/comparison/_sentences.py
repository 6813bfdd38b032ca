"""Three sentences on the result of a comparison in plain words.

A difference is *clear*, or more than chance, where the paired test has p < 0.05. For what to use, a model counts as
worse than another where its mean score is higher and this is clear, or where it is worse on at least four splits of
five and by more than a tenth: with few splits, a single bad one can hide a difference that all others show.
"""

from __future__ import annotations

import numpy as np

from svnn.comparison._comparison import ALPHA, Comparison, PairedTest
from svnn.comparison._models import CONTROL, DEFAULT, DENSE, FLOOR, OURS, SIMPLEST_FIRST

#: The models that are one network with different edges.
FAMILY = (OURS, CONTROL, DENSE)


def sentences(found: Comparison) -> tuple[str, str, str]:
    """Return which model is best, whether the covariance helps, and what to use."""
    return _who_is_best(found), _does_the_covariance_help(found), _what_to_use(found)


def worse(found: Comparison, model: str, than: str) -> bool:
    """Return whether a model is worse than another; see the top of this file."""
    if _clearly_worse(found, model, than):
        return True
    lost = np.mean(found.scores[model] > found.scores[than])
    return bool(lost >= 0.8 and found.paired_test(model, than).difference > 0.1 * found.means()[than])


def _who_is_best(found: Comparison) -> str:
    means, best = found.means(), found.best()
    mean, low, _ = found.interval(best)
    start = f"{best} has the lowest {found.metric}, {_number(mean)} ± {_number(mean - low)}"
    kin = FAMILY if best in FAMILY else (best,)
    others = {model: value for model, value in means.items() if model not in kin}
    if not others:
        return f"{start}, and no other kind of model was measured."
    second = min(others, key=others.__getitem__)
    test = found.paired_test(best, second)
    what = "the best other kind of model" if best in FAMILY else "the next"
    lead = f"its lead over {what}, {second} with {_number(means[second])}"
    if _clear(test):
        return f"{start}, and {lead}, is more than chance ({_p(test)})."
    if _number(means[second]) == _number(mean):
        return f"{start}, and {second}, {what}, has the same."
    return f"{start}, but {lead}, may be chance ({_p(test)})."


def _does_the_covariance_help(found: Comparison) -> str:
    means = found.means()
    if OURS not in means or CONTROL not in means:
        return "Whether the covariance helps was not measured: that takes the S-VNN and the network without edges."
    ours, without = _number(means[OURS]), _number(means[CONTROL])
    test = found.paired_test(OURS, CONTROL)
    if not _clear(test):
        text = f"It is not clear that the covariance helps here: {ours} with its edges, {without} without ({_p(test)})"
    elif test.difference < 0:
        text = f"The covariance helps: the same network without its edges has {without} instead of {ours} ({_p(test)})"
    else:
        text = f"The covariance does harm here: {ours} with its edges, {without} without ({_p(test)})"
    if DENSE not in means:
        return f"{text}."
    chosen = found.settings.get("covariance", DEFAULT)
    ours = "the sparse covariance" if chosen == DEFAULT else f"the covariance {chosen}"
    if np.array_equal(found.scores[OURS], found.scores[DENSE]):
        return f"{text}; {ours} and the dense one have the same scores."
    dense = found.paired_test(OURS, DENSE)
    kind = "better than" if dense.difference < 0 else "worse than"
    kind = kind if _clear(dense) else "not clearly different from"
    return f"{text}; {ours} is {kind} the dense one, {_number(means[DENSE])} ({_p(dense)})."


def _what_to_use(found: Comparison) -> str:
    means, best, floor = found.means(), found.best(), FLOOR[found.task]
    rivals = {best, *({OURS} & means.keys())}
    as_good = [model for model in means if not any(worse(found, model, rival) for rival in rivals if rival != model)]
    if floor in as_good:
        always = f"always predicting {floor.removeprefix('always ')}, {_number(means[floor])}"
        return f"Use none of them yet: no model is shown to be better than {always}."
    others = [model for model in as_good if model not in FAMILY]
    if others:
        return _use_another(found, min(others, key=lambda model: (_simplicity(model), means[model])))
    rest = {model: value for model, value in means.items() if model not in FAMILY}
    how = "" if OURS in as_good else ", but without edges" if best == CONTROL else ", but on the dense covariance"
    if not rest:
        return f"Use this network here{how}; whether a simpler model would do was not measured."
    nearest = min(rest, key=rest.__getitem__)
    named = f"{nearest} with {_number(means[nearest])}"
    if all(any(_clearly_worse(found, model, rival) for rival in rivals) for model in rest):
        return f"Use this network here{how}: every other kind of model is clearly worse, the nearest being {named}."
    return (
        f"Use this network here{how}: every other kind of model is worse, clearly or on at least four splits of five; "
        f"the nearest is {named}."
    )


def _use_another(found: Comparison, pick: str) -> str:
    means = found.means()
    if OURS not in means:
        return f"Use {pick} here, {_number(means[pick])}; the S-VNN was not measured."
    test = found.paired_test(pick, OURS)
    how = "clearly better" if _clear(test) else "as good as far as these splits can tell"
    return (
        f"Use {pick} here: it is simpler than this network and {how}, {_number(means[pick])} against "
        f"{_number(means[OURS])} ({_p(test)})."
    )


def _simplicity(model: str) -> int:
    """Return the place of a model among the others, the simplest first; one that is not listed is one before ours."""
    return SIMPLEST_FIRST.index(model if model in SIMPLEST_FIRST else "boosting")


def _clearly_worse(found: Comparison, model: str, than: str) -> bool:
    test = found.paired_test(model, than)
    return _clear(test) and test.difference > 0


def _clear(test: PairedTest) -> bool:
    return test.p < ALPHA


def _number(value: float) -> str:
    return f"{value:.3g}"


def _p(test: PairedTest) -> str:
    return "p < 0.001" if test.p < 0.001 else f"p = {test.p:.2g}"
