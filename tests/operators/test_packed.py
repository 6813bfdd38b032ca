"""Graphs of any sizes in one operator: they are what a loop over them is."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn import as_operator
from svnn.operators import CSROperator, PackedOperator, pack, pack_signals
from svnn.testing import check_operator

SIZES = (4, 1, 3, 4)


def matrices(sizes=SIZES, seed=0):
    """Symmetric, sparse, indefinite matrices; the third is zero."""
    rng = np.random.default_rng(seed)
    halves = [rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.8) * (i != 2) for i, n in enumerate(sizes)]
    return [torch.from_numpy(half + half.T) for half in halves]


def signals(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("normalized", [False, True])
def test_packed_graphs_pass_the_check_for_operators(normalized):
    packed = pack(matrices())
    check_operator(packed.normalized() if normalized else packed)
    check_operator(pack([torch.zeros(2, 2)]))


@given(seed=seeds, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5), lead=st.sampled_from([(), (2,)]))
def test_packed_graphs_are_a_loop(seed, sizes, lead):
    graphs, weight = matrices(sizes, seed % 1000), signals(3, 2, 3, seed=seed)
    x = signals(*lead, sum(sizes), 2, seed=seed + 1)
    packed = pack(graphs)
    unit = packed.normalized()
    for i, (C, own, shifted, filtered) in enumerate(
        zip(graphs, packed.split(x), packed.split(packed @ x), packed.split(unit.filter(x, weight)), strict=True)
    ):
        one = as_operator(C)
        torch.testing.assert_close(shifted, one @ own)
        torch.testing.assert_close(filtered, one.normalized().filter(own, weight))
        assert float(unit.scale[i]) == pytest.approx(one.normalized().scale, rel=1e-12)


@given(seed=seeds)
def test_graphs_and_nodes_have_no_order(seed):
    rng = np.random.default_rng(seed)
    graphs, weight, parts = matrices(seed=seed % 1000), signals(3, 2, 2), signals(sum(SIZES), 2, seed=seed).split(SIZES)
    order = [torch.from_numpy(rng.permutation(n)) for n in SIZES]
    moved = [(C[p][:, p], x[p], i) for i, (C, x, p) in enumerate(zip(graphs, parts, order, strict=True))]
    moved = [moved[i] for i in rng.permutation(len(SIZES))]
    plain = pack(graphs)
    plain = plain.split(plain.normalized().filter(pack_signals(parts), weight))
    other = pack([C for C, _, _ in moved])
    other = other.split(other.normalized().filter(pack_signals(x for _, x, _ in moved), weight))
    for (_, _, i), found in zip(moved, other, strict=True):
        torch.testing.assert_close(found, plain[i][order[i]])


def test_fast_kernels_are_used(kernels):
    packed = pack(matrices()).to(torch.float32)
    packed.filter(torch.randn(sum(SIZES), 2), torch.randn(3, 2, 3))
    kernels.must_have_run("bank32")


@pytest.mark.parametrize("normalize", [False, True])
def test_gradients_reach_the_matrices(normalize):
    sizes = (3, 2, 3)
    halves = [signals(n, n, seed=n + i).requires_grad_() for i, n in enumerate(sizes)]
    x, weight = (v.requires_grad_() for v in (signals(8, 2), signals(3, 2, 2)))

    def filtered(x, weight, *halves):
        packed = pack([half + half.T for half in halves])
        return (packed.normalized() if normalize else packed).filter(x, weight)

    assert torch.autograd.gradcheck(filtered, (x, weight, *halves))


def test_large_graphs_are_normalised_as_in_a_loop():
    graphs = matrices((3, 140, 3, 150), seed=1)
    for learned in (False, True):
        unit = pack([C.clone().requires_grad_(learned) for C in graphs]).normalized()
        expected = torch.tensor([float(torch.linalg.eigvalsh(C).abs().max()) or 1.0 for C in graphs])
        torch.testing.assert_close(unit.scale, expected.double(), rtol=1e-6, atol=0)


def test_what_it_is_made_of():
    graphs = matrices()
    packed = pack(graphs)
    assert isinstance(packed, PackedOperator) and packed.sizes == SIZES and len(packed) == 4
    assert packed.batch.tolist() == [0] * 4 + [1] + [2] * 3 + [3] * 4
    expected = torch.block_diag(*graphs)
    torch.testing.assert_close(packed.to_dense(), expected)
    kinds = [graphs[0].numpy(), sp.csr_array(graphs[1].numpy()), as_operator(graphs[2]), graphs[3].float().double()]
    torch.testing.assert_close(pack(kinds).to_dense(), torch.block_diag(*graphs))
    stacked = torch.stack([graphs[0], graphs[3]])
    torch.testing.assert_close(pack(stacked).to_dense(), torch.block_diag(*stacked))
    batched = as_operator(stacked)
    torch.testing.assert_close(pack(batched.normalized()).scale, batched.normalized().scale)
    assert packed.same_size is None and pack([graphs[0], graphs[3]]).same_size == 4


def test_selecting():
    graphs = matrices()
    packed = pack(graphs).normalized()
    assert type(packed[1]) is CSROperator
    for i, one in enumerate(packed):
        torch.testing.assert_close(one.to_dense() * one.scale, graphs[i])
    for index in ([3, 0], slice(1, 3), torch.tensor([2])):
        chosen = packed[index]
        own = [graphs[i] for i in torch.arange(4)[index].tolist()]
        torch.testing.assert_close(chosen.normalized(1.0).to_dense(), torch.block_diag(*own))
        torch.testing.assert_close(chosen.scale, packed.scale[index])
    with pytest.raises(IndexError):
        packed[4]


def test_means_are_those_of_each_graph():
    for sizes in (SIZES, (3, 3)):
        packed, u = pack(matrices(sizes)), signals(2, sum(sizes), 3)
        expected = torch.stack([part.mean(-2) for part in packed.split(u)], -2)
        torch.testing.assert_close(packed.means(u), expected)


def test_moving_and_pickling():
    packed = pack(matrices()).normalized()
    again = pickle.loads(pickle.dumps(packed))
    assert torch.equal(again.scale, packed.scale) and torch.equal(again.batch, packed.batch)
    single = packed.to(torch.float32)
    assert single.dtype == torch.float32 and single.sizes == SIZES and torch.equal(single.scale, packed.scale)
    torch.testing.assert_close(as_operator(packed, dtype=torch.float32).to_dense(), single.to_dense())
    assert as_operator(packed, backend="csr") is packed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pack([]), "at least one matrix"),
        (lambda: pack([torch.eye(2), torch.ones(2, 3)]), r"shifts\[1\] must be a square matrix"),
        (lambda: pack([torch.eye(2), torch.tensor([[1.0, 2.0], [0.0, 1.0]])]), r"shifts\[1\] is not symmetric"),
        (lambda: pack([torch.eye(2), as_operator(torch.eye(2)).normalized()]), "normalise all of them, or none"),
        (lambda: pack([torch.eye(2), pack([torch.eye(2)])]), r"shifts\[1\] holds several matrices"),
        (lambda: pack_signals([]), "at least one tensor"),
        (lambda: pack_signals([torch.ones(2, 1), torch.ones(3, 2)]), r"signals\[1\] must have shape"),
        (lambda: as_operator(pack([torch.eye(2)]), backend="dense"), "its own way to store"),
        (lambda: PackedOperator(*CSROperator.from_dense(torch.ones(3, 3))._tensors(), (1, 2)), "different graphs"),
        (lambda: PackedOperator(*CSROperator.from_dense(torch.eye(3))._tensors(), (1, 1)), "add up to 3 nodes"),
        (lambda: pack([torch.eye(2)]) @ torch.ones(3, 1), r"\(\.\.\., 2, F\)"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
