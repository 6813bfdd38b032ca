"""The distance of principal components."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given

from strategies import covariances, seeds
from svnn import SampleCovariance, as_operator
from svnn.datasets import make_sparse_covariance
from svnn.stability import pca_distance


@given(covariances(min_nodes=3), seeds)
def test_signs_do_not_matter(C, seed):
    """Eigenvectors computed elsewhere, with any signs, give the same distance."""
    rng = np.random.default_rng(seed)
    n = len(C)
    noise = rng.standard_normal((n, n))
    B = C + 0.01 * np.trace(C) / n * (noise + noise.T)
    X = rng.standard_normal((7, n))
    k = int(rng.integers(1, n + 1))
    (a, V), (b, W) = np.linalg.eigh(C), np.linalg.eigh(B)
    gaps = min(np.diff(a).min(), np.diff(b).min())
    if gaps < 1e-6 * a[-1]:
        return
    V, W = V[:, ::-1][:, :k], W[:, ::-1][:, :k]
    assert pca_distance(C, C, k, X=X) == 0
    # The smallest over all choices of signs, column by column.
    for Y in (np.eye(n), X):
        aligned = W * np.sign((V * W).sum(0))
        assert pca_distance(C, B, k, X=Y) == pytest.approx(np.linalg.norm(Y @ (V - aligned)), rel=1e-6, abs=1e-9)
    columns = np.minimum(np.linalg.norm(V - W, axis=0), np.linalg.norm(V + W, axis=0))
    assert pca_distance(C, B, k) == pytest.approx(np.linalg.norm(columns), rel=1e-6, abs=1e-9)
    assert pca_distance(C, B, k) == pytest.approx(pca_distance(B, C, k), rel=1e-6, abs=1e-9)
    assert pca_distance(C, B, k) <= np.sqrt(2 * k) + 1e-9


def test_a_rotation_by_a_known_angle():
    angle = 0.3
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    A = np.diag([2.0, 1.0])
    B = R @ A @ R.T
    assert pca_distance(A, B, 1) == pytest.approx(2 * np.sin(angle / 2))
    assert pca_distance(A, B, 2) == pytest.approx(np.sqrt(2) * 2 * np.sin(angle / 2))
    assert pca_distance(A, B, 1, X=[[3.0, 0.0]]) == pytest.approx(3 * (1 - np.cos(angle)))


def test_close_eigenvalues_make_it_jump():
    """A perturbation of 1e-6 turns the components of a covariance with an eigenvalue gap of 1e-9."""
    A = np.diag([1.0 + 1e-9, 1.0])
    B = A + 1e-6 * np.array([[0.0, 1.0], [1.0, 0.0]])
    assert pca_distance(A, B, 1) > 0.7
    assert np.linalg.norm(A - B) < 2e-6


def test_large_sparse_matrices_go_through_lanczos(monkeypatch):
    A = make_sparse_covariance(400, density=0.02, random_state=0)
    B = A + np.diag(np.linspace(0, 0.2, 400))
    dense = pca_distance(A, B, 5)
    monkeypatch.setattr(sp.csr_array, "toarray", lambda self: pytest.fail("densified"))
    assert pca_distance(sp.csr_array(A), sp.csr_array(B), 5) == pytest.approx(dense, rel=1e-6)


def test_every_kind_of_matrix(rng):
    X = rng.standard_normal((50, 6)) * [1, 2, 3, 4, 5, 6]
    A, B = np.cov(X[:25].T, ddof=0), np.cov(X[25:].T, ddof=0)
    expected = pca_distance(A, B, 3)
    assert expected > 0
    for one in (sp.csr_array(A), torch.tensor(A), as_operator(A), as_operator(A).normalized(), A.tolist()):
        assert pca_distance(one, B, 3) == pytest.approx(expected, rel=1e-5)
    assert pca_distance(SampleCovariance().fit(X[:25]), B, 3) == pytest.approx(expected)
    assert pca_distance(sp.csr_array(A), B, 6) == pytest.approx(pca_distance(A, B, 6))


def test_errors_name_the_argument():
    A = np.eye(3)
    for k in (0, 4, 1.5, True):
        with pytest.raises(ValueError, match="k must be an integer from 1 to the number of features, 3"):
            pca_distance(A, A, k)
    with pytest.raises(ValueError, match=r"A has shape \(3, 3\), B has \(2, 2\)"):
        pca_distance(A, np.eye(2), 1)
    with pytest.raises(ValueError, match="B is not symmetric"):
        pca_distance(A, np.triu(np.ones((3, 3))), 1)
    with pytest.raises(ValueError, match=r"X must have shape \(t, 3\)"):
        pca_distance(A, A, 1, X=np.ones((2, 4)))
    with pytest.raises(ValueError, match="X holds NaN"):
        pca_distance(A, A, 1, X=np.full((2, 3), np.nan))
