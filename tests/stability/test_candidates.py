"""The spectrum against pure noise, and the share of related pairs."""

from __future__ import annotations

import numpy as np
import pytest

from svnn.datasets import make_sparse_covariance
from svnn.functional import product_variances, sample_moments
from svnn.paper import make_large_cov
from svnn.stability._candidates import marchenko_pastur_edge, noise_spectrum, related_share


def draw(C, t, seed=0):
    X = np.random.default_rng(seed).multivariate_normal(np.zeros(len(C)), C, t)
    return (X - X.mean(0)) / X.std(0)


def related(X):
    Z = (X - X.mean(0)) / X.std(0)
    moments = sample_moments(Z)
    return related_share(moments.covariance, product_variances(Z, moments), len(Z))


@pytest.mark.parametrize(("t", "n"), [(2000, 200), (1000, 500), (300, 600)])
def test_noise_ends_at_the_edge(rng, t, n):
    largest = np.linalg.eigvalsh(np.cov(rng.standard_normal((n, t))))[-1]
    assert largest == pytest.approx(marchenko_pastur_edge(t, n), rel=0.05)
    assert marchenko_pastur_edge(t, n, variance=3.0) == pytest.approx(3 * marchenko_pastur_edge(t, n))


def test_the_edge_wants_numbers_that_make_sense():
    with pytest.raises(ValueError, match="must be positive"):
        marchenko_pastur_edge(0, 5)


def test_a_common_factor_is_one_eigenvalue_that_spreads_over_all_pairs():
    data = make_large_cov(500, random_state=0)
    found = noise_spectrum(np.corrcoef(data.X.T), 500)
    assert found.n_above == 1 and found.variance_above > 0.7 and found.spread > 0.99


def test_blocks_spread_over_their_own_pairs():
    C = make_sparse_covariance(100, 0.2, "block", random_state=0)
    found = noise_spectrum(np.corrcoef(draw(C, 5000).T), 5000)
    density = (C != 0).sum() / 9900 - 100 / 9900
    assert found.n_above == 5
    assert found.spread == pytest.approx(density, abs=0.05)


def test_blocks_of_two_sizes_by_hand():
    """Blocks of 30 and of 10 with correlations of 1/2: eigenvalues 15.5 and 5.5, less 1 for what is noise."""
    R = 0.5 * np.kron(np.eye(4), np.ones((10, 10))) + 0.5 * np.eye(40)
    R[:30, :30] = 0.5 + 0.5 * np.eye(30)
    found = noise_spectrum(R, 10_000)
    pairs, entries = np.array([30 * 29 / 2, 10 * 9 / 2]), np.array([14.5 / 30, 4.5 / 10])
    assert found.n_above == 2 and found.variance_above == pytest.approx(21 / 40)
    assert found.spread == pytest.approx((pairs @ entries) ** 2 / (780 * pairs @ entries**2))


def test_equal_blocks_mix_their_eigenvectors_but_not_their_spread():
    """Ten equal blocks: eigenvectors of the sample are any mixture of them, the spread stays a tenth."""
    C = np.kron(np.eye(10), np.full((10, 10), 0.6)) + 0.4 * np.eye(100)
    Z = draw(C, 4000)
    R = np.corrcoef(Z.T)
    leading = np.linalg.eigh(R)[1][:, -1]
    assert 1 / (leading**4).sum() / 100 > 0.15  # localised on more than one block
    assert noise_spectrum(R, 4000).spread == pytest.approx(9 / 99, abs=0.05)


def test_noise_has_nothing_above_the_edge(rng):
    found = noise_spectrum(np.corrcoef(rng.standard_normal((80, 200))), 200)
    assert found.n_above <= 1 and found.variance_above < 0.05


@pytest.mark.parametrize("density", [0.0, 0.05, 0.2, 0.5])
def test_the_share_of_related_pairs_is_found(density):
    C = make_sparse_covariance(100, density, "block", random_state=1)
    truth = ((C != 0).sum() - 100) / 9900
    found = np.mean([related(draw(C, 400, seed)) for seed in range(5)])
    assert found == pytest.approx(truth, abs=0.08)


def test_common_volatility_is_not_taken_for_relations(rng):
    """Rows that are loud or quiet as a whole: products vary more, correlations are zero."""
    X = rng.standard_normal((500, 60)) * np.exp(rng.standard_normal((500, 1)))
    assert related(X) < 0.4
    z = np.arctanh(np.corrcoef(X.T)[np.triu_indices(60, 1)]) * np.sqrt(500)
    assert 1 - 2 * np.mean(abs(z) < 0.6745) > 0.6  # what the variance for Gaussian data would say


def test_edge_cases():
    assert related_share(np.eye(1), np.ones((1, 1)), 10) == 0
    assert related_share(np.eye(3), np.zeros((3, 3)), 10) == 0
    assert related_share(np.ones((3, 3)), np.ones((3, 3)), 100) == 1
