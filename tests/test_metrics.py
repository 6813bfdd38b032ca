"""Support recovery of every kind of matrix, sparse ones never made dense."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given

from strategies import densities, seeds, tied_matrices
from svnn import HardThreshold, as_operator
from svnn.functional import hard_threshold
from svnn.metrics import SupportRecovery, support_recovery


def sparse_tensor(C):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR")
        return torch.tensor(C).to_sparse_csr()


KINDS = {
    "array": np.asarray,
    "list": lambda C: np.asarray(C).tolist(),
    "frame": pd.DataFrame,
    "operator": as_operator,
    "sparse operator": lambda C: as_operator(sp.csr_array(C)),
    "csr": sp.csr_array,
    "coo": sp.coo_array,
    "tensor": torch.tensor,
    "sparse tensor": sparse_tensor,
    "sparse COO tensor": lambda C: torch.tensor(C).to_sparse_coo(),
}


def by_hand(A, B, tol=0.0):
    upper = np.triu_indices(len(A), 1)
    a, b = abs(A[upper]) > tol, abs(B[upper]) > tol
    hits = (a & b).sum()
    if not a.any() and not b.any():
        return 1.0, 1.0, 1.0
    precision, recall = hits / max(b.sum(), 1), hits / max(a.sum(), 1)
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


@given(tied_matrices(), seeds, densities)
def test_agrees_with_counting(A, seed, threshold):
    rng = np.random.default_rng(seed)
    B = rng.choice([0.0, 0.3, -1.0], A.shape)
    B = np.triu(B, 1) + np.triu(B, 1).T
    for tol in (0.0, threshold):
        expected = by_hand(A, B, tol)
        for one in KINDS.values():
            assert support_recovery(one(A), one(B), tol) == pytest.approx(expected)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_kinds_mix(first, second):
    A = np.array([[1, 0.5, 0, 0], [0.5, 1, 0.2, 0], [0, 0.2, 1, 0], [0, 0, 0, 1.0]])
    B = np.array([[2, -1, 0.1, 0], [-1, 2, 0, 0], [0.1, 0, 2, 0], [0, 0, 0, 0.0]])
    assert support_recovery(KINDS[first](A), KINDS[second](B)) == (0.5, 0.5, 0.5)


def test_the_diagonal_does_not_count_and_empty_supports_are_defined():
    nothing, pair = np.diag([1.0, 0.0, 3.0]), np.array([[1, 0.1, 0], [0.1, 1, 0], [0, 0, 1]])
    assert support_recovery(nothing, sp.csr_array(np.eye(3))) == SupportRecovery(1.0, 1.0, 1.0)
    assert support_recovery(nothing, pair) == (0.0, 0.0, 0.0)
    assert support_recovery(pair, nothing) == (0.0, 0.0, 0.0)
    assert support_recovery(pair, pair, tol=0.1) == (1.0, 1.0, 1.0)
    assert support_recovery(np.zeros((0, 0)), np.zeros((0, 0))) == (1.0, 1.0, 1.0)


def test_stored_zeros_and_duplicates_of_sparse_matrices():
    stored_zero = sp.csr_array((np.array([0.0, 0.0, 2.0]), ([0, 1, 2], [1, 0, 2])), shape=(3, 3))
    assert support_recovery(stored_zero, np.eye(3)).f1 == 1.0
    cancelling = sp.coo_array((np.array([1.0, -1.0, 1.0, -1.0]), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert support_recovery(np.eye(2), cancelling).f1 == 1.0


def test_large_sparse_matrices_stay_sparse():
    """10⁵ features: the dense matrix would take 80 GB."""
    n = 100_000
    band = sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1], format="csr")
    wider = sp.diags_array([np.ones(n - 2), np.ones(n - 1), np.ones(n - 1), np.ones(n - 2)], offsets=[-2, -1, 1, 2])
    score = support_recovery(band, wider.tocsr())
    assert score.recall == 1.0
    assert score.precision == pytest.approx((n - 1) / (2 * n - 3))


def test_fitted_estimators_stand_for_their_covariance(rng):
    X = rng.standard_normal((100, 8))
    fitted = HardThreshold(density=0.25).fit(X)
    assert support_recovery(fitted.covariance_, fitted) == (1.0, 1.0, 1.0)
    assert support_recovery(hard_threshold(np.cov(X.T), 0.0), fitted) == (1.0, 0.25, 0.4)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="C_hat must be a square matrix"):
        support_recovery(np.eye(3), np.ones((3, 2)))
    with pytest.raises(ValueError, match="C_true must be a square matrix"):
        support_recovery(sp.csr_array(np.ones((3, 2))), np.eye(3))
    with pytest.raises(ValueError, match="C_true has 3 features, C_hat has 4"):
        support_recovery(np.eye(3), np.eye(4))
    with pytest.raises(ValueError, match="C_hat is not symmetric"):
        support_recovery(np.eye(3), sp.csr_array(np.triu(np.ones((3, 3)))))
    with pytest.raises(ValueError, match="C_true holds NaN"):
        support_recovery(sp.csr_array(np.array([[np.nan]])), np.eye(1))
    with pytest.raises(ValueError, match="tol must be a number >= 0"):
        support_recovery(np.eye(3), np.eye(3), tol=-1)
