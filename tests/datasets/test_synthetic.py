from __future__ import annotations

import numpy as np
import pytest

from svnn import datasets


@pytest.mark.parametrize("kind", ["random", "block"])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.2, 1.0])
def test_sparse_covariances_are_positive_definite_with_the_stated_density(kind, density):
    C = datasets.make_sparse_covariance(60, density, kind, random_state=0)
    np.testing.assert_array_equal(C, C.T)
    np.testing.assert_allclose(C.diagonal(), 1)
    assert np.linalg.eigvalsh(C)[0] > 1e-3
    share = (np.count_nonzero(C) - 60) / (60 * 59)
    if kind == "random":
        assert share == pytest.approx(density, abs=1e-3)
    else:
        assert share <= density < share + 1.1 / 59 or density == share == 1  # one more node a block would exceed it


def test_spiked_draws_are_seeded_and_follow_their_covariance():
    a, b, c = (datasets.make_spiked(random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.X, b.X)
    assert not np.array_equal(a.X, c.X)
    assert a.X.shape == (1000, 100) and a.covariance.shape == (100, 100)
    # Entrywise: the variance of a sample covariance of Gaussian data is (c_ii c_jj + c_ij²)/t.
    C = a.covariance
    sd = np.sqrt((np.outer(C.diagonal(), C.diagonal()) + C**2) / 1000)
    assert (abs(np.cov(a.X.T, ddof=0) - C) <= 5.5 * sd).all()


def test_spiked_directions_are_orthonormal_and_sparse():
    data = datasets.make_spiked(strengths=(4.0, 2.0, 1.0), n_nonzero=5, random_state=0)
    np.testing.assert_allclose(data.directions @ data.directions.T, np.eye(3), atol=1e-12)
    assert (np.count_nonzero(data.directions, axis=1) == 5).all()
    np.testing.assert_allclose(np.linalg.eigvalsh(data.covariance)[-3:], [2, 3, 5])


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="kind must be"):
        datasets.make_sparse_covariance(kind="banded")
    with pytest.raises(ValueError, match="do not fit"):
        datasets.make_spiked(n_features=10, n_nonzero=6)
