"""Frequency responses, and constants that say how steep they are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from filters_by_hand import polynomial
from strategies import covariances, seeds
from svnn.stability._responses import (
    derivative,
    frequency_response,
    gain,
    generalized_lipschitz,
    generalized_response,
    integral_lipschitz,
    lipschitz,
    pca_response,
    recentred,
)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(covariances(), st.integers(0, 5), seeds)
def test_filter_is_its_response_in_the_eigenbasis(C, order, seed):
    C = C / np.linalg.norm(C) if C.any() else C
    h = np.random.default_rng(seed).standard_normal(order + 1)
    lam, V = np.linalg.eigh(C)
    np.testing.assert_allclose((V * frequency_response(h, lam)) @ V.T, polynomial(h, C), atol=1e-12)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_shapes_of_filters_and_banks(rng, shape):
    h, W, lam = rng.standard_normal(4), rng.standard_normal((4, 2, 5)), rng.standard_normal(shape)
    assert frequency_response(h, lam).shape == shape
    bank = frequency_response(torch.from_numpy(W), torch.from_numpy(np.asarray(lam)))
    assert bank.shape == (*shape, 2, 5)
    np.testing.assert_allclose(bank[..., 1, 3], frequency_response(W[:, 1, 3], lam))
    lams = rng.standard_normal((*shape, 3))
    assert generalized_response(h, lams).shape == shape
    bank = generalized_response(W, lams)
    np.testing.assert_allclose(bank[..., 1, 3], generalized_response(W[:, 1, 3], lams))
    assert generalized_response([2.0], np.zeros((*shape, 0))).shape == shape


def test_generalized_response_with_equal_eigenvalues_is_the_ordinary_one(rng):
    h, lam = rng.standard_normal(5), rng.standard_normal(7)
    np.testing.assert_allclose(
        generalized_response(h, np.repeat(lam[:, None], 4, axis=1)), frequency_response(h, lam), atol=1e-12
    )


def fourier_sum(h, shifts, x, first, last_basis):
    """The appendix's sum over (i_1, …, i_K); terms from ``first``, in the basis of the last shift or of their own."""
    n, order = len(x), len(shifts)
    eigen = [np.linalg.eigh(C) for C in shifts]
    result = np.zeros(n)
    for index in np.ndindex(*[n] * order):
        weight = eigen[0][1][:, index[0]] @ x
        for k in range(1, order):
            weight *= eigen[k - 1][1][:, index[k - 1]] @ eigen[k][1][:, index[k]]
        lams = [eigen[k][0][index[k]] for k in range(order)]
        vectors = [eigen[k][1][:, index[k]] for k in range(order)]
        if last_basis and first == 0:
            result += weight * generalized_response(h, lams) * vectors[-1]
            continue
        for k in range(first, order + 1):
            own = vectors[-1] if last_basis else vectors[max(k - 1, 0)]
            result += weight * h[k] * np.prod(lams[:k]) * own
    return result


def test_generalised_fourier_sum_starts_at_zero_and_stays_in_the_last_basis(rng):
    # The appendix starts at k = 1 and writes term k in basis k: neither gives the filter of Def. 5.
    n, order = 3, 3
    shifts = [(A + A.T) / 2 for A in rng.standard_normal((order, n, n))]
    h, x = rng.standard_normal(order + 1), rng.standard_normal(n)
    truth, shifted = h[0] * x, x
    for k, C in enumerate(shifts, 1):
        shifted = C @ shifted
        truth = truth + h[k] * shifted
    np.testing.assert_allclose(fourier_sum(h, shifts, x, first=0, last_basis=True), truth, atol=1e-12)
    for first, last_basis in ((1, False), (1, True), (0, False)):
        assert np.linalg.norm(fourier_sum(h, shifts, x, first, last_basis) - truth) > 0.1


def test_pca_response_keeps_the_largest():
    np.testing.assert_array_equal(pca_response([0.1, 2.0, 3.0, 0.5], 1), [0, 0, 1, 0])
    np.testing.assert_array_equal(pca_response([2.0, 2.0, 1.0], 1), [1, 1, 0])  # a tie has no first
    np.testing.assert_array_equal(pca_response([2.0, 1.0], 2), [1, 1])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: frequency_response(np.zeros((2, 2)), 0.0), ValueError, "h must have shape"),
        (lambda: frequency_response([np.nan], 0.0), ValueError, "NaN"),
        (lambda: generalized_response([1.0, 2.0], [1.0, 2.0]), ValueError, "lams must have shape"),
        (lambda: pca_response([1.0, 2.0], 3), ValueError, "k must be an integer from 1"),
        (lambda: pca_response([[1.0]], 1), ValueError, "one dimension"),
    ],
)
def test_bad_input_is_named(call, error, match):
    with pytest.raises(error, match=match):
        call()


check = settings(deadline=None, max_examples=80, derandomize=True)


@st.composite
def filters(draw, max_order=6):
    """A filter, a bank of the same order, and an interval with both signs possible."""
    rng = np.random.default_rng(draw(seeds))
    order = draw(st.integers(0, max_order))
    h = rng.standard_normal(order + 1) * 10.0 ** rng.integers(-3, 4)
    h[rng.random(order + 1) < 0.2] = 0.0
    a, b = np.sort(rng.uniform(-2, 2, 2))
    return h, rng.standard_normal((order + 1, 3, 2)), (float(a), float(b))


def frobenius(response, lam):
    return np.sqrt((response.reshape(len(lam), -1) ** 2).sum(1))


