"""Gradients are there, or their absence is an error: of signals, of weights, of the matrix, and of gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import reference
from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter, ShiftedSignals
from svnn.operators import CSROperator

with_kernels = pytest.mark.usefixtures("kernels")  # with them, on two threads, and without
BACKENDS = ("dense", "csr", "lowrank", "auto")
plain_backends = pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "csr"])  # have no kernels
SHAPES = [(1, 3, 2), (4, 2, 3), (3, 3, 5)]  # in, out, order: widening, narrowing, in the eigenbasis


def matrix(n=6, density=0.7):
    rng = np.random.default_rng(0)
    C = np.triu(rng.standard_normal((n, n)) * (rng.random((n, n)) < density))
    return (C + C.T) / n


def leaves(n_in, n_out, order, n=6, batch=2):
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, n, n_in), (order + 1, n_in, n_out), (n_out,))
    return [torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes]


@plain_backends
@pytest.mark.parametrize(("n_in", "n_out", "order"), SHAPES)
def test_second_derivatives_of_a_bank(backend, n_in, n_out, order):
    operator, inputs = as_operator(matrix(), backend=backend), leaves(n_in, n_out, order)
    assert torch.autograd.gradcheck(operator.filter, inputs)
    assert torch.autograd.gradgradcheck(operator.filter, inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("n_in", "n_out", "order"), SHAPES)
def test_gradients_that_will_be_differentiated_again_are_those_that_will_not(backend, n_in, n_out, order):
    operator, inputs = as_operator(matrix(), backend=backend), leaves(n_in, n_out, order)
    loss = operator.filter(*inputs).pow(2).sum()
    once = torch.autograd.grad(loss, inputs, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, inputs, create_graph=True), once)


def penalised(y, x):
    """A loss with a gradient penalty."""
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y.mean() + g.pow(2).sum()


@plain_backends
@pytest.mark.parametrize(("n_in", "n_out", "order"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gradient_penalty_reaches_the_weights(backend, n_in, n_out, order, dtype):
    C = matrix()
    operator = as_operator(C, backend=backend, dtype=dtype)
    x, weight, bias = (t.detach().to(dtype).requires_grad_() for t in leaves(n_in, n_out, order))
    penalised(operator.filter(x, weight, bias), x).backward()
    twin = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    powers = torch.stack([torch.linalg.matrix_power(torch.tensor(C), k) for k in range(order + 1)])
    y = torch.einsum("knm,bmi,kio->bno", powers, twin[0], twin[1]) + twin[2]
    penalised(y, twin[0]).backward()
    torch.testing.assert_close(weight.grad.double(), twin[1].grad, rtol=1e-4, atol=1e-4)


@with_kernels
@pytest.mark.parametrize(("n_in", "n_out", "order"), SHAPES)
def test_second_derivatives_of_the_kernels(n_in, n_out, order):
    test_second_derivatives_of_a_bank("csr", n_in, n_out, order)


@with_kernels
@pytest.mark.parametrize(("n_in", "n_out", "order"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gradient_penalty_reaches_the_weights_of_the_kernels(n_in, n_out, order, dtype):
    test_a_gradient_penalty_reaches_the_weights("csr", n_in, n_out, order, dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", [2, 5])
def test_the_hessian_of_a_filter(backend, order):
    operator = as_operator(matrix(), backend=backend)
    _, weight, _ = (t.detach() for t in leaves(3, 3, order))
    x = torch.randn(1, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def energy(x):
        return operator.filter(x, weight).pow(2).sum() / 2

    hessian = torch.autograd.functional.hessian(energy, x).reshape(18, 18)
    # The energy is quadratic: its Hessian is JᵀJ with the Jacobian J = Σ C^k ⊗ W_kᵀ.
    J = sum(
        torch.kron(torch.linalg.matrix_power(torch.tensor(matrix()), k), weight[k].T.contiguous())
        for k in range(order + 1)
    )
    torch.testing.assert_close(hessian, J.T @ J)


@pytest.mark.parametrize(
    ("activation", "readout", "batch_norm"),
    [
        ("leaky_relu", "mean", True),
        ("leaky_relu", "weighted", False),
        ("tanh", "mean", False),
        ("tanh", "weighted", True),
    ],
)
def test_a_gradient_penalty_through_a_network(activation, readout, batch_norm):
    """A network against the same layers written out in torch operations."""
    torch.manual_seed(0)
    network = SVNN(
        2, 1, hidden=(4, 3), activation=activation, readout=readout, batch_norm=batch_norm, n_nodes=6
    ).double()
    x = torch.randn(9, 6, 2, dtype=torch.float64, requires_grad=True)
    C = matrix()

    def plain(x):
        """Layer by layer, with torch's own norm and activation."""
        shift = torch.tensor(C / reference.spectral_norm(C))
        u = x
        for layer, norm in zip(network.filters, network.norms, strict=True):
            powers = [u]
            for _ in range(layer.order):
                powers.append(shift @ powers[-1])
            u = sum(p @ w for p, w in zip(powers, layer.weight, strict=True))
            u = u if layer.bias is None else u + layer.bias
            if batch_norm:
                flat = u.reshape(-1, u.shape[-1])
                u = nn.functional.batch_norm(flat, None, None, norm.weight, norm.bias, training=True).view(u.shape)
            u = network.activation(u)
        return network.head(network.readout(u))

    ours = torch.autograd.grad(penalised(network(x, C), x), network.parameters())
    theirs = torch.autograd.grad(penalised(plain(x), x), network.parameters())
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", [2, 20])  # as powers, and in the eigenbasis
def test_signals_that_are_learned(order):
    x = torch.randn(3, 6, 2, dtype=torch.float64, requires_grad=True)
    operator = as_operator(matrix(), backend="dense").normalized()
    network = SVNN(2, 1, order=order).double()
    ours = torch.autograd.grad(network(ShiftedSignals.of(x, operator, order), operator).sum(), x)[0]
    theirs = torch.autograd.grad(network(x, operator).sum(), x)[0]
    assert ours.abs().max() > 0
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def as_layout(C, layout):
    return {"strided": C, "coo": C.to_sparse_coo(), "csr": C.to_sparse_csr()}[layout]


