from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from hypothesis import given

from strategies import covariances, seeds
from svnn import functional as F

METHODS = ("load", "shrink", "clip")


def indefinite(n, seed, density=1.0):
    """A sparse symmetric matrix with unit variances and negative eigenvalues."""
    rng = np.random.default_rng(seed)
    O = np.triu(rng.uniform(-1, 1, (n, n)) * (rng.random((n, n)) < density), 1)
    return O + O.T + np.eye(n)


def lowest(C):
    return np.linalg.eigvalsh(C)[0]


@pytest.mark.parametrize("method", METHODS)
@given(seed=seeds)
def test_repaired_matrices_are_psd_in_every_kind(method, seed):
    C = indefinite(12, seed)
    expected = F.psd_repair(C, method)
    assert lowest(expected) >= -1e-12 * 12
    for repaired in (F.psd_repair(sp.csr_array(C), method).toarray(), F.psd_repair(torch.tensor(C), method).numpy()):
        np.testing.assert_allclose(repaired, expected, atol=1e-10)


@given(seeds)
def test_shrink_keeps_support_and_variances_and_no_more_than_needed(seed):
    C = indefinite(12, seed, 0.5)
    R = F.psd_repair(C, "shrink")
    assert ((R != 0) == (C != 0)).all()
    np.testing.assert_array_equal(R.diagonal(), C.diagonal())
    if lowest(C) < -1e-9:
        assert abs(lowest(R)) < 1e-10  # any weaker shrinking would leave it indefinite


@given(seeds)
def test_load_and_clip_do_what_they_say(seed):
    C = indefinite(12, seed)
    np.testing.assert_allclose(F.psd_repair(C, "load"), C + max(0, -lowest(C)) * np.eye(12), atol=1e-10)
    values, vectors = np.linalg.eigh(C)
    np.testing.assert_allclose(F.psd_repair(C, "clip"), (vectors * values.clip(0)) @ vectors.T, atol=1e-10)


@given(covariances())
def test_a_covariance_needs_no_repair(C):
    C = C + 1e-9 * np.trace(C) * np.eye(len(C))
    for method in METHODS:
        np.testing.assert_array_equal(F.psd_repair(C, method), C)


@pytest.mark.parametrize("method", ["load", "shrink"])
def test_lanczos_repairs_large_sparse_matrices(method):
    C = sp.csr_array(indefinite(600, 0, 0.01))
    repaired = F.psd_repair(C, method)
    assert sp.issparse(repaired) and repaired.nnz == C.nnz
    assert -1e-12 <= lowest(repaired.toarray()) < 1e-5


