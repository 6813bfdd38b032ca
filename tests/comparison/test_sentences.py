"""The three sentences are computed back from the scores: every claim and every number in them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from comparison.made_up import comparison
from svnn.comparison._models import FLOOR, MODELS

FAMILY = ("S-VNN", "without edges", "VNN")
NAME = "|".join(map(re.escape, {name for names in MODELS.values() for name in names}))
NUMBER = r"[-\d.e+]+"
P = r"\((p [=<] [\d.e-]+)\)"


@st.composite
def tables(draw):
    """Scores of some models: noise of the splits, levels that differ a little, a lot or not at all, and ties."""
    task = draw(st.sampled_from(["regression", "classification"]))
    subset = draw(st.lists(st.sampled_from(MODELS[task]), min_size=1, max_size=8, unique=True))
    names = [name for name in MODELS[task] if name in subset] if draw(st.booleans()) else list(MODELS[task])
    folds, repeats = draw(st.sampled_from([(5, 1), (5, 5), (3, 2)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread, noise = draw(st.sampled_from([0.0, 0.02, 0.1, 0.5, 3.0])), draw(st.sampled_from([0.0, 0.01, 0.1, 0.5]))
    shared = rng.normal(size=folds * repeats)
    levels = {name: 1 + spread * rng.random() for name in names}
    if draw(st.booleans()) and "VNN" in levels and "S-VNN" in levels:
        levels["VNN"] = levels["S-VNN"]
    if draw(st.booleans()) and FLOOR[task] in levels:
        levels[FLOOR[task]] *= 4
    scores = {
        name: np.abs(level * (1 + 0.1 * shared + noise * rng.normal(size=len(shared))))
        for name, level in levels.items()
    }
    if task == "classification":
        scores = {name: np.round(10 * values) for name, values in scores.items()}
    return comparison(scores, task, folds, repeats)


def t_test(found, a, b):
    """The corrected test by hand: mean difference, and its p."""
    d = found.scores[a] - found.scores[b]
    if np.ptp(d) <= 1e-12 * np.abs(d).max():
        return d.mean(), 1.0 if d.mean() == 0 else 0.0
    variance = (1 / len(d) + 1 / (found.settings["folds"] - 1)) * d.var(ddof=1)
    return d.mean(), 2 * stats.t.cdf(-abs(d.mean()) / np.sqrt(variance), len(d) - 1)


def said_p(p):
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def is_worse(found, model, than):
    difference, p = t_test(found, model, than)
    lost = (found.scores[model] > found.scores[than]).mean()
    return difference > 0 and (p < 0.05 or (lost >= 0.8 and difference > 0.1 * found.scores[than].mean()))


def show(found, model):
    return f"{found.scores[model].mean():.3g}"


@given(tables())
@settings(max_examples=150)
def test_who_is_best(found):
    text = found.sentences()[0]
    match = re.fullmatch(rf"({NAME}) has the lowest (MAE|error \(%\)), ({NUMBER}) ± ({NUMBER})(.*)\.", text)
    best, metric, mean, half, rest = match.groups()
    means = {model: values.mean() for model, values in found.scores.items()}
    assert means[best] == min(means.values()) and metric == found.metric and mean == show(found, best)
    assert half == f"{found.interval(best).mean - found.interval(best).low:.3g}"
    others = {m: v for m, v in means.items() if m != best and not (best in FAMILY and m in FAMILY)}
    if not others:
        assert rest == ", and no other kind of model was measured"
        return
    same = re.fullmatch(rf", and ({NAME}), (the next|the best other kind of model), has the same", rest)
    if same is not None:
        assert others[same[1]] == min(others.values()) and show(found, same[1]) == mean
        assert t_test(found, best, same[1])[1] >= 0.05
        assert same[2] == ("the best other kind of model" if best in FAMILY else "the next")
        return
    match = re.fullmatch(
        rf", (and|but) its lead over (the next|the best other kind of model), ({NAME}) with ({NUMBER}), (.*) {P}", rest
    )
    _, kind, second, score, verdict, p = match.groups()
    assert kind == ("the best other kind of model" if best in FAMILY else "the next")
    assert others[second] == min(others.values()) and score == show(found, second)
    expected = t_test(found, best, second)[1]
    assert score != mean or expected < 0.05
    assert p == said_p(expected) and verdict == ("is more than chance" if expected < 0.05 else "may be chance")


@given(tables())
@settings(max_examples=150)
def test_does_the_covariance_help(found):
    text = found.sentences()[1]
    if not {"S-VNN", "without edges"} <= found.scores.keys():
        assert text.startswith("Whether the covariance helps was not measured")
        return
    first, _, second = text.rstrip(".").partition("; ")
    ours, without = show(found, "S-VNN"), show(found, "without edges")
    difference, p = t_test(found, "S-VNN", "without edges")
    if p >= 0.05:
        assert first == (
            f"It is not clear that the covariance helps here: {ours} with its edges, {without} without ({said_p(p)})"
        )
    elif difference < 0:
        assert first == (
            f"The covariance helps: the same network without its edges has {without} instead of {ours} ({said_p(p)})"
        )
    else:
        assert first == f"The covariance does harm here: {ours} with its edges, {without} without ({said_p(p)})"
    if "VNN" not in found.scores:
        assert second == ""
    elif (found.scores["VNN"] == found.scores["S-VNN"]).all():
        assert second == "the sparse covariance and the dense one have the same scores"
    else:
        difference, p = t_test(found, "S-VNN", "VNN")
        kind = "not clearly different from" if p >= 0.05 else "better than" if difference < 0 else "worse than"
        dense = show(found, "VNN")
        assert second == f"the sparse covariance is {kind} the dense one, {dense} ({said_p(p)})"


@given(tables())
@settings(max_examples=150)
def test_what_to_use(found):
    text = found.sentences()[2]
    models, floor = list(found.scores), FLOOR[found.task]
    means = {model: found.scores[model].mean() for model in models}
    best = found.best()
    rivals = {best, "S-VNN"} & set(models)
    as_good = [m for m in models if not any(is_worse(found, m, rival) for rival in rivals)]
    classical = [m for m in as_good if m not in FAMILY]
    if text.startswith("Use none"):
        assert floor in as_good and text.endswith(f", {show(found, floor)}.")
    elif match := re.fullmatch(
        rf"Use ({NAME}) here: it is simpler than this network and (.*), ({NUMBER}) against ({NUMBER}) {P}\.", text
    ):
        pick, how, mine, ours, p = match.groups()
        assert pick in classical and (mine, ours) == (show(found, pick), show(found, "S-VNN"))
        difference, expected = t_test(found, pick, "S-VNN")
        assert p == said_p(expected)
        assert how == ("clearly better" if expected < 0.05 else "as good as far as these splits can tell")
        assert expected >= 0.05 or difference < 0
        if "ridge" in classical or "logistic" in classical:  # said plainly, whatever else is as good
            assert pick in ("ridge", "logistic")
    elif match := re.fullmatch(rf"Use ({NAME}) here, ({NUMBER}); the S-VNN was not measured\.", text):
        assert match[1] in classical and match[2] == show(found, match[1]) and "S-VNN" not in models
    else:
        assert not classical and floor not in as_good and best in FAMILY
        match = re.fullmatch(
            rf"Use this network here(|, but without edges|, but on the dense covariance)"
            rf"(?:: every other kind of model is (clearly worse|worse, clearly or on at least four splits of five)"
            rf"(?:, the nearest being|; the nearest is) ({NAME}) with ({NUMBER})"
            rf"|; whether a simpler model would do was not measured)\.",
            text,
        )
        how, degree, nearest, score = match.groups()
        assert ("S-VNN" in as_good) == (how == "")
        assert how == "" or best == {"s": "without edges", "e": "VNN"}[how[-1]]
        rest = {m: v for m, v in means.items() if m not in FAMILY}
        assert all(any(is_worse(found, m, rival) for rival in rivals) for m in rest)
        assert (nearest is None) == (not rest)
        if rest:
            clearly = all(
                any(d > 0 and p < 0.05 for d, p in (t_test(found, m, rival) for rival in rivals)) for m in rest
            )
            assert clearly == (degree == "clearly worse")
            assert rest[nearest] == min(rest.values()) and score == show(found, nearest)


def test_it_is_said_plainly_when_ridge_is_as_good():
    noise = np.array([0.3, -0.3, 0.1, -0.2, 0.1])
    scores = {"S-VNN": 8 + noise, "without edges": 8.1 - noise, "VNN": 8 + noise, "ridge": 8.05 - noise}
    found = comparison(scores | {"always the mean": 14 + noise})
    assert found.sentences()[2].startswith("Use ridge here: it is simpler than this network and as good")


def test_one_bad_split_of_a_rival_does_not_make_it_as_good():
    scores = {"S-VNN": [0.5, 0.6, 0.5, 0.6, 0.5], "SVM": [1.2, 1.1, 1.0, 4.5, 1.2], "always the mean": [10.0] * 5}
    found = comparison(scores)
    assert found.paired_test("SVM", "S-VNN").p > 0.05
    assert found.sentences()[2].startswith(
        "Use this network here: every other kind of model is worse, clearly or on at least"
    )


@pytest.mark.parametrize(("task", "name"), [("regression", "the mean"), ("classification", "the largest class")])
def test_nothing_is_recommended_where_nothing_is_learned(task, name):
    noise = np.array([0.3, -0.3, 0.1, -0.2, 0.1])
    scores = dict.fromkeys(MODELS[task], 5 + noise)
    text = comparison(scores, task).sentences()[2]
    assert text == f"Use none of them yet: no model is shown to be better than always predicting {name}, 5."
