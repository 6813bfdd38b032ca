"""Advice by prediction: recommended is what predicts better by more than chance, in the units of the target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import svnn
from comparison.made_up import comparison
from svnn import SVNNRegressor, stability
from svnn.comparison import PredictionAdvice, _advisor
from svnn.comparison._plan import some_rows
from svnn.datasets import load_tecator


@pytest.fixture(autouse=True)
def few_members(monkeypatch):
    monkeypatch.setattr(_advisor, "MEMBERS", 2)


def given(scores, **more):
    """Return advice on made-up scores: those of the default and of others, on five splits."""
    return PredictionAdvice(comparison(scores, **more), "fat")


HARD = np.array([1.0, 1.2, 0.9, 1.1, 1.0])
JITTER = np.array([0.01, -0.01, 0.02, 0.0, -0.02])


# -- the rule -----------------------------------------------------------------------------------


def test_the_default_is_left_only_for_a_gain_that_is_more_than_chance():
    clear = given({"hard": HARD, "soft": HARD - 0.2 + JITTER, "acv": HARD - 0.1 + JITTER, "without edges": HARD + 0.5})
    assert clear.covariance == clear.label == "soft"
    assert clear.reasons[0] == (
        "soft: mean absolute error 0.84 in the units of fat, 0.2 ± 0.029 less than hard, the default."
    )
    luck = given({"hard": HARD, "soft": HARD - 20 * JITTER - 0.1, "without edges": HARD + 0.5})
    assert luck.covariance == "hard" and luck.comparison.best() == "soft"
    assert luck.reasons[0].startswith("hard, the default: mean absolute error 1.04 in the units of fat. No other")
    assert luck.reasons[0].endswith("less than hard, which is within chance.")


def test_a_larger_error_is_never_recommended_however_clear_it_is():
    found = given({"hard": HARD, "acv": HARD + 0.5 + JITTER, "without edges": HARD + 1})
    assert found.covariance == "hard"
    assert "No other covariance gains anything: acv has 0.5 ± 0.029 more than hard." in found.reasons[0]
    assert "soft has the same error" in given({"hard": HARD, "soft": HARD}).reasons[0]


def test_with_many_candidates_more_is_asked_of_each():
    gain = {"soft": HARD - 0.2 + 7 * JITTER}
    assert given({"hard": HARD, **gain}).covariance == "soft"
    p = given({"hard": HARD, **gain}).comparison.paired_test("soft", "hard").p
    many = {f"other{i}": HARD + 1 + JITTER for i in range(int(0.1 / p) + 2)}
    assert given({"hard": HARD, **gain, **many}).covariance == "hard"


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (HARD + 0.5 + JITTER, "The covariance matters: the same network without edges has 0.5 ± 0.029 more than hard."),
        (HARD + 20 * JITTER, "The covariance does not matter here, as far as these rows show:"),
        (HARD - 0.5 + JITTER, "The covariance does harm here: the same network without edges has 0.5"),
    ],
)
def test_it_says_whether_the_covariance_matters(without, said):
    assert given({"hard": HARD, "without edges": without}).reasons[1].startswith(said[:50])
    assert "was not measured" in given({"hard": HARD}).reasons[1]


def test_classes_have_shares_of_wrong_rows():
    found = given({"hard": 10 * HARD, "soft": 10 * HARD - 2 + JITTER}, task="classification")
    assert "8.4 % of the rows get a wrong fat, 2 ± 0.029 points less than hard" in found.reasons[0]


def test_the_table_and_the_text():
    scores = {"hard": HARD, "soft": HARD + 0.1 + JITTER, "sample": HARD - 0.001 + JITTER, "without edges": HARD + 0.2}
    found = given(scores, notes=("a note",))
    assert list(found.table["covariance"]) == ["hard", "sample", "soft", "without edges"]
    assert list(pd.DataFrame(found.table).columns) == ["covariance", "error", "difference", "interval", "p"]
    text = str(found)
    assert text.startswith('Recommended: covariance="hard"\n- hard, the default:') and "- a note\n" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("→")] == ["hard"]
    assert repr(found) == "<PredictionAdvice: hard>"


# -- tables -------------------------------------------------------------------------------------


def test_edges_matter_where_the_target_is_a_difference_of_related_columns(rng):
    C = np.kron(np.eye(3), [[1, 0.9], [0.9, 1]])
    X = rng.multivariate_normal(np.zeros(6), C, 200)
    y = np.abs(X[:, ::2] - X[:, 1::2]).sum(1)
    advice = svnn.advise(pd.DataFrame(X), pd.Series(y, name="gap in mm"), covariances=[])
    assert advice.covariance == "hard" and "in the units of gap in mm" in advice.reasons[0]
    assert advice.reasons[1].startswith("The covariance matters: the same network without edges has 0.2")
    means = advice.comparison.means()
    assert means["without edges"] > 2 * means["hard"]


def test_a_covariance_that_predicts_better_is_recommended_by_name():
    """A common factor that is too weak for the default threshold: no pair is left, and the target is the factor."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20)) + 0.35 * rng.standard_normal((400, 1))
    y = np.abs(X.mean(1) / X.mean(1).std())
    advice = svnn.advise(X, y, covariances=["sample"], random_state=0)
    assert advice.covariance == "sample" == advice.table[0]["covariance"]
    assert " in the units of y, " in advice.reasons[0] and "less than hard, the default." in advice.reasons[0]
    SVNNRegressor(covariance=advice.covariance, max_epochs=2, members=1).fit(X, y)


