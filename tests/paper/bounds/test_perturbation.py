"""Lemma 1, Props. 1 and 2 and Thms. 2 to 4 as printed, and the counter-examples that show them to be no bounds.

Others are pinned where they belong: the interval of Def. 1 in ``filters/test_bounds.py``, Thm. 2 in
``networks/test_certificate.py``, the probability of Thm. 1 in ``test_sampling.py``, the generalised Fourier sum in
``filters/test_responses.py``.
"""

import numpy as np
import pytest

from filters_by_hand import polynomial
from svnn.functional import hard_threshold
from svnn.paper._rates import (
    hard_threshold_rate,
    pca_rate,
    perturbation_rate,
    soft_threshold_rate,
    sparse_pca_rate,
    vnn_rate,
)
from svnn.stability import Spectrum, filter_bound, lipschitz


def test_formulas_as_printed():
    t, N, c0, P = 400, 16, 3, 2.0
    assert vnn_rate(0.5, 3, 4) == 3 * 16 * 0.5
    assert hard_threshold_rate(P, t, N, c0) == pytest.approx(P * c0 * np.sqrt(N * np.log(N)) * 5 / 20)
    assert soft_threshold_rate(P, t, N, c0, 6.0, 0.5) == pytest.approx(
        P * 4 * 0.5 * c0 * 6 * np.sqrt(max(np.log(N / c0**2), 1)) * 5 / 20
    )
    assert soft_threshold_rate(P, t, 1000, 1, 0.5) == pytest.approx(
        P * np.sqrt(1000) * np.sqrt(np.log(1000)) * (1 + np.sqrt(1000)) / 20
    )
    assert perturbation_rate(P, 0.1, N) == pytest.approx(P * 4 * 0.1 * 5)


def test_hard_threshold_rate_does_not_know_the_units(rng):
    # Thm. 3 with constant one and h = λ, P = 1: data in units 1000 times smaller.
    t, N = 100, 5
    C = np.eye(N)
    X = 1000 * rng.standard_normal((t, N))
    C_bar = hard_threshold(X.T @ X / t, 1e6 * np.sqrt(np.log(N) / t))
    change = np.linalg.norm(C_bar - 1e6 * C, 2)
    assert change > 1000 * hard_threshold_rate(1.0, t, N, c0=1)
    assert change <= hard_threshold_rate(1.0, t, N, c0=1, constant=1e6)


def test_perturbation_rate_needs_a_small_change():
    # Prop. 2 for N = 1, h = λ³, with P on C's own range [0, 1].
    C, C_bar, h = np.array([[1.0]]), np.array([[10.0]]), [0.0, 0.0, 0.0, 1.0]
    change = 10.0**3 - 1
    assert perturbation_rate(lipschitz(h, (0, 1)), 9.0, 1) == pytest.approx(54) and change > 54
    assert change <= filter_bound(h, C, C_bar)


def test_perturbation_rate_needs_nothing_else_with_both_spectra(rng):
    # P √N ‖E‖ is enough, for changes of any size and repeated eigenvalues; Prop. 2 has (1 + √N) times that.
    for trial in range(300):
        n = rng.integers(1, 7)
        A = rng.standard_normal((n, n))
        A = A + A.T if trial % 2 else np.eye(n)
        E = 10.0 ** rng.uniform(-3, 1) * rng.standard_normal((n, n))
        B = A + E + E.T
        h = rng.standard_normal(rng.integers(1, 6))
        P = lipschitz(h, Spectrum.of(A).joined(Spectrum.of(B)))
        change = np.linalg.norm(polynomial(h, A) - polynomial(h, B), 2)
        error = np.linalg.norm(A - B, 2)
        assert change <= P * np.sqrt(n) * error * (1 + 1e-9) + 1e-12
        assert P * np.sqrt(n) * error <= perturbation_rate(P, error, n)


def test_the_threshold_of_theorem_4_is_not_always_a_number():
    # τ = M'√log(N/c₀²) for c₀ > √N, where the formula still gives a value.
    N, c0 = 16, 5
    assert np.log(N / c0**2) < 0
    assert np.isfinite(soft_threshold_rate(1.0, 100, N, c0, 2.0))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: vnn_rate(-1.0, 2, 3), "beta"),
        (lambda: vnn_rate(1.0, 0, 3), "n_layers"),
        (lambda: hard_threshold_rate(1.0, 10, 3, np.inf), "c0"),
        (lambda: perturbation_rate("1", 1.0, 3), "P must be"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def aligned_change(A, B):
    """‖v_i - v̂_i‖ of every pair of eigenvectors, the signs such that they point the same way."""
    (_, V), (_, W) = np.linalg.eigh(A), np.linalg.eigh(B)
    W = W * np.where((V * W).sum(0) < 0, -1, 1)
    return np.linalg.norm(V - W, axis=0)


def test_formulas_for_components_as_printed():
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


def test_bad_eigenvalues_are_named():
    with pytest.raises(ValueError, match="eigenvalues"):
        pca_rate(10, [1.0])
    with pytest.raises(ValueError, match="eigenvalues"):
        sparse_pca_rate(10, [1.0, np.nan], 2)
