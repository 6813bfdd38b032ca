"""Lanczos iterations find the ends of a spectrum, also where they end early."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import EARLY, awkward_matrices
from strategies import covariances, tied_matrices
from svnn.functional._lanczos import Lanczos, extreme_values, leading_eigenpair


@given(C=covariances() | tied_matrices(), seed=st.integers(0, 9))
def test_a_whole_run_diagonalises_the_matrix(C, seed):
    """The basis is orthonormal, C is tridiagonal in it, and its Ritz values are eigenvalues."""
    n = len(C)
    run = Lanczos(lambda q: C @ q, n, n, seed)
    while not (run.full or run.ended):
        run.advance()
    Q, size = run.basis[: len(run.diagonal)], max(np.abs(C).max(), 1e-300)
    np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-10)
    T = np.diag(run.diagonal) + np.diag(run.beside[:-1], 1) + np.diag(run.beside[:-1], -1)
    np.testing.assert_allclose(Q @ C @ Q.T, T, atol=1e-9 * n * size)
    values = np.linalg.eigvalsh(C)
    assert np.abs(run.values()[:, None] - values).min(1).max() <= 1e-8 * n * size
    assert run.values()[[0, -1]] == pytest.approx(values[[0, -1]], abs=1e-8 * n * size)


def test_an_exhausted_run_stays_where_it_is_until_it_is_restarted():
    run = Lanczos(lambda q: 2 * q, 5, 5)
    run.advance()
    run.advance()
    assert run.ended and len(run.diagonal) == 1
    run.restart()
    run.advance()
    assert len(run.diagonal) == 2 and abs(run.basis[0] @ run.basis[1]) < 1e-14
    assert run.values() == pytest.approx([2, 2])


@pytest.mark.parametrize("n", [1, 12, 300])
def test_the_leading_eigenpair(n):
    for name, C in awkward_matrices(max(n, 4)).items():
        C = C[:n, :n]
        value, vector = leading_eigenpair(lambda q, C=C: C @ q, n)
        size = np.abs(np.linalg.eigvalsh(C)).max()
        assert abs(value) == pytest.approx(size, rel=1e-8, abs=1e-300), name
        assert np.linalg.norm(vector) == pytest.approx(1)
        assert np.linalg.norm(C @ vector - value * vector) <= 1e-3 * size, name


def test_lanczos_reads_no_memory_that_it_has_not_written(monkeypatch):
    """New memory may hold anything: zero times what happens to be there need not be zero."""
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, np.nan, dtype))
    low, high, exact = extreme_values(lambda x: np.array([1.0, 2.0, 4.0]) * x, 3, 3)
    assert (low, high, exact) == (pytest.approx(1), pytest.approx(4), True)


def test_lanczos_finds_what_a_broken_krylov_space_hides(rng):
    # Three distinct eigenvalues: the Krylov space ends after three steps, the iteration does not.
    values = np.r_[np.full(40, 1.0), np.full(40, 2.0), -3.0]
    low, high, exact = extreme_values(lambda x: values * x, 81, 20)
    assert (low, high, exact) == (pytest.approx(-3), pytest.approx(2), False)
    assert extreme_values(lambda x: 0 * x, 50, 20)[:2] == (0, 0)


def test_fresh_memory_is_not_read(monkeypatch):
    """There is no vector before the first one; what memory holds in its place must not matter."""
    empty = np.empty

    def garbage(*args, **kwargs):
        memory = empty(*args, **kwargs)
        if memory.dtype.kind == "f":
            memory[...] = np.nan
        return memory

    monkeypatch.setattr(np, "empty", garbage)
    assert extreme_values(lambda x: 2 * x, 50, 5)[:2] == pytest.approx((2.0, 2.0))


@pytest.mark.parametrize("kind", EARLY)
@pytest.mark.parametrize("steps", [1, 2, 5, 60, 200])
def test_ritz_values_lie_within_the_spectrum(kind, steps):
    values = np.linalg.eigvalsh(EARLY[kind])
    low, high, exact = extreme_values(lambda x: EARLY[kind] @ x, 200, steps)
    slack = 1e-9 * max(np.abs(values).max(), 1e-300)
    assert values[0] - slack <= low <= high <= values[-1] + slack
    if exact:
        assert low == pytest.approx(values[0], abs=slack) and high == pytest.approx(values[-1], abs=slack)
