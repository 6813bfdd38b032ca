from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realisations import covariance, enumerated_error, keep_probabilities
from strategies import seeds
from svnn import as_operator
from svnn.nn import CovarianceFilter
from svnn.stability._expected_error import ErrorSplit, expected_error
from svnn.stability._sparsification import realisation_moments, sparsification_error

KINDS = ("uniform", "acv", "acv density", "rcv")
#: Shapes (in, out) of a bank; None for a single filter.
BANKS = (None, (1, 3), (2, 3), (3, 2))


def draw_filter(K, bank, rng):
    """Return h as a user gives it, and as a bank of shape (K + 1, in, out)."""
    h = rng.standard_normal((K + 1, *(bank or ())))
    return h, h.reshape(K + 1, *(bank or (1, 1)))


def draw_case(kind, seed, n=3):
    rng = np.random.default_rng(seed)
    C = covariance(n, rng)
    P = keep_probabilities(kind, C, rng)
    return rng, C, P


def spec_formula(h, C, P, x, unbiased):
    """The recursion of the docstring, as written."""
    mean, V = realisation_moments(C, P, unbiased)
    K = len(h) - 1
    power = np.linalg.matrix_power
    bias = sum(h[k] * (power(mean, k) - power(C, k)) @ x for k in range(K + 1))
    S, variance = np.outer(x, x), 0.0
    for r in range(1, K + 1):
        T = np.diag(V @ S.diagonal()) + V * S.T
        G = sum(h[k] * power(mean, k - r) for k in range(r, K + 1))
        variance += np.trace(G @ T @ G)
        S = mean @ S @ mean + T
    return bias @ bias, variance


# -- exact: every realisation of three features ---------------------------------------------------------


@settings(max_examples=400)
@given(
    seeds,
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.sampled_from(BANKS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_equals_the_sum_over_all_realisations(seed, kind, K, bank, unbiased, against_another, shared):
    rng, C, P = draw_case(kind, seed)
    shared = shared and K <= 2
    h, W = draw_filter(K, bank, rng)
    X = rng.standard_normal((3, W.shape[1]))
    options = {"unbiased": unbiased, "reference": covariance(3, rng) if against_another else None, "shared": shared}

    error = expected_error(h, C, P, X if bank else X[:, 0], **options)
    total, bias = enumerated_error(W, C, P, X, **options)
    scale = 1e-12 * total
    assert abs(error - total) <= scale and abs(error.bias - bias) <= scale
    assert error == error.bias + error.variance

    # White signals: the sum over a basis of the inputs. A factor F of the moment: over its columns.
    F = rng.standard_normal((3, 3))
    for factor, moment in ((np.eye(3), None), (F, F @ F.T)):
        parts = [enumerated_error(W, C, P, np.outer(f, e), **options) for f in factor.T for e in np.eye(W.shape[1])]
        total, bias = np.sum(parts, 0)
        error = expected_error(h, C, P, moment=moment, **options)
        assert abs(error - total) <= 1e-12 * total and abs(error.bias - bias) <= 1e-12 * total


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("unbiased", [False, True])
def test_probabilities_of_zero_and_one(shared, unbiased, rng):
    C = covariance(3, rng)
    P = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.3], [1.0, 0.3, 1.0]])
    W = rng.standard_normal((3, 1, 1))
    x = rng.standard_normal(3)
    total, bias = enumerated_error(W, C, P, x[:, None], unbiased, shared=shared)
    error = expected_error(W[:, 0, 0], C, P, x, unbiased=unbiased, shared=shared)
    np.testing.assert_allclose([error, error.bias], [total, bias], rtol=1e-12, atol=1e-12 * total)


def test_four_features_shared(rng):
    """With four features two pairs can have no node in common."""
    C = covariance(4, rng)
    P = keep_probabilities("rcv", C, rng)
    W = rng.standard_normal((3, 2, 2))
    X = rng.standard_normal((4, 2))
    for unbiased in (False, True):
        total, bias = enumerated_error(W, C, P, X, unbiased, shared=True)
        error = expected_error(W, C, P, X, unbiased=unbiased, shared=True)
        np.testing.assert_allclose([error, error.bias], [total, bias], rtol=1e-12)


# -- the formula, at any order --------------------------------------------------------------------------


