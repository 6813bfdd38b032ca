from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from sklearn.exceptions import NotFittedError

from strategies import seeds
from svnn import functional as F
from svnn.covariance import ACV, RCV

DRAWS = 2000


@pytest.fixture
def X(rng):
    return rng.standard_normal((30, 1)) + rng.standard_normal((30, 10))


CASES = [
    ACV(random_state=0),
    ACV(density=0.3, random_state=0),
    ACV(max_over="offdiagonal", random_state=0),
    ACV(unbiased=True, random_state=0),
    RCV(p=0.3, random_state=0),
    RCV(p=0.3, unbiased=True, random_state=0),
]


@pytest.mark.parametrize("estimator", CASES, ids=str)
def test_realisations_follow_the_probabilities(estimator, X):
    estimator.fit(X)
    P, C = estimator.probabilities_, estimator.sample_covariance_
    np.testing.assert_allclose(C, np.cov(X.T, ddof=0))
    assert (P == P.T).all() and (P.diagonal() == 1).all()
    rng = np.random.default_rng(2)
    draws = np.stack([estimator.sample(rng) for _ in range(DRAWS)])
    kept = draws != 0
    assert (kept == kept.transpose(0, 2, 1)).all()
    assert (abs(kept.mean(0) - P) <= 4 * np.sqrt(P * (1 - P) / DRAWS) + 1e-12).all()
    counts = kept.sum((1, 2))
    assert abs(counts.mean() - P.sum()) <= 4 * counts.std() / np.sqrt(DRAWS)  # P.sum() = N + sum over i != j
    mean = C if estimator.unbiased else P * C
    assert (abs(draws.mean(0) - mean) <= 4 * draws.std(0) / np.sqrt(DRAWS) + 1e-12).all()


def test_probabilities_are_the_functions(X):
    C = np.cov(X.T, ddof=0)
    np.testing.assert_allclose(ACV().fit(X).probabilities_, F.acv_probabilities(C))
    np.testing.assert_allclose(ACV(density=0.2).fit(X).probabilities_, F.acv_probabilities(C, 0.2))
    P = RCV(p=0.2, random_state=5).fit(X).probabilities_
    np.testing.assert_allclose(P, F.rcv_probabilities(C, 0.2, 5))


@given(seeds)
def test_the_first_realisation_is_reproducible(seed):
    X = np.random.default_rng(seed).standard_normal((20, 6))
    for make in (lambda: ACV(random_state=seed), lambda: RCV(random_state=seed)):
        a, b = make().fit(X), make().fit(X)
        np.testing.assert_array_equal(a.covariance_, b.covariance_)
        np.testing.assert_array_equal(a.sample(seed), b.sample(seed))


def test_fresh_realisations_differ(X):
    rcv = RCV(random_state=0).fit(X)
    assert (rcv.sample(1) != rcv.sample(2)).any()


@pytest.mark.parametrize("make", [ACV, RCV])
def test_another_seed_gives_another_first_realisation(make, X):
    one, other = (make(random_state=seed).fit(X).covariance_ for seed in (1, 2))
    assert ((one != 0) != (other != 0)).any()


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (RCV(p=1.2), "p must be a number between 0 and 1"),
        (ACV(density=-1), "density must be None or a number between 0 and 1"),
        (ACV(max_over="rows"), "max_over must be"),
        (RCV(random_state="0"), "random_state must be"),
    ],
)
def test_bad_parameters_are_named(estimator, message, X):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X)


def test_sampling_needs_a_fit():
    with pytest.raises(NotFittedError):
        ACV().sample()
