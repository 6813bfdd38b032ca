"""Networks of one shape as one module give what they give one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter, Members
from svnn.nn._layers import NodeNorm
from svnn.nn._powers import Powers, plain_powers
from svnn.nn._stacked import StackedNetworks, folded_filter
from svnn.operators import BatchedOperator

N = 6
CLOSE = {"rtol": 0, "atol": 1e-10}

SHAPES = {
    "default": {},
    "two layers": {"hidden": (5, 4)},
    "three layers": {"hidden": (3, 4, 2), "order": 1},
    "mean": {"readout": "mean", "heads": 1},
    "flatten": {"readout": "flatten", "heads": 1},
    "one head": {"heads": 1},
    "linear head": {"mlp": ()},
    "deep head": {"mlp": (5, 3)},
    "batch norm": {"batch_norm": True, "hidden": (5, 4)},
    "order 0": {"order": 0, "hidden": (5, 4)},
    "dropout": {"dropout": 0.5, "node_dropout": 0.5, "activation": "tanh"},
}


def networks(n_members=3, **options):
    torch.manual_seed(0)
    options = {"hidden": (4,), "readout": "weighted", "heads": 2, "n_nodes": N, "batch_norm": False, **options}
    made = [SVNN(2, 3, **options).eval() for _ in range(n_members)]
    for network in made:
        for part in network.modules():
            if isinstance(part, NodeNorm):
                for values in (part.weight, part.bias, part.running_mean, part.running_var):
                    nn.init.uniform_(values, 0.5, 2)
            elif hasattr(part, "kind") and part.kind == "weighted":
                nn.init.uniform_(part.weight)
    return made


def covariance(kind="dense"):
    C = np.diag(np.arange(1.0, N + 1)) + 0.5 * (np.eye(N, k=1) + np.eye(N, k=-1))
    return as_operator(C, backend=kind).normalized()


def signals(n=7):
    return torch.randn(n, N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def doubles(made):
    return Members([network.double() for network in made])


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("options", SHAPES.values(), ids=SHAPES)
def test_they_are_the_networks(options, n_members):
    made, operator, x = networks(n_members, **options), covariance(), signals()
    order = made[0].order
    for powers in (Powers(operator, order), plain_powers(operator, order, operator.to_dense().numpy())):
        stacked, plain = StackedNetworks(made, powers), doubles(made)
        assert stacked.n_members == n_members and stacked.widest == n_members * plain.widest
        torch.testing.assert_close(stacked(x), plain.outputs(x, operator), **CLOSE)
        torch.testing.assert_close(stacked.embed(x), plain.embed(x, operator), **CLOSE)
        torch.testing.assert_close(stacked(x[:1]), stacked(x)[:, :1], **CLOSE)
        assert all(value.dtype == torch.float64 for value in stacked.state_dict().values())


@pytest.mark.parametrize("kind", ["csr", "lowrank"])
@pytest.mark.parametrize("hidden", [(4,), (5, 4)])
def test_every_backend_gives_the_same(kind, hidden):
    made, x = networks(hidden=hidden), signals()
    dense, other = (StackedNetworks(made, Powers(covariance(each), 2)) for each in ("dense", kind))
    torch.testing.assert_close(other(x), dense(x), **CLOSE)
    with torch.no_grad():
        torch.testing.assert_close(other(x), dense(x), **CLOSE)


@pytest.mark.parametrize("hidden", [(4,), (5, 4)])
def test_rows_with_their_own_matrices(hidden):
    made, x = networks(hidden=hidden), signals()
    matrices = torch.stack([covariance().to_dense() * scale for scale in torch.linspace(0.1, 1, len(x))])
    own = BatchedOperator(matrices).normalized(1.0)
    stacked = StackedNetworks(made, Powers(None, 2))
    expected = doubles(made).outputs(x, own)
    torch.testing.assert_close(stacked(x, own), expected, **CLOSE)
    torch.testing.assert_close(stacked(x, matrices), expected, **CLOSE)
    together, first = own[torch.zeros(len(x), dtype=torch.int64)], as_operator(matrices[0]).normalized(1.0)
    torch.testing.assert_close(stacked(x, together), doubles(made).outputs(x, first), **CLOSE)


def test_the_activation_of_the_filters_can_be_replaced():
    made, x = networks(hidden=(5, 4), mlp=(3,)), signals()
    stacked = StackedNetworks(made, Powers(covariance(), 2))
    stacked.activation = nn.Identity()
    plain = doubles(made)
    for network in made:
        network.activation = nn.Identity()
    torch.testing.assert_close(stacked(x), plain.outputs(x, covariance()), **CLOSE)


def test_gradients_reach_the_signals():
    made, x = networks(), signals().requires_grad_()
    found = torch.autograd.grad(StackedNetworks(made, Powers(covariance("csr"), 2))(x).sum(), x)[0]
    expected = torch.autograd.grad(doubles(made).outputs(x, covariance()).sum(), x)[0]
    torch.testing.assert_close(found, expected, **CLOSE)


def test_the_networks_stay_as_they_are():
    made = networks(batch_norm=True)
    before = [value.clone() for network in made for value in network.state_dict().values()]
    stacked = StackedNetworks(made, Powers(covariance(), 2))
    for value in stacked.state_dict().values():
        value.zero_()
    after = [value for network in made for value in network.state_dict().values()]
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("bias", [True, False])
def test_a_folded_filter_is_the_filter_and_its_norm(bias):
    layer, norm, x = CovarianceFilter(2, 4, order=3, bias=bias), NodeNorm(4).eval(), signals()
    for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(values, 0.5, 2)
    for part in (norm, nn.Identity()):
        weight, offset = folded_filter(layer, part)
        assert weight.dtype == offset.dtype == torch.float64 and not weight.requires_grad
        expected = part.double()(layer.double()(x, covariance()))
        torch.testing.assert_close(covariance().filter(x, weight, offset), expected.detach(), **CLOSE)
        layer.float(), norm.float()
