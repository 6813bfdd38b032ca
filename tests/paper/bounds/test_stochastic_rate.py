"""Thm. 5 as printed: its leading term P_gi² Q is no bound, because masking without rescaling has a bias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realisations import covariance, keep_probabilities
from strategies import seeds
from svnn.functional import sparsify
from svnn.paper._rates import stochastic_filter_rate
from svnn.stability import (
    expected_error,
    generalized_lipschitz,
    monte_carlo_error,
    sparsification_error,
    stochastic_bound,
)

N, c = 100, 1e-4
CUBE = [0.0, 0.0, 0.0, 1.0]
C = (1 - c) * np.eye(N) + c
ONES = np.ones(N) / np.sqrt(N)
#: Covers every realisation: none has an entry above C's, none leaves Gershgorin's discs.
INTERVAL = (1 - (N - 1) * c, 1 + (N - 1) * c)


def leading_term(p):
    return generalized_lipschitz(CUBE, INTERVAL) ** 2 * sparsification_error(C, p).Q


def test_the_leading_term_of_theorem_5_is_exceeded():
    error = expected_error(CUBE, C, 0.25, ONES)
    assert error / leading_term(0.25) == pytest.approx(2.1545, abs=1e-3)
    # It is the bias that does it, 3λ²(N-1)c(1-p) squared to leading order; the variance alone is far below.
    assert error.bias > 2.1 * leading_term(0.25)
    assert error.variance < 0.01 * leading_term(0.25)


def test_the_example_is_what_it_says():
    P = np.full((N, N), 0.25)
    for seed in range(5):
        spectrum = np.linalg.eigvalsh(sparsify(C, P, seed))
        assert INTERVAL[0] <= spectrum[0] and spectrum[-1] <= INTERVAL[1]
    assert np.linalg.norm(ONES) == pytest.approx(1)
    sampled = monte_carlo_error(CUBE, C, 0.25, ONES, n_draws=300, random_state=0)
    assert sampled.mean - 4 * sampled.standard_error > 2.1 * leading_term(0.25)
    assert abs(sampled.mean - expected_error(CUBE, C, 0.25, ONES)) <= 4 * sampled.standard_error


def test_the_certified_bound_is_not_exceeded():
    for p in (0.05, 0.25, 0.5, 0.9, 0.999):
        assert expected_error(CUBE, C, p, ONES) <= stochastic_bound(CUBE, C, p)


def test_near_one_the_linear_term_is_enough():
    """The residual of the theorem is of second order in 1-p, so it is small next to Q as p → 1."""
    assert expected_error(CUBE, C, 0.999, ONES) < leading_term(0.999)


@given(seeds, st.sampled_from(["uniform", "acv", "rcv"]), st.integers(1, 3), st.booleans())
def test_the_certified_bound_holds_for_the_worst_signals(seed, kind, K, unbiased):
    rng = np.random.default_rng(seed)
    A = covariance(8, rng)
    P = keep_probabilities(kind, A, rng, least=0.05)
    h = rng.standard_normal(K + 1)
    bound = stochastic_bound(h, A, P, unbiased=unbiased)
    for x in np.hstack([np.linalg.eigh(A)[1], np.eye(8), np.ones((8, 1)) / np.sqrt(8)]).T:
        assert expected_error(h, A, P, x, unbiased=unbiased) <= bound


def test_the_formula_as_printed():
    t, n, P = 400, 16, 2.0
    expected = 1.5**2 * 0.3 + P**2 * 9 / t**0.5 * (n + 25 * np.log(n * t) / (4 * t))
    assert stochastic_filter_rate(1.5, 0.3, P, t, n, norm=5.0, k_max=3.0, k_min=2.0) == pytest.approx(expected)
    with pytest.raises(ValueError, match="epsilon"):
        stochastic_filter_rate(1, 1, 1, 9, 3, norm=1, k_max=1, k_min=1, epsilon=0)


def test_squares_of_sums_are_not_sums_of_squares():
    # Thm. 5 adds estimation and sparsification by ‖a + b‖² <= ‖a‖² + ‖b‖². With h = λ, p = 0 and an entry of 1
    # estimated as 1/2 both errors are the same vector; 2(‖a‖² + ‖b‖²) is what holds.
    C, C_hat, C_tilde = (np.array([[1.0, c], [c, 1.0]]) for c in (1.0, 0.5, 0.0))
    x = np.array([1.0, 0.0])
    total, estimation, dropping = (
        np.linalg.norm((A - B) @ x) ** 2 for A, B in ((C, C_tilde), (C, C_hat), (C_hat, C_tilde))
    )
    assert total == pytest.approx(1.0) and estimation + dropping == pytest.approx(0.5)
    assert total <= 2 * (estimation + dropping)