@settings(max_examples=40)
@given(seeds, st.sampled_from(KINDS), st.integers(0, 6), st.booleans())
def test_equals_the_recursion_as_written(seed, kind, K, unbiased):
    rng, C, P = draw_case(kind, seed, n=9)
    P = P.clip(0.05, 1)
    h, x = rng.standard_normal(K + 1), rng.standard_normal(9)
    error = expected_error(h, C, P, x, unbiased=unbiased)
    np.testing.assert_allclose([error.bias, error.variance], spec_formula(h, C, P, x, unbiased), rtol=1e-9, atol=1e-20)


@settings(max_examples=20)
@given(seeds, st.integers(1, 5), st.booleans())
def test_a_bank_equals_the_recursion_over_pairs_of_inputs(seed, K, unbiased):
    rng, C, P = draw_case("rcv", seed, n=6)
    P = P.clip(0.05, 1)
    W, X = rng.standard_normal((K + 1, 2, 3)), rng.standard_normal((6, 2))
    mean, V = realisation_moments(C, P, unbiased)
    S = np.einsum("ia,jb->abij", X, X)  # E[z_a z_bᵀ]
    variance = 0.0
    for r in range(1, K + 1):
        T = V * S.swapaxes(2, 3)
        T[..., range(6), range(6)] = np.einsum("ik,abkk->abi", V, S)
        G = [np.linalg.matrix_power(mean, k) for k in range(K - r + 1)]
        for k in range(r, K + 1):
            for l in range(r, K + 1):
                variance += np.einsum("ao,bo,ij,abjk,ki->", W[k], W[l], G[k - r], T, G[l - r], optimize=True)
        S = mean @ S @ mean + T
    np.testing.assert_allclose(expected_error(W, C, P, X, unbiased=unbiased).variance, variance, rtol=1e-10)


@given(seeds, st.integers(0, 4), st.floats(0.5, 2))
def test_the_same_filter_on_a_scaled_covariance(seed, K, scale):
    rng, C, P = draw_case("acv", seed, n=7)
    h, x = rng.standard_normal(K + 1), rng.standard_normal(7)
    powers = scale ** np.arange(K + 1)
    error, scaled = expected_error(h, C, P, x), expected_error(h * powers, C / scale, P, x)
    np.testing.assert_allclose([scaled.bias, scaled.variance], [error.bias, error.variance], rtol=1e-9)


@given(seeds, st.integers(0, 3), st.booleans())
def test_signals_add_up(seed, K, shared):
    shared = shared and K <= 2
    rng, C, P = draw_case("rcv", seed, n=6)
    h, x = rng.standard_normal(K + 1), rng.standard_normal((6, 4))
    each = [expected_error(h, C, P, column, shared=shared) for column in x.T]
    assert expected_error(h, C, P, x, shared=shared) == pytest.approx(sum(each))
    assert expected_error(h, C, P, moment=x @ x.T, shared=shared) == pytest.approx(sum(each))
    W, X = rng.standard_normal((K + 1, 3, 2)), rng.standard_normal((4, 6, 3))
    each = [expected_error(W, C, P, one, shared=shared) for one in X]
    assert expected_error(W, C, P, X, shared=shared) == pytest.approx(sum(each))


def test_a_filter_is_a_bank_of_one(rng):
    C, h, x = covariance(8, rng), rng.standard_normal(4), rng.standard_normal(8)
    assert expected_error(h[:, None, None], C, 0.4, x[:, None]) == pytest.approx(expected_error(h, C, 0.4, x))
    # Two inputs of which one is not used.
    W = np.stack([h, 0 * h], 1)[:, :, None]
    X = np.stack([x, rng.standard_normal(8)], 1)
    assert expected_error(W, C, 0.4, X) == pytest.approx(expected_error(h, C, 0.4, x))


# -- what the parts mean --------------------------------------------------------------------------------


def test_of_order_one_on_white_signals_it_is_q(rng):
    C = covariance(6, rng)
    P = keep_probabilities("acv", C, rng)
    error, Q = expected_error([3.0, 1.0], C, P), sparsification_error(C, P)
    np.testing.assert_allclose([error, error.bias, error.variance], Q, rtol=1e-12)


@pytest.mark.parametrize(("K", "shared"), [(1, False), (2, False), (3, False), (1, True), (2, True)])
def test_the_parts_scale_as_the_paper_says(K, shared, rng):
    """As p → 1 the bias is of order (1-p)², the variance of order 1-p."""
    C, h, x = covariance(10, rng), rng.standard_normal(K + 1), rng.standard_normal(10)
    near, far = (expected_error(h, C, 1 - q, x, shared=shared) for q in (1e-4, 1e-3))
    assert np.log10(far.variance / near.variance) == pytest.approx(1, abs=0.01)
    assert np.log10(far.bias / near.bias) == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("K", [1, 2, 3])
