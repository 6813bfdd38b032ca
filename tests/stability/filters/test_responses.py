import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from filters_by_hand import polynomial
from strategies import covariances, seeds
from svnn.stability.filters._responses import frequency_response, generalized_response, pca_response


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
