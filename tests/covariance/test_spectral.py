"""Functions of eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.covariance import LedoitWolf
from sklearn.utils.estimator_checks import parametrize_with_checks

from svnn import SVNNClassifier, SVNNRegressor, load
from svnn.covariance import ACV, HardThreshold, SampleCovariance, Spectral, WithinClass
from svnn.covariance._wrappers import clipped
from svnn.stability import marchenko_pastur_edge
from svnn.testing import check_covariance

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

NAMED = [Spectral(function=name) for name in ("shrink", "clip", "density")]


@parametrize_with_checks([*NAMED, Spectral("tyler")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator", [*NAMED, Spectral("hard"), Spectral(ACV(density=0.5)), Spectral(function=np.sqrt)]
)
def test_they_pass_the_check_for_covariances(estimator):
    skip = ["scaling"] if estimator.function in ("density", np.sqrt) else []
    skip += ["permutation"] if isinstance(estimator.estimator, ACV) else []
    check_covariance(estimator, tensors=True, skip=skip)


@pytest.fixture
def X(rng):
    return rng.standard_normal((50, 8)) + rng.standard_normal((50, 1))


def sample(X):
    return SampleCovariance().fit(X).covariance_


def test_shrinkage_is_ledoit_and_wolfs(X):
    theirs = LedoitWolf().fit(X)
    ours = Spectral().fit(X)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_)
    assert ours.intensity_ == pytest.approx(theirs.shrinkage_)
    given = Spectral(intensity=0.25).fit(X).covariance_
    C = sample(X)
    np.testing.assert_allclose(given, 0.75 * C + 0.25 * np.trace(C) / 8 * np.eye(8))


@pytest.mark.parametrize("shape", [(50, 8), (30, 8, 3)])
def test_the_intensity_follows_weights_and_units(shape, rng):
    X = rng.standard_normal(shape) + rng.standard_normal(shape[:1] + (1,) * (len(shape) - 1))
    weight = rng.integers(0, 3, len(X)).astype(float)
    found = Spectral().fit(X, sample_weight=weight).intensity_
    assert 0.01 < found < 0.99
    # By its formula, sample by sample.
    share, rest = (
        weight / weight.sum(),
        X - SampleCovariance().fit(X, sample_weight=weight).location_.reshape((1, 8) + (1,) * (len(shape) - 2)),
    )
    rest = rest.reshape(len(X), 8, -1)
    each = rest @ rest.swapaxes(1, 2) / rest.shape[2]
    S = np.tensordot(share, each, 1)
    noise = np.tensordot(share, (each - S) ** 2, 1).sum() * (share**2).sum()
    assert found == pytest.approx(noise / ((S - np.trace(S) / 8 * np.eye(8)) ** 2).sum())
    assert Spectral().fit(X[weight > 0], sample_weight=weight[weight > 0]).intensity_ == pytest.approx(found)
    for scale in (1e-150, 1e150):
        fitted = Spectral().fit(scale * X, sample_weight=weight)
        assert fitted.intensity_ == pytest.approx(found) and np.isfinite(fitted.covariance_).all()


@pytest.mark.parametrize("function", ["shrink", "clip"])
def test_a_half_life_leaves_fewer_samples_and_so_more_noise(function, X):
    decayed = Spectral(SampleCovariance(halflife=10), function=function).fit(X)
    weighted = Spectral(function=function).fit(X, sample_weight=0.5 ** (np.arange(50)[::-1] / 10))
    np.testing.assert_allclose(decayed.covariance_, weighted.covariance_)


def test_density_is_the_matrix_exponential(X):
    C = sample(X)
    expected = scipy.linalg.expm(-2 * C)
    fitted = Spectral(function="density", beta=2).fit(X)
    np.testing.assert_allclose(fitted.covariance_, expected / np.trace(expected), atol=1e-12)
    large = Spectral(function="density", beta=1e6).fit(X).covariance_  # does not overflow
    assert np.trace(large) == pytest.approx(1)


def test_clipping_keeps_the_trace_and_what_is_above_the_edge(rng):
    X = 3 * rng.standard_normal((100, 1)) + rng.standard_normal((100, 30))
    values = np.linalg.eigvalsh(sample(X))
    fitted = Spectral(function="clip").fit(X)
    assert np.trace(fitted.covariance_) == pytest.approx(values.sum())
    new = fitted.eigenvalues_
    assert new[-1] == pytest.approx(values[-1])
    np.testing.assert_allclose(new[:-1], values[:-1].mean())
    edge = marchenko_pastur_edge(n_samples=100, n_features=30)
    np.testing.assert_array_equal(values > new[0] * edge, new > new[0])


def test_clipping_by_hand():
    np.testing.assert_array_equal(clipped(np.array([0.9, 1.1, 1.4, 50.0]), 1000), [1.0, 1.0, 1.4, 50.0])
    np.testing.assert_array_equal(clipped(np.array([2.0, 2.0]), 10), [2.0, 2.0])
    np.testing.assert_array_equal(clipped(np.array([5.0]), 10), [5.0])


def test_a_function_of_ones_own_and_a_polynomial_filter_see_the_same(X):
    squared = Spectral(function=np.square).fit(X).covariance_
    np.testing.assert_allclose(squared, sample(X) @ sample(X), atol=1e-10)


@pytest.mark.parametrize("kind", ["array", "tensor", "nodes", "weights"])
def test_data_of_every_kind(kind, X, rng):
    if kind == "tensor":
        fitted = Spectral(intensity=0.5).fit(torch.tensor(X))
        assert isinstance(fitted.covariance_, torch.Tensor) and isinstance(fitted.location_, torch.Tensor)
        np.testing.assert_allclose(fitted.covariance_, Spectral(intensity=0.5).fit(X).covariance_)
    elif kind == "nodes":
        data = rng.standard_normal((20, 5, 3))
        rows = data.transpose(0, 2, 1).reshape(-1, 5)
        np.testing.assert_allclose(Spectral().fit(data).covariance_, LedoitWolf().fit(rows).covariance_, atol=1e-12)
    elif kind == "weights":
        w = rng.integers(0, 3, 50)
        C = SampleCovariance().fit(X, sample_weight=w).covariance_
        np.testing.assert_allclose(Spectral(intensity=0.0).fit(X, sample_weight=w).covariance_, C)
    else:
        np.testing.assert_allclose(Spectral(function=lambda v: v).fit(X).covariance_, sample(X))


def test_sparse_and_random_and_supervised_estimators(X):
    sparse = Spectral(HardThreshold(sparse_output=True), intensity=0.0).fit(X).covariance_
    np.testing.assert_allclose(sparse, HardThreshold().fit(X).covariance_, atol=1e-12)
    a, b, c = (Spectral(ACV(density=0.5), random_state=seed).fit(X).covariance_ for seed in (0, 0, 1))
    assert (a == b).all() and (a != c).any()
    y = np.arange(50) % 2
    within = WithinClass("sample").fit(X, y).covariance_
    np.testing.assert_allclose(Spectral(WithinClass("sample"), intensity=0.0).fit(X, y).covariance_, within)
    model = SVNNClassifier(covariance=Spectral(WithinClass("sample")), max_epochs=2, random_state=0).fit(X, y)
    assert model.covariance_.shape == (8, 8)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Spectral(function="clipp"), "function must be one of .* or a function of an array of eigenvalues"),
        (Spectral(function=3), "function must be one of"),
        (Spectral(function=lambda v: v[:-1]), r"function must return 8 finite numbers.* of shape \(7,\)"),
        (Spectral(function=lambda v: v * np.nan), "function must return 8 finite numbers"),
        (Spectral(function=lambda v: ["x"] * 8), "function must return 8 finite numbers"),
        (Spectral(intensity=1.5), "intensity must be None or a number between 0 and 1"),
        (Spectral(dense_limit=7), "dense matrix of 8 features, more than dense_limit=7; raise dense_limit"),
        (Spectral("smaple"), "covariance='smaple' is not known"),
    ],
)
def test_what_is_wrong_is_named(estimator, message, X):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X)


def test_files_hold_named_functions_and_no_code(X, tmp_path):
    y = X[:, 0]
    model = SVNNRegressor(covariance=Spectral("tyler", function="clip"), max_epochs=2, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert repr(loaded.covariance) == repr(Spectral("tyler", function="clip"))
    np.testing.assert_allclose(loaded.predict(X), model.predict(X))
    model = SVNNRegressor(covariance=Spectral(function=np.sqrt), max_epochs=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"function=.*sqrt.* cannot be stored without pickle"):
        model.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_clipping_is_nearer_to_a_spiked_truth_than_a_threshold():
    truth = np.eye(60) + 6 * np.ones((60, 60)) / 60
    ours, usual, crossed = [], [], []
    for seed in range(5):
        X = np.random.default_rng(seed).multivariate_normal(np.zeros(60), truth, 120)
        ours.append(Spectral(function="clip").fit(X).error_norm(truth))
        usual.append(HardThreshold().fit(X).error_norm(truth))
        crossed.append(HardThreshold(tau="cv", n_splits=3, random_state=0).fit(X).error_norm(truth))
    assert np.mean(ours) < 0.5 * min(np.mean(usual), np.mean(crossed))
