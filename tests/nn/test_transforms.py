"""torch.func, derivatives in forward mode and torch.export take a network apart, and give what it gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter, Members

N = 12
BACKENDS = ("tensor", "dense", "csr", "lowrank", "auto")
every = pytest.mark.parametrize("backend", BACKENDS)
pytestmark = pytest.mark.parametrize("name", ["filter", "eigenbasis", "network", "members"])


def matrix():
    rng = np.random.default_rng(0)
    C = np.triu(rng.standard_normal((N, N)) * (rng.random((N, N)) < 0.4))
    return torch.tensor(C + C.T) / 4


@pytest.fixture
def shift(backend):
    return matrix() if backend == "tensor" else as_operator(matrix(), backend=backend)


@pytest.fixture
def network(name):
    torch.manual_seed(0)
    made = {
        "filter": lambda: CovarianceFilter(2, 3, order=2),
        "eigenbasis": lambda: CovarianceFilter(2, 2, order=8),
        "network": lambda: SVNN(2, 1, hidden=(4, 3), dropout=0.3),
        "members": lambda: Members([SVNN(2, 1, hidden=(4,)) for _ in range(2)]),
    }[name]()
    return made.double().eval()


@pytest.fixture
def x():
    return torch.randn(5, N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@every
def test_samples_and_batches_by_vmap(network, shift, x):
    expected = network(x, shift)
    torch.testing.assert_close(vmap(lambda one: network(one, shift))(x), expected)
    both = vmap(lambda batch: network(batch, shift))(torch.stack([x, 2 * x]))
    torch.testing.assert_close(both, torch.stack([expected, network(2 * x, shift)]))
    with torch.no_grad():
        torch.testing.assert_close(vmap(lambda one: network(one, shift))(x), expected)


@every
def test_derivatives_of_the_signal(network, shift, x):
    def f(x):
        return network(x, shift)

    tangent = torch.randn_like(x)
    expected = torch.autograd.functional.jvp(f, x, tangent)[1]
    torch.testing.assert_close(jvp(f, (x,), (tangent,))[1], expected)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(f(forward_ad.make_dual(x, tangent))).tangent
    torch.testing.assert_close(found, expected)
    one = x[:1]
    jacobian = torch.autograd.functional.jacobian(f, one)
    torch.testing.assert_close(jacrev(f)(one), jacobian)
    torch.testing.assert_close(jacfwd(f)(one), jacobian)


@every
def test_derivatives_of_the_weights(network, shift, x):
    weights = dict(network.named_parameters())

    def loss(weights, x):
        return functional_call(network, weights, (x, shift)).pow(2).sum()

    expected = torch.autograd.grad(loss(weights, x), list(weights.values()))
    torch.testing.assert_close(list(grad(loss)(weights, x).values()), list(expected))
    each = vmap(grad(loss), (None, 0))(weights, x)  # for every sample by itself
    torch.testing.assert_close([g.sum(0) for g in each.values()], list(expected))


def test_many_covariances_at_once(network, x):
    C = matrix()
    matrices = torch.stack([C, 3 * C, C @ C])
    expected = torch.stack([network(x, each) for each in matrices])
    torch.testing.assert_close(vmap(lambda each: network(x, each))(matrices), expected)


def test_derivatives_of_the_covariance(network, x):
    C = matrix().requires_grad_()
    (expected,) = torch.autograd.grad(network(x, C).pow(2).sum(), C)
    found = grad(lambda C: network(x, C).pow(2).sum())(C.detach())
    # The norm is that of a symmetric matrix: only the symmetric part of its gradient counts.
    torch.testing.assert_close(found + found.T, expected + expected.T)


#: Every kind of network, every backend, strictly and not; `make test-slow` runs the others.
EXPORTED = {
    "filter": [("csr", True)],
    "eigenbasis": [("dense", False)],
    "network": [("csr", False), ("lowrank", True)],
    "members": [("auto", True)],
}


def test_export(name, network, x):
    for backend, strict in EXPORTED[name]:
        check_export(network, as_operator(matrix(), backend=backend), x, strict)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("strict", [True, False])
def test_exports_of_all_backends(network, shift, x, strict):
    check_export(network, shift, x, strict)


def check_export(network, shift, x, strict):
    """The program has any batch size, and calls nothing of svnn."""

    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.network, self.shift = network, shift

        def forward(self, x):
            return self.network(x, self.shift)

    module = Held()
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=strict)
    assert not [node for node in program.graph.nodes if "svnn" in str(node.target)]
    for batch in (x, x[:3]):
        torch.testing.assert_close(program.module()(batch), module(batch))


@every
def test_what_a_transform_finds_is_not_kept(network, shift, x):
    """A tensor of a transform that is over is of no use."""
    single = x.float()
    vmap(lambda one: network(one, shift))(x)
    grad(lambda one: network(one, shift).sum())(x)
    expected = network(x, shift)
    torch.testing.assert_close(network.float()(single, shift).double(), expected, rtol=1e-3, atol=1e-4)
