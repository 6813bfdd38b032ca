"""Importance of groups of features, which are permuted together."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from inspected_models import blend, signals
from svnn import BlendRegressor
from svnn.inspection import grouped_permutation_importance
from svnn.inspection._permutation import _correlated


@pytest.fixture(scope="module")
def twins():
    """Four features, of which the first two are nearly the same and matter, and the last two are alike and do not."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((200, 2))
    X = np.repeat(hidden, 2, axis=1) + 0.1 * rng.standard_normal((200, 4))
    y = hidden[:, 0]
    return X, y, blend(max_epochs=60).fit(X[:100], y[:100])


def test_twins_are_permuted_together(twins):
    X, y, model = twins
    found = grouped_permutation_importance(model, X[100:], y[100:], random_state=0)
    assert [group.tolist() for group in found.groups] == [[0, 1], [2, 3]]
    assert found.names.tolist() == ["x0, x1", "x2, x3"]
    assert found.score == model.score(X[100:], y[100:]) and found.importances.shape == (2, 5)
    alone = grouped_permutation_importance(model, X[100:], y[100:], groups=[[i] for i in range(4)], random_state=0)
    assert found.importances_mean[0] > 1.5 * alone.importances_mean.max() > 0.3
    assert abs(found.importances_mean[1]) < 0.1
    assert found.top(1) == [("x0, x1", found.importances_mean[0])]
    assert repr(found).startswith("GroupedPermutationImportance(2 groups; score 0.9")


def test_an_importance_is_the_loss_of_score(twins):
    X, y, model = twins
    found = grouped_permutation_importance(model, X, y, groups=[[2, 0]], n_repeats=1, random_state=3)
    order = np.random.default_rng(3).permutation(len(X))
    mixed = X.copy()
    mixed[:, [0, 2]] = X[order][:, [0, 2]]
    assert found.importances[0, 0] == pytest.approx(model.score(X, y) - model.score(mixed, y))
    scored = grouped_permutation_importance(
        model, X, y, groups=[[0]], n_repeats=2, random_state=0, scoring="neg_mean_absolute_error"
    )
    assert scored.score == pytest.approx(-abs(model.predict(X) - y).mean())


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_groups_are_those_of_average_linkage(threshold, make):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 30)) + rng.standard_normal((40, 30))
    C = np.cov(X.T)
    R = abs(np.corrcoef(X.T))
    np.fill_diagonal(R, 1.0)
    labels = fcluster(linkage(squareform(1 - R, checks=False), "average"), 1 - threshold, "distance")
    expected = {frozenset(np.flatnonzero(labels == label).tolist()) for label in labels}
    found = _correlated(make(C), threshold)
    assert {frozenset(group.tolist()) for group in found} == expected
    assert [group[0] for group in found] == sorted(group[0] for group in found)


def test_constant_features_stand_alone():
    C = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert [group.tolist() for group in _correlated(C, 0.5)] == [[0, 1], [2]]


def test_frames_names_and_windows(twins):
    X, y, _ = twins
    table = pd.DataFrame(X, columns=list("abcd"))
    model = blend().fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = grouped_permutation_importance(model, table, y, groups=[["a", "d"], list("abcd")], random_state=0)
    assert found.names.tolist() == ["a, d", "a and 3 others"]
    frame = found.to_frame()
    assert frame["size"].tolist() == [2, 4] and frame["mean"].tolist() == found.importances_mean.tolist()
    assert model.feature_names_in_.tolist() == list("abcd")
    windows = signals(n_values=3)
    model = blend().fit(windows, windows[:, 0, 0])
    assert grouped_permutation_importance(model, windows, windows[:, 0, 0], n_repeats=2).importances.shape[1] == 2


def test_a_blend_of_any_parts():
    X = signals()
    parts = [("trees", DecisionTreeRegressor(max_depth=3)), ("linear", LinearRegression())]
    model = BlendRegressor(parts, random_state=0).fit(X, X[:, 0])
    found = grouped_permutation_importance(model, X, X[:, 0], groups=[[0], [5]], random_state=0)
    assert found.importances_mean[0] > 0.5 > found.importances_mean[1]
    with pytest.raises(ValueError, match="none of the parts of the BlendRegressor is an S-VNN: trees, linear"):
        grouped_permutation_importance(model, X, X[:, 0])


def test_bad_arguments(twins):
    X, y, model = twins
    for arguments, message in [
        ({"threshold": 0}, "threshold must be a number above 0 and up to 1"),
        ({"n_repeats": 0}, "n_repeats must be an integer >= 1"),
        ({"groups": [[0], []]}, "groups holds an empty group"),
        ({"groups": [[7]]}, "groups holds the column 7, but there are 4 features"),
        ({"groups": [["age"]]}, "groups holds 'age', which is not the name of a feature"),
    ]:
        with pytest.raises(ValueError, match=message):
            grouped_permutation_importance(model, X, y, **arguments)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        grouped_permutation_importance(model, X, y[:-1])
