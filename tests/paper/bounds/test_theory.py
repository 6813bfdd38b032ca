"""What holds of the paper on filters, PCA and thresholding: rows of docs/theory.md that no other test pins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from filters_by_hand import SLACK, polynomial, random_filter, symmetric
from realisations import covariance
from svnn.datasets import make_sparse_covariance, make_spiked
from svnn.functional import hard_threshold, soft_threshold
from svnn.metrics import support_recovery
from svnn.operators import CovarianceOperator
from svnn.paper import hard_threshold_rate, kurtosis_terms, soft_threshold_rate, vnn_filter_probability, vnn_rate
from svnn.stability import Spectrum, filter_bound, lipschitz, pca_response

# -- Section II: filters, PCA, Theorems 1 and 2 -------------------------------------------------------------


def test_pca_is_a_filter_as_steep_as_the_inverse_gap(rng):
    # A polynomial through 1[λ >= λ_k] projects on the leading components where the eigenvalues are distinct. Every
    # filter that does so has P >= 1 / (λ_k - λ_{k+1}): as unstable as PCA.
    C = covariance(5, rng)
    lam, V = np.linalg.eigh(C)
    h = np.linalg.solve(np.vander(lam, increasing=True), pca_response(lam, 2))
    np.testing.assert_allclose(polynomial(h, C), V[:, -2:] @ V[:, -2:].T, atol=1e-8)
    assert lipschitz(h, (lam[0], lam[-1])) >= 1 / (lam[-2] - lam[-3])
    # The transformed data of Sec. II-A have the covariance Λ, so X̃X̃ᵀ is t Λ and not Λ.
    X = rng.standard_normal((30, 5)) @ np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    X -= X.mean(0)
    values, vectors = np.linalg.eigh(X.T @ X / 30)
    np.testing.assert_allclose((X @ vectors).T @ (X @ vectors), 30 * np.diag(values), atol=1e-9)


def test_the_moments_of_theorem_1_are_the_error_of_the_sample_covariance(rng):
    # Σ_j k_j² = t E‖Ĉ - C‖_F² for every distribution (about its known mean), by going through all samples.
    t, points, weight = 3, rng.standard_normal((4, 3)) ** 3, rng.dirichlet(np.ones(4))
    points -= weight @ points
    C = (points.T * weight) @ points
    lam, V = np.linalg.eigh(C)
    k2 = [weight @ [np.linalg.norm(np.outer(x, x) @ v) ** 2 for x in points] for v in V.T] - lam**2
    error = 0.0
    for drawn in map(list, itertools.product(range(4), repeat=t)):
        error += weight[drawn].prod() * np.linalg.norm(points[drawn].T @ points[drawn] / t - C) ** 2
    assert k2.sum() / t == pytest.approx(error, rel=1e-10)


@pytest.mark.parametrize("values", [(1.0, 1.001, 3.0), (1.0, 1.0, 1.0), (0.0, 0.5, 8.0)])
def test_theorem_1_holds_with_constant_one_and_without_kappa(rng, values):
    # P (Σ k_j²)^½ / t^(½-ε) <= P k_max √N / t^(½-ε) is exceeded with probability t^(-2ε) at most (Markov), P on both
    # spectra: close and equal eigenvalues do not matter, where the theorem's own probability is empty.
    C, t, epsilon, h = np.diag(values), 40, 0.25, [0.3, 1.0, -0.7, 0.2]
    terms = kurtosis_terms(C)
    assert (terms.k**2).sum() <= len(C) * terms.k_max**2 * SLACK
    if values[1] == 1.001:
        assert vnn_filter_probability(t, 3, terms.kappa, epsilon) < 0
    squares = []
    for _ in range(400):
        X = rng.standard_normal((t, 3)) * np.sqrt(values)
        C_hat = X.T @ X / t
        P = lipschitz(h, Spectrum.of(C).joined(Spectrum.of(C_hat)))
        squares.append((np.linalg.norm(polynomial(h, C_hat) - polynomial(h, C)) / P) ** 2)
    exceeded = np.sqrt(squares) > np.sqrt((terms.k**2).sum()) / t ** (0.5 - epsilon)
    assert exceeded.mean() <= t ** (-2 * epsilon)
    assert np.mean(squares) <= 1.15 * (terms.k**2).sum() / t  # the mean itself is below, up to its sampling error


def layered(filters, C, x, activation):
    """The paper's network: filters[l][f][g] are coefficients; returns the outputs (F, N)."""
    u = [x]
    for bank in filters:
        u = [activation(sum(polynomial(h, C) @ v for h, v in zip(row, u, strict=True))) for row in bank]
    return np.array(u)


