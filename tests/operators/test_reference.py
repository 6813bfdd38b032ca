"""Every backend, precision and number of threads gives the numbers of an independent float64 reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference
from svnn import SVNNRegressor, as_operator
from svnn.nn import SVNN, CovarianceFilter

#: Backends that compute with torch's own operations; the other one, "csr", has kernels.
PLAIN = ("dense", "lowrank", "auto")
MATRICES = reference.awkward_matrices()
TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-5}

every_matrix = pytest.mark.parametrize("name", MATRICES)
every_dtype = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float64", "float32"])


def assert_close(ours, expected, dtype):
    np.testing.assert_allclose(
        ours.detach().double().numpy(), expected, rtol=0, atol=TOLERANCE[dtype] * max(np.abs(expected).max(), 1.0)
    )


def problem(n_in, n_out, order, n=12, batch=3, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((batch, n, n_in), (order + 1, n_in, n_out), (n_out,), (batch, n, n_out))
    return [rng.standard_normal(shape) for shape in shapes]


def filters_and_their_gradients(name, backend, dtype):
    """Compare banks of several shapes, one by one, and yield their orders."""
    # At unit norm, as networks use it: powers neither grow nor vanish.
    C = MATRICES[name] / (reference.spectral_norm(MATRICES[name]) or 1.0)
    for n_in, n_out, order in [(1, 3, 2), (5, 2, 3), (4, 4, 5), (2, 3, 0)]:
        x, weight, bias, dy = problem(n_in, n_out, order)
        leaves = [torch.tensor(a, dtype=dtype, requires_grad=True) for a in (x, weight, bias)]
        y = as_operator(C, backend=backend, dtype=dtype).filter(*leaves)
        assert_close(y, reference.filter_bank(C, x, weight, bias), dtype)
        found = torch.autograd.grad(y, leaves, torch.tensor(dy, dtype=dtype))
        for ours, expected in zip(found, reference.filter_bank_gradients(C, x, weight, dy), strict=False):
            assert_close(ours, expected, dtype)
        yield order


@every_matrix
@pytest.mark.parametrize("backend", PLAIN)
@every_dtype
def test_filters_and_their_gradients(name, backend, dtype):
    assert list(filters_and_their_gradients(name, backend, dtype)) == [2, 3, 5, 0]


@every_matrix
@every_dtype
def test_filters_of_the_kernels_and_their_gradients(kernels, name, dtype):
    for order in filters_and_their_gradients(name, "csr", dtype):
        if order:
            kernels.must_have_run(f"bank{torch.finfo(dtype).bits}")
        kernels.ran.clear()


def the_gradient_of_a_learned_matrix(name, backend):
    C = MATRICES[name] / (reference.spectral_norm(MATRICES[name]) or 1.0)
    for n_in, n_out, order in [(1, 3, 2), (5, 2, 3)]:
        x, weight, bias, dy = problem(n_in, n_out, order)
        learned = torch.tensor(C, requires_grad=True)
        tensors = [torch.tensor(a) for a in (x, weight, bias)]
        y = as_operator(learned, backend=backend).filter(*tensors)
        expected = reference.filter_bank_gradients(C, x, weight, dy)[3]
        expected = expected if backend == "dense" else expected * (C != 0)  # a sparse matrix learns what it stores
        if C.any():
            assert_close(torch.autograd.grad(y, learned, torch.tensor(dy))[0], expected, torch.float64)


@every_matrix
def test_the_gradient_of_a_learned_matrix(name):
    the_gradient_of_a_learned_matrix(name, "dense")


@every_matrix
@pytest.mark.usefixtures("kernels")
def test_the_gradient_of_a_learned_matrix_of_the_kernels(name):
    the_gradient_of_a_learned_matrix(name, "csr")


@pytest.mark.parametrize("backend", [*PLAIN, "csr"])
@every_dtype
def test_norms(backend, dtype):
    for name, C in MATRICES.items():
        expected = reference.spectral_norm(C)
        operator = as_operator(C, backend=backend, dtype=dtype)
        assert operator.norm() == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-9), name


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("n", "unit"), [(20, 1e-160), (20, 1e160), (300, 1.0)])
@pytest.mark.parametrize("backend", ["dense", "csr"])
def test_norms_of_larger_matrices_and_other_units(n, backend, unit):
    for name, C in reference.awkward_matrices(n).items():
        expected = reference.spectral_norm(C) * unit
        assert as_operator(C * unit, backend=backend).norm() == pytest.approx(expected, rel=1e-8), name


@every_matrix
@pytest.mark.parametrize(("hidden", "readout"), [((4,), "weighted"), ((4, 3), "mean")])
def test_networks(name, hidden, readout):
    C, x = MATRICES[name], problem(2, 1, 0)[0]
    torch.manual_seed(0)
    module = SVNN(2, 3, hidden=hidden, order=3, readout=readout, n_nodes=len(C), mlp=(5,)).double()
    for _ in range(3):  # running statistics that are not those of the start
        module(torch.tensor(x), C)
    module.eval()
    state = {key: value.numpy() for key, value in module.state_dict().items()}
    assert_close(module(torch.tensor(x), C), reference.network(C, x, state, len(hidden)), torch.float64)


@pytest.mark.parametrize("name", ["identity", "ones", "identity with one edge", "rank one"])
def test_a_fitted_model_moves_as_far_as_the_reference_says(name):
    """The scale of training is the true norm, so that another covariance moves the output as far as it really does."""
    C, other = MATRICES[name], MATRICES["covariance"]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, len(C)))
    model = SVNNRegressor(covariance=C, members=1, order=2, max_epochs=3, random_state=0, standardize=False)
    model.fit(X, X.sum(1) + rng.standard_normal(40))
    assert model.operator_.scale == pytest.approx(reference.spectral_norm(C))
    state = {key: value.double().numpy() for key, value in model.module_.state_dict().items()}
    scaled = other / reference.spectral_norm(C)
    # The reference divides by the norm itself: undo it, to apply the filters of training.
    taps = reference.spectral_norm(scaled) ** np.arange(model.order + 1)
    moved = {**state, "filters.0.weight": state["filters.0.weight"] * taps[:, None, None]}
    expected = reference.network(other, X[..., None], moved, 1, "silu") - reference.network(
        C, X[..., None], state, 1, "silu"
    )
    difference = model.on(other).predict(X) - model.predict(X)
    np.testing.assert_allclose(difference, expected[:, 0], rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_a_filter_layer_is_the_reference():
    x, weight, bias, _ = problem(2, 3, 2)
    layer = CovarianceFilter(2, 3, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    for C in MATRICES.values():
        assert_close(layer(torch.tensor(x), C), reference.filter_bank(C, x, weight, bias), torch.float64)
