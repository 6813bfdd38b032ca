from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import covariances, seeds
from svnn import as_operator
from svnn.nn import CovarianceFilter

BACKENDS = ("dense", "csr", "lowrank")
orders = st.integers(0, 4)
widths = st.sampled_from([(1, 4), (3, 3), (4, 2)])
shapes = st.sampled_from([(), (3,), (2, 3)])


def spectral(layer, x, C):
    """The filter bank through the eigenvectors: V h(Λ) Vᵀ x, term by term in the weights."""
    values, vectors = torch.linalg.eigh(C)
    coefficients = vectors.T @ x
    y = sum((values[:, None] ** k * coefficients) @ w for k, w in enumerate(layer.weight))
    y = vectors @ y
    return y if layer.bias is None else y + layer.bias


def layer_like(order, width, dtype, seed=0):
    torch.manual_seed(seed)
    return CovarianceFilter(*width, order=order).to(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@given(C=covariances(), order=orders, width=widths, shape=shapes, seed=seeds)
def test_equals_the_eigendecomposition(backend, dtype, tolerance, C, order, width, shape, seed):
    C = torch.tensor(C / max(abs(np.linalg.eigvalsh(C)).max(), 1e-12), dtype=dtype)
    layer = layer_like(order, width, dtype)
    data = np.random.default_rng(seed).standard_normal((*shape, len(C), width[0]))
    results = []
    for run in (lambda x: layer(x, as_operator(C, backend=backend)), lambda x: spectral(layer, x, C)):
        x = torch.tensor(data, dtype=dtype, requires_grad=True)
        layer.zero_grad()
        y = run(x)
        (y**2).sum().backward()
        results.append((y.detach(), x.grad, layer.weight.grad.clone(), layer.bias.grad.clone()))
    for a, b in zip(*results, strict=True):
        # Relative to the largest entry: sums of many terms round relative to their size.
        assert float((a - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("backend", BACKENDS)
@given(C=covariances(), order=orders, width=widths, seed=seeds)
def test_permutation_equivariance(backend, C, order, width, seed):
    rng = np.random.default_rng(seed)
    permutation = rng.permutation(len(C))
    C = C / max(abs(C).max(), 1e-12)
    layer = layer_like(order, width, torch.float64)
    x = torch.tensor(rng.standard_normal((2, len(C), width[0])))
    a = layer(x, as_operator(C, backend=backend))[:, permutation]
    b = layer(x[:, permutation], as_operator(C[np.ix_(permutation, permutation)], backend=backend))
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("width", [(2, 3), (3, 2)])
def test_gradcheck_in_x_and_weights(backend, width):
    rng = np.random.default_rng(0)
    C = np.cov(rng.standard_normal((4, 9)))
    op = as_operator(C, backend=backend)
    layer = layer_like(2, width, torch.float64)
    x = torch.tensor(rng.standard_normal((2, 4, width[0])), requires_grad=True)

    def run(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x, op))

    assert torch.autograd.gradcheck(run, (x, layer.weight, layer.bias))


@given(seed=seeds, order=st.integers(1, 4), width=widths)
def test_a_sequence_is_the_stochastic_filter(seed, order, width):
    rng = np.random.default_rng(seed)
    shifts = [np.cov(rng.standard_normal((5, 9))) for _ in range(order)]
    layer = layer_like(order, width, torch.float64)
    x = torch.tensor(rng.standard_normal((3, 5, width[0])))
    expected, power = x @ layer.weight[0] + layer.bias, x
    for k, shift in enumerate(shifts, start=1):
        power = torch.tensor(shift) @ power  # C_k … C_1 x: the first shift acts first
        expected = expected + power @ layer.weight[k]
    torch.testing.assert_close(layer(x, shifts), expected)
    same = [shifts[0]] * order
    torch.testing.assert_close(layer(x, same), layer(x, shifts[0]))


def test_order_zero_ignores_the_shift():
    layer = CovarianceFilter(2, 3, order=0)
    x = torch.randn(4, 5, 2)
    torch.testing.assert_close(layer(x), x @ layer.weight[0] + layer.bias)
    torch.testing.assert_close(layer(x, torch.eye(5)), layer(x))


def test_parameters_do_not_depend_on_the_number_of_nodes():
    layer = CovarianceFilter(1, 3, order=2, bias=False)
    assert layer.bias is None and layer.weight.shape == (3, 1, 3)
    for n in (2, 7):
        assert layer(torch.randn(n, 1), torch.eye(n)).shape == (n, 3)
    assert "order=2" in repr(layer)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f(torch.ones(4, 1), torch.eye(4)), "1 values per node, the filter takes 2"),
        (lambda f: f(torch.ones(4, 2)), "needs a shift"),
        (lambda f: f(torch.ones(4, 2), [torch.eye(4)]), "sequence of 1 shifts for a filter of order 2"),
        (lambda f: f(torch.ones(4, 2), torch.eye(3)), r"\(\.\.\., 3, F\)"),
        (lambda f: CovarianceFilter(0, 1, 1), "in_features must be an integer >= 1"),
        (lambda f: CovarianceFilter(1, 1, -1), "order must be an integer >= 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(CovarianceFilter(2, 3, order=2))