@with_kernels
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("backend", ["dense", "csr", "auto"])
@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_a_matrix_that_is_learned(backend, layout):
    C, x = torch.tensor(matrix(), requires_grad=True), torch.randn(6, 2, dtype=torch.float64)
    operator = as_operator(as_layout(C, layout), backend=backend)
    assert operator.requires_grad
    for result in (operator @ x, operator.filter(x, torch.ones(3, 2, 2, dtype=torch.float64)), operator.to_dense() @ x):
        (gradient,) = torch.autograd.grad(result.sum(), C, retain_graph=True)
        assert gradient.abs().max() > 0


def test_a_learned_matrix_cannot_be_factored():
    with pytest.raises(ValueError, match='C requires gradients, which backend="lowrank" cannot give'):
        as_operator(torch.eye(3, requires_grad=True), backend="lowrank")


@pytest.mark.parametrize("backend", ["dense", "csr"])
def test_learned_matrices_change_backend_with_their_gradients(backend):
    C = torch.tensor(matrix(), requires_grad=True)
    other = as_operator(as_operator(C, backend=backend), backend="csr" if backend == "dense" else "dense")
    (gradient,) = torch.autograd.grad((other @ torch.ones(6, 1, dtype=torch.float64)).sum(), C)
    expected = torch.ones(6, 6, dtype=torch.float64) * (C.detach() != 0)
    torch.testing.assert_close(gradient, expected)


@with_kernels
def test_values_of_a_csr_operator_are_learned():
    plain = as_operator(matrix(), backend="csr")
    values = nn.Parameter(plain.values.clone())
    operator = CSROperator(values, plain.columns, plain.row_starts)
    x, weight = torch.randn(2, 6, 3, dtype=torch.float64), torch.randn(3, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(operator.filter(x, weight), plain.filter(x, weight))
    assert torch.autograd.gradcheck(
        lambda v: CSROperator(v, plain.columns, plain.row_starts).filter(x, weight), (values,)
    )
    operator.filter(x, weight).sum().backward()
    before = operator.norm()
    with torch.no_grad():
        values -= 0.1 * values.grad  # a step of training is seen at once
    assert operator.norm() != before
    torch.testing.assert_close(operator @ x, operator.to_dense() @ x)


@pytest.mark.parametrize("backend", ["dense", "csr"])
def test_gradients_pass_through_the_norm_of_a_learned_matrix(backend):
    C, x = matrix(), torch.randn(6, 1, dtype=torch.float64)

    def shifted(upper):
        return as_operator(upper + upper.T, backend=backend).normalized() @ x

    upper = torch.tensor(np.triu(C)).requires_grad_()
    if backend == "dense":
        assert torch.autograd.gradcheck(shifted, (upper,), atol=1e-5)
    ours = torch.autograd.grad(shifted(upper).sum(), upper)[0]
    dense = upper + upper.T
    theirs = torch.autograd.grad((dense / torch.linalg.matrix_norm(dense, 2) @ x).sum(), upper)[0]
    torch.testing.assert_close(ours, theirs * (dense.detach() != 0 if backend == "csr" else 1), atol=1e-7, rtol=1e-6)


def test_a_second_derivative_of_the_norm_is_refused():
    C = torch.tensor(matrix(), requires_grad=True)
    x = torch.randn(6, 1, dtype=torch.float64, requires_grad=True)
    loss = penalised(as_operator(C).normalized() @ x, x)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(loss, C, create_graph=True)[0].sum().backward()
    loss = penalised(as_operator(C).normalized(2.0) @ x, x)
    torch.autograd.grad(loss, C)


@with_kernels
def test_a_layer_learns_its_matrix():
    """A few steps of training on the matrix itself lower the loss, in both backends alike."""
    target = torch.tensor(matrix())
    x = torch.randn(50, 6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = CovarianceFilter(1, 1, order=1, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[0.0]], [[1.0]]]))
    y = layer(x, target).detach()
    losses = {}
    for backend in ("dense", "csr"):
        C = nn.Parameter(torch.full((6, 6), 0.1, dtype=torch.float64))
        optimizer = torch.optim.SGD([C], lr=1.0)
        for _ in range(30):
            loss = (layer(x, as_operator((C + C.T) / 2, backend=backend)) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[backend] = loss.item()
    assert losses["dense"] < 1e-3
    assert losses["csr"] == pytest.approx(losses["dense"])
