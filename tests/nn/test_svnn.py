from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from svnn import as_operator
from svnn.nn import SVNN, Readout, ShiftedSignals, _svnn
from svnn.nn._layers import ACTIVATIONS, NodeNorm


@pytest.fixture
def C(rng):
    return np.cov(rng.standard_normal((6, 20)))


@pytest.mark.parametrize("readout", ["mean", "weighted", "flatten"])
@pytest.mark.parametrize("hidden", [(8,), (8, 4)])
@pytest.mark.parametrize("shape", [(), (5,), (2, 5)])
def test_shapes(readout, hidden, shape, C):
    network = SVNN(3, 2, hidden=hidden, readout=readout, n_nodes=6)
    x = torch.randn(*shape, 6, 3)
    assert network(x, C).shape == (*shape, 2)
    assert network.embed(x, C).shape == (*shape, 6, hidden[-1])


def test_the_mean_readout_runs_on_any_number_of_nodes(C):
    network = SVNN(1, 1).eval()
    assert network(torch.randn(4, 6, 1), C).shape == (4, 1)
    assert network(torch.randn(4, 9, 1), np.eye(9)).shape == (4, 1)
    for readout in ("weighted", "flatten"):
        with pytest.raises(ValueError, match='only readout="mean" transfers'):
            SVNN(1, 1, readout=readout, n_nodes=6)(torch.randn(4, 9, 1), np.eye(9))


def test_the_mean_readout_is_permutation_invariant(C, rng):
    network = SVNN(1, 1, hidden=(8, 8)).double().eval()
    permutation = rng.permutation(6)
    x = torch.randn(4, 6, 1, dtype=torch.float64)
    a = network(x, C)
    b = network(x[:, permutation], C[np.ix_(permutation, permutation)])
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("heads", [1, 3])
def test_the_weighted_readout_starts_as_the_mean(heads):
    u = torch.randn(5, 7, 4)
    pooled = Readout("weighted", 4, n_nodes=7, heads=heads)(u)
    torch.testing.assert_close(pooled, u.mean(-2).repeat(1, heads))


def test_a_scale_of_the_covariance_does_not_matter_when_normalised(C):
    network = SVNN(1, 1, hidden=(8, 8), order=3).eval()
    x = torch.randn(4, 6, 1)
    torch.testing.assert_close(network(x, C), network(x, 1e12 * C), rtol=1e-4, atol=1e-5)
    raw = SVNN(1, 1, hidden=(8, 8), order=3, normalize=False).eval()
    raw.load_state_dict(network.state_dict())
    assert not torch.allclose(raw(x, C), raw(x, 10 * C))
    torch.testing.assert_close(raw(x, as_operator(C).normalized()), network(x, C))


def test_huge_eigenvalues_do_not_overflow():
    network = SVNN(1, 1, hidden=(8, 8), order=5).eval()
    assert torch.isfinite(network(torch.randn(4, 6, 1), 1e20 * torch.ones(6, 6))).all()


def test_an_operator_with_a_scale_is_left_alone(C):
    network = SVNN(1, 1, normalize=True).eval()
    x = torch.randn(4, 6, 1)
    same = as_operator(2 * C).normalized(2 * as_operator(C).norm())
    torch.testing.assert_close(network(x, same), network(x, C))
    half = as_operator(C).normalized(2 * as_operator(C).norm())
    assert not torch.allclose(network(x, half), network(x, C))


def test_sequences_of_shifts(C):
    network = SVNN(1, 1, hidden=(8, 8), order=2).eval()
    x = torch.randn(4, 6, 1)
    op = as_operator(C)
    torch.testing.assert_close(network(x, [op, op]), network(x, op))
    torch.testing.assert_close(network(x, [op] * 4), network(x, op))
    torch.testing.assert_close(network(x, [C.copy() for _ in range(4)]), network(x, op), rtol=1e-4, atol=1e-5)
    first, second = as_operator(C), as_operator(np.eye(6))
    per_layer = network(x, [first, first, second, second])
    assert not torch.allclose(per_layer, network(x, [first, first, first, first]))
    with pytest.raises(ValueError, match="sequence of 3 shifts"):
        network(x, [op] * 3)


