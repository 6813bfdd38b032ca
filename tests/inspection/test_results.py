"""Results: names, ranks and frames; errors for arguments that make no sense."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from inspected_models import QUICK, N, blend
from svnn import SVNNRegressor
from svnn.inspection import (
    edge_contributions,
    eigenvector_contributions,
    feature_contributions,
    grouped_permutation_importance,
)
from svnn.paper.baselines import MLPRegressor

EVERY = [feature_contributions, edge_contributions, eigenvector_contributions]


def test_names_are_those_of_the_table(default):
    table = pd.DataFrame(default.X, columns=list("abcdefg"))
    model = blend().fit(table, default.y)
    found = feature_contributions(model, table)
    assert found.names.tolist() == list("abcdefg")
    expected = feature_contributions(default.model, default.X)
    assert expected.names.tolist() == [f"x{i}" for i in range(N)]
    np.testing.assert_allclose(found.contributions, expected.contributions)


def test_the_largest_of_a_table_and_of_a_sample(default):
    found = feature_contributions(default.model, default.X)
    best = int(abs(found.contributions).mean(0).argmax())
    name, value = found.top(1)[0]
    assert name == f"x{best}" and value == pytest.approx(found.importance[best])
    ranked = found.top(N, sample=4)
    assert dict(ranked) == pytest.approx({f"x{i}": found.contributions[4, i] for i in range(N)})
    sizes = [abs(value) for _, value in ranked]
    assert sizes == sorted(sizes, reverse=True) and min(value for _, value in ranked) < 0
    assert len(found.top(100)) == N and found.top(0) == []
    assert repr(found).startswith(f"FeatureContributions(60 x 7; largest on average: x{best} ")


def test_the_largest_of_a_class(classification):
    found = feature_contributions(classification.model, classification.X)
    of_low = feature_contributions(classification.model, classification.X, class_="low")
    assert [name for name, _ in found.top(3, output="low")] == [name for name, _ in of_low.top(3)]
    assert found.top(1)[0][1] == pytest.approx(found.importance.mean(1).max())
    assert len(found.top(2, sample=0, output="high")) == 2


def test_frames(default, classification):
    found = feature_contributions(default.model, default.X)
    frame = found.to_frame()
    assert frame.shape == (60, N) and frame["x3"].tolist() == found.contributions[:, 3].tolist()
    several = feature_contributions(classification.model, classification.X)
    frame = several.to_frame()
    np.testing.assert_array_equal(frame["low"]["x2"], several.contributions[:, 2, 1])
    frame = edge_contributions(default.model, default.X, edges=2).to_frame()
    assert frame.shape == (60, 2)


def test_without_pandas(default, monkeypatch):
    found = feature_contributions(default.model, default.X)  # scikit-learn looks for pandas on its own
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame\\(\\) needs pandas"):
        found.to_frame()


def test_results_are_frozen(default):
    found = feature_contributions(default.model, default.X[:2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.names = []


@pytest.mark.parametrize("function", [*EVERY, lambda model, X: grouped_permutation_importance(model, X, X[:, 0])])
def test_models_that_cannot_be_inspected(function, default):
    X, y = default.X, default.y
    with pytest.raises(NotFittedError):
        function(SVNNRegressor(), X)
    with pytest.raises(TypeError, match="model must be a fitted S-VNN or a blend, got Ridge"):
        function(Ridge().fit(X, y), X)
    with pytest.raises(TypeError, match="got MLPRegressor"):
        function(MLPRegressor(max_epochs=1).fit(X, y), X)
    pipeline = make_pipeline(StandardScaler(), SVNNRegressor(**QUICK | {"max_epochs": 1})).fit(X, y)
    with pytest.raises(TypeError, match="got Pipeline; give its last step, and X as that step gets it"):
        function(pipeline, X)
    with pytest.raises(ValueError, match="X has 6 features, but BlendRegressor is expecting 7"):
        function(default.model, X[:, 1:])


@pytest.mark.parametrize("function", EVERY)
def test_classes_that_are_not_there(function, default, classification):
    with pytest.raises(ValueError, match=r"class_='tall' is none of the classes of the model: \['high', 'low'"):
        function(classification.model, classification.X, class_="tall")
    with pytest.raises(ValueError, match="class_ is for classifiers only, and model is a BlendRegressor"):
        function(default.model, default.X, class_=1)
    with pytest.raises(ValueError, match="logit is for classifiers only"):
        function(default.model, default.X, logit=True)
    with pytest.raises(ValueError, match="too far from those of the training data"):
        function(default.model, np.full((1, N), 1e308))


def test_other_bad_arguments(default, classification):
    model, X = default.model, default.X
    with pytest.raises(ValueError, match=r"baseline must be one sample of shape \(7,\), of finite numbers; got \(3,\)"):
        feature_contributions(model, X, baseline=np.zeros(3))
    with pytest.raises(ValueError, match="baseline must be one sample"):
        feature_contributions(model, X, baseline=np.full(N, np.nan))
    with pytest.raises(ValueError, match="tol must be a number between 0 and 1"):
        feature_contributions(model, X, tol=0)
    for bad in (0, 8, 1.5):
        with pytest.raises(ValueError, match="n_components must be an integer from 1 to 7"):
            eigenvector_contributions(model, X, n_components=bad)
    found = feature_contributions(model, X)
    with pytest.raises(ValueError, match="sample=60 is none of the 60 rows"):
        found.top(sample=60)
    with pytest.raises(ValueError, match="output is for models of several outputs"):
        found.top(output=0)
    found = feature_contributions(classification.model, X)
    with pytest.raises(ValueError, match=r"output must name one of \['high', 'low', 'middle'\] where sample is given"):
        found.top(sample=0)
    with pytest.raises(ValueError, match="output='tall' is none of"):
        found.top(output="tall")