def test_constant_features_are_left_alone_by_shrink():
    C = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(F.psd_repair(C, "shrink"), [[1, 1, 0], [1, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("C", "method", "message"),
    [
        (np.eye(2), "pray", "method must be"),
        (np.diag([1.0, -1.0]), "shrink", "negative variances"),
        (np.array([[1.0, 1.0], [1.0, 0.0]]), "shrink", "zero variance"),
        (sp.csr_array(np.ones((2, 3))), "load", "square"),
        (sp.csr_array(np.array([[np.nan, 0], [0, 1]])), "load", "NaN"),
    ],
)
def test_bad_input_is_named(C, method, message):
    with pytest.raises(ValueError, match=message):
        F.psd_repair(C, method)


@pytest.mark.parametrize("method", ["load", "shrink"])
def test_large_matrices_without_edges_need_no_repair(method):
    for C in (sp.eye_array(300, format="csr"), sp.csr_array((300, 300)), sp.eye_array(300, format="lil")):
        assert (F.psd_repair(C, method) != sp.csr_array(C)).nnz == 0


def permuted(C, seed=0):
    order = np.random.default_rng(seed).permutation(C.shape[0])
    C = sp.csr_array(C)
    return sp.csr_array(C[order][:, order])


def signs(n, seed=0):
    return np.where(np.random.default_rng(seed).random(n) < 0.5, -1.0, 1.0)


def cycle(n):
    C = np.roll(np.eye(n), 1, 1)
    return C + C.T


#: Kinds on which Lanczos iterations end early or start in the wrong place, with N from 300 to 1200.
DEGENERATE = {
    "identity": lambda: np.eye(300),
    "zeros and twos": lambda: np.diag(2.0 * (np.arange(900) % 3 > 0)),
    "one negative variance": lambda: np.diag(np.r_[-5.0, np.ones(499)]),
    "identity with an edge": lambda: np.eye(400) + 0.5 * (np.eye(400, k=7) * (np.arange(400) == 3)[:, None] + 0.0),
    "blocks of ones": lambda: permuted(np.kron(np.eye(200), np.ones((3, 3)))),
    "large blocks of ones": lambda: permuted(np.kron(np.eye(2), np.ones((300, 300)))),
    "all ones": lambda: np.ones((500, 500)),
    "minus ones": lambda: -np.ones((500, 500)),
    "signs of rank one": lambda: np.outer(signs(600), signs(600)),
    "rank one": lambda: np.outer(np.arange(1.0, 501), np.arange(1.0, 501)),
    "signs": lambda: np.kron(np.eye(100), np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])),
    "large Hadamard": lambda: scipy.linalg.hadamard(512).astype(float),
    "swaps": lambda: np.kron(np.eye(250), np.array([[0.0, 1.0], [1.0, 0.0]])),
    "complete bipartite": lambda: np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones((200, 200))),
    "star": lambda: np.r_[[np.r_[0.0, np.ones(599)]], np.c_[np.ones(599), np.zeros((599, 599))]],
    "equal correlations": lambda: 0.3 * np.ones((800, 800)) + 0.7 * np.eye(800),
    "direct sum": lambda: permuted(
        sp.block_diag([np.ones((300, 300)), -3 * np.eye(5), cycle(400), indefinite(280, 1, 0.1)])
    ),
    "cycle": lambda: cycle(601),
    "almost hidden": lambda: permuted(sp.block_diag([1000 * np.ones((300, 300)), np.array([[1.0, 1.0], [1.0, 0.0]])])),
    "random": lambda: indefinite(1200, 0, 0.01),
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_the_smallest_eigenvalue_is_never_too_large(kind):
    C = sp.csr_array(DEGENERATE[kind]())
    C = (C + C.T) / 2
    values = np.linalg.eigvalsh(C.toarray())
    size = np.abs(values).max()
    for factor in (1.0, 1e-170, 1e200):
        found = F.smallest_eigenvalue(C * factor) / factor
        assert found <= values[0] + 1e-12 * size
        assert found >= values[0] - (1e-4 if kind == "cycle" or kind == "direct sum" else 2e-9) * size
    np.testing.assert_array_equal(found, F.smallest_eigenvalue(C * factor) / factor)


@pytest.mark.parametrize("seed", range(2))
def test_large_components_beside_small_ones(seed):
    sizes = (1, 1, 3, 3, 60, 256, 257, 320)
    blocks = [indefinite(n, seed + i, 0.02) for i, n in enumerate(sizes)]
    C = permuted(sp.block_diag(blocks), seed)
    truth = min(lowest(block) for block in blocks)
    assert truth - 1e-7 <= F.smallest_eigenvalue(C) <= truth + 1e-12
    for method in ("load", "shrink"):
        assert lowest(F.psd_repair(C, method).toarray()) >= -1e-10


def test_a_singular_matrix_of_few_eigenvalues_is_loaded_as_it_must(rng):
    """Eigenvalues 3 and -1 only, in one component: a missed -1 would leave the matrix indefinite."""
    n = 1024
    H = scipy.linalg.hadamard(n) / np.sqrt(n)
    values = np.where(np.arange(n) < n - 5, 3.0, -1.0)
    C = sp.csr_array((H * values) @ H.T)
    assert F.smallest_eigenvalue(C) == pytest.approx(-1, abs=1e-7)
    assert lowest(F.psd_repair(C, "load").toarray()) >= -1e-10
