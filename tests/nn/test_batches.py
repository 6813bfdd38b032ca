"""Networks with a covariance for each sample, and on graphs of any sizes: what a loop over the samples gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter, Members, Readout, ShiftedSignals
from svnn.operators import pack, pack_signals

KINDS = [{}, {"readout": "weighted", "heads": 2}, {"readout": "flatten"}, {"hidden": (6, 6)}, {"normalize": False}]


def covariances(b, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(b, 2 * n, n, generator=generator, dtype=torch.float64) * 3 ** torch.arange(b).view(-1, 1, 1)
    return X.mT @ X / (2 * n)


def signals(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network(seed=0, **settings):
    torch.manual_seed(seed)
    settings = {"hidden": (6,), "n_nodes": 5, "batch_norm": False, "mlp": (4,)} | settings
    return SVNN(2, 3, **settings).double()


@pytest.mark.parametrize("settings", KINDS, ids=str)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_batch_is_a_loop(settings, batch_norm):
    C, x = covariances(4, 5), signals(4, 5, 2)
    model = network(batch_norm=batch_norm, **settings).eval()
    expected = torch.stack([model(x[i], C[i]) for i in range(4)])
    for shift in (C, C.numpy(), as_operator(C), pack(C)):
        given = x.flatten(0, 1) if shift is not C and getattr(shift, "backend", "") == "csr" else x
        torch.testing.assert_close(model(given, shift), expected)
    torch.testing.assert_close(model.embed(x, C)[2], model.embed(x[2], C[2]))
    several = signals(7, 4, 5, 2)
    torch.testing.assert_close(model(several, C)[3], model(several[3], C))


@given(seed=seeds, sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), order=st.integers(0, 3))
def test_ragged_graphs_are_a_loop(seed, sizes, order):
    graphs = [covariances(1, n, seed % 1000 + n)[0] for n in sizes]
    parts = [signals(n, 2, seed=seed + i) for i, n in enumerate(sizes)]
    model = network(order=order)
    found = model(pack_signals(parts), pack(graphs))
    assert found.shape == (len(sizes), 3)
    expected = torch.stack([model(x, C) for x, C in zip(parts, graphs, strict=True)])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    stacked = torch.stack([pack_signals(parts)] * 2)
    torch.testing.assert_close(model(stacked, pack(graphs)), torch.stack([found, found]))


@given(seed=seeds)
def test_a_mean_readout_does_not_see_the_order_of_nodes(seed):
    C, x, model = covariances(3, 5, seed % 1000), signals(3, 5, 2, seed=seed), network()
    order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(model(x[:, order], C[:, order][:, :, order]), model(x, C))


@pytest.mark.parametrize("ragged", [False, True])
def test_gradients_reach_weights_and_matrices(ragged):
    C = covariances(3, 5).requires_grad_()
    x, model = signals(3, 5, 2), network()

    # The norm has a gradient of its own, so the matrix is made symmetric first.
    def output(half):
        shift = half + half.mT
        return model(x.flatten(0, 1), pack(list(shift))) if ragged else model(x, shift)

    assert torch.autograd.gradcheck(output, (C,))
    output(C).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_training_with_batch_norm_sees_all_samples():
    C, x = covariances(4, 5), signals(4, 5, 2)
    flat = network(batch_norm=True)
    packed = network(batch_norm=True)
    torch.testing.assert_close(flat(x, C), packed(x.flatten(0, 1), pack(C)))


def test_rows_of_a_group_share_its_covariance():
    groups, x, model = as_operator(covariances(3, 5)), signals(10, 5, 2), network()
    rows = torch.tensor([0, 0, 1, 2, 2, 2, 0, 1, 1, 0])
    expected = torch.stack([model(x[i], groups[int(g)]) for i, g in enumerate(rows)])
    torch.testing.assert_close(model(x, groups[rows]), expected)


def test_a_sequence_of_batches_makes_the_stochastic_filter():
    first, second, x = covariances(3, 5), covariances(3, 5, 1), signals(3, 5, 2)
    model = network()
    expected = torch.stack([model(x[i], [first[i], second[i]]) for i in range(3)])
    torch.testing.assert_close(model(x, [first, second]), expected)
    found = model(x.flatten(0, 1), [pack(first), pack(second)])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("grad", [False, True])
def test_members_average_a_batch(grad):
    C, x = covariances(4, 5), signals(4, 5, 2)
    members = Members([network(seed) for seed in range(3)])
    with torch.set_grad_enabled(grad):
        expected = torch.stack([members(x[i], C[i]) for i in range(4)])
        torch.testing.assert_close(members(x, C), expected)
        torch.testing.assert_close(members(x.flatten(0, 1), pack(C)), expected)
        torch.testing.assert_close(members.embed(x, C)[1], members.embed(x[1], C[1]))
        assert members(signals(8, 2), pack([C[0], C[1, :3, :3]])).shape == (2, 3)


def test_shifted_signals_of_a_batch():
    operator, x, model = as_operator(covariances(4, 5)).normalized(), signals(4, 5, 2), network()
    shifted = ShiftedSignals.of(x, operator, 2)
    torch.testing.assert_close(model(shifted, operator), model(x, operator))
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(model(shifted[rows], operator[rows]), model(x[rows], operator[rows]))
    with pytest.raises(ValueError, match="another scale"):
        model(shifted[rows], operator[[0, 2]])
    with pytest.raises(ValueError, match="packed graphs cannot be shifted ahead"):
        ShiftedSignals.of(x.flatten(0, 1)[None], pack(list(operator)), 2)


@pytest.mark.parametrize("kind", ["weighted", "flatten"])
def test_readouts_that_know_nodes_need_graphs_of_one_size(kind):
    readout = Readout(kind, 2, n_nodes=3)
    same, ragged = pack([torch.eye(3)] * 2), pack([torch.eye(3), torch.eye(2)])
    u = signals(6, 2).float()
    torch.testing.assert_close(readout(u, same), readout(u.view(2, 3, 2)))
    with pytest.raises(ValueError, match='from 2 to 3 nodes; use readout="mean"'):
        readout(u[:5], ragged)
    with pytest.raises(ValueError, match="cannot run on 2"):
        readout(u[:4], pack([torch.eye(2)] * 2))


def test_nodes_are_dropped_in_ragged_graphs():
    torch.manual_seed(0)
    readout, graphs = Readout("mean", 1, node_dropout=0.5), pack([torch.eye(2000), torch.eye(3000)])
    u = torch.ones(5000, 1)
    assert 0 < (readout(u, graphs) - 1).abs().max() < 0.1
    assert (readout.eval()(u, graphs) == 1).all()


@pytest.mark.parametrize(
    ("x", "shift", "message"),
    [
        (torch.ones(3, 5, 2), covariances(2, 5), r"\(\.\.\., 2, 5, F\) for an operator of 2 samples on 5 nodes"),
        (torch.ones(5, 2), covariances(2, 5), r"\(\.\.\., 2, 5, F\)"),
        (torch.ones(3, 5, 2), list(covariances(3, 5)), r"sequence of 3 shifts.*operators\.pack\(list\)"),
        (torch.ones(8, 2), [torch.eye(5), torch.eye(3)], r"one for each power, all of one shape.*operators\.pack"),
    ],
)
def test_bad_batches_are_named(x, shift, message):
    for model in (network(), CovarianceFilter(2, 3, order=2)):
        with pytest.raises(ValueError, match=message):
            model.double()(x.double(), shift)


@pytest.mark.parametrize("prepared", ["tensor", "operator", "normalized"])
def test_a_matrix_for_each_sample_in_compiled_code(prepared):
    """In one graph, forward and backward; the norms are found in it where they were not before."""
    torch.manual_seed(0)
    root = torch.randn(4, 6, 6, dtype=torch.float64)
    C, x = root @ root.mT, torch.randn(4, 6, 2, dtype=torch.float64)
    shift = {"tensor": C, "operator": as_operator(C), "normalized": as_operator(C).normalized()}[prepared]
    network = SVNN(2, 1, hidden=(5,), batch_norm=False).double()
    expected = network(x, C)
    wanted = torch.autograd.grad(expected.sum(), list(network.parameters()))
    found = torch.compile(network, backend="aot_eager", fullgraph=True)(x, shift)
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found.sum(), list(network.parameters())), wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_packed_graphs_in_compiled_code_come_normalised():
    torch.manual_seed(0)
    graphs, x = pack([torch.eye(2), 2 * torch.eye(3)]), torch.randn(5, 1)
    network = SVNN(1, 1, hidden=(4,), batch_norm=False)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, graphs.normalized()), network(x, graphs))
    with pytest.raises(Exception, match="cannot be normalised in code that torch compiles"):
        compiled(x, graphs)
