"""Three sentences on the result of a comparison in plain words.

A difference is *clear*, or more than chance, where the paired test has p < 0.05. For what to use, a model counts as
worse than another where its mean score is higher and this is clear, or where it is worse on at least four splits of
five and by more than a tenth: with few splits, a single bad one can hide a difference that all others show.
"""

from __future__ import annotations

import numpy as np

from svnn.comparison._comparison import Comparison, PairedTest
from svnn.comparison._models import CONTROL, DEFAULT, DENSE, FLOOR, OURS, SIMPLEST_FIRST

#: The models that are one network with different edges.
FAMILY = (OURS, CONTROL, DENSE)


def worse(result: Comparison, model: str, than: str) -> bool:
    """Return whether a model is worse than another; see the top of this file."""
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
