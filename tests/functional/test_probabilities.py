from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import covariances, densities, seeds, tied_matrices
from svnn import functional as F


def upper(C):
    return C[np.triu_indices(len(C), 1)]


def check_probabilities(P):
    assert ((P >= 0) & (P <= 1)).all()
    assert (P == P.T).all()
    assert (P.diagonal() == 1).all()


@given(covariances())
def test_acv_is_the_absolute_value_over_the_largest_entry(C):
    P = F.acv_probabilities(C)
    check_probabilities(P)
    np.testing.assert_allclose(upper(P), upper(abs(C)) / abs(C).max(), rtol=1e-12)


@given(covariances())
def test_acv_over_the_off_diagonal_reaches_one(C):
    P = F.acv_probabilities(C, max_over="offdiagonal")
    check_probabilities(P)
    assert upper(P).max() == pytest.approx(1)


def test_one_large_variance_empties_the_graph_unless_the_maximum_is_off_diagonal():
    C = np.array([[1e6, 0.5, 0.2], [0.5, 1, 0.4], [0.2, 0.4, 1]])
    assert upper(F.acv_probabilities(C)).max() < 1e-6
    assert upper(F.acv_probabilities(C, max_over="offdiagonal")).max() == 1


@given(covariances(), densities)
def test_acv_density_is_exact(C, density):
    P = F.acv_probabilities(C, density)
    check_probabilities(P)
    assert upper(P).mean() == pytest.approx(density, abs=1e-12)
    inside = upper(P) < 1
    if inside.any() and density > 0:
        slopes = upper(P)[inside] / upper(abs(C))[inside]
        np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)
        assert (upper(abs(C))[~inside] * slopes[0] >= 1 - 1e-9).all()


@given(tied_matrices(), densities)
def test_acv_density_stays_inside_the_support(C, density):
    P = F.acv_probabilities(C, density)
    check_probabilities(P)
    available = (upper(C) != 0).mean()
    assert upper(P).mean() == pytest.approx(min(density, available), abs=1e-12)
    assert (upper(P)[upper(C) == 0] == 0).all()


def test_acv_of_a_diagonal_matrix_has_no_edges():
    np.testing.assert_array_equal(F.acv_probabilities(np.eye(3)), np.eye(3))
    np.testing.assert_array_equal(F.acv_probabilities(np.eye(3), density=0.5), np.eye(3))
    np.testing.assert_array_equal(F.acv_probabilities(np.eye(3), max_over="offdiagonal"), np.eye(3))


@given(covariances(), densities, seeds)
def test_rcv_orders_probabilities_by_absolute_value(C, p, seed):
    P = F.rcv_probabilities(C, p, seed)
    check_probabilities(P)
    order = np.argsort(upper(abs(C)), kind="stable")
    assert (np.diff(upper(P)[order]) >= 0).all()


@given(tied_matrices(), seeds)
def test_rcv_breaks_ties_in_row_order(C, seed):
    P = upper(F.rcv_probabilities(C, 0.5, seed))
    sizes = upper(abs(C))
    for value in np.unique(sizes):
        assert (np.diff(P[sizes == value]) >= 0).all()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
def test_rcv_draws_from_the_stated_normal(p):
    C = np.cov(np.random.default_rng(0).standard_normal((50, 200)).T)
    values = upper(F.rcv_probabilities(C, p, 0))
    sd = min((1 - p) / 3, p / 3)
    error = sd / np.sqrt(len(values))
    assert abs(values.mean() - p) <= 4 * error
    assert values.std() == pytest.approx(sd, rel=0.03, abs=1e-12)


@given(covariances(), densities, seeds)
def test_torch_gives_the_same_numbers(C, p, seed):
    T = torch.tensor(C)
    for a, b in [
        (F.acv_probabilities(T), F.acv_probabilities(C)),
        (F.acv_probabilities(T, p), F.acv_probabilities(C, p)),
        (F.rcv_probabilities(T, p, seed), F.rcv_probabilities(C, p, seed)),
    ]:
        assert isinstance(a, torch.Tensor)
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-12)


@given(st.sampled_from([-0.5, 1.5, None, "x"]))
def test_p_must_be_a_share(p):
    with pytest.raises(ValueError, match="p must be a number between 0 and 1"):
        F.rcv_probabilities(np.eye(3), p)


def test_max_over_is_checked():
    with pytest.raises(ValueError, match="max_over must be"):
        F.acv_probabilities(np.eye(3), max_over="diagonal")