@check
@given(filters())
def test_lipschitz_constants_are_the_suprema(case):
    h, W, interval = case
    lam = np.linspace(*interval, 4001)
    for coefficients in (h, W):
        slope = frobenius(frequency_response(derivative(coefficients), lam), lam)
        for constant, values in ((lipschitz, slope), (integral_lipschitz, np.abs(lam) * slope)):
            value = constant(coefficients, interval)
            assert values.max() <= value * (1 + 1e-12) <= values.max() * (1 + 1e-4) + 1e-12


@check
@given(filters())
def test_gain_is_above_the_supremum_and_close(case):
    h, W, interval = case
    lam = np.linspace(*interval, 2001)
    largest = np.linalg.norm(frequency_response(W, lam), 2, axis=(1, 2)).max()
    assert largest <= gain(W, interval) * (1 + 1e-12) <= largest * 1.002
    largest = np.abs(frequency_response(h, lam)).max()
    assert largest <= gain(h, interval) * (1 + 1e-12) <= largest * (1 + 1e-4) + 1e-12


def lipschitz_gradient(h, first, second):
    """Def. 7 by central differences, which are exact for a function that is affine in every coordinate."""
    order = len(h) - 1
    first, second = np.broadcast_arrays(first, second)
    result = np.empty(first.shape)
    for k in range(order):
        mixed = np.concatenate([second[..., : k + 1], first[..., k + 1 :]], -1)
        unit = np.eye(order)[k]
        result[..., k] = (generalized_response(h, mixed + unit) - generalized_response(h, mixed - unit)) / 2
    return result


def both_spectrum(h, first, second):
    gradient = lipschitz_gradient(h, first, second)
    return max(np.linalg.norm(gradient, axis=-1).max(), np.linalg.norm(first * gradient, axis=-1).max())


@check
@given(filters(max_order=4), seeds)
def test_generalized_constant_is_the_supremum(case, seed):
    h, _, interval = case
    order = len(h) - 1
    value = generalized_lipschitz(h, interval)
    if order == 0:
        assert value == 0
        return
    vertices = np.array(list(product(interval, repeat=order)))
    at_vertices = both_spectrum(h, vertices[:, None], vertices)
    np.testing.assert_allclose(value, at_vertices, rtol=1e-9, atol=1e-12)
    inside = np.random.default_rng(seed).uniform(*interval, (2, 2000, order))
    assert both_spectrum(h, *inside) <= value * (1 + 1e-9) + 1e-12


def test_the_gradient_of_definition_7_telescopes(rng):
    h, (first, second) = rng.standard_normal(5), rng.standard_normal((2, 4))
    gradient = lipschitz_gradient(h, first, second)
    np.testing.assert_allclose(
        generalized_response(h, second) - generalized_response(h, first), gradient @ (second - first)
    )


def test_generalized_constant_of_a_high_order(rng):
    # 2^200 vertices; the hull keeps few. With coefficients and ends positive the maximum is known.
    h = rng.uniform(0, 1, 201)
    q = np.array([sum(h[r:]) for r in range(1, 201)])
    assert generalized_lipschitz(h, (0.0, 1.0)) == pytest.approx(np.linalg.norm(q), rel=1e-10)
    assert np.isfinite(generalized_lipschitz(rng.standard_normal(61), (-0.9, 1.0)))


def test_suprema_inside_the_interval():
    # h' = 1 - λ² has its largest absolute value on [-1, 1] inside; on [-1, 2] at the end.
    h = [0.0, 1.0, 0.0, -1 / 3]
    assert lipschitz(h, (-1, 1)) == pytest.approx(1.0)
    assert lipschitz(h, (-1, 2)) == pytest.approx(3.0)
    # λ h' = λ - λ³ peaks at 1/sqrt(3).
    assert integral_lipschitz(h, (-1, 1)) == pytest.approx(2 / 3**1.5)


@pytest.mark.parametrize("function", [lipschitz, integral_lipschitz, generalized_lipschitz, gain])
def test_degenerate_filters_and_intervals(function):
    assert function([0.0, 0.0, 0.0], (-1, 1)) == 0.0
    assert function([0.0, 3.0, 0.0], (1.0, 1.0)) == pytest.approx(3.0)
    assert function([0.0, 1.0, 1e-300], (-1.0, 1.0)) == pytest.approx(1.0)
    assert function([0.0, 1e200, 0.0], (-1.0, 1.0)) == pytest.approx(1e200)


def test_a_constant_filter_has_no_slope():
    assert lipschitz([5.0], (0, 1)) == integral_lipschitz([5.0], (0, 1)) == generalized_lipschitz([5.0], (0, 1)) == 0


def test_recentred(rng):
    W, s = rng.standard_normal((5, 2, 3)), np.linspace(-1, 1, 7)
    np.testing.assert_allclose(
        frequency_response(recentred(W, -0.7, 0.3), s), frequency_response(W, -0.7 + 0.3 * s), atol=1e-12
    )


@pytest.mark.parametrize("interval", [(1.0, 0.0), (0.0, np.inf), 3.0, (0.0, 1.0, 2.0)])
def test_bad_intervals_are_named(interval):
    with pytest.raises(ValueError, match="interval"):
        lipschitz([1.0, 2.0], interval)


def test_a_bank_has_no_generalized_constant():
    with pytest.raises(ValueError, match="one filter"):
        generalized_lipschitz(np.zeros((3, 2, 2)), (0, 1))
