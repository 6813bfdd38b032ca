from __future__ import annotations

import numpy as np
import pytest

from svnn import paper

MAKERS = [paper.make_sparse_cov, paper.make_large_cov, paper.make_small_cov]


@pytest.mark.parametrize("maker", MAKERS)
def test_draws_are_seeded_and_follow_their_covariance(maker):
    a, b, c = maker(random_state=0), maker(random_state=0), maker(random_state=1)
    np.testing.assert_array_equal(a.X, b.X)
    assert not np.array_equal(a.X, c.X)
    assert a.X.shape == (1000, 100) and a.covariance.shape == (100, 100)
    if maker is paper.make_small_cov:
        np.testing.assert_allclose(a.covariance, np.cov(a.X.T, ddof=0))
        return
    # Entrywise: the variance of a sample covariance of Gaussian data is (c_ii c_jj + c_ij²)/t.
    C = a.covariance
    sd = np.sqrt((np.outer(C.diagonal(), C.diagonal()) + C**2) / 1000)
    assert (abs(np.cov(a.X.T, ddof=0) - C) <= 5.5 * sd).all()


@pytest.mark.parametrize("maker", MAKERS)
def test_targets_are_linear_with_noise_of_standard_deviation_three(maker):
    data = maker(n_samples=20_000, n_features=30, random_state=0)
    residual = data.y - data.X @ data.coef
    assert residual.std() == pytest.approx(3, rel=0.03)
    assert data.coef.min() >= 0


def test_sizes_of_the_covariances():
    large, small = paper.make_large_cov(random_state=0), paper.make_small_cov(random_state=0)
    off = ~np.eye(100, dtype=bool)
    assert large.covariance[off].min() > 0.3
    assert abs(small.covariance).max() < 1e-3
