from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn.covariance import SampleCovariance


@given(seeds, st.lists(st.integers(1, 7), min_size=1, max_size=6), st.sampled_from([0, 1]), st.booleans())
def test_partial_fit_is_exact_in_any_order(seed, sizes, ddof, weighted):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(sizes) + 2, 4)) + 1000
    w = rng.uniform(0.5, 2, len(X)) if weighted else None
    parts = np.split(np.arange(len(X)), np.cumsum([2, *sizes[:-1]]))
    whole = SampleCovariance(ddof=ddof).fit(X, sample_weight=w)
    for order in (parts, parts[::-1]):
        estimator = SampleCovariance(ddof=ddof)
        for rows in sorted(order, key=len, reverse=True):
            estimator.partial_fit(X[rows], sample_weight=None if w is None else w[rows])
        np.testing.assert_allclose(estimator.covariance_, whole.covariance_, atol=1e-8)
        np.testing.assert_allclose(estimator.location_, whole.location_)
        assert estimator.n_samples_ == pytest.approx(whole.n_samples_)


def test_matches_numpy(rng):
    X = rng.standard_normal((20, 3))
    np.testing.assert_allclose(SampleCovariance().fit(X).covariance_, np.cov(X.T, ddof=0))
    np.testing.assert_allclose(SampleCovariance(ddof=1).fit(X).covariance_, np.cov(X.T))


def test_fit_forgets_and_partial_fit_goes_on(rng):
    X, Y = rng.standard_normal((2, 20, 3))
    estimator = SampleCovariance().fit(Y).fit(X).partial_fit(Y)
    np.testing.assert_allclose(estimator.covariance_, np.cov(np.r_[X, Y].T, ddof=0))


def test_partial_fit_takes_tensors_single_rows_and_three_dimensions(rng):
    X = rng.standard_normal((6, 3, 5))
    estimator = SampleCovariance()
    for sample in X:
        estimator.partial_fit(torch.tensor(sample[None]))
    np.testing.assert_allclose(estimator.covariance_.numpy(), SampleCovariance().fit(X).covariance_)


def test_partial_fit_errors(rng):
    X = rng.standard_normal((5, 3))
    with pytest.raises(ValueError, match="X has 2 features, but SampleCovariance is expecting 3"):
        SampleCovariance().partial_fit(X).partial_fit(X[:, :2])
    with pytest.raises(ValueError, match='partial_fit needs missing="raise"'):
        SampleCovariance(missing="pairwise").partial_fit(X)
    with pytest.raises(ValueError, match="needs more than 1 samples"):
        SampleCovariance(ddof=1).partial_fit(X[:1])


def test_a_failed_batch_is_not_counted_and_scalar_weights_are_equal_weights(rng):
    X = rng.standard_normal((5, 3))
    estimator = SampleCovariance(ddof=1)
    with pytest.raises(ValueError, match="needs more than 1 samples"):
        estimator.partial_fit(X[:1])
    assert estimator.partial_fit(X).n_samples_ == 5
    assert SampleCovariance().fit(X, sample_weight=2.0).n_samples_ == 5
