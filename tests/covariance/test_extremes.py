"""Constant features, very large and very small values, weights of any scale: on every path and for every kind."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from svnn import covariance as cov

DENSE = [
    cov.SampleCovariance(),
    cov.GraphicalLasso(alpha=0.3),
    cov.HardThreshold(tau=0.0),
    cov.HardThreshold(),
    cov.HardThreshold(tau="cv", random_state=0, n_splits=2),
    cov.SoftThreshold(density=0.5),
    cov.SoftThreshold(top_k=2),
    cov.AdaptiveThreshold(delta=0.5),
    cov.ACV(density=0.9, random_state=0),
    cov.RCV(p=0.9, random_state=0),
]
TILES = [
    clone(e).set_params(dense_limit=0) for e in DENSE if "memory_limit" in e.get_params() and type(e) is not cov.RCV
]
every = pytest.mark.parametrize("estimator", DENSE + TILES, ids=str)
kinds = pytest.mark.parametrize("kind", [np.asarray, torch.tensor], ids=["numpy", "torch"])


def dense(C):
    return C.toarray() if sp.issparse(C) else np.asarray(C.to_dense() if isinstance(C, torch.Tensor) else C)


@pytest.fixture
def X(rng):
    return rng.standard_normal((37, 12)) + rng.standard_normal((37, 1))


def check_constant(fitted, X, columns):
    C = dense(fitted.covariance_)
    location = np.asarray(fitted.location_)
    assert np.isfinite(C).all()
    for column in columns:
        assert (C[column] == 0).all() and (C[:, column] == 0).all()
        assert X[:, column].min() <= location[column] <= X[:, column].max()
    rest = np.setdiff1d(np.arange(X.shape[1]), columns)
    assert (C.diagonal()[rest] > 0).all()


@every
@kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constants_are_exactly_zero(estimator, kind, dtype, X):
    X = X.astype(dtype)
    X[:, 2], X[:, 5], X[:, 7], X[:, 9] = 3.3, 0.1, 1e8, -7.7e-5
    X[::3, 5] = np.nextafter(X[0, 5], dtype(1))  # by rounding
    check_constant(clone(estimator).fit(kind(X)), X, [2, 5, 7, 9])


@every
def test_rows_of_weight_zero_and_all_values_of_a_node_count(estimator, rng, X):
    X[:, 2] = 0.1
    X[4, 2], X[9, 2] = 5.0, -1e9
    weight = rng.uniform(0.5, 2, 37)
    weight[[4, 9]] = 0
    check_constant(clone(estimator).fit(X, sample_weight=weight), X[weight > 0], [2])
    Y = rng.standard_normal((15, 6, 4)) + rng.standard_normal((15, 1, 4))
    Y[:, 3] = 0.7
    Y[:, 4] = np.arange(4)  # each value is constant, but not the node
    check_constant(clone(estimator).fit(Y), Y.transpose(0, 2, 1).reshape(-1, 6), [3])


@kinds
def test_constants_among_missing_values(kind, rng, X):
    X[:, 2] = 0.1
    X[rng.random(X.shape) < 0.2] = np.nan
    for estimator in (cov.SampleCovariance(), cov.HardThreshold(tau=0.0), cov.GraphicalLasso(alpha=0.3)):
        fitted = clone(estimator).set_params(missing="pairwise").fit(kind(X))
        C = dense(fitted.covariance_)
        assert (C[2] == 0).all() and (C[:, 2] == 0).all() and float(fitted.location_[2]) == 0.1


def test_batches_of_constants(X):
    X[:, 2] = 0.1
    X[20:, 2] = np.nextafter(0.1, 1)
    X[:, 3], X[20:, 3] = 1.0, 2.0  # constant in each batch only
    fitted = cov.SampleCovariance()
    for part in np.split(X, [1, 5, 20, 30]):
        fitted.partial_fit(part)
    check_constant(fitted, X, [2])
    np.testing.assert_allclose(np.delete(fitted.covariance_, 2, 1)[3], np.delete(np.cov(X.T, ddof=0)[3], 2))


def test_memory_maps_and_iterators_have_the_same_constants(X, tmp_path):
    X[:, 2] = 3.3
    stored = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=X.shape)
    stored[:] = X
    for limit in (0, 4096):
        for data in (stored, iter(np.array_split(X, 3))):
            check_constant(cov.HardThreshold(tau=0.0, dense_limit=limit).fit(data), X, [2])


@every
@pytest.mark.parametrize("offset", [1.0, -40.0])
def test_a_feature_that_varies_by_little_keeps_its_variance(estimator, offset, rng, X):
    X[:, 2] = offset + 1e-9 * X[:, 2]
    variance = dense(clone(estimator).fit(X).covariance_)[2, 2]
    assert variance == pytest.approx(X[:, 2].var(), rel=1e-4) and variance > 0


def test_float32_with_an_offset_keeps_its_variance(rng):
    X = (1e6 + rng.standard_normal((2000, 3))).astype(np.float32)
    exact = np.cov(X.astype(np.float64).T, ddof=0)
    for limit in (0, 4096):
        C = dense(cov.HardThreshold(tau=0.0, dense_limit=limit).fit(X).covariance_)
        np.testing.assert_allclose(C, exact, rtol=1e-5, atol=1e-6)


def test_within_class_constants_weights_and_units(rng):
    X, y = rng.standard_normal((60, 5)), np.arange(60) % 3
    X[:, 1] = 0.1
    X[:, 2] = y / 3  # constant within each class
    for estimator in ("sample", "hard", "ledoit_wolf"):
        fitted = cov.WithinClass(estimator).fit(X, y)
        C = dense(fitted.covariance_)
        assert (C[[1, 2]] == 0).all() and (C[:, [1, 2]] == 0).all() and (C.diagonal()[[0, 3, 4]] > 0).all()
        for factor in (1e150, 1e-150):
            scaled = dense(cov.WithinClass(estimator).fit(factor * X, y).covariance_)
            np.testing.assert_allclose(scaled / factor / factor, C, rtol=1e-9, atol=1e-12)
        for factor, message in ((1e160, "too large"), (1e-170, "too small")):
            with pytest.raises(ValueError, match=f"values {message} for their variance"):
                cov.WithinClass(estimator).fit(factor * X, y)
    weight = rng.uniform(0.5, 2, 60)
    expected = cov.WithinClass("sample").fit(X, y, sample_weight=weight).covariance_
    for factor in SCALES:
        found = cov.WithinClass("sample").fit(X, y, sample_weight=factor * weight).covariance_
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    Y = rng.standard_normal((30, 4, 3))
    Y[:, 2] = [0.1, 0.2, 0.3]  # as it moves with time only, it says nothing
    assert (cov.WithinClass("sample").fit(Y, y[:30]).covariance_[2] == 0).all()


SCALES = (1e-13, 1e-300, 1e40, 1e300)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scale_of_the_weights_does_not_matter(estimator, dtype, rng, X):
    X, weight = X.astype(dtype), rng.uniform(0.5, 2, 37)
    expected = clone(estimator).fit(X, sample_weight=weight)
    for data in (X, torch.tensor(X)):
        for factor in SCALES:
            fitted = clone(estimator).fit(data, sample_weight=factor * weight)
            tolerance = 1e-4 if dtype is np.float32 or not isinstance(data, np.ndarray) else 1e-6
            np.testing.assert_allclose(
                dense(fitted.covariance_), dense(expected.covariance_), rtol=tolerance, atol=1e-6
            )
    equal = clone(estimator).fit(X, sample_weight=np.full(37, 5e-324))
    np.testing.assert_allclose(dense(equal.covariance_), dense(clone(estimator).fit(X).covariance_), rtol=1e-4)


def test_weights_are_relative_across_batches(rng, X):
    weight = rng.uniform(0.5, 2, 37) * np.where(np.arange(37) < 20, 1, 1e6)
    whole = cov.SampleCovariance(ddof=1).fit(X, sample_weight=weight)
    for factor in SCALES:
        for order in (slice(None), slice(None, None, -1)):
            fitted = cov.SampleCovariance(ddof=1)
            for rows in np.split(np.arange(37), [12, 25])[order]:
                fitted.partial_fit(X[rows], sample_weight=factor * weight[rows])
            np.testing.assert_allclose(fitted.covariance_, whole.covariance_, rtol=1e-10)
            assert fitted.n_samples_ == pytest.approx(whole.n_samples_)


@every
@pytest.mark.parametrize(
    ("kind", "factor"),
    [*((np.asarray, f) for f in (1e150, 1e-150, 1e25)), *((torch.tensor, f) for f in (1e100, 1e-70, 1e-25))],
    ids=lambda value: str(value) if isinstance(value, float) else {np.asarray: "numpy", torch.tensor: "torch"}[value],
)
def test_units_do_not_matter_where_the_covariance_is_a_number(estimator, kind, factor, X):
    if isinstance(estimator, cov.HardThreshold) and estimator.tau == 0.0:
        estimator = clone(estimator).set_params(psd="load")
    expected = clone(estimator).fit(X)
    found = clone(estimator).fit(kind(X * factor))
    np.testing.assert_allclose(
        dense(found.covariance_) / factor / factor, dense(expected.covariance_), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(np.asarray(found.location_) / factor, expected.location_, rtol=1e-5, atol=1e-6)
    assert getattr(found, "density_", 0) == getattr(expected, "density_", 0)
    if hasattr(expected, "tau_"):
        assert found.tau_ == expected.tau_


@every
@kinds
@pytest.mark.parametrize(
    ("dtype", "factor", "message"),
    [
        (np.float64, 1e160, "too large"),
        (np.float64, 1e-170, "too small"),
        (np.float32, 1e25, "too large.*float64"),
        (np.float32, 1e-25, "too small.*float64"),
    ],
)
def test_a_covariance_that_is_no_number_is_an_error(estimator, kind, dtype, factor, message, X):
    X = X.astype(dtype)
    X[:, 4] *= dtype(factor)
    with pytest.raises(ValueError, match=f"feature 4 of X has values {message}.*"):
        clone(estimator).fit(kind(X))
    X[:, 4] = factor  # a constant has a variance, zero
    assert (dense(clone(estimator).fit(kind(X)).covariance_)[4] == 0).all()


def test_batches_whose_covariance_is_no_number(X):
    for factor, message in ((1e160, "too large"), (1e-170, "too small")):
        with pytest.raises(ValueError, match=message):
            cov.SampleCovariance().partial_fit(factor * X)
        first = cov.SampleCovariance().partial_fit(factor * X[:1])
        with pytest.raises(ValueError, match=message):
            first.partial_fit(factor * X[1:2])
    fitted = cov.SampleCovariance().partial_fit(X)
    before = fitted.covariance_.copy()
    with pytest.raises(ValueError, match="too large"):
        fitted.partial_fit(1e200 * X)
    np.testing.assert_array_equal(fitted.covariance_, before)
    fitted.partial_fit(np.array([[0.0], [1e-170]]) * np.ones(12))  # a batch that hardly varies counts as any other
    np.testing.assert_allclose(fitted.covariance_, np.cov(np.r_[X, np.zeros((2, 12))].T, ddof=0))


def test_units_too_different_for_tiles_are_an_error(X):
    small = X * np.array([1e-5] * 6 + [1e20] * 6)
    a = cov.HardThreshold(density=0.5).fit(small)
    b = cov.HardThreshold(density=0.5, dense_limit=0).fit(small)
    np.testing.assert_allclose(dense(b.covariance_), dense(a.covariance_), rtol=1e-4)
    assert np.count_nonzero(dense(b.covariance_)[:6, 6:]) > 0
    with pytest.raises(ValueError, match=r"standard deviations from .* too different.*raise dense_limit"):
        cov.HardThreshold(density=0.5, dense_limit=0).fit(X * np.array([1e-30] * 6 + [1e30] * 6))
    cov.HardThreshold(dense_limit=0).fit(X * np.array([1e-30] * 6 + [1e30] * 6))  # correlations have no units
