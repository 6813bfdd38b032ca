from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from comparison.made_up import brief
from svnn import BlendClassifier, BlendRegressor, HardThreshold, SVNNClassifier, SVNNRegressor
from svnn.comparison import _compare, _models, compare
from svnn.comparison._models import FLOOR, MODELS, build
from svnn.comparison._plan import prepare
from svnn.sources._dataset import CLASSIFICATION, REGRESSION

LINEAR = ["ridge", "always the mean"]
#: Quick to fit, and not alone.
QUICK = {REGRESSION: LINEAR, CLASSIFICATION: ["LDA", "always the largest class"]}


@pytest.fixture
def table(rng):
    X = rng.standard_normal((60, 4))
    return X, X @ [1.0, -1.0, 2.0, 0.0] + 0.1 * rng.standard_normal(60)


@pytest.mark.parametrize("task", [REGRESSION, CLASSIFICATION])
def test_every_model_runs_and_the_floor_is_the_floor(table, task, monkeypatch):
    X, y = table
    monkeypatch.setattr(_models, "build", brief)
    found = compare(X, y if task == REGRESSION else np.where(y > 0, "up", "down"), quick=True)
    assert tuple(found.scores) == MODELS[task] and found.task == task and found.n_splits == 5
    assert found.metric == ("MAE" if task == REGRESSION else "error (%)")
    means = found.means()
    assert all(mean < 0.7 * means[FLOOR[task]] for model, mean in means.items() if model != FLOOR[task]), means
    assert (found.n_samples, found.n_features, found.n_groups) == (60, 4, None) and found.notes == ()
    if task == CLASSIFICATION:
        assert found.settings["classes"] == ["down", "up"]
        assert all(((values >= 0) & (values <= 100)).all() for values in found.scores.values())
    assert set(found.seconds) == set(found.scores) and len(found.sentences()) == 3


def test_the_three_networks_are_the_defaults_but_for_their_edges():
    kinds = {REGRESSION: (BlendRegressor, SVNNRegressor), CLASSIFICATION: (BlendClassifier, SVNNClassifier)}
    for task, (blend, network) in kinds.items():
        for name, changed in {"S-VNN": {}, "without edges": {"order": 0}, "VNN": {"covariance": "sample"}}.items():
            model = build(name, task, 4, 3)
            own = {key: value for key, value in model.get_params(deep=False).items() if key != "parts"}
            expected = blend(random_state=3).get_params(deep=False)
            assert type(model) is blend and own == {key: expected[key] for key in own}
            assert type(model.parts) is network and model.parts.get_params() == network().get_params() | changed


def test_the_same_seed_gives_the_same_scores_in_one_process_or_two(table):
    small = table[0][:20], table[1][:20]  # a few steps of training
    one = compare(*small, quick=True, models=["S-VNN", *LINEAR], random_state=4)
    two = compare(*small, quick=True, models=["S-VNN", *LINEAR], random_state=4, n_jobs=2)
    other = compare(*small, quick=True, models=LINEAR, random_state=5)
    assert one.to_dict(seconds=False) == two.to_dict(seconds=False)
    assert not np.array_equal(one.scores["ridge"], other.scores["ridge"])


def test_every_model_gets_the_same_splits_and_progress_is_told(table, monkeypatch):
    seen, told = {}, []
    real = _models.fit_and_score

    def spy(model, split, **arguments):
        seen.setdefault(split, []).append((arguments["train"].tolist(), arguments["test"].tolist(), arguments["seed"]))
        return real(model, split, **arguments)

    monkeypatch.setattr(_compare, "fit_and_score", spy)
    found = compare(*table, models=LINEAR, callback=lambda *state: told.append(state))
    assert found.n_splits == 25 == len(seen) and found.settings["repeats"] == 5
    assert all(first == second for first, second in seen.values())
    rows = [test for (_, test, _), _ in (seen[i] for i in range(5))]
    assert sorted(row for test in rows for row in test) == list(range(60)) and rows != [
        seen[i][0][1] for i in range(5, 10)
    ]
    assert [done for done, _, _ in told] == list(range(1, 51)) and {total for _, total, _ in told} == {50}


def test_missing_values_are_filled_in_from_training_rows_alone(table):
    X, y = table
    X[::7, 1] = np.nan
    train, test = np.arange(40), np.arange(40, 60)
    arguments = {"y": y, "groups": None, "train": train, "test": test, "task": REGRESSION, "seed": 0}
    (before,) = _models.fit_and_score("ridge", 0, X=X, group_folds=None, **arguments)
    completed = X.copy()
    completed[np.isnan(X[:, 1]), 1] = np.nanmedian(X[train, 1])
    (by_hand,) = _models.fit_and_score("ridge", 0, X=completed, group_folds=None, **arguments)
    assert before["score"] == by_hand["score"]
    inner = _models.complete(X[train], np.full((1, 4), 1e9))[0]
    np.testing.assert_array_equal(inner, completed[train])


def test_groups_are_never_on_both_sides(rng):
    people = np.repeat([f"p{i}" for i in range(8)], 6)
    for task, y in ((REGRESSION, rng.standard_normal(48)), (CLASSIFICATION, np.tile([0, 1], 24))):
        parts = prepare(np.zeros((48, 1)), y, people, task).splits
        assert len(parts) == 25 and all(not set(people[a]) & set(people[b]) for a, b in parts)
    found = compare(rng.standard_normal((48, 3)), y, groups=people, quick=True, models=QUICK[CLASSIFICATION])
    assert found.n_groups == 8


