"""What holds of the paper on stochastic sparsification: rows of docs/theory.md that no other test pins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from filters_by_hand import SLACK, polynomial, random_filter, symmetric
from realisations import all_realisations, covariance
from svnn.functional import acv_probabilities, hard_threshold, rcv_probabilities, sparsify
from svnn.stability import expected_error, generalized_lipschitz, lipschitz, realisation_moments, sparsification_error


def matrices(rng, n, trial):
    """Covariances, a common factor, nearly singular and indefinite ones in turn, in units that differ."""
    v = rng.standard_normal(n)
    C = (covariance(n, rng), 0.7 * np.eye(n) + 0.3, symmetric(rng, n), np.outer(v, v) + 0.01 * np.eye(n))[trial % 4]
    return C * 10.0 ** rng.uniform(-1, 1)


def random_probabilities(rng, n, trial):
    """Small, large and mixed keep-probabilities, the same for every pair now and then."""
    P = np.triu(rng.random((n, n)) ** rng.choice([0.1, 1.0, 10.0]), 1)
    P = np.full((n, n), rng.random()) if trial % 5 == 0 else P + P.T
    np.fill_diagonal(P, 1.0)
    return P


def off(C):
    return C[~np.eye(len(C), dtype=bool)]


# -- Section IV: probabilities and remarks ------------------------------------------------------------------


def test_the_expected_non_zeros_of_acv_lack_the_maximum():
    # c_mean (‖Ĉ‖_0 - N) + N depends on the units and exceeds N² here; with zeros in Ĉ the count is wrong as well.
    C = np.array([[9.0, 3.0, 6.0], [3.0, 9.0, 0.0], [6.0, 0.0, 9.0]])
    n, off_diagonal = 3, np.count_nonzero(off(C))
    printed = abs(off(C)).mean() * off_diagonal + n
    expected = n + off(acv_probabilities(C)).sum()
    matrices_, weight = all_realisations(C, acv_probabilities(C))
    counted = weight @ (matrices_ != 0).sum((1, 2))
    assert counted == pytest.approx(expected) == pytest.approx(n + 2 * (1 / 3 + 2 / 3))
    assert printed == 15 > n**2
    # Divided by the maximum it is right only without zeros: the mean is over N² - N entries, not over ‖Ĉ‖_0 - N.
    assert (printed - n) / 9 + n == pytest.approx(n + 4 / 3)


def test_the_expected_non_zeros_of_rcv_are_more_where_there_are_zeros():
    # Zeros rank lowest and take the smallest probabilities, so what is not zero has a mean above p. The sum of p over
    # all pairs is then too much, over the support it is right.
    C = np.kron(np.eye(5), 0.5 * np.eye(4) + 0.5)
    n, support = len(C), (C != 0) & ~np.eye(20, dtype=bool)
    P = rcv_probabilities(C, 0.5, 0)
    counts = [np.count_nonzero(sparsify(C, P, seed)) for seed in range(400)]
    error = np.std(counts) / np.sqrt(400)
    assert abs(np.mean(counts) - n - P[support].sum()) <= 4 * error
    assert np.mean(counts) > 0.5 * support.sum() + n + 10 * error
    assert np.mean(counts) < n + off(P).sum() - 10 * error


def printed_rcv(C, p, rng):
    """Ranks as printed: how many of all N² entries are strictly smaller, diagonal and mirror images included."""
    values = np.sort(rng.normal(p, min((1 - p) / 3, p / 3), C.size).clip(0, 1))
    return values[(abs(C).ravel() < abs(C)[..., None]).sum(-1)]


def test_the_ranks_of_rcv_as_printed_do_not_keep_the_share_p(rng):
    # Equal entries all have rank 0 and share the smallest probability: dropped are nearly all, not 1 - p of them.
    C = 0.5 * np.eye(20) + 0.5
    assert off(printed_rcv(C, 0.5, rng)).max() < 0.1
    assert off(rcv_probabilities(C, 0.5, rng)).mean() == pytest.approx(0.5, abs=0.05)
    # Without ties: the diagonal takes the highest ranks, and the mean is a little low.
    C = covariance(20, rng, 40)
    means = [[off(P).mean() for P in (printed_rcv(C, 0.5, rng), rcv_probabilities(C, 0.5, rng))] for _ in range(50)]
    assert np.mean(means, 0)[0] < 0.49 < 0.498 < np.mean(means, 0)[1] < 0.502


def test_sigma_of_rcv_is_a_standard_deviation(rng):
    # "Such that the number of values not in [0, 1] is negligible": as a standard deviation 0.3 % or less are, as a
    # variance a fifth or more.
    for p in (0.1, 0.25, 0.5, 0.75):
        sigma = min((1 - p) / 3, p / 3)
        z = rng.standard_normal(100_000)
        outside = [np.mean((p + sd * z < 0) | (p + sd * z > 1)) for sd in (sigma, np.sqrt(sigma))]
        assert outside[0] < 0.0035 and outside[1] > 0.18


def test_hard_thresholding_has_the_smallest_q_of_all_with_as_many_entries(rng):
    # Q is linear in p: at a given sum of p it is smallest where the largest entries are kept for certain and the rest
    # never, but for one. By the criterion of Thm. 5 neither ACV nor RCV is the best choice.
    for _ in range(50):
        C = covariance(10, rng)
        pairs = np.triu_indices(10, 1)
        for P in (acv_probabilities(C), rcv_probabilities(C, 0.5, rng)):
            cut = np.eye(10)
            order = np.argsort(-abs(C[pairs]))
            cut[pairs[0][order], pairs[1][order]] = (P[pairs].sum() - np.arange(45)).clip(0, 1)
            cut = np.maximum(cut, cut.T)
            assert cut.sum() == pytest.approx(P.sum())
            assert sparsification_error(C, cut).Q < sparsification_error(C, P).Q


def test_the_terms_of_q_for_acv_peak_at_two_thirds():
    c = np.linspace(0, 1, 3001)
    q = c**2 * (1 - c)
    assert c[q.argmax()] == pytest.approx(2 / 3, abs=1e-3) and q.max() == pytest.approx(4 / 27, abs=1e-6)


def test_remark_1_hard_thresholding_is_a_sparsification_but_for_the_diagonal_and_ties():
    C = np.array([[1.0, 0.5, 0.2], [0.5, 0.1, 0.3], [0.2, 0.3, 1.0]])
    s = 0.3
    for seed in range(3):
        realisation = sparsify(C, (abs(C) >= s).astype(float), seed)
        np.testing.assert_array_equal(realisation, hard_threshold(C, s))
    assert hard_threshold(C, s, keep_diagonal=False)[1, 1] == 0 != realisation[1, 1]  # Def. 2 drops small variances
    assert sparsify(C, (abs(C) > s).astype(float), 0)[1, 2] == 0 != hard_threshold(C, s)[1, 2]  # ">" against ">="


def test_remark_2_the_condition_for_a_positive_semidefinite_estimate(rng):
    # Weyl: λmin(C̄) >= λmin(Ĉ) - ‖C̄ - Ĉ‖, for every symmetric C̄ and with >= as well.
    met = 0
    for trial in range(300):
        n = int(rng.integers(2, 8))
        C_hat = np.cov(rng.standard_normal((5 * n, n)).T)
        C_bar = hard_threshold(C_hat, rng.uniform(0, 0.5), keep_diagonal=bool(trial % 2))
        epsilon = np.linalg.norm(C_bar - C_hat, 2)
        if np.linalg.eigvalsh(C_hat)[0] >= epsilon:
            met += 1
            assert np.linalg.eigvalsh(C_bar)[0] >= -1e-12
    assert met > 50


def test_remark_2_needs_no_sparse_truth():
    # ‖C̄ - Ĉ‖ <= N τ/√t falls with t whatever the true covariance is, here a dense one with entries of all sizes.
    rng = np.random.default_rng(0)
    loads = np.linspace(0.05, 0.9, 30)
    C = np.outer(loads, loads) + np.diag(1 - loads**2)
    distances = []
    for t in (100, 1000, 10_000):
        X = rng.multivariate_normal(np.zeros(30), C, t)
        C_hat, s = X.T @ X / t, 2 * np.sqrt(np.log(30) / t)
        distances.append(np.linalg.norm(hard_threshold(C_hat, s) - C_hat, 2))
        assert distances[-1] <= 30 * s
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


# -- Appendix: the lemmas of Theorem 5 --------------------------------------------------------------------------------


def lemma_4(h, C, P):
    """The matrix L with xᵀLx the left side of Lemma 4, and R with xᵀRx what its proof says that is equal to."""
    matrices_, weight = all_realisations(C, P)
    E = matrices_ - C
    square = np.tensordot(weight, E @ E, 1)
    L, R = np.zeros_like(C), np.zeros_like(C)
    for r in range(1, len(h)):
        G, B = polynomial(h[r:], C), np.linalg.matrix_power(C, r - 1)
        L += B @ np.tensordot(weight, E @ (G @ G) @ E, 1) @ B
        R += np.trace(G @ G @ square) * (B @ B)
    return L, R


def test_lemma_4_holds_for_the_worst_signal(rng):
    # Its first equality drops the products of different Fourier components; as "<=" it holds for every signal. Only the
    # first condition of Def. 8 is used, on the spectrum of Ĉ.
    closest = 0.0
    for trial in range(400):
        n, K = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        C, P = matrices(rng, n, trial), random_probabilities(rng, n, trial)
        h = random_filter(rng, K, trial)
        L, R = lemma_4(h, C, P)
        assert np.linalg.eigvalsh(R - L)[0] >= -1e-9 * np.linalg.norm(R)  # xᵀLx <= xᵀRx for all x
        lam = np.linalg.eigvalsh(C)
        gradient = sum(
            np.outer(lam ** (r - 1), polynomial(h[r:], np.diag(lam)).diagonal()) ** 2 for r in range(1, K + 1)
        )
        bound = gradient.max() * sparsification_error(C, P).Q
        assert gradient.max() <= generalized_lipschitz(h, (lam[0], lam[-1])) ** 2 * SLACK
        assert np.linalg.eigvalsh(L)[-1] <= bound * SLACK
        closest = max(closest, np.linalg.eigvalsh(L)[-1] / bound)
    assert closest > 0.5


def test_the_first_equality_of_lemma_4_fails():
    # N = 2, h = λ: the left side is c²(1-p)‖x‖², the right side twice that.
    L, R = lemma_4([0.0, 1.0], np.array([[1.0, 0.5], [0.5, 2.0]]), np.array([[1.0, 0.3], [0.3, 1.0]]))
    np.testing.assert_allclose(L, 0.25 * 0.7 * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(R, 2 * L, atol=1e-12)


def test_the_trace_property(rng):
    for _ in range(500):
        n = int(rng.integers(1, 6))
        A, B = rng.standard_normal((n, n)), rng.standard_normal((n, rng.integers(1, n + 1)))
        B = B @ B.T
        middle = np.linalg.norm(A + A.T, 2) / 2 * np.trace(B)
        assert np.trace(A @ B) <= middle * SLACK and middle <= np.linalg.norm(A, 2) * np.trace(B) * SLACK


def test_the_traces_of_lemmas_6_and_7_are_cubic(rng):
    # The diagonal of E is zero, so a triangle of three different pairs is all there is: both are tr (E[E])³.
    C = covariance(4, rng)
    P = random_probabilities(rng, 4, 1)
    matrices_, weight = all_realisations(C, P)
    E = matrices_ - C
    mean, square, cube = (np.tensordot(weight, M, 1) for M in (E, E @ E, E @ E @ E))
    triangles = -sum(
        C[i, n] * C[n, m] * C[m, i] * (1 - P[i, n]) * (1 - P[n, m]) * (1 - P[m, i])
        for i, n, m in itertools.permutations(range(4), 3)
    )
    for trace in (np.trace(cube), np.trace(square @ mean), np.trace(mean @ mean @ mean)):
        assert trace == pytest.approx(triangles, rel=1e-10)


def test_between_filters_those_terms_are_quadratic(rng):
    # What the proof of Thm. 5 needs has powers of Ĉ between the errors, and its order is (1-p)²: true, but not by the
    # lemmas, whose traces without them are of order (1-p)³.
    C = covariance(4, rng)
    bare, between = [], []
    for q in (1e-3, 1e-2):
        matrices_, weight = all_realisations(C, np.where(np.eye(4), 1.0, 1 - q))
        E = matrices_ - C
        mean = np.tensordot(weight, E, 1)
        bare.append(np.trace(np.tensordot(weight, E @ E, 1) @ mean))
        between.append(np.trace(np.tensordot(weight, E @ C @ E, 1) @ mean @ C))
    assert np.log10(bare[1] / bare[0]) == pytest.approx(3, abs=0.01)
    assert np.log10(between[1] / between[0]) == pytest.approx(2, abs=0.01)


# -- Theorem 5, mended ---------------------------------------------------------------------------------------


def worst_error(h, C, P, unbiased=False):
    """The largest expected error over signals of norm one."""
    n, basis = len(C), np.eye(len(C))
    errors = np.empty((n, n))
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        plus, minus = (expected_error(h, C, P, basis[i] + s * basis[j], unbiased=unbiased) for s in (1, -1))
        errors[i, j] = errors[j, i] = (plus - minus) / 4
    return np.linalg.eigvalsh(errors)[-1]


def test_theorem_5_holds_with_the_bias_k_times(rng):
    # E‖H(Ĉ)x - H(C̃)x‖² <= P_gi² (Q + (K-1) bias) ‖x‖², and P_gi² ΣV with weights 1/p, for all p.
    closest = [0.0, 0.0]
    for trial in range(300):
        n, K = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        C, P = matrices(rng, n, trial), random_probabilities(rng, n, trial)
        h, error = random_filter(rng, K, trial), sparsification_error(C, P)
        sizes = error.Q + (K - 1) * error.bias, realisation_moments(C, P, True).variance.sum()
        for unbiased, size in enumerate(sizes):
            spectra = np.linalg.eigvalsh(np.append(all_realisations(C, P, bool(unbiased))[0], C[None], 0))
            bound = generalized_lipschitz(h, (spectra.min(), spectra.max())) ** 2 * size
            worst = worst_error(h, C, P, bool(unbiased))
            assert worst <= bound * SLACK
            closest[unbiased] = max(closest[unbiased], worst / bound)
    assert min(closest) > 0.4


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_the_dropped_terms_of_theorem_5_are_k_times_the_kept_ones(K):
    # C = (1-c)I + c11ᵀ, h = λ^K, small c: error / (P_gi² Q) → K (1-p) (N-1)/N. The mended bound has 1 + (K-1)(1-p).
    N, c, p = 100, 1e-6, 0.1
    C, h, interval = (1 - c) * np.eye(N) + c, np.eye(K + 1)[K], (1 - N * c, 1 + N * c)
    leading = generalized_lipschitz(h, interval) ** 2 * sparsification_error(C, p).Q
    ratio = expected_error(h, C, p, np.ones(N) / np.sqrt(N)) / leading
    assert ratio == pytest.approx(K * (1 - p) * (N - 1) / N, rel=0.02)
    assert ratio <= 1 + (K - 1) * (1 - p)


def test_the_slope_is_at_most_the_root_of_k_times_the_generalised_constant(rng):
    for trial in range(200):
        K = 1 + trial % 5
        h = random_filter(rng, K, trial)
        interval = tuple(np.sort(rng.uniform(-2, 2, 2)))
        assert lipschitz(h, interval) <= np.sqrt(K) * generalized_lipschitz(h, interval) * SLACK
    assert lipschitz([0, 0, 0, 1.0], (0, 1)) == pytest.approx(
        np.sqrt(3) * generalized_lipschitz([0, 0, 0, 1.0], (0, 1))
    )


def test_estimation_and_sparsification_add_up_with_a_factor(rng):
    # E‖a + b‖² <= 2‖a‖² + E‖b‖² + ‖E b‖²: as an order, what Thm. 5 says, since ‖E b‖² is of order (1-p)².
    for trial in range(100):
        n, K = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        C, C_hat = covariance(n, rng), covariance(n, rng)
        P, h, x = random_probabilities(rng, n, trial), random_filter(rng, K, trial), rng.standard_normal(n)
        a = np.linalg.norm((polynomial(h, C) - polynomial(h, C_hat)) @ x) ** 2
        b = expected_error(h, C_hat, P, x)
        assert expected_error(h, C_hat, P, x, reference=C) <= (2 * a + b + b.bias) * SLACK
