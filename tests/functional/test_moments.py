from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from svnn import functional as F


@pytest.fixture
def X(rng):
    return rng.standard_normal((40, 6)) * np.arange(1, 7) + 100


@pytest.mark.parametrize("ddof", [0, 1])
def test_matches_numpy(X, ddof):
    moments = F.sample_moments(X, ddof)
    np.testing.assert_allclose(moments.covariance, np.cov(X.T, ddof=ddof), rtol=1e-12)
    np.testing.assert_allclose(moments.location, X.mean(0))
    assert moments.n_samples == 40


def test_weights_match_numpy_and_only_ratios_matter(X, rng):
    w = rng.uniform(0, 3, 40)
    a, b = F.sample_moments(X, 1, w), F.sample_moments(X, 1, w / w.sum())
    np.testing.assert_allclose(a.covariance, np.cov(X.T, ddof=1, aweights=w), rtol=1e-10)
    np.testing.assert_allclose(a.covariance, b.covariance)
    assert a.n_samples == pytest.approx(w.sum() ** 2 / (w**2).sum()) == pytest.approx(b.n_samples)


def test_integer_weights_repeat_rows(X, rng):
    w = rng.integers(0, 4, 40)
    repeated = F.sample_moments(np.repeat(X, w, axis=0)).covariance
    np.testing.assert_allclose(F.sample_moments(X, sample_weight=w).covariance, repeated, rtol=1e-10)


def test_pairwise_matches_pandas(X, rng):
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    moments = F.sample_moments(X, 1, missing="pairwise")  # pandas knows ddof=1 only with missing values
    np.testing.assert_allclose(moments.covariance, pd.DataFrame(X).cov().to_numpy(), rtol=1e-9)
    known = ~np.isnan(X)
    np.testing.assert_allclose(moments.n_samples, known.T.astype(float) @ known)
    np.testing.assert_allclose(moments.location, np.nanmean(X, 0))


def test_pairwise_is_the_covariance_of_the_common_rows(X, rng):
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    w = rng.uniform(0.5, 2, len(X))
    C = F.sample_moments(X, 0, w, missing="pairwise").covariance
    both = ~np.isnan(X[:, [0, 3]]).any(1)
    assert C[0, 3] == pytest.approx(np.cov(X[both][:, [0, 3]].T, ddof=0, aweights=w[both])[0, 1])


def test_pairs_never_seen_together_are_zero_with_a_warning():
    X = np.array([[1.0, np.nan, 0], [2.0, np.nan, 1], [np.nan, 3.0, 0], [np.nan, 5.0, 2]])
    with pytest.warns(UserWarning, match="1 pairs of features are observed together in too few samples"):
        moments = F.sample_moments(X, missing="pairwise")
    assert moments.covariance[0, 1] == 0
    assert moments.covariance[0, 2] == pytest.approx(0.25)


def test_a_feature_without_values_is_an_error():
    with pytest.raises(ValueError, match="feature 1 has no observed value"):
        F.sample_moments(np.array([[1.0, np.nan], [2.0, np.nan]]), missing="pairwise")


def test_three_dimensions_are_observations_but_not_samples(rng):
    X = rng.standard_normal((10, 4, 7))
    moments = F.sample_moments(X, ddof=1)
    rows = X.transpose(0, 2, 1).reshape(-1, 4)
    assert moments.n_samples == 10
    np.testing.assert_allclose(moments.covariance, np.cov(rows.T, ddof=0) / (1 - 1 / 10), rtol=1e-10)


def test_product_variances_by_definition(X, rng):
    Z = X - X.mean(0)
    products = Z[:, :, None] * Z[:, None, :]
    expected = ((products - products.mean(0)) ** 2).mean(0)
    np.testing.assert_allclose(F.product_variances(X, F.sample_moments(X)), expected, rtol=1e-9)
    w = rng.uniform(0, 1, 40)
    moments = F.sample_moments(X, sample_weight=w)
    Z = X - moments.location
    products = Z[:, :, None] * Z[:, None, :]
    expected = np.average((products - moments.covariance) ** 2, axis=0, weights=w)
    np.testing.assert_allclose(F.product_variances(X, moments, w), expected, rtol=1e-8)


def test_product_variances_average_within_a_sample(rng):
    X = rng.standard_normal((10, 4, 7))
    moments = F.sample_moments(X)
    Z = X - moments.location[:, None]
    products = np.einsum("tif,tjf->tij", Z, Z) / 7
    np.testing.assert_allclose(F.product_variances(X, moments), products.var(0), rtol=1e-9)
    same = np.repeat(X[:, :, :1], 7, axis=2)  # seven copies carry no more information than one
    np.testing.assert_allclose(
        F.product_variances(same, F.sample_moments(same)),
        F.product_variances(X[:, :, 0], F.sample_moments(X[:, :, 0])),
        rtol=1e-9,
    )


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("shape", [(30, 5), (10, 5, 4)])
def test_torch_gives_the_same_numbers(rng, shape, missing):
    X = rng.standard_normal(shape)
    if missing:
        X[rng.random(shape) < 0.2] = np.nan
    w = rng.uniform(0, 1, shape[0])
    for a, b in zip(
        F.sample_moments(torch.tensor(X), 1, torch.tensor(w), "pairwise"),
        F.sample_moments(X, 1, w, "pairwise"),
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-9)
    if not missing or X.ndim == 2:
        moments = F.sample_moments(X, 0, w, "pairwise")
        theta = F.product_variances(torch.tensor(X), F.Moments(*map(torch.tensor, moments)), torch.tensor(w))
        np.testing.assert_allclose(theta.numpy(), F.product_variances(X, moments, w), rtol=1e-9)


@pytest.mark.parametrize("weight", [[1, 2], [-1] * 40, [0] * 40, [np.nan] * 40])
def test_bad_weights_are_named(X, weight):
    with pytest.raises(ValueError, match="sample_weight"):
        F.sample_moments(X, sample_weight=weight)


def test_missing_is_checked_and_integers_take_real_weights():
    X = np.array([[1, 2], [3, 6], [2, 5]])
    moments = F.sample_moments(X, sample_weight=[1.9, 1, 1])
    np.testing.assert_allclose(moments.location, np.average(X, axis=0, weights=[1.9, 1, 1]))
    with pytest.raises(ValueError, match="X contains NaN"):
        F.sample_moments(np.array([[1.0, np.nan], [2.0, 1.0]]))
    with pytest.raises(ValueError, match="missing must be"):
        F.sample_moments(X, missing="drop")


def test_ddof_counts_samples_with_and_without_missing_values(rng):
    X = rng.standard_normal((5, 3, 4))
    whole = F.sample_moments(X, 1).covariance
    X[0, 0, 0] = np.nan
    np.testing.assert_allclose(F.sample_moments(X, 1, missing="pairwise").covariance[1, 2], whole[1, 2])
