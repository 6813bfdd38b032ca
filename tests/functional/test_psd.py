from __future__ import annotations

import numpy as np
import pytest
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
