"""Lemma 1 and Prop. 1 as printed, and the counter-examples that show them to be no bounds."""

import numpy as np
import pytest

from svnn.paper._component_rates import pca_rate, sparse_pca_rate


def aligned_change(A, B):
    """‖v_i - v̂_i‖ of every pair of eigenvectors, the signs such that they point the same way."""
    (_, V), (_, W) = np.linalg.eigh(A), np.linalg.eigh(B)
    W = W * np.where((V * W).sum(0) < 0, -1, 1)
    return np.linalg.norm(V - W, axis=0)


def test_formulas_as_printed():
    t, c0 = 400, 3
    assert pca_rate(t, [3.0, 1.0, 1.25]) == pytest.approx(1 / (20 * 0.25))
    assert sparse_pca_rate(t, [3.0, 1.0, 1.25], c0) == pytest.approx(c0 * 3 * np.sqrt(2 * np.log(3)) / (20 * 0.25))
    assert pca_rate(t, [1.0, 1.0]) == np.inf


def test_eigenvectors_exceed_the_papers_sine_theorem():
    # √2‖E‖/gap with the gap of the true eigenvalues: here they change places.
    C, E = np.diag([0.0, 1.0]), np.array([[0.51, 1e-3], [1e-3, -0.51]])
    error, gap = np.linalg.norm(E, 2), 1.0
    change = aligned_change(C, C + E).max()
    assert change > 1.9 * np.sqrt(2) * error / gap
    assert change <= 2 * np.sqrt(2) * error / gap


def test_twice_the_constant_holds_for_eigenvectors(rng):
    closest = 0.0
    for _ in range(3000):
        n = rng.integers(2, 6)
        C = rng.standard_normal((n, n))
        C, E = C + C.T, rng.standard_normal((n, n))
        E = (E + E.T) * 10.0 ** rng.uniform(-2, 0.5)
        lam = np.linalg.eigvalsh(C)
        gaps = np.r_[np.inf, np.diff(lam), np.inf]
        gap = np.minimum(gaps[:-1], gaps[1:])
        ratio = aligned_change(C, C + E) * gap / np.linalg.norm(E, 2)
        assert (ratio <= 2 * np.sqrt(2)).all()
        closest = max(closest, ratio.max())
    assert closest > np.sqrt(2)  # so that √2 fails for matrices that nobody made up


@pytest.mark.parametrize("scale", [1e4, 1e8])
def test_pca_rates_fall_with_the_units_and_pca_does_not(rng, scale):
    # Lemma 1 and Prop. 1 with constant one: the left side is a ratio, the right side is not.
    C = np.diag([1.0, 1.5, 2.0])
    X = rng.multivariate_normal(np.zeros(3), C, 50)
    C_hat = X.T @ X / 50
    V, W = np.linalg.eigh(C)[1], np.linalg.eigh(C_hat)[1]
    W = W * np.where((V * W).sum(0) < 0, -1, 1)
    change = np.linalg.norm(V - W, 2)  # the worst signal
    lam = np.diag(C)
    assert change < pca_rate(50, lam, constant=5) and change < sparse_pca_rate(50, lam, c0=1)
    assert change > pca_rate(50, scale * lam, constant=5) and change > sparse_pca_rate(50, scale * lam, c0=1)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="eigenvalues"):
        pca_rate(10, [1.0])
    with pytest.raises(ValueError, match="eigenvalues"):
        sparse_pca_rate(10, [1.0, np.nan], 2)
