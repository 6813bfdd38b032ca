import numpy as np
import pytest
from hypothesis import given, settings

from strategies import covariances
from svnn.paper._rates import kurtosis_terms, vnn_filter_probability, vnn_filter_rate


@settings(deadline=None, max_examples=40, derandomize=True)
@given(covariances())
def test_gaussian_moments_by_isserlis(C):
    # E‖xxᵀv‖² = E[‖x‖² (xᵀv)²] = tr C vᵀCv + 2 vᵀC²v for every v.
    if np.linalg.eigvalsh(C)[-1] < 1e-9:
        return
    terms = kurtosis_terms(C)
    lam, V = np.linalg.eigh(C)
    expected = np.trace(C) * np.diag(V.T @ C @ V) + 2 * np.diag(V.T @ C @ C @ V) - lam**2
    np.testing.assert_allclose(terms.k**2, np.maximum(expected, 0), rtol=1e-6, atol=1e-9 * lam[-1] ** 2)
    assert terms.k_max == terms.k.max() and terms.k_min <= terms.k_max


def test_moments_of_samples_approach_the_gaussian_ones(rng):
    C = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]])
    X = rng.multivariate_normal(np.ones(3), C, 400_000)
    sampled, exact = kurtosis_terms(C, X), kurtosis_terms(C)
    np.testing.assert_allclose(sampled.k, exact.k, rtol=0.01)
    np.testing.assert_allclose(sampled[1:], exact[1:], rtol=0.02)


def test_moments_of_samples_by_definition(rng):
    X = rng.standard_t(5, (50, 4))
    X -= X.mean(0)
    C = X.T @ X / 50
    lam, V = np.linalg.eigh(C)
    k = [
        np.sqrt(np.mean([np.linalg.norm(np.outer(x, x) @ v) ** 2 for x in X]) - a**2)
        for a, v in zip(lam, V.T, strict=True)
    ]
    terms = kurtosis_terms(C, X + 3.0)  # a mean does not matter
    np.testing.assert_allclose(terms.k, k)
    kappa = max(k[i] ** 2 / abs(lam[i] - lam[j]) for i in range(4) for j in range(4) if i != j)
    assert terms.kappa == pytest.approx(kappa)


def test_zero_and_repeated_eigenvalues(rng):
    terms = kurtosis_terms(np.diag([0.0, 2.0, 2.0, 3.0]))
    assert terms.k_min**2 == pytest.approx(2 * 9)  # of positive eigenvalues only
    assert terms.kappa == pytest.approx(3 * 10 / 1)
    assert kurtosis_terms(np.eye(3)).kappa == 0


def test_the_probability_of_theorem_1_is_empty_for_close_eigenvalues():
    # κ is the inverse of the smallest gap: the theorem then speaks of no event at all, however harmless the filter.
    kappa = kurtosis_terms(np.diag([1.0, 1.001])).kappa
    assert kappa == pytest.approx(3005.0, rel=1e-3)
    assert vnn_filter_probability(12_000, 2, kappa) < 0 < vnn_filter_probability(100_000, 2, kappa)


def test_rate_of_theorem_1(rng):
    C = np.diag([1.0, 2.0, 4.0])
    terms = kurtosis_terms(C)
    for t in (100, 10_000):
        rate = vnn_filter_rate(1.0, t, 3, norm=4.0, k_max=terms.k_max, k_min=terms.k_min)
        by_hand = terms.k_max / t**0.25 * (np.sqrt(3) + 4 * np.sqrt(np.log(3 * t)) / (terms.k_min * np.sqrt(t)))
        assert rate == pytest.approx(by_hand)
        # Not proven, the constant is unknown; but one is enough here.
        errors = [np.linalg.norm(np.cov(rng.multivariate_normal(np.zeros(3), C, t).T) - C, 2) for _ in range(30)]
        assert np.quantile(errors, 0.9) < rate


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: kurtosis_terms(np.zeros((2, 2))), "positive eigenvalue"),
        (lambda: kurtosis_terms(np.eye(2), np.zeros((5, 3))), r"X must have shape \(t, 2\)"),
        (lambda: kurtosis_terms(np.eye(2), np.full((5, 2), np.nan)), "X holds NaN"),
        (lambda: vnn_filter_rate(1.0, 0, 3, norm=1.0, k_max=1.0, k_min=1.0), "t must be a finite number >= 1"),
        (lambda: vnn_filter_rate(1.0, 9, 3, norm=1.0, k_max=1.0, k_min=0.0), "k_min"),
        (lambda: vnn_filter_rate(-1.0, 9, 3, norm=1.0, k_max=1.0, k_min=1.0), "P must be"),
        (lambda: vnn_filter_probability(9, 3, 1.0, epsilon=0.6), "epsilon"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()