def test_rescaling_removes_the_bias(K, rng):
    C, h = covariance(10, rng), rng.standard_normal(K + 1)
    assert expected_error(h, C, 0.3, unbiased=True).bias == 0
    assert expected_error(h, C, 0.3).bias > 0
    # One realisation for both shifts is squared, and a square has a mean of its own.
    if K == 2:
        assert expected_error(h, C, 0.3, unbiased=True, shared=True).bias > 0


def test_against_another_covariance_only_the_bias_differs(rng):
    C, truth, h, x = covariance(7, rng), covariance(7, rng), rng.standard_normal(4), rng.standard_normal(7)
    own, other = expected_error(h, C, 0.5, x), expected_error(h, C, 0.5, x, reference=truth)
    assert own.variance == other.variance and own.bias != other.bias
    # Nothing is dropped: the error is that of the estimate.
    filters = [sum(h[k] * np.linalg.matrix_power(A, k) for k in range(4)) for A in (C, truth)]
    kept = expected_error(h, C, 1.0, x, reference=truth)
    assert kept == pytest.approx(np.sum(((filters[0] - filters[1]) @ x) ** 2)) and kept.variance == 0


def test_nothing_dropped_or_nothing_shifted_is_no_error(rng):
    C = covariance(5, rng)
    assert expected_error(rng.standard_normal(4), C, 1.0) == 0
    assert expected_error([2.0], C, 0.5) == 0
    assert expected_error([2.0], C, 0.5, x=np.ones(5)) == 0
    assert expected_error(rng.standard_normal(3), C, 1.0, np.ones(5), shared=True) == 0


# -- what comes in and out ------------------------------------------------------------------------------


def test_a_trained_layer_and_every_kind_of_matrix(rng):
    torch.manual_seed(0)
    layer = CovarianceFilter(2, 3, order=2)
    C, X = covariance(6, rng), rng.standard_normal((6, 2))
    P = keep_probabilities("acv", C, rng)
    expected = expected_error(layer.weight.detach().numpy(), C, P, X)
    for matrix in (sp.csr_array(C), torch.as_tensor(C), as_operator(C)):
        assert expected_error(layer.weight, matrix, P, torch.as_tensor(X)) == pytest.approx(expected, rel=1e-5)
    assert expected_error(layer.weight, C, sp.csr_array(P), X, reference=sp.csr_array(C)) == pytest.approx(expected)


def test_inputs_are_left_as_they_are(rng):
    C, P, x, S = covariance(5, rng), np.full((5, 5), 0.5), rng.standard_normal(5), np.eye(5)
    before = [a.copy() for a in (C, P, x, S)]
    for options in ({}, {"unbiased": True}, {"shared": True}, {"reference": C}):
        expected_error([1.0, 1.0, 1.0], C, P, x, **options)
        expected_error([1.0, 1.0, 1.0], C, P, moment=S, **options)
    for a, b in zip((C, P, x, S), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_result_is_a_float_with_parts():
    error = ErrorSplit(0.25, 0.5)
    assert error == 0.75 and isinstance(error, float) and type(error + 1) is float
    assert repr(error) == str(error) == "ErrorSplit(0.75, bias=0.25, variance=0.5)"
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (other, other.bias, other.variance) == (0.75, 0.25, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h": np.ones((2, 2))}, "h must have shape"),
        ({"h": [1.0, np.nan]}, "h holds NaN"),
        ({"h": np.ones(4), "shared": True}, "use monte_carlo_error"),
        ({"C": np.ones((3, 4))}, "C must be a square"),
        ({"P": 1.2}, "P must be"),
        ({"P": np.eye(4)}, "P has shape"),
        ({"x": np.ones(4)}, "x must have shape"),
        ({"x": np.ones((1, 3, 1))}, "x must have shape"),
        ({"x": [1.0, np.inf, 0.0]}, "x holds NaN or infinite"),
        ({"h": np.ones((2, 2, 1)), "x": np.ones(3)}, "x must have shape"),
        ({"reference": np.eye(4)}, "reference has shape"),
        ({"x": np.ones(3), "moment": np.eye(3)}, "x and moment"),
        ({"moment": np.eye(4)}, "moment has shape"),
        ({"moment": -np.eye(3)}, "moment has a negative diagonal"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"h": [1.0, 1.0], "C": np.eye(3) + 0.1, "P": 0.5} | change
    with pytest.raises(ValueError, match=message):
        expected_error(**arguments)