def test_realisations_of_one_matrix_are_divided_by_one_number(C):
    network = SVNN(1, 1, hidden=(8, 8), order=2).eval()
    raw = SVNN(1, 1, hidden=(8, 8), order=2, normalize=False).eval()
    raw.load_state_dict(network.state_dict())
    x, small = torch.randn(4, 6, 1), 0.1 * np.eye(6)
    norm = np.linalg.norm(C, 2)
    torch.testing.assert_close(network(x, [C, small]), raw(x, [C / norm, small / norm]), rtol=1e-4, atol=1e-5)


def test_batch_norm_normalises_each_value_over_samples_and_nodes():
    u = torch.randn(10, 6, 4) * 5 + 3
    v = NodeNorm(4)(u).reshape(-1, 4)
    torch.testing.assert_close(v.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(v.std(0, correction=0), torch.ones(4), atol=1e-3, rtol=0)


def test_a_single_node_and_sample_can_be_trained():
    network = SVNN(1, 1)
    assert torch.isfinite(network(torch.randn(1, 1, 1), torch.eye(1))).all()


def test_every_activation_and_dropout(C):
    x = torch.randn(4, 6, 1)
    for activation in ACTIVATIONS:
        assert torch.isfinite(SVNN(1, 1, activation=activation, dropout=0.5, batch_norm=False)(x, C)).all()


def test_order_zero_needs_no_shift():
    assert SVNN(1, 1, order=0)(torch.randn(4, 6, 1)).shape == (4, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"readout": "max"}, "readout must be one of"),
        ({"readout": "weighted"}, "needs n_nodes"),
        ({"heads": 2}, 'heads=2 needs readout="weighted"'),
        ({"heads": 0, "readout": "weighted", "n_nodes": 3}, "heads must be an integer"),
        ({"hidden": ()}, "hidden must name at least one layer"),
        ({"activation": "softplus"}, "activation must be one of"),
        ({"dropout": 1.0}, "dropout must be in"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        SVNN(1, 1, **parameters)


def test_node_dropout_leaves_out_whole_nodes_in_training_only():
    torch.manual_seed(0)
    readout = Readout("flatten", 3, n_nodes=50, node_dropout=0.4)
    u = torch.ones(200, 50, 3)
    dropped = readout(u).reshape(200, 50, 3)
    assert ((dropped == 0).all(-1) | torch.isclose(dropped, torch.tensor(1 / 0.6), rtol=1e-4).all(-1)).all()
    assert abs(float((dropped == 0).float().mean()) - 0.4) < 4 * (0.24 / 10_000) ** 0.5
    torch.testing.assert_close(readout.eval()(u), u.flatten(1))
    with pytest.raises(ValueError, match="node_dropout must be in"):
        Readout("mean", 3, node_dropout=1.0)


def watched(network):
    """Count the calls of every part of a network from now on."""
    calls = {}
    for name, part in network.named_modules():
        if name and not isinstance(part, nn.ModuleList):
            part.register_forward_hook(lambda *_, name=name: calls.update({name: calls.get(name, 0) + 1}))
    return calls


@pytest.mark.parametrize("shifted_once", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_hooks_are_run_and_change_nothing(C, shifted_once, training):
    torch.manual_seed(0)
    network = SVNN(1, 1, hidden=(4, 3), activation="relu").train(training)
    shift = as_operator(C, dtype=torch.float32).normalized()
    x = torch.randn(5, 6, 1)
    signals = ShiftedSignals.of(x, shift, 2) if shifted_once else x
    twin = copy.deepcopy(network)
    calls = watched(network)
    torch.testing.assert_close(network(signals, shift), twin(signals, shift), rtol=1e-4, atol=1e-5)
    expected = {"filters.0", "filters.1", "norms.0", "norms.1", "activation", "dropout", "readout", "head"}
    assert expected <= calls.keys()
    for a, b in zip(network.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_hooks_on_all_modules_are_run(C):
    shift, x = as_operator(C, dtype=torch.float32).normalized(), torch.randn(5, 6, 1)
    network, seen = SVNN(1, 1), []
    handle = nn.modules.module.register_module_forward_hook(lambda part, *_: seen.append(type(part).__name__))
    try:
        network(ShiftedSignals.of(x, shift, 2), shift)
    finally:
        handle.remove()
    assert {"CovarianceFilter", "NodeNorm", "LeakyReLU", "Dropout", "Readout", "SVNN"} <= set(seen)


def counted(monkeypatch):
    """Count the calls of all activations, without a hook that the network would see."""
    calls, forward = [], nn.LeakyReLU.forward
    monkeypatch.setattr(nn.LeakyReLU, "forward", lambda self, u: calls.append(1) or forward(self, u))
    return calls


@pytest.mark.parametrize("shifted_once", [False, True])
@pytest.mark.parametrize("hidden", [(8,), (8, 8)])
@pytest.mark.parametrize("readout", ["mean", "weighted", "flatten"])
def test_large_embeddings_are_made_in_slices(monkeypatch, C, shifted_once, hidden, readout):
    """A few samples at a time give the outputs, gradients and statistics of all at once."""
    torch.manual_seed(0)
    shift, x = as_operator(C).normalized(), torch.randn(11, 6, 1, dtype=torch.float64)
    x = ShiftedSignals.of(x, shift, 2) if shifted_once else x
    network = SVNN(1, 1, hidden=hidden, readout=readout, n_nodes=6).double()
    twin = copy.deepcopy(network)
    whole = twin(x, shift)
    monkeypatch.setattr(_svnn, "_SLICE_BYTES", 3 * 6 * 8 * 4)  # three samples
    calls = counted(monkeypatch)
    sliced = network(x, shift)
    torch.testing.assert_close(sliced, whole)
    assert len(calls) == len(hidden) - 1 + 4 + 1  # only the last layer, and the head
    ours, theirs = (torch.autograd.grad(y.sum(), net.parameters()) for y, net in ((sliced, network), (whole, twin)))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(list(network.buffers()), list(twin.buffers()))
    torch.testing.assert_close(network.embed(x, shift), twin.embed(x, shift))


def test_few_samples_are_not_cut_and_many_are(monkeypatch, C):
    network, calls = SVNN(1, 1, hidden=(32,), mlp=()).eval(), counted(monkeypatch)
    network(torch.randn(1000, 6, 1), C)  # 0.8 MB of embeddings
    assert len(calls) == 1
    network(torch.randn(10_000, 6, 1), C)  # 8 MB
    assert len(calls) == 3


@pytest.mark.parametrize("training", [False, True])
def test_the_norm_of_signals_shifted_once_is_folded_into_the_filter(monkeypatch, C, training):
    """Where nobody watches, the norm makes no pass over the embeddings of its own."""
    shift = as_operator(C, dtype=torch.float32).normalized()
    network, signals = SVNN(1, 1).train(training), ShiftedSignals.of(torch.randn(5, 6, 1), shift, 2)
    monkeypatch.setattr(NodeNorm, "forward", None)
    assert network(signals, shift).shape == (5, 1)
    network.norms[0].register_forward_hook(lambda *_: None)
    with pytest.raises(TypeError):
        network(signals, shift)


@pytest.mark.parametrize("hidden", [(8,), (8, 4)])
def test_a_network_that_predicts_folds_its_norms_into_the_filters(monkeypatch, C, hidden):
    network, x = SVNN(1, 1, hidden=hidden).double(), torch.randn(40, 6, 1).double()
    for _ in range(3):  # running statistics that are not those of the start
        network(x, C)
    watching = copy.deepcopy(network.eval())
    watched(watching)  # norms with hooks run by themselves
    torch.testing.assert_close(network(x, C), watching(x, C))
    gradients = [torch.autograd.grad(net(x, C).sum(), net.parameters()) for net in (network, watching)]
    torch.testing.assert_close(*gradients)
    monkeypatch.setattr(NodeNorm, "forward", None)
    assert network(x, C).shape == (40, 1)
    for calls_the_norm in (lambda: watching(x, C), lambda: network.train()(x, C)):
        with pytest.raises(TypeError):
            calls_the_norm()