def test_theorem_2_holds_for_every_output_where_filters_do_not_amplify(rng):
    # With gains of at most 1 on both matrices and σ(0) = 0, L F^(L-1) β bounds each of the F outputs.
    closest = 0.0
    for trial in range(100):
        n, L, F = 4, int(rng.integers(1, 4)), int(rng.integers(1, 4))
        C = covariance(n, rng)
        C_hat = C + 0.1 * symmetric(rng, n)
        filters = [rng.standard_normal((F, F if layer else 1, 3)) for layer in range(L)]
        if trial % 2:
            filters = [abs(bank) for bank in filters]
        beta = 0.0
        for h in (h for bank in filters for row in bank for h in row):
            h /= max(np.linalg.norm(polynomial(h, A), 2) for A in (C, C_hat))
            beta = max(beta, np.linalg.norm(polynomial(h, C) - polynomial(h, C_hat), 2))
        x = np.linalg.eigh(C)[1][:, -1]
        a, b = (layered(filters, A, x, lambda u: np.maximum(u, 0.5 * u)) for A in (C, C_hat))
        change = np.linalg.norm(a - b, axis=1).max()
        assert change <= vnn_rate(beta, L, F) * SLACK
        closest = max(closest, change / vnn_rate(beta, L, F))
    assert closest > 0.5


def test_theorem_2_needs_activations_that_keep_zero():
    # σ(a) = a + 100 has |σ(a) - σ(b)| = |a - b|, and its outputs are as large as it likes. N = F = 1, L = 2, h = λ.
    filters = [np.array([[[0.0, 1.0]]])] * 2
    a, b = (layered(filters, np.array([[c]]), np.ones(1), lambda u: u + 100) for c in (1.0, 0.99))
    assert abs(a - b).max() > 50 * vnn_rate(0.01, 2, 1)


# -- Section III: sparse covariances ------------------------------------------------------------------------


def sparse_class(rng, trial):
    """A covariance of the class of Thm. 3 with its M and c_0, in units that differ."""
    n = int(rng.integers(3, 30))
    kind = ("random", "block")[trial % 2]
    C = make_sparse_covariance(n, float(rng.uniform(0.02, 0.5)), kind, random_state=trial)
    scale = 10.0 ** rng.uniform(-1, 1, n)
    C = C * scale[:, None] * scale
    return C, C.diagonal().max(), int((C != 0).sum(1).max())


def test_the_norm_of_a_sparse_covariance_is_at_most_m_times_c0(rng):
    # |c_ij| <= √(c_ii c_jj) <= M, so the row sums and with them ‖C‖ are at most M c_0: "c_0 << ‖C‖" does not occur
    # but where M is large, and then Thm. 3's constant is.
    largest = 0.0
    for trial in range(200):
        C, M, c0 = sparse_class(rng, trial)
        largest = max(largest, np.linalg.norm(C, 2) / (M * c0))
    assert largest <= SLACK
    assert np.linalg.norm(np.ones((5, 5)), 2) == pytest.approx(5)  # M c_0 is reached


def test_the_printed_bound_of_theorem_3_is_never_below_that_of_theorem_1(rng):
    # Gaussian data, ε → 0, constants M and 1: the printed formulas cannot show that thresholding is more stable.
    for trial in range(200):
        C, M, c0 = sparse_class(rng, trial)
        n = len(C)
        thresholded = hard_threshold_rate(1.0, 100, n, c0, constant=M)
        nominal = kurtosis_terms(C).k_max * np.sqrt(n / 100)
        assert thresholded >= nominal


def test_thresholding_does_lower_the_certified_bound():
    # What is true of the comparison: the error in P‖C̄ - C‖_F falls by √(c_0 log N / N) or so.
    C = make_sparse_covariance(100, 0.05, random_state=0)
    X = np.random.default_rng(0).multivariate_normal(np.zeros(100), C, 200)
    C_hat = X.T @ X / 200
    C_bar = hard_threshold(C_hat, 2 * np.sqrt(np.log(100) / 200))
    h = [0.0, 1.0, 0.5]
    assert filter_bound(h, C, C_bar) < 0.5 * filter_bound(h, C, C_hat)


@pytest.mark.parametrize("rule", [hard_threshold, soft_threshold])
@pytest.mark.parametrize("keep_diagonal", [True, False])
def test_theorems_3_and_4_with_a_constant(rng, rule, keep_diagonal):
    # Where every entry of Ĉ is within half the threshold s of C's: ‖H(C̄) - H(C)‖_F <= 3/2 P s √(N c_0).
    closest = 0.0
    for trial in range(150):
        C, _, c0 = sparse_class(rng, trial)
        n = len(C)
        X = rng.multivariate_normal(np.zeros(n), C, 30)
        C_hat = X.T @ X / 30
        s = 2 * SLACK * abs(C_hat - C).max()
        C_bar = rule(C_hat, s, keep_diagonal)
        assert (C_bar[C == 0] == 0).all()
        h = random_filter(rng, 1 + trial % 3, trial)
        P = lipschitz(h, Spectrum.of(C).joined(Spectrum.of(C_bar)))
        bound = 1.5 * P * s * np.sqrt(n * c0)
        change = np.linalg.norm(polynomial(h, C_bar) - polynomial(h, C))
        assert change <= bound * SLACK
        closest = max(closest, change / bound)
    assert closest > 0.1


