from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from filters_by_hand import symmetric
from svnn import HardThreshold
from svnn.functional.masks import floor_probabilities
from svnn.stability import _bounds
from svnn.stability._bounds import Spectrum, filter_bound, stochastic_bound
from svnn.stability._responses import lipschitz


def bank(W, C):
    W = W if W.ndim == 3 else W[:, None, None]
    return sum(np.kron(np.linalg.matrix_power(C, k), w.T) for k, w in enumerate(W))


def test_filter_bound_is_above_the_truth_in_a_thousand_trials(rng):
    ratios = []
    for trial in range(1000):
        n, order = rng.integers(1, 9), rng.integers(0, 6)
        A = symmetric(rng, n)
        # Small, large and low-rank changes; half of the matrices are covariances, all others indefinite.
        A = A @ A if trial % 2 else A
        E = 10.0 ** rng.uniform(-3, 1) * symmetric(rng, n)
        B = A + (E if trial % 3 else np.outer(E[0], E[0]))
        h = rng.standard_normal(order + 1) if trial % 4 < 2 else rng.standard_normal((order + 1, 2, 3))
        truth, bound = np.linalg.norm(bank(h, A) - bank(h, B)), filter_bound(h, A, B)
        assert truth <= bound
        if bound:
            ratios.append(truth / bound)
    assert max(ratios) > 0.999  # attained by filters of order one


def test_filter_bound_takes_sparse_matrices_and_estimators(rng):
    X = rng.standard_normal((50, 12))
    C, estimate = np.cov(X.T, ddof=0), HardThreshold(density=0.3, sparse_output=True).fit(X)
    dense = filter_bound([1.0, 2.0, 3.0], C, estimate.covariance_.toarray())
    assert filter_bound([1.0, 2.0, 3.0], sp.csr_array(C), estimate) == pytest.approx(dense)


def test_filter_bound_of_large_sparse_matrices(rng, monkeypatch):
    monkeypatch.setattr(_bounds, "_EXACT_LIMIT", 100)
    n = 500
    R = sp.random_array((n, n), density=0.004, random_state=rng)
    A = sp.csr_array(sp.eye_array(n) + 0.2 * (R + R.T))
    B = A * (abs(A) > 0.1)
    truth = np.linalg.norm((A @ A - B @ B).toarray())
    bounds = [filter_bound([0.0, 0.0, 1.0], A, B, deterministic=d) for d in (False, True)]
    assert truth <= bounds[0] <= bounds[1] * (1 + 1e-9)


def test_the_interval_has_to_cover_negative_eigenvalues():
    # Thresholding makes this covariance indefinite. h' is a Chebyshev polynomial of [0, λmax]: at most 1 there, steep
    # below zero. With P = 1 from [0, λmax] the change of the filter exceeds P ‖C - C̄‖, as Def. 1 has it.
    C = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.8], [0.3, 0.8, 1.0]])
    C_bar = np.where(abs(C) >= 0.5, C, 0.0)
    assert np.linalg.eigvalsh(C)[0] > 0 > np.linalg.eigvalsh(C_bar)[0]
    top = max(np.linalg.eigvalsh(C)[-1], np.linalg.eigvalsh(C_bar)[-1])
    slope = np.polynomial.Chebyshev.basis(9, domain=[0, top]).convert(kind=np.polynomial.Polynomial)
    h = slope.integ().coef
    assert lipschitz(h, (0, top)) == pytest.approx(1.0)
    truth = np.linalg.norm(bank(h, C) - bank(h, C_bar))
    assert truth > 1.5 * lipschitz(h, (0, top)) * np.linalg.norm(C - C_bar)
    assert truth <= filter_bound(h, C, C_bar)


