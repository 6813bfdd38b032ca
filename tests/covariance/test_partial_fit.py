"""Covariances that go on: rows in pieces, and rows that count less the older they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold

GO_ON = [
    SampleCovariance(),
    HardThreshold(),
    HardThreshold(tau=0.5),
    HardThreshold(density=0.4),
    HardThreshold(top_k=2),
    SoftThreshold(),
    ACV(random_state=0),
    ACV(density=0.5, unbiased=True, random_state=0),
    RCV(random_state=0),
    HardThreshold(psd="shrink"),
]


def data(seed, t, n=6):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((t, 1)) * rng.uniform(-1, 1, n) + rng.standard_normal((t, n)) + 10


@pytest.mark.filterwarnings("ignore:tau")
@pytest.mark.parametrize("estimator", GO_ON, ids=str)
@given(
    seed=seeds,
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    halflife=st.one_of(st.none(), st.floats(0.5, 1e6)),
    weighted=st.booleans(),
)
def test_pieces_are_one_fit(estimator, seed, sizes, halflife, weighted):
    X = data(seed, sum(sizes) + 4)
    weight = np.random.default_rng(seed + 1).uniform(0.1, 3, len(X)) if weighted else None
    whole = type(estimator)(**{**estimator.get_params(), "halflife": halflife}).fit(X, sample_weight=weight)
    pieces = type(estimator)(**whole.get_params())
    for rows in np.split(np.arange(len(X)), np.cumsum([4, *sizes[:-1]])):
        pieces.partial_fit(X[rows], sample_weight=None if weight is None else weight[rows])
    np.testing.assert_allclose(pieces.covariance_, whole.covariance_, atol=1e-8)
    np.testing.assert_allclose(pieces.location_, whole.location_)


@given(seeds, st.integers(2, 40), st.floats(0.3, 100))
def test_the_half_life_is_that_of_the_formula(seed, t, halflife):
    X = data(seed, t)
    weight = 0.5 ** (np.arange(t)[::-1] / halflife)
    fitted = SampleCovariance(halflife=halflife).fit(X)
    np.testing.assert_allclose(fitted.covariance_, np.cov(X.T, aweights=weight, ddof=0), atol=1e-10)
    assert fitted.n_samples_ == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    given_weights = SampleCovariance().fit(X, sample_weight=weight)
    np.testing.assert_allclose(fitted.covariance_, given_weights.covariance_, atol=1e-10)


def test_a_row_counts_half_after_the_half_life():
    X = np.array([[1.0], [0.0], [0.0], [0.0]])
    shares = [SampleCovariance(halflife=2).fit(X[: t + 1]).location_[0] for t in range(1, 4)]
    weights = [0.5 ** (t / 2) / sum(0.5 ** (i / 2) for i in range(t + 1)) for t in range(1, 4)]
    np.testing.assert_allclose(shares, weights)


def test_the_threshold_follows_the_effective_number_of_rows(rng):
    X = rng.standard_normal((400, 5))
    all_alike, newest = HardThreshold(tau=1.0).fit(X), HardThreshold(tau=1.0, halflife=10).fit(X)
    assert all_alike.threshold_ == pytest.approx(1 / 20)
    assert newest.threshold_ == pytest.approx(SampleCovariance(halflife=10).fit(X).n_samples_ ** -0.5)
    assert newest.threshold_ > 3 * all_alike.threshold_


def test_a_half_life_with_tiles_is_that_without(rng):
    X = rng.standard_normal((50, 1)) + rng.standard_normal((50, 12))
    dense = HardThreshold(halflife=9.0).fit(X)
    tiled = HardThreshold(halflife=9.0, dense_limit=5).fit(X)
    np.testing.assert_allclose(tiled.covariance_.toarray(), dense.covariance_, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_feature_that_stopped_to_vary_long_ago_is_a_constant(rng, dtype):
    """Its variance falls below every number that there is, which is no reason for an error."""
    X = rng.standard_normal((4000, 3)).astype(dtype)
    X[100:, 1] = 2
    whole = SampleCovariance(halflife=1).fit(X)
    pieces = SampleCovariance(halflife=1)
    for part in np.array_split(X, 400):
        pieces.partial_fit(part)
    for fitted in (whole, pieces):
        assert not fitted.covariance_[1].any() and not fitted.covariance_[:, 1].any()
    np.testing.assert_allclose(pieces.covariance_, whole.covariance_, atol=1e-5)
    pieces.partial_fit(X[:5])
    assert pieces.covariance_[1, 1] > 0.1


def test_old_rows_of_weight_before_rows_without(rng):
    X, weight = rng.standard_normal((300, 3)), np.r_[np.ones(10), np.zeros(290)]
    found = SampleCovariance(halflife=1).fit(X, sample_weight=weight)
    np.testing.assert_allclose(found.covariance_, SampleCovariance(halflife=1).fit(X[:10]).covariance_)


def test_after_fit_and_tensors_and_three_dimensions(rng):
    X = torch.tensor(rng.standard_normal((30, 4, 3)))
    whole = HardThreshold(halflife=5).fit(X)
    pieces = HardThreshold(halflife=5).fit(X[:20])
    for row in X[20:]:
        pieces.partial_fit(row[None])
    assert isinstance(pieces.covariance_, torch.Tensor)
    np.testing.assert_allclose(pieces.covariance_.numpy(), whole.covariance_.numpy(), atol=1e-10)
    np.testing.assert_allclose(pieces.threshold_, whole.threshold_)


def test_where_it_is_not_available(rng):
    X = rng.standard_normal((30, 6))
    with pytest.raises(AttributeError, match=r'HardThreshold has no partial_fit here: tau="cv".*tau="universal"'):
        HardThreshold(tau="cv").partial_fit(X)
    with pytest.raises(AttributeError, match=r"AdaptiveThreshold has no partial_fit here.*use HardThreshold"):
        AdaptiveThreshold().partial_fit(X)
    assert not hasattr(AdaptiveThreshold(), "partial_fit") and hasattr(HardThreshold(), "partial_fit")
    with pytest.raises(ValueError, match="6 features, more than dense_limit=5; raise dense_limit"):
        HardThreshold(dense_limit=5).partial_fit(X)
    with pytest.raises(ValueError, match='partial_fit needs missing="raise"'):
        ACV(missing="pairwise").partial_fit(X)
    with pytest.raises(ValueError, match=r"was fitted without running moments.*fit all rows again"):
        HardThreshold(dense_limit=5).fit(X).set_params(dense_limit=50).partial_fit(X)
    for wrong in (0, -1.0, "auto"):
        with pytest.raises(ValueError, match="halflife must be None or a positive number"):
            HardThreshold(halflife=wrong).fit(X)


def test_a_failed_piece_changes_nothing(rng):
    X = rng.standard_normal((30, 6))
    fitted = HardThreshold(tau=0.1).partial_fit(X[:20])
    before = fitted.covariance_.copy()
    wrong = [
        (X[:, :3], None, "X has 3 features"),
        (np.full((2, 6), np.nan), None, "NaN"),
        (X[:2], [0.0, 0.0], "sample_weight must be"),
    ]
    for rows, weight, message in wrong:
        with pytest.raises(ValueError, match=message):
            fitted.partial_fit(rows, sample_weight=weight)
    np.testing.assert_array_equal(fitted.covariance_, before)
    np.testing.assert_allclose(fitted.partial_fit(X[20:]).covariance_, HardThreshold(tau=0.1).fit(X).covariance_)


def test_what_an_earlier_fit_chose_does_not_stay(rng):
    X = rng.standard_normal((30, 6))
    fitted = HardThreshold(tau="cv", random_state=0).fit(X)
    assert fitted.tau_ >= 0
    assert not hasattr(fitted.set_params(tau=0.1).partial_fit(X), "tau_")


def test_a_half_life_that_leaves_one_row_is_named(rng):
    X = rng.standard_normal((20, 3))
    for estimator in (SampleCovariance(halflife=1e-3), HardThreshold(halflife=1e-3)):
        with pytest.raises(ValueError, match=r"halflife=0\.001 rows leaves only the newest one of 20"):
            estimator.fit(X)
    # Rows of weight zero at the end are no rows, however many half-lives they take.
    weight = np.r_[np.ones(10), np.zeros(10)]
    found = HardThreshold(tau=0.0, halflife=0.05).fit(X, sample_weight=weight).covariance_
    np.testing.assert_allclose(found, HardThreshold(tau=0.0, halflife=0.05).fit(X[:10]).covariance_)
