"""Banding and tapering: equal to their formulas, the same from the band alone, better than a threshold on bands."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from svnn.covariance import Banding, HardThreshold, Tapering
from svnn.covariance import _moments as moments
from svnn.covariance.tiles import Tiles
from svnn.functional import band_weights, taper_weights

CASES = [
    Banding(width=0),
    Banding(width=3),
    Banding(width=999),
    Tapering(width=0),
    Tapering(width=7),
    Tapering(width=999),
]


def banded(seed, n=100, t=80, width=8):
    """Data whose covariances fall to zero at a distance, and the truth."""
    place = np.arange(n)
    truth = np.clip(1 - abs(place - place[:, None]) / width, 0, None)
    return np.random.default_rng(seed).multivariate_normal(np.zeros(n), truth, t), truth


def distances(n):
    place = np.arange(n)
    return abs(place - place[:, None])


@pytest.mark.parametrize("width", [0, 1, 5, 99, 300])
def test_they_are_their_formulas(width):
    X, _ = banded(0)
    S, d = np.cov(X.T, bias=True), distances(100)
    np.testing.assert_allclose(Banding(width=width).fit(X).covariance_, S * (d <= width), atol=1e-12)
    taper = np.clip(2 - d / (width / 2), 0, 1) if width else np.eye(100)
    np.testing.assert_allclose(Tapering(width=width).fit(X).covariance_, S * taper, atol=1e-12)


def test_weights():
    np.testing.assert_array_equal(taper_weights(torch.arange(4), 2), [1, 1, 0, 0])
    np.testing.assert_array_equal(band_weights(torch.arange(4), 2), [1, 1, 1, 0])
    np.testing.assert_array_equal(taper_weights(np.arange(3), 0), [1, 0, 0])


@pytest.mark.parametrize(
    ("estimator", "n"),
    [
        *zip(CASES, (40, 300, 700, 700, 300, 40), strict=True),
        (Banding(random_state=0), 300),
        (Tapering(random_state=0), 700),
    ],
    ids=str,
)
def test_the_band_alone_gives_the_same(estimator, n, kernels):
    X = banded(1, n)[0] * np.random.default_rng(0).uniform(0.1, 10, n) + 5
    X[:, 7] = 3.0
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    a = clone(estimator).fit(X, sample_weight=weight)
    b = clone(estimator).set_params(dense_limit=0).fit(X, sample_weight=weight)
    assert isinstance(b.covariance_, sp.csr_array) and a.width_ == b.width_
    np.testing.assert_allclose(b.covariance_.toarray(), a.covariance_, rtol=1e-4, atol=1e-5 * a.covariance_.max())
    np.testing.assert_array_equal(b.covariance_.toarray() != 0, a.covariance_ != 0)
    tensor = clone(estimator).set_params(dense_limit=0).fit(torch.tensor(X), sample_weight=weight)
    np.testing.assert_allclose(tensor.covariance_.to_dense(), b.covariance_.toarray(), rtol=1e-6)


def test_only_the_band_is_computed(monkeypatch):
    monkeypatch.setattr(Tiles, "products", lambda *args: pytest.fail("a tile of the whole matrix was multiplied"))
    X = np.random.default_rng(0).standard_normal((10, 20_000))
    tracemalloc.start()
    C = Banding(width=5).fit(X).covariance_
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert C.nnz == 20_000 * 11 - 2 * 15
    assert peak < 20_000**2 / 4


def test_the_width_is_found():
    for seed in range(3):
        X, truth = banded(seed)
        for kind, scale in ((Banding, 1), (Tapering, 1)):
            fitted = kind(random_state=0).fit(X)
            assert 3 <= fitted.width_ <= 20
            errors = [np.linalg.norm(kind(width=w).fit(X).covariance_ - truth) for w in range(0, 40, 2)]
            assert np.linalg.norm(fitted.covariance_ - truth) < 1.3 * scale * min(errors)


def test_the_width_of_many_features_is_found_on_some(monkeypatch):
    monkeypatch.setattr("svnn.covariance._bands.CV_FEATURES", 60)
    X, _ = banded(0, n=400)
    seen = []
    old = moments._correlations
    monkeypatch.setattr(moments, "_correlations", lambda by, X, *rest: (seen.append(X.shape[1]), old(by, X, *rest))[1])
    fitted = Banding(dense_limit=0, random_state=0, n_splits=3).fit(X)
    assert 3 <= fitted.width_ <= 20 and set(seen) == {60}


@pytest.mark.parametrize("correlation", ["spearman", "biweight"])
def test_the_width_is_that_of_the_correlation_on_tiles_too(correlation):
    """Powers of the data have other Pearson correlations, and the same ranks."""
    X = banded(0)[0] ** 5
    widths = [Tapering(correlation=correlation, random_state=0, dense_limit=limit).fit(X).width_ for limit in (0, 4096)]
    assert widths[0] == widths[1]
    if correlation == "spearman":
        assert widths[0] == Tapering(correlation=correlation, random_state=0).fit(banded(0)[0]).width_


def test_a_given_width_goes_on():
    X, _ = banded(0)
    for kind in (Banding, Tapering):
        pieces = kind(width=4, halflife=30).partial_fit(X[:50]).partial_fit(X[50:])
        np.testing.assert_allclose(pieces.covariance_, kind(width=4, halflife=30).fit(X).covariance_)
        with pytest.raises(AttributeError, match=r'width="cv" splits all rows.*use a number for width'):
            kind().partial_fit(X)


def test_better_than_a_threshold_on_banded_truths():
    ratios = []
    for seed in range(10):
        X, truth = banded(seed)
        errors = [
            np.linalg.norm(estimator.fit(X).covariance_ - truth)
            for estimator in (Banding(random_state=0), Tapering(random_state=0), HardThreshold())
        ]
        ratios.append(np.array(errors[:2]) / errors[2])
    assert (np.mean(ratios, axis=0) < 0.75).all()


@pytest.mark.parametrize("limit", [0, 4096])
def test_bad_widths_are_named(limit):
    X, _ = banded(0)
    for bad in (-1, 1.5, True, "wide", None):
        for kind in (Banding, Tapering):
            with pytest.raises(ValueError, match='width must be "cv" or an integer >= 0'):
                kind(width=bad, dense_limit=limit).fit(X)
    with pytest.raises(ValueError, match='width="cv" needs at least 4 samples to split, got 3; use a number for width'):
        Banding(dense_limit=limit).fit(X[:3])
