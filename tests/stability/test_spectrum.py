import numpy as np
import pytest
import scipy.sparse as sp

from reference import EARLY
from svnn.functional._lanczos import extreme_values
from svnn.stability import _bounds
from svnn.stability._bounds import Spectrum, frobenius, lanczos_error


def sparse_symmetric(rng, n, density):
    A = sp.csr_array(rng.standard_normal((n, n)) * (rng.random((n, n)) < density / 2))
    return sp.csr_array(A + A.T + sp.eye_array(n))


@pytest.fixture
def large(monkeypatch):
    """A sparse indefinite matrix beyond the exact limit, and its eigenvalues."""
    monkeypatch.setattr(_bounds, "_EXACT_LIMIT", 100)
    C = sparse_symmetric(np.random.default_rng(1), 500, 0.02)
    return C, np.linalg.eigvalsh(C.toarray())


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_large_spectrum_is_enclosed(large, deterministic):
    C, values = large
    spectrum = Spectrum.of(C, deterministic)
    assert spectrum.low <= values[0] and values[-1] <= spectrum.high
    assert spectrum.eigenvalues is None
    assert spectrum.failure == (0 if deterministic else 1e-12)
    if not deterministic:
        assert spectrum.high - spectrum.low <= 1.03 * (values[-1] - values[0])


def test_a_small_spectrum_is_exact(rng):
    A = rng.standard_normal((30, 30))
    spectrum = Spectrum.of(A + A.T)
    values = np.linalg.eigvalsh(A + A.T)
    np.testing.assert_allclose([spectrum.low, spectrum.high], values[[0, -1]], rtol=1e-8)
    assert spectrum.failure == 0 and spectrum.norm >= np.abs(values).max()


def test_gain_on_a_matrix_is_the_norm_of_the_bank(rng, large):
    W = rng.standard_normal((3, 2, 3))
    A = rng.standard_normal((6, 6))
    A = A + A.T
    bank = sum(np.kron(np.linalg.matrix_power(A, k), w.T) for k, w in enumerate(W))
    assert Spectrum.of(A).gain(W) == pytest.approx(np.linalg.norm(bank, 2), rel=1e-8)
    C, values = large
    exact = Spectrum(values[0], values[-1], values).gain(W)
    assert exact <= Spectrum.of(C).gain(W) <= 1.05 * exact


def test_lanczos_bounds_hold_for_hard_spectra(rng):
    # The Chebyshev-like spectrum that converges slowest: few steps, many matrices, never below the truth.
    n, steps = 400, 40
    error = lanczos_error(n, steps)
    for gap in np.logspace(-6, 0, 30):
        values = np.r_[np.cos(np.linspace(0, np.pi, n - 1)), 1 + gap] + 1
        _, top, _ = extreme_values(lambda x, v=values: v * x, n, steps)
        assert top <= values.max() * (1 + 1e-12) and values.max() <= top / (1 - error)


def test_frobenius_of_both_kinds(rng):
    A = rng.standard_normal((5, 5))
    assert frobenius(A) == pytest.approx(frobenius(sp.csr_array(A)))


@pytest.mark.parametrize("kind", EARLY)
@pytest.mark.parametrize("factor", [1.0, 1e-170, 1e200])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_spectrum_of_few_eigenvalues_is_enclosed(kind, factor, sparse, monkeypatch):
    monkeypatch.setattr(_bounds, "_EXACT_LIMIT", 100)
    values = np.linalg.eigvalsh(EARLY[kind])
    C = EARLY[kind] * factor
    spectrum = Spectrum.of(sp.csr_array(C) if sparse else C)
    low, high = spectrum.low / factor, spectrum.high / factor
    spread = values[-1] - values[0]
    size = np.abs(values).max()
    assert low <= values[0] + 1e-9 * size and high >= values[-1] - 1e-9 * size
    assert low >= values[0] - 0.02 * spread - 1e-8 * size and high <= values[-1] + 0.02 * spread + 1e-8 * size
