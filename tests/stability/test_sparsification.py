from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from realisations import all_realisations, covariance, keep_probabilities
from strategies import covariances, seeds, tied_matrices
from svnn import as_operator
from svnn.covariance import ACV
from svnn.functional import acv_probabilities
from svnn.stability._sparsification import realisation_moments, sparsification_error

KINDS = ("uniform", "acv", "acv density", "rcv")


@given(covariances() | tied_matrices(), st.sampled_from(KINDS), seeds)
def test_the_parts_add_up_to_q_over_the_off_diagonal(C, kind, seed):
    P = keep_probabilities(kind, C, np.random.default_rng(seed))
    error = sparsification_error(C, P)
    off = ~np.eye(len(C), dtype=bool)
    np.testing.assert_allclose(error.Q, (C**2 * (1 - P))[off].sum(), rtol=1e-12)
    np.testing.assert_allclose(error.bias, (C**2 * (1 - P) ** 2)[off].sum(), rtol=1e-12)
    np.testing.assert_allclose(error.variance, (C**2 * P * (1 - P))[off].sum(), rtol=1e-12)
    assert error.bias + error.variance == error.Q


@pytest.mark.parametrize("kind", KINDS)
def test_the_traces_of_the_papers_lemmas(kind, rng):
    """tr E[E_r²] = Q, and tr E[E_r E_s] = sum c²(1-p)² of two independent realisations, the bias."""
    C = covariance(4, rng)
    P = keep_probabilities(kind, C, rng)
    matrices, probability = all_realisations(C, P)
    E = matrices - C
    error = sparsification_error(C, P)
    np.testing.assert_allclose(probability @ np.trace(E @ E, axis1=1, axis2=2), error.Q, rtol=1e-12)
    pairs = np.einsum("a,b,aij,bji->", probability, probability, E, E)
    np.testing.assert_allclose(pairs, error.bias, rtol=1e-12)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_all_realisations(kind, unbiased, rng):
    C = covariance(4, rng)
    P = keep_probabilities(kind, C, rng)
    P[0, 1] = P[1, 0] = 0.0  # unbiased: floored
    matrices, probability = all_realisations(C, P, unbiased)
    mean, variance = realisation_moments(C, P, unbiased)
    np.testing.assert_allclose(mean, np.tensordot(probability, matrices, 1), atol=1e-13)
    expected = np.tensordot(probability, (matrices - mean) ** 2, 1)
    np.testing.assert_allclose(variance, expected, rtol=1e-10, atol=1e-15)
    assert (variance.diagonal() == 0).all()


def test_moments_are_not_the_callers_matrix(rng):
    C = covariance(3, rng)
    mean, _ = realisation_moments(C, 0.5, unbiased=True)
    mean += 1
    assert (mean != C).all()


def test_every_kind_of_matrix_gives_the_same(rng):
    C = covariance(6, rng)
    C[abs(C) < 0.1] = 0
    P = acv_probabilities(C)
    expected = sparsification_error(C, P)
    for matrix in (sp.csr_array(C), sp.coo_array(C), torch.as_tensor(C), as_operator(C), as_operator(sp.csr_array(C))):
        for probabilities in (P, sp.csr_array(P), torch.as_tensor(P)):
            np.testing.assert_allclose(sparsification_error(matrix, probabilities), expected, rtol=1e-6)
    np.testing.assert_allclose(sparsification_error(sp.csr_array(C), 0.3), sparsification_error(C, 0.3), rtol=1e-12)
    for part, sparse in zip(realisation_moments(C, P), realisation_moments(sp.csr_array(C), P), strict=True):
        assert isinstance(sparse, sp.csr_array)
        np.testing.assert_allclose(sparse.toarray(), part, rtol=1e-12, atol=1e-15)


def test_a_fitted_estimator_stands_for_its_covariance(rng):
    acv = ACV(random_state=0).fit(rng.standard_normal((30, 5)))
    np.testing.assert_allclose(sparsification_error(acv, 0.5), sparsification_error(acv.covariance_, 0.5))


def test_a_large_sparse_covariance_is_not_made_dense():
    n = 100_000
    C = sp.diags_array([0.5, 1.0, 0.5], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    P = sp.diags_array([0.2, 1.0, 0.2], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    expected = 2 * (n - 1) * 0.25 * np.array([0.8, 0.64, 0.16])
    np.testing.assert_allclose(sparsification_error(C, P), expected)
    np.testing.assert_allclose(sparsification_error(C, 0.2), expected)
    assert realisation_moments(C, P).variance.sum() == pytest.approx(2 * (n - 1) * 0.25 * 0.16)


@pytest.mark.parametrize("P", [1.5, -0.1, np.full((3, 3), 2.0), np.eye(2), sp.csr_array(np.full((3, 3), 2.0))])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_bad_probabilities_are_named(P, kind):
    with pytest.raises(ValueError, match="P "):
        sparsification_error(kind(np.ones((3, 3))), P)


@pytest.mark.parametrize("p", [0.5, np.float32(0.5), np.array(0.5), torch.tensor(0.5)])
def test_a_probability_is_any_number(p):
    np.testing.assert_allclose(sparsification_error(np.ones((3, 3)), p), [3, 1.5, 1.5])


def test_an_asymmetric_covariance_is_named():
    with pytest.raises(ValueError, match="C is not symmetric"):
        sparsification_error(np.array([[1.0, 0.5], [0.1, 1.0]]), 0.5)