def expected_square(h, C, P, unbiased):
    """The matrix M with E‖(H(C) - H(C̃))x‖² = xᵀMx, by going through all masks of all shifts."""
    n, order = len(C), len(h) - 1
    pairs = np.triu_indices(n, 1)
    keep = floor_probabilities(P[pairs]) if unbiased else P[pairs]
    shifts, weights = [], []
    for mask in product((0, 1), repeat=len(keep)):
        M = np.eye(n)
        M[pairs] = np.where(mask, 1 / keep if unbiased else 1.0, 0.0)
        shifts.append((M + np.triu(M, 1).T) * C)
        weights.append(np.prod(np.where(mask, keep, 1 - keep)))
    shifts, weights = np.array(shifts), np.array(weights)
    identity = np.eye(n)[None]
    filters, powers, probability = h[0] * identity, identity, np.ones(1)
    for k in range(1, order + 1):
        powers = np.einsum("aij,bjk->baik", shifts, powers).reshape(-1, n, n)
        filters = np.repeat(filters, len(shifts), axis=0) + h[k] * powers
        probability = (probability[:, None] * weights).ravel()
    change = bank(h, C) - filters
    return np.einsum("a,aji,ajk->ik", probability, change, change)


@pytest.mark.parametrize("unbiased", [False, True])
def test_stochastic_bound_is_above_the_worst_signal_in_a_thousand_trials(rng, unbiased):
    ratios = []
    for trial in range(500):
        n = 2 + trial % 2
        order = 1 + trial % 3 if n == 2 else 1 + trial % 2
        C = symmetric(rng, n)
        C = C @ C if trial % 4 < 2 else C
        P = rng.uniform(0, 1, (n, n)) ** rng.choice([0.1, 1, 4])
        P = np.maximum(P, P.T)
        h = rng.standard_normal(order + 1)
        worst = np.linalg.eigvalsh(expected_square(h, C, P, unbiased))[-1]
        bound = stochastic_bound(h, C, P, unbiased=unbiased)
        assert worst <= bound
        ratios.append(worst / bound)
    assert max(ratios) > 0.9


def test_stochastic_bound_of_one_shift_by_hand():
    # h = λ: bias c²(1-p)² on both entries, variance c²p(1-p) in the only entry of a row.
    C, p, c = np.array([[1.0, 0.5], [0.5, 2.0]]), 0.3, 0.5
    expected = 2 * c**2 * (1 - p) ** 2 + c**2 * p * (1 - p)
    assert stochastic_bound([7.0, 1.0], C, p, norm=3.0) == pytest.approx(9 * expected)
    assert stochastic_bound([7.0, 1.0], C, p, unbiased=True) == pytest.approx(c**2 * (1 - p) / p)
    assert stochastic_bound([7.0, 1.0], C, 1.0) == stochastic_bound([7.0], C, p) == 0


def test_stochastic_bound_of_a_bank(rng):
    C, W, p, draws = symmetric(rng, 5), rng.standard_normal((3, 2, 3)), 0.6, 4000
    X = rng.standard_normal((5, 2))
    X /= np.linalg.norm(X)
    masks = np.triu(rng.random((2, draws, 5, 5)) < p, 1)
    first, second = (masks + masks.swapaxes(2, 3) + np.eye(5)) * C
    shifted = first @ X
    outputs = X @ W[0] + shifted @ W[1] + (second @ shifted) @ W[2]
    truth = X @ W[0] + C @ X @ W[1] + C @ C @ X @ W[2]
    assert ((outputs - truth) ** 2).sum((1, 2)).mean() <= stochastic_bound(W, C, p)
    single = stochastic_bound(W[:, 0, 0], C, p)
    assert stochastic_bound(W[:, :1, :1], C, p) == pytest.approx(single)


def test_a_floor_keeps_unbiased_bounds_finite():
    C = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert stochastic_bound([0.0, 1.0], C, 0.0, unbiased=True) == pytest.approx(0.25 * 0.999 / 0.001)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: filter_bound([1.0], np.eye(2), np.eye(3)), "they must agree"),
        (lambda: filter_bound([1.0], np.eye(2), np.array([[1.0, 0.0], [1.0, 1.0]])), "B is not symmetric"),
        (lambda: filter_bound(np.zeros((1, 2)), np.eye(2), np.eye(2)), "h must have shape"),
        (lambda: stochastic_bound([1.0], np.eye(2), 1.5), "probabilities"),
        (lambda: stochastic_bound([1.0], np.eye(2), np.ones((3, 3))), "they must agree"),
        (lambda: stochastic_bound([1.0], np.eye(2), 0.5, norm=-1.0), "norm"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_spectra_join():
    assert Spectrum(0.0, 2.0).joined(Spectrum(-1.0, 1.0)) == (-1.0, 2.0)
