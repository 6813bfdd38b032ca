from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

import svnn
from svnn.covariance import RCV, HardThreshold, SampleCovariance, WithinClass, resolve

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


@pytest.fixture
def data(rng):
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    mixing = rng.standard_normal((5, 5))
    centres = {"a": 0.0, "b": 5 * rng.standard_normal(5), "c": -3 * rng.standard_normal(5)}
    return rng.standard_normal((90, 5)) @ mixing + np.array([np.broadcast_to(centres[k], 5) for k in y]), y


@parametrize_with_checks([WithinClass(), WithinClass("hard")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_is_the_covariance_of_discriminant_analysis(data):
    expected = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(*data).covariance_
    fitted = WithinClass().fit(*data)
    np.testing.assert_allclose(fitted.covariance_, expected, rtol=1e-10)
    np.testing.assert_allclose(fitted.precision_ @ expected, np.eye(5), atol=1e-8)
    np.testing.assert_array_equal(fitted.precision_, fitted.precision_.T)
    np.testing.assert_allclose(fitted.location_, data[0].mean(0))
    assert fitted.classes_.tolist() == ["a", "b", "c"]


def test_moving_a_class_changes_nothing(data):
    X, y = data
    moved = X + 100.0 * (y == "b")[:, None]
    np.testing.assert_allclose(WithinClass().fit(moved, y).covariance_, WithinClass().fit(X, y).covariance_, rtol=1e-8)


def test_with_the_sample_covariance_it_is_that_of_the_centred_rows(data):
    X, y = (part[np.arange(90) % 9 > 0] for part in data)  # a class of 20 rows, and two of 30
    centred = X - pd.DataFrame(X).groupby(y).transform("mean").to_numpy()
    expected = SampleCovariance().fit(centred).covariance_
    np.testing.assert_allclose(WithinClass("sample").fit(X, y).covariance_, expected)
    # Values of a node count as observations of it, each about the mean of its class.
    both = np.stack([X, 2 * X + 7], -1)
    np.testing.assert_allclose(WithinClass("sample").fit(both, y).covariance_, expected * (1 + 4) / 2)


def test_sparse_where_the_estimator_is(data):
    C = WithinClass(HardThreshold(density=0.2, sparse_output=True)).fit(*data).covariance_
    assert sp.issparse(C) and C.nnz < 25
    np.testing.assert_array_equal(C.toarray(), C.toarray().T)
    np.testing.assert_allclose(C.diagonal(), WithinClass("sample").fit(*data).covariance_.diagonal())
    dense = WithinClass(HardThreshold(density=0.2)).fit(*data).covariance_
    np.testing.assert_allclose(dense, C.toarray(), rtol=1e-12)
    np.testing.assert_array_equal(dense != 0, C.toarray() != 0)


def test_weights_count_rows(data):
    X, y = data
    repeats = np.arange(90) % 4
    expected = WithinClass("sample").fit(np.repeat(X, repeats, 0), np.repeat(y, repeats)).covariance_
    np.testing.assert_allclose(WithinClass("sample").fit(X, y, sample_weight=repeats).covariance_, expected)


def test_constant_features_and_single_rows(data):
    X, y = data
    X[:, 2] = 0.1
    C = WithinClass().fit(X, y).covariance_
    assert np.isfinite(C).all()
    more = WithinClass().fit(np.vstack([X, 1e6 * X[:1]]), [*y, "single"]).covariance_
    np.testing.assert_allclose(more, C)
    with pytest.raises(ValueError, match="every class in y has a single row"):
        WithinClass().fit(X[:3], ["a", "b", "c"])


def test_tensors(data):
    X, y = data
    labels = np.unique(y, return_inverse=True)[1]
    fitted = WithinClass().fit(torch.as_tensor(X), torch.as_tensor(labels))
    np.testing.assert_allclose(fitted.covariance_, WithinClass().fit(X, y).covariance_)


@pytest.mark.parametrize(
    ("y", "message"), [(None, "requires y"), (np.linspace(0, 1, 90), "needs y to be class labels")]
)
def test_labels_are_needed(data, y, message):
    with pytest.raises(ValueError, match=message):
        WithinClass().fit(data[0], y)


def test_the_classifier_gives_its_labels(data, tmp_path):
    X, y = data
    model = svnn.SVNNClassifier(
        covariance=WithinClass(LedoitWolf()), use="precision", validation_fraction=0, max_epochs=3, random_state=0
    ).fit(X, y)
    Z = (X - X.mean(0)) / X.std(0)
    expected = WithinClass().fit(Z, y)
    np.testing.assert_allclose(model.covariance_, expected.covariance_, rtol=1e-6)
    shift = model.operator_.to_dense() * model.operator_.scale
    np.testing.assert_allclose(shift, expected.precision_, rtol=1e-3, atol=1e-5)
    model.save(tmp_path / "model")
    again = svnn.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(again).get_params()["covariance__estimator"].__class__ is LedoitWolf
    # Validation rows do not count.
    held = svnn.SVNNClassifier(covariance=WithinClass(), max_epochs=1, random_state=0)
    held.fit(X, y, validation_data=(1000 * X, y))
    np.testing.assert_allclose(held.covariance_, expected.covariance_, rtol=1e-6)


def test_a_regressor_says_that_there_are_no_classes(data):
    with pytest.raises(ValueError, match="needs y to be class labels"):
        svnn.SVNNRegressor(covariance=WithinClass(), max_epochs=1).fit(data[0], np.linspace(0, 1, 90))


@pytest.mark.parametrize("estimator", ["rcv", RCV(p=0.5)])
def test_random_estimators_are_seeded_and_classes_differ(data, estimator):
    X, y = data
    first, again, other = (WithinClass(estimator, random_state=seed).fit(X, y).covariance_ for seed in (1, 1, 2))
    assert not (first != again).any() and (first != other).any()
    # The union of several masks is denser than any of them.
    single = resolve(estimator).set_params(random_state=1).fit(X).covariance_
    assert np.count_nonzero(first) > np.count_nonzero(single)
    network = svnn.SVNNClassifier(covariance=WithinClass(estimator), max_epochs=1, random_state=0)
    fitted = [clone(network).fit(X, y).covariance_ for _ in range(2)]
    np.testing.assert_array_equal(fitted[0], fitted[1])