def test_it_is_one_function_and_importable_from_both_places():
    assert svnn.advise is stability.advise


def test_spectra_are_not_sparsified():
    """Fat in meat: ACV once was the advice, and nearly doubled the error."""
    data = load_tecator()
    advice = svnn.advise(data.X[:, ::4], pd.Series(data.y, name="fat"), covariances=["acv"])
    assert advice.covariance == "hard" and "in the units of fat" in advice.reasons[0]
    means = advice.comparison.means()
    assert means["hard"] < means["acv"]
    assert advice.reasons[1].startswith("The covariance matters")


def test_a_linear_target_gains_nothing(rng):
    X = rng.standard_normal((60, 6))
    advice = svnn.advise(X, X @ np.arange(1.0, 7) + 0.3 * rng.standard_normal(60), covariances=["soft"])
    assert advice.covariance == "hard" and "No other covariance gains anything" in advice.reasons[0]
    assert advice.reasons[1].startswith("The covariance does not matter here")


def test_classes_and_groups():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = np.where(X[:, 0] > 0, "up", "down")
    advice = svnn.advise(X, y, groups=np.repeat(np.arange(12), 5), covariances=["soft"], task="classification")
    assert advice.comparison.n_groups == 12 and "12 groups that are never split" in str(advice)
    assert "% of the rows get a wrong y" in advice.reasons[0]


def test_of_many_rows_some_are_used_and_every_class_stays():
    classes = np.zeros(1000, dtype=int)
    classes[:7] = 1
    kept = some_rows(classes, 1000, 50, seed=0)
    assert len(kept) == 50 and (np.diff(kept) > 0).all() and classes[kept].sum() >= 5
    assert len(some_rows(None, 1000, 50, seed=0)) == 50
    X = np.random.default_rng(0).standard_normal((80, 3))
    advice = svnn.advise(X, X[:, 0], covariances=[], max_rows=40)
    assert advice.comparison.n_samples == 40 and "40 of the 80 rows are used, drawn at random (max_rows)." in str(
        advice
    )


def test_covariances_that_would_be_too_large_are_left_out(monkeypatch):
    names, notes = _advisor._candidates(None, 20_000)
    assert "sample" not in names and "ledoit_wolf" not in names and names[0] == "hard" and len(notes) == 2
    assert 'sample is left out: covariance="sample" takes at most 15000 features' in notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariances": ["bands"]}, "covariance='bands' is not known"),
        ({"covariances": "soft"}, "covariances must be names"),
        ({"covariances": [3]}, "covariances must be names"),
        ({"density": 0.5}, "density= is for advice without y"),
        ({"max_rows": 3}, "max_rows must be an integer >= 20"),
        ({"task": "ranking"}, "task must be 'regression' or 'classification'"),
        ({"random_state": None}, "random_state must be an integer"),
    ],
)
def test_errors_name_the_argument(rng, options, message):
    with pytest.raises(ValueError, match=message):
        svnn.advise(rng.standard_normal((30, 3)), rng.standard_normal(30), **options)
