"""Principal components: any solver, any sign."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from svnn.functional import eigenvectors
from svnn.functional.eigenvectors import align_signs, leading_eigenvectors


def symmetric(n: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A + A.T


@given(n=st.integers(1, 12), seed=st.integers(0, 1000), data=st.data())
def test_they_are_the_eigenvectors_of_the_largest_eigenvalues(n, seed, data):
    C, k = symmetric(n, seed), data.draw(st.integers(1, n))
    V = leading_eigenvectors(C, k)
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-10)
    np.testing.assert_allclose(C @ V, V * np.linalg.eigvalsh(C)[::-1][:k], atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_lanczos_finds_the_same(monkeypatch, kind):
    C = symmetric(60, 0)
    expected = leading_eigenvectors(C, 5)
    monkeypatch.setattr(eigenvectors, "_DENSE_LIMIT", 10)
    found = leading_eigenvectors(kind(C), 5)
    np.testing.assert_allclose(align_signs(found, expected), expected, atol=1e-8)
    np.testing.assert_array_equal(found, leading_eigenvectors(kind(C), 5))


@given(n=st.integers(1, 8), seed=st.integers(0, 1000))
def test_no_other_signs_are_closer(n, seed):
    rng = np.random.default_rng(seed)
    V, W = rng.standard_normal((2, n, 3))
    aligned = align_signs(W, V)
    np.testing.assert_array_equal(abs(aligned), abs(W))
    assert ((aligned - V) ** 2).sum(0) == pytest.approx(np.minimum(((W - V) ** 2).sum(0), ((W + V) ** 2).sum(0)))