def test_thresholding_recovers_what_is_above_one_and_a_half_thresholds(rng):
    # With errors of at most s/2 an entry above 3s/2 stays and a zero goes; a weak entry goes even without errors.
    for trial in range(50):
        C, _, _ = sparse_class(rng, trial)
        s = abs(C[C != 0]).min() / 1.5 / SLACK
        noise = np.triu(rng.uniform(-s / 2, s / 2, C.shape))
        assert support_recovery(C, hard_threshold(C + noise + np.triu(noise, 1).T, s)).f1 == 1
    weak = np.array([[1.0, 0.1], [0.1, 1.0]])
    assert support_recovery(weak, hard_threshold(weak, 0.11)).recall == 0


def test_soft_thresholding_is_not_more_stable_by_its_bound_or_in_fact():
    # Thm. 4 has max(1, λmax), which Thm. 3 has not, and a constant of its own.
    N, c0 = 100, 10
    assert soft_threshold_rate(1.0, 100, N, c0, lam_max=2.1) < hard_threshold_rate(1.0, 100, N, c0)
    assert soft_threshold_rate(1.0, 100, N, c0, lam_max=2.2) > hard_threshold_rate(1.0, 100, N, c0)
    # In the spiked model itself with t = N, each rule at its best threshold, in the mean.
    errors = []
    for seed in range(6):
        data = make_spiked(100, N, (5.0,), c0, random_state=seed)
        C_hat, rules = data.X.T @ data.X / 100, (hard_threshold, soft_threshold)
        changes = [[rule(C_hat, s) - data.covariance for s in np.linspace(0.1, 0.4, 7)] for rule in rules]
        errors.append(np.linalg.norm(changes, 2, axis=(2, 3)).min(1))
    hard, soft = np.mean(errors, 0)
    assert hard < 0.85 * soft


def test_principal_components_need_signs_and_only_the_root_of_n(rng):
    # Prop. 1 has N max‖v_i - v̄_i‖; √N is enough, as in Lemma 1. With the sign of an eigenvector open, the left side
    # can be 2 where nothing has changed.
    V, W = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    assert np.linalg.norm(V - W, 2) <= np.sqrt(6) * np.linalg.norm(V - W, axis=0).max()
    x = V[:, 0]
    assert np.linalg.norm(V.T @ x - (-V).T @ x) == pytest.approx(2)


def test_a_layer_shifts_its_narrower_side():
    # Less than the paper's O(‖C‖_0 K F_in F_out): K min(F_in, F_out) shifted columns, then products with the weights.
    class Counting:
        columns = 0

        def _batched_matmul(self, x):
            self.columns += x.shape[-1]
            return x

    for n_in, n_out in ((2, 7), (7, 2), (3, 3)):
        shift, K = Counting(), 4
        CovarianceOperator._reference_filter(shift, torch.ones(1, 5, n_in), torch.ones(K + 1, n_in, n_out), None)
        assert shift.columns == K * min(n_in, n_out)


# -- Appendix: the lemmas ------------------------------------------------------------------------------------


def test_lemma_2_holds_with_the_estimated_eigenvalue(rng):
    # |v_jᵀ v̄_i| <= ‖E‖ / |λ̄_i - λ_j| for every E, so 2‖E‖/|λ_i - λ_j| with the true ones: no remainder, no small E.
    printed = 0.0
    for _ in range(1000):
        n = int(rng.integers(2, 6))
        C, E = symmetric(rng, n), 10.0 ** rng.uniform(-3, 0.5) * symmetric(rng, n)
        (lam, V), (bar, W) = np.linalg.eigh(C), np.linalg.eigh(C - E)
        overlap, error = abs(V.T @ W), np.linalg.norm(E, 2)
        assert (overlap * abs(lam[:, None] - bar) <= error * SLACK).all()
        ratio = overlap * abs(lam[:, None] - lam) / error
        assert ratio.max() <= 2 * SLACK
        printed = max(printed, ratio.max())
    assert printed > 1.1  # as printed it needs its remainder


def test_lemma_2_without_its_remainder_fails_where_eigenvalues_change_places():
    C, E = np.diag([0.0, 1.0]), np.diag([-0.51, 0.51])
    overlap = abs(np.linalg.eigh(C)[1].T @ np.linalg.eigh(C - E)[1])[0, 1]
    assert overlap == pytest.approx(1) and overlap > 1.9 * np.linalg.norm(E, 2)