KINDS = {
    "text": lambda names, none: names,
    "list": lambda names, none: [each if each else float("nan") for each in names],
    "array of text": lambda names, none: np.array(["nan" if each is None else each for each in names]),
    "NA": lambda names, none: np.where(none, np.array([pd.NA]), names),
    "NaT": lambda names, none: np.where(none, np.array([pd.NaT]), names),
    "numbers": lambda names, none: np.array([np.nan if each is None else float(each[1]) for each in names]),
    "Int64": lambda names, none: pd.Series([None if each is None else int(each[1]) for each in names], dtype="Int64"),
    "category": lambda names, none: pd.Series(names, dtype="category"),
    "string": lambda names, none: pd.Series(names, dtype="string"),
    "dates": lambda names, none: np.array([f"200{each[1]}-01-01" if each else "NaT" for each in names], "M8[D]"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_group_are_left_out(table, kind):
    X, y = table
    people = np.repeat([f"p{i}" for i in range(6)], 10)
    none = (np.arange(60) % 2 == 0) & (np.arange(60) < 15)
    groups = KINDS[kind](np.where(none, None, people), none)
    floor = {"quick": True, "models": ["always the mean"]}
    found = compare(X, y, groups=groups, notes=["first"], **floor)
    assert found.notes == ("first", "8 rows without groups left out.")
    assert (found.n_groups, found.n_samples) == (6, 52)
    expected = compare(X[~none], y[~none], groups=people[~none], **floor)
    np.testing.assert_array_equal(found.scores["always the mean"], expected.scores["always the mean"])


def test_few_groups_are_left_out_one_by_one(rng):
    people = np.repeat(["a", "b", "c"], 10)
    found = compare(rng.standard_normal((30, 3)), rng.standard_normal(30), groups=people, models=LINEAR)
    assert (found.settings["folds"], found.settings["repeats"], found.n_splits) == (3, 1, 3)
    assert "each is left out once" in found.notes[0]


def test_ridge_chooses_its_penalty_by_groups():
    grouped = build("ridge", REGRESSION, 4, 0, group_folds=3)
    assert type(grouped.cv).__name__ == "GroupKFold" and grouped.cv.n_splits == 3


def test_a_model_that_fails_is_left_out_and_the_others_stay(table, monkeypatch):
    class Broken(BaseEstimator):
        def fit(self, X, y):
            raise ValueError("a screw\nis loose")

    real = build
    monkeypatch.setattr(_models, "build", lambda name, *a: Broken() if name == "ridge" else real(name, *a))
    found = compare(*table, quick=True, models=LINEAR)
    assert list(found.scores) == ["always the mean"]
    assert found.notes == ("ridge is left out, because it failed: ValueError: a screw is loose",)
    with pytest.raises(ValueError, match="No model could be fitted: ValueError: a screw"):
        compare(*table, quick=True, models=["ridge"])


def test_models_that_would_take_for_ever_are_left_out_with_a_note(rng):
    X, y = rng.standard_normal((40, 3001)), np.tile(["a", "b"], 20)
    found = compare(X, y, quick=True, models=QUICK[CLASSIFICATION])
    assert list(found.scores) == ["always the largest class"]
    assert found.notes == ("LDA is left out beyond 3000 features: it solves with a full covariance matrix.",)


def test_integers_are_classes_and_it_is_said(table):
    X, y = table
    few = np.digitize(y, [-1, 1])
    found = compare(X, few, quick=True, models=QUICK[CLASSIFICATION])
    assert found.task == CLASSIFICATION and "3 different integers, which are taken for classes" in found.notes[0]
    assert compare(X, few, quick=True, models=LINEAR, task=REGRESSION).notes == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((60, 0))}, "X must have shape"),
        ({"X": [["a"]] * 60}, "X must hold numbers"),
        ({"X": np.full((60, 2), np.inf)}, "X holds infinite values"),
        ({"y": np.zeros(59)}, r"y must have shape \(60,\)"),
        ({"y": np.full(60, np.nan)}, "y holds values that are missing"),
        ({"y": np.array(["a", "b", None] * 20, dtype=object)}, "y holds values that are missing"),
        ({"y": ["a", "b", float("nan")] * 20}, "y holds values that are missing"),
        ({"y": np.zeros(60)}, "y has only one value, 0.0"),
        ({"groups": [None] * 60}, "groups holds nothing but missing values"),
        ({"y": np.array(["a", "b"] * 30), "task": "regression"}, "y holds text"),
        ({"y": np.arange(60), "task": "classification"}, "fewer than 5 rows"),
        ({"groups": np.zeros(60)}, "needs at least 3"),
        ({"groups": np.zeros(3)}, "groups must have shape"),
        ({"task": "magic"}, "task must be 'regression' or 'classification'"),
        ({"models": ["tea leaves"]}, "models must be some of S-VNN"),
        ({"models": []}, "models must be some of"),
        ({"random_state": -1}, "random_state must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_said(table, change, message):
    arguments = {"X": table[0], "y": table[1], "quick": True} | change
    with pytest.raises(ValueError, match=message):
        compare(arguments.pop("X"), arguments.pop("y"), **arguments)
    with pytest.raises(ValueError, match="at least 20"):
        compare(table[0][:19], table[1][:19])


def test_the_network_takes_the_covariance_that_is_given(table):
    found = compare(*table, quick=True, models=["S-VNN", "VNN"], covariance="sample")
    np.testing.assert_array_equal(found.scores["S-VNN"], found.scores["VNN"])
    assert found.settings["covariance"] == "sample" and found.notes == ('The S-VNN uses covariance="sample".',)
    with pytest.raises(ValueError, match="covariance='bands' is not known"):
        compare(*table, covariance="bands")
    with pytest.raises(ValueError, match=r"HardThreshold\(density=2\) cannot be fitted to this table"):
        compare(*table, covariance=HardThreshold(density=2))
