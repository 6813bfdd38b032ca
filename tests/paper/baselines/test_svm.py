"""PCA-SVM: the textbook pipeline, and the same machine on another covariance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from svnn import HardThreshold, as_operator
from svnn.paper import make_sparse_cov
from svnn.paper.baselines import PCASVMClassifier, PCASVMRegressor
from svnn.stability import pca_distance, stability_curve


@pytest.fixture
def model(data):
    return PCASVMRegressor(n_components=3).fit(*data)


def test_it_is_the_textbook_pipeline(data, iris):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), PCA(3), SVR())
    expected = TransformedTargetRegressor(pipeline, transformer=StandardScaler()).fit(X, y)
    np.testing.assert_allclose(PCASVMRegressor(n_components=3).fit(X, y).predict(X), expected.predict(X), rtol=1e-6)
    expected = make_pipeline(StandardScaler(), PCA(3), SVC()).fit(*iris)
    found = PCASVMClassifier(n_components=3).fit(*iris)
    np.testing.assert_array_equal(found.predict(iris[0]), expected.predict(iris[0]))
    np.testing.assert_allclose(found.decision_function(iris[0]), expected.decision_function(iris[0]), atol=1e-6)


def test_the_projections(model, data):
    X, _ = data
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(model.embed(X)[..., 0], Z @ model.components_.T, atol=1e-10)
    assert model.components_.shape == (3, 6) and model.embed(X).shape == (120, 3, 1)


def test_the_training_covariance_and_its_multiples_change_nothing(model, data):
    X, _ = data
    C = model.covariance_
    for same in (C, 5 * C, sp.csr_array(C), as_operator(C), HardThreshold(tau=0.0).fit(np.linalg.cholesky(C).T)):
        if hasattr(same, "covariance_"):
            same.covariance_ = C
        np.testing.assert_allclose(model.on(same).predict(X), model.predict(X), rtol=1e-6)


def test_weights_of_classes_are_those_of_labels(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    expected = make_pipeline(StandardScaler(), PCA(3), SVC(class_weight={"a": 1, "b": 9, "c": 1})).fit(X, names)
    model = PCASVMClassifier(n_components=3, class_weight={"a": 1, "b": 9, "c": 1}).fit(X, names)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert (model.predict(X) == "b").sum() > (names == "b").sum()


@given(signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=6, max_size=6), seed=st.integers(0, 100))
def test_signs_of_eigenvectors_do_not_matter(signs, seed):
    """A covariance that differs by rounding may come with other signs; the projections stay."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    C = V @ np.diag([6.0, 5, 4, 3, 2, 1]) @ V.T
    W = V * signs
    X = rng.standard_normal((20, 6))
    model = PCASVMRegressor(covariance=C, n_components=4, standardize=False).fit(X, X[:, 0])
    other = model.on(W @ np.diag([6.0, 5, 4, 3, 2, 1]) @ W.T)
    np.testing.assert_allclose(other.embed(X), model.embed(X), atol=1e-8)


def test_another_covariance_moves_the_projections_by_the_distance_of_the_components(model, data, rng):
    X, _ = data
    Z = StandardScaler().fit_transform(X)
    C = np.corrcoef(rng.standard_normal((30, 6)).T)
    other = model.on(C)
    moved = np.linalg.norm(other.embed(X) - model.embed(X))
    assert moved == pytest.approx(pca_distance(model.covariance_, C, 3, X=Z))
    assert other.machine_ is model.machine_
    assert abs(other.predict(X) - model.predict(X)).max() > 0.1


def test_names_and_estimators_are_fitted_on_what_is_given(model, data):
    X, _ = data
    before = model.predict(X)
    few = model.on("sample", X=X[:20])
    Z = model.fitted_.standardizer(X[..., None])[:20, :, 0]
    np.testing.assert_allclose(few.covariance_, np.cov(Z.T, ddof=0), atol=1e-12)
    sparse = model.on(HardThreshold(density=0.3, sparse_output=True), X=X)
    assert sp.issparse(sparse.covariance_) and sparse.predict(X).shape == (120,)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="pass X="):
        model.on("sample")


def test_a_model_can_be_fitted_again_on_other_features(model, rng):
    X = rng.standard_normal((30, 9, 2))
    model.fit(X, X[:, 0, 0])
    assert model.components_.shape == (3, 9) and model.embed(X).shape == (30, 3, 2)


def test_a_sparse_covariance_for_training(data):
    X, y = data
    model = PCASVMRegressor(covariance=HardThreshold(sparse_output=True), n_components=2).fit(X, y)
    assert sp.issparse(model.covariance_)
    a, b = (PCASVMRegressor(covariance="rcv", n_components=2, random_state=s).fit(X, y).predict(X) for s in (0, 0))
    np.testing.assert_array_equal(a, b)


def test_stability_curves_take_it():
    data = make_sparse_cov(n_samples=400, n_features=15, random_state=0)
    model = PCASVMRegressor(covariance=data.covariance, n_components=5)
    model.fit(data.X[:100], data.y[:100])
    table = stability_curve(
        model,
        data.X[100:150],
        "sample",
        data.X[150:],
        sizes=(20, 240),
        y_test=data.y[100:150],
        reference=data.covariance,
        repeats=3,
        random_state=0,
    )
    few, many = table.mean("n_samples")["embedding_error"]
    assert few > many > 0


def test_components_are_limited_by_features_and_samples(data):
    X, y = data
    with pytest.warns(UserWarning, match="n_components=20 is more than the 6 nodes"):
        PCASVMRegressor().fit(X, y)
    with pytest.warns(UserWarning, match="n_components=5 is more than the 4 observations"):
        PCASVMRegressor(n_components=5).fit(X[:4], y[:4])
    given = PCASVMRegressor(n_components=5, covariance=np.diag([6.0, 5, 4, 3, 2, 1]))
    assert len(given.fit(X[:4], y[:4]).components_) == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"covariance": "banded"}, "covariance='banded' is not known"),
        ({"covariance": np.eye(7)}, "the covariance is 7x7, but X has 6 features"),
        ({"covariance": np.triu(np.ones((6, 6)))}, "not symmetric"),
        ({"C": -1.0}, "C must be a positive number"),
    ],
)
def test_bad_parameters_are_named(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        PCASVMRegressor(**{"n_components": 3, **parameters}).fit(*data)


def test_another_number_of_features_is_an_error(model):
    with pytest.raises(ValueError, match="the covariance is 5x5, but X has 6 features"):
        model.on(np.eye(5))
