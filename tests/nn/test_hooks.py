"""Hooks fire once for every call of a part, whatever path a network would take without them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter, Members, ShiftedSignals, _svnn
from svnn.nn._layers import NodeNorm

KINDS = ("forward", "forward_pre", "full_backward", "full_backward_pre")
both = pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
signals = pytest.mark.parametrize("shifted_once", [False, True], ids=["plain", "shifted"])


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Cut the last layer into pieces of three samples, where nobody listens."""
    monkeypatch.setattr(_svnn, "_SLICE_BYTES", 3 * 6 * 4 * 4)


def operator():
    return as_operator(np.cov(np.random.default_rng(0).standard_normal((6, 20))), dtype=torch.float32).normalized()


def network(**changes):
    return SVNN(1, 1, **{"hidden": (4, 3), "dropout": 0.1, "node_dropout": 0.1, "mlp": (5,)} | changes)


def parts(module):
    """Every part that has a forward pass of its own."""
    lists = (nn.ModuleList,)
    return {name: part for name, part in module.named_modules() if name and not isinstance(part, lists)}


def given(x, shift, shifted_once):
    return ShiftedSignals.of(x, shift, 2) if shifted_once else x


def listened(module, kind, names):
    calls = dict.fromkeys(names, 0)
    for name in names:

        def count(*_, name=name):
            calls[name] += 1

        getattr(parts(module)[name], f"register_{kind}_hook")(count)
    return calls


def uses(name, training):
    """How often a forward pass of the network above calls a part."""
    if name in ("activation", "dropout"):
        return 2  # once for each layer
    return int(training) if name == "readout.node_dropout" else 1


@both
@signals
@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_on_any_part_fires_once_for_each_use(kind, training, shifted_once):
    for name in parts(network()):
        torch.manual_seed(0)
        module, shift = network().train(training), operator()
        module.requires_grad_(True)
        x = torch.randn(11, 6, 1, requires_grad=True)
        calls = listened(module, kind, [name])
        output = module(given(x, shift, shifted_once), shift)
        output.sum().backward()
        expected = uses(name, training)
        if name == "readout.node_dropout" and "backward" in kind:
            expected = 0  # it draws factors, which nothing is learned of
        assert calls == {name: expected}


@both
@signals
def test_hooks_on_all_parts_change_nothing(training, shifted_once):
    torch.manual_seed(0)
    module, shift, x = network(dropout=0.0, node_dropout=0.0).double().train(training), operator().double(), None
    x = given(torch.randn(11, 6, 1, dtype=torch.float64), shift, shifted_once)
    twin = copy.deepcopy(module)
    for kind in KINDS:
        listened(module, kind, parts(module))
    outputs = [net(x, shift) for net in (module, twin)]
    torch.testing.assert_close(*outputs)
    gradients = [torch.autograd.grad(y.sum(), net.parameters()) for y, net in zip(outputs, (module, twin), strict=True)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(list(module.buffers()), list(twin.buffers()))


@both
@pytest.mark.parametrize("grad", [True, False])
def test_hooks_of_members_fire(training, grad):
    module, shift = Members([network() for _ in range(2)]).train(training), operator()
    names = [name for name in parts(module) if not name.endswith("node_dropout")]
    calls = listened(module, "forward", names)
    with torch.set_grad_enabled(grad):
        module(torch.randn(11, 6, 1), shift)
    assert calls == {name: 2 if name.split(".")[-1] in ("activation", "dropout") else 1 for name in names}


def test_a_hook_may_change_the_output():
    module, shift, x = network(dropout=0.0).eval(), operator(), torch.randn(11, 6, 1)
    module.filters[1].register_forward_hook(lambda *_: torch.zeros(11, 6, 3))
    expected = module.head(module.readout(module.activation(module.norms[1](torch.zeros(11, 6, 3)))))
    torch.testing.assert_close(module(x, shift), expected)


@both
@signals
def test_parts_of_ones_own_are_called(training, shifted_once):
    """A filter or a norm with another forward pass is never folded into one step."""

    class Doubled(CovarianceFilter):
        def forward(self, x, shift=None):
            return 2 * super().forward(x, shift)

    class Shy(NodeNorm):
        def forward(self, u):
            return torch.zeros_like(u)

    shift = operator()
    x = given(torch.randn(11, 6, 1), shift, shifted_once)
    module = network(dropout=0.0, node_dropout=0.0, hidden=(4,)).train(training)
    plain = module(x, shift)
    for name, own in (("filters", Doubled(1, 4, 2, bias=False)), ("norms", Shy(4))):
        other = copy.deepcopy(module)
        getattr(other, name)[0] = own
        assert not torch.allclose(other(x, shift), plain)
    other = copy.deepcopy(module)
    other.filters[0].forward = lambda x, shift=None: torch.zeros(11, 6, 4)  # as tools that wrap modules do
    assert not torch.allclose(other(x, shift), plain)
