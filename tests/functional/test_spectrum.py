"""Leading eigenvectors, and the logarithm of a covariance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import covariances, seeds
from svnn import functional as F
from svnn.functional import spectrum
from svnn.functional.spectrum import align_signs, leading_eigenvectors


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
    monkeypatch.setattr(spectrum, "_DENSE_LIMIT", 10)
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


def of_unit_norm(C):
    return C / np.abs(np.linalg.eigvalsh(C)).max()


def orthogonal(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


@given(st.floats(-1, 1))
def test_eigenvalues_by_their_formula(value):
    found = float(F.log_eigenvalues(value))
    assert found == pytest.approx(max(1 + np.log10(value) / 8, 0.0) if value > 0 else 0.0, abs=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20))
def test_the_order_of_eigenvalues_stays(values):
    found = F.log_eigenvalues(np.sort(values))
    assert (np.diff(found) >= 0).all() and found.min() >= 0 and found.max() <= 1


def test_eigenvalues_keep_their_shape_and_become_double():
    assert F.log_eigenvalues(np.ones((2, 3), np.float32)).shape == (2, 3)
    assert F.log_eigenvalues(np.ones(3, np.float32)).dtype == np.float64


def test_a_diagonal_by_hand():
    C = np.diag([1.0, 1e-2, 1e-4, 1e-8, 1e-12, 0.0, -1.0])
    np.testing.assert_allclose(F.log_covariance(C), np.diag([1, 0.75, 0.5, 0, 0, 0, 0]), atol=1e-12)


@given(covariances(min_nodes=1))
def test_eigenvectors_stay_and_eigenvalues_lie_between_0_and_1(C):
    C = of_unit_norm(C)
    L = F.log_covariance(C)
    np.testing.assert_array_equal(L, L.T)
    np.testing.assert_allclose(L @ C, C @ L, atol=1e-12)
    values = np.linalg.eigvalsh(L)
    assert values[0] >= -1e-12 and values[-1] == pytest.approx(1, abs=1e-12)
    # What is far above rounding can be compared one by one.
    exact, vectors = np.linalg.eigh(C)
    for value, vector in zip(exact, vectors.T, strict=True):
        if value > 1e-6:
            np.testing.assert_allclose(L @ vector, (1 + np.log10(value) / 8) * vector, atol=1e-7)


@given(covariances(), seeds)
def test_it_follows_the_order_of_the_features(C, seed):
    C = of_unit_norm(C) + 1e-3 * np.eye(len(C))  # rounding shows in the logarithm of nothing
    C = of_unit_norm(C)
    order = np.random.default_rng(seed).permutation(len(C))
    np.testing.assert_allclose(
        F.log_covariance(C[np.ix_(order, order)]), F.log_covariance(C)[np.ix_(order, order)], atol=1e-10
    )


@given(seeds)
def test_negative_eigenvalues_become_zero(seed):
    Q = orthogonal(6, seed)
    values = np.array([1.0, 0.5, 0.1, -0.01, -0.3, -1.0])
    L = F.log_covariance((Q * values) @ Q.T)
    np.testing.assert_allclose(L, (Q * [1, 1 + np.log10(0.5) / 8, 7 / 8, 0, 0, 0]) @ Q.T, atol=1e-10)
    np.testing.assert_allclose(L @ Q[:, 3:], 0, atol=1e-10)


@given(seeds, st.floats(1e-9, 1e-3), st.floats(1e-3, 1))
def test_small_changes_of_the_matrix_are_small_changes_of_the_logarithm(seed, size, least):
    """Its slope is that of the logarithm at the smallest eigenvalue, in the Frobenius norm."""
    rng = np.random.default_rng(seed)
    Q = orthogonal(6, seed)
    values = np.r_[1.0, least, rng.uniform(least, 1, 4)]
    C = (Q * values) @ Q.T
    E = rng.standard_normal((6, 6))
    E = size * least * (E + E.T) / np.linalg.norm(E + E.T)
    moved = np.linalg.norm(F.log_covariance(C + E) - F.log_covariance(C))
    slope = 1 / (least * (1 - size) * np.log(1e8))
    assert moved <= slope * np.linalg.norm(E) * (1 + 1e-6) + 1e-10


def test_equal_eigenvalues_are_no_matter_of_their_vectors():
    near = np.eye(5) + 1e-13 * np.ones((5, 5))
    np.testing.assert_allclose(F.log_covariance(near), np.eye(5), atol=1e-12)
    np.testing.assert_allclose(F.log_covariance(np.zeros((3, 3))), np.zeros((3, 3)), atol=1e-12)


def test_single_precision_and_integers_are_taken():
    C = np.array([[1.0, 0.5], [0.5, 0.5]], np.float32)
    np.testing.assert_array_equal(F.log_covariance(C), F.log_covariance(C.astype(np.float64)))
    np.testing.assert_array_equal(F.log_covariance(torch.tensor(C)), F.log_covariance(C))
    np.testing.assert_array_equal(F.log_covariance(np.eye(3, dtype=int)), np.eye(3))
