import numpy as np
import pytest
import scipy.sparse as sp

from svnn.stability import _norms
from svnn.stability._norms import Spectrum, frobenius, lanczos, lanczos_error


def sparse_symmetric(rng, n, density):
    A = sp.csr_array(rng.standard_normal((n, n)) * (rng.random((n, n)) < density / 2))
    return sp.csr_array(A + A.T + sp.eye_array(n))


def test_lanczos_reads_no_memory_that_it_has_not_written(monkeypatch):
    """New memory may hold anything: zero times what happens to be there need not be zero."""
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, np.nan, dtype))
    low, high, exact = lanczos(lambda x: np.array([1.0, 2.0, 4.0]) * x, 3, 3)
    assert (low, high, exact) == (pytest.approx(1), pytest.approx(4), True)


@pytest.fixture
def large(monkeypatch):
    """A sparse indefinite matrix beyond the exact limit, and its eigenvalues."""
    monkeypatch.setattr(_norms, "_EXACT_LIMIT", 100)
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


def test_lanczos_finds_what_a_broken_krylov_space_hides(rng):
    # Three distinct eigenvalues: the Krylov space ends after three steps, the iteration does not.
    values = np.r_[np.full(40, 1.0), np.full(40, 2.0), -3.0]
    low, high, exact = lanczos(lambda x: values * x, 81, 20)
    assert (low, high, exact) == (pytest.approx(-3), pytest.approx(2), False)
    assert lanczos(lambda x: 0 * x, 50, 20)[:2] == (0, 0)


def test_lanczos_bounds_hold_for_hard_spectra(rng):
    # The Chebyshev-like spectrum that converges slowest: few steps, many matrices, never below the truth.
    n, steps = 400, 40
    error = lanczos_error(n, steps)
    for gap in np.logspace(-6, 0, 30):
        values = np.r_[np.cos(np.linspace(0, np.pi, n - 1)), 1 + gap] + 1
        _, top, _ = lanczos(lambda x, v=values: v * x, n, steps)
        assert top <= values.max() * (1 + 1e-12) and values.max() <= top / (1 - error)


def test_frobenius_of_both_kinds(rng):
    A = rng.standard_normal((5, 5))
    assert frobenius(A) == pytest.approx(frobenius(sp.csr_array(A)))


#: Kinds on which Lanczos iterations end early.
EARLY = {
    "identity": np.eye(200),
    "zero": np.zeros((200, 200)),
    "ones": np.ones((200, 200)),
    "minus ones": -np.ones((200, 200)),
    "identity with an edge": np.eye(200)
    + 0.5 * (np.eye(200)[[3]].T @ np.eye(200)[[9]] + np.eye(200)[[9]].T @ np.eye(200)[[3]]),
    "blocks": np.kron(np.eye(50), np.ones((4, 4))),
    "swaps": np.kron(np.eye(100), np.array([[0.0, 1.0], [1.0, 0.0]])),
    "complete bipartite": np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones((100, 100))),
    "signs": np.kron(np.eye(50), np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1.0, -1, -1, 1]])),
    "rank one": np.outer(np.arange(200.0), np.arange(200.0)),
    "one of many": np.diag(np.r_[-5.0, np.ones(199)]),
}


@pytest.mark.parametrize("kind", EARLY)
@pytest.mark.parametrize("factor", [1.0, 1e-170, 1e200])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_spectrum_of_few_eigenvalues_is_enclosed(kind, factor, sparse, monkeypatch):
    monkeypatch.setattr(_norms, "_EXACT_LIMIT", 100)
    values = np.linalg.eigvalsh(EARLY[kind])
    C = EARLY[kind] * factor
    spectrum = Spectrum.of(sp.csr_array(C) if sparse else C)
    low, high = spectrum.low / factor, spectrum.high / factor
    spread = values[-1] - values[0]
    size = np.abs(values).max()
    assert low <= values[0] + 1e-9 * size and high >= values[-1] - 1e-9 * size
    assert low >= values[0] - 0.02 * spread - 1e-8 * size and high <= values[-1] + 0.02 * spread + 1e-8 * size


def test_fresh_memory_is_not_read(monkeypatch):
    """There is no vector before the first one; what memory holds in its place must not matter."""
    empty = np.empty

    def garbage(*args, **kwargs):
        memory = empty(*args, **kwargs)
        if memory.dtype.kind == "f":
            memory[...] = np.nan
        return memory

    monkeypatch.setattr(np, "empty", garbage)
    assert lanczos(lambda x: 2 * x, 50, 5)[:2] == pytest.approx((2.0, 2.0))


@pytest.mark.parametrize("kind", EARLY)
@pytest.mark.parametrize("steps", [1, 2, 5, 60, 200])
def test_ritz_values_lie_within_the_spectrum(kind, steps):
    values = np.linalg.eigvalsh(EARLY[kind])
    low, high, exact = lanczos(lambda x: EARLY[kind] @ x, 200, steps)
    slack = 1e-9 * max(np.abs(values).max(), 1e-300)
    assert values[0] - slack <= low <= high <= values[-1] + slack
    if exact:
        assert low == pytest.approx(values[0], abs=slack) and high == pytest.approx(values[-1], abs=slack)
