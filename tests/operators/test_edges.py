"""Graphs that are given by their edges, alone and as those of PyTorch Geometric."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter
from svnn.operators import CSROperator, PackedOperator, from_edges, from_pyg, pack, to_pyg
from svnn.testing import check_operator

EDGES = torch.tensor([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 3, 0]])
WEIGHTS = torch.tensor([2.0, 2.0, -3.0, -3.0, 1.0, 5.0])
MATRIX = torch.tensor([[5.0, 2, 0, 0], [2, 0, -3, 0], [0, -3, 0, 0], [0, 0, 0, 1]])


def graph(n, seed=0):
    """A covariance of n nodes without small entries."""
    generator = torch.Generator().manual_seed(seed)
    C = torch.randn(3 * n, n, generator=generator).T.cov()
    return C * (C.abs() > 0.1)


@pytest.fixture
def pyg():
    return pytest.importorskip("torch_geometric.data")


def data_of(pyg, C, **fields):
    index = C.nonzero().T.contiguous()
    return pyg.Data(edge_index=index, edge_weight=C[index[0], index[1]], **fields)


def test_edges_make_the_matrix():
    shuffled = torch.tensor([3, 5, 0, 2, 1, 4])
    sources = [
        (EDGES, WEIGHTS),
        (EDGES.numpy(), WEIGHTS.numpy()),
        (EDGES.tolist(), WEIGHTS[:, None]),
        (EDGES[:, shuffled].int(), WEIGHTS[shuffled]),
        (torch.cat([EDGES, EDGES], 1), torch.cat([WEIGHTS, WEIGHTS]) / 2),
    ]
    for edges, weights in sources:
        operator = from_edges(edges, weights)
        assert type(operator) is CSROperator
        torch.testing.assert_close(operator.to_dense().float(), MATRIX)
        check_operator(operator)
    torch.testing.assert_close(from_edges(EDGES).to_dense(), (MATRIX != 0).float())
    assert from_edges(EDGES, WEIGHTS, n_nodes=6).shape == (6, 6)
    assert from_edges(torch.empty(2, 0, dtype=torch.long), n_nodes=3).to_dense().tolist() == torch.zeros(3, 3).tolist()
    assert from_edges(*from_edges(EDGES, WEIGHTS).edge_index()).to_dense().tolist() == MATRIX.tolist()


def test_large_graphs_may_run_in_another_backend():
    C = graph(50)
    operator, weight, x = from_edges(*as_operator(C).edge_index()), torch.randn(3, 1, 4), torch.randn(2, 50, 1)
    assert operator.adaptive and operator.backend == "csr"
    expected = as_operator(C, "dense").filter(x, weight)
    torch.testing.assert_close(operator.filter(x, weight), expected, rtol=1e-4, atol=1e-4)


def test_rounding_is_made_symmetric_and_gradients_reach_the_weights():
    rounded = WEIGHTS * torch.tensor([1, 1 + 1e-6, 1, 1, 1, 1])
    dense = from_edges(EDGES, rounded).to_dense()
    assert torch.equal(dense, dense.T)
    weights = WEIGHTS.double().requires_grad_()
    x = torch.arange(8.0).double().view(4, 2)
    (from_edges(EDGES, weights) @ x).sum().backward()
    torch.testing.assert_close(weights.grad, x[EDGES[1]].sum(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((EDGES[:, :1], WEIGHTS[:1]), r"edge \(0, 1\) has weight 2, \(1, 0\) is missing.*to_undirected"),
        ((EDGES, WEIGHTS + torch.tensor([1.0, 0, 0, 0, 0, 0])), r"\(0, 1\) has weight 3, \(1, 0\) has weight 2"),
        ((EDGES.float(), WEIGHTS), r"integers of shape \(2, E\)"),
        ((EDGES.T, WEIGHTS), r"integers of shape \(2, E\)"),
        ((EDGES, WEIGHTS[:4]), "a number for each of the 6 edges"),
        ((EDGES, WEIGHTS[:, None].expand(6, 2)), "a number for each of the 6 edges"),
        ((EDGES, WEIGHTS * torch.nan), "NaN"),
        ((EDGES - 1, WEIGHTS), "holds node -1"),
        ((EDGES, WEIGHTS, 3), "holds node 3, but there are 3 nodes"),
        ((torch.empty(2, 0, dtype=torch.long),), "n_nodes must be an integer >= 1"),
        ((EDGES, WEIGHTS, None, torch.tensor([0, 1, 1, 1])), "nodes 0 and 1 of different graphs, 0 and 1"),
        ((EDGES, WEIGHTS, None, torch.tensor([0, 0, 0, 2])), "skip none"),
        ((EDGES, WEIGHTS, None, torch.tensor([1, 0, 0, 0])), "ascending order"),
    ],
)
def test_bad_edges_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_edges(*arguments)


def test_as_operator_sends_edges_on():
    with pytest.raises(TypeError, match="from_edges"):
        as_operator(EDGES, WEIGHTS)
    with pytest.raises(ValueError, match="from_edges"):
        as_operator(EDGES)


def test_a_batch_of_graphs_is_packed():
    batch = torch.tensor([0, 0, 0, 1])
    operator = from_edges(EDGES, WEIGHTS, batch=batch)
    assert isinstance(operator, PackedOperator) and operator.sizes == (3, 1)
    torch.testing.assert_close(operator.to_dense(), MATRIX)


def test_a_graph_both_ways(pyg):
    for operator in (as_operator(MATRIX), as_operator(MATRIX, "csr"), as_operator(MATRIX).normalized()):
        x = torch.randn(4, 2)
        data = to_pyg(operator, x)
        assert isinstance(data, pyg.Data) and data.num_nodes == 4 and data.validate() and data.x is x
        torch.testing.assert_close(from_pyg(data).to_dense(), operator.to_dense())
    assert to_pyg(as_operator(torch.zeros(3, 3))).num_nodes == 3
    with pytest.raises(ValueError, match="x must have shape"):
        to_pyg(as_operator(MATRIX), torch.ones(3, 1))


def test_batches_both_ways(pyg):
    graphs = [graph(n, n) for n in (3, 5, 4)]
    packed, x = pack(graphs), torch.randn(12, 2)
    data = to_pyg(packed, x)
    assert isinstance(data, pyg.Batch) and data.num_graphs == 3 and data[1].x.equal(x[3:8])
    assert data.batch.equal(packed.batch) and from_pyg(data).sizes == (3, 5, 4)
    torch.testing.assert_close(from_pyg(data).to_dense(), packed.to_dense())
    batched, x = as_operator(torch.stack([graph(3, 1), graph(3, 2)])), torch.randn(2, 3, 1)
    data = to_pyg(batched, x)
    torch.testing.assert_close(from_pyg(data).to_dense(), torch.block_diag(*batched.to_dense()))
    assert data.x.equal(x.flatten(0, 1)) and to_pyg(batched).num_nodes == 6


def test_a_batch_through_a_network_is_a_loop(pyg):
    torch.manual_seed(0)
    graphs = [data_of(pyg, graph(n, n), x=torch.randn(n, 2)) for n in (3, 7, 5)]
    network = SVNN(2, 4, hidden=(8, 8)).eval()
    batch = pyg.Batch.from_data_list(graphs)
    found = network(batch.x, from_pyg(batch))
    assert found.shape == (3, 4)
    torch.testing.assert_close(found, torch.stack([network(g.x, from_pyg(g)) for g in graphs]), rtol=1e-5, atol=1e-6)


def test_weights_of_graphs(pyg):
    weighted = pyg.Data(edge_index=EDGES, edge_attr=WEIGHTS[:, None], num_nodes=4)
    torch.testing.assert_close(from_pyg(weighted).to_dense(), MATRIX)
    torch.testing.assert_close(from_pyg(pyg.Data(edge_index=EDGES, num_nodes=4)).to_dense(), (MATRIX != 0).float())
    with pytest.raises(ValueError, match=r"one; set data\.edge_weight"):
        from_pyg(pyg.Data(edge_index=EDGES, edge_attr=torch.ones(6, 2), num_nodes=4))
    for wrong in (pyg.Data(x=torch.ones(3, 1)), EDGES):
        with pytest.raises(ValueError, match="with an edge_index"):
            from_pyg(wrong)
    empty = pyg.Data(edge_index=EDGES[:, :0], edge_attr=WEIGHTS[:0, None], num_nodes=0)
    last_is_empty = pyg.Batch.from_data_list([weighted, empty])
    with pytest.raises(ValueError, match="no nodes"):
        from_pyg(last_is_empty)


def test_without_pyg_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(ImportError, match=r"svnn\[gnn\]"):
        to_pyg(as_operator(MATRIX))


def test_the_filter_is_pygs(pyg):
    """``TAGConv`` without its normalisation is a covariance filter."""
    from torch_geometric.nn import TAGConv

    torch.manual_seed(0)
    theirs, ours = TAGConv(2, 3, K=3, normalize=False), CovarianceFilter(2, 3, order=3)
    with torch.no_grad():
        ours.weight.copy_(torch.stack([linear.weight.T for linear in theirs.lins]))
        ours.bias.copy_(theirs.bias.normal_())
    data = data_of(pyg, graph(6), x=torch.randn(6, 2))
    expected = theirs(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(ours(data.x, data.edge_index, data.edge_weight), expected)
    torch.testing.assert_close(ours(data.x, from_pyg(data)), expected)
    torch.testing.assert_close(ours(data.x, data.edge_index), theirs(data.x, data.edge_index))


def test_the_filter_stands_in_pygs_sequential(pyg):
    from torch_geometric.nn import Sequential, global_mean_pool

    torch.manual_seed(0)
    graphs = [data_of(pyg, graph(n, n), x=torch.randn(n, 1)) for n in (4, 6)]
    batch = pyg.Batch.from_data_list(graphs)
    first, second = CovarianceFilter(1, 8, order=2), CovarianceFilter(8, 2, order=1)
    network = Sequential(
        "x, edge_index, edge_weight, batch",
        [
            (first, "x, edge_index, edge_weight -> x"),
            torch.nn.ReLU(),
            (second, "x, edge_index, edge_weight -> x"),
            (global_mean_pool, "x, batch -> x"),
        ],
    )
    found = network(batch.x, batch.edge_index, batch.edge_weight, batch.batch)
    expected = [second(first(g.x, from_pyg(g)).relu(), from_pyg(g)).mean(0) for g in graphs]
    torch.testing.assert_close(found, torch.stack(expected))
    found.sum().backward()
    assert first.weight.grad.abs().sum() > 0


def test_edges_and_matrices_are_told_apart():
    layer, x = CovarianceFilter(1, 1, order=2), torch.tensor([[1.0], [3.0]])
    for edges in ([[0, 1], [1, 0]], [[1, 0], [0, 1]], [[0, 1], [0, 1]], [[0, 0], [0, 0]]):  # of two nodes
        expected = layer(x, from_edges(torch.tensor(edges), n_nodes=2))
        for form in (torch.tensor(edges), torch.tensor(edges, dtype=torch.int32), np.array(edges)):
            torch.testing.assert_close(layer(x, form), expected)
            torch.testing.assert_close(layer(x, form, torch.ones(2)), expected)
    with pytest.raises(ValueError, match="edge_index holds node 3, but there are 2 nodes"):
        layer(x, torch.tensor([[2, 1], [1, 3]]))
    matrix = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(layer(x, matrix), layer(x, as_operator(matrix)))
    edges = torch.tensor([[0, 1], [1, 0]])
    for several in (torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), np.array([[0, 1, 1, 2], [1, 0, 2, 1]])):
        assert layer(torch.ones(3, 1), several).shape == (3, 1)
        with pytest.raises(ValueError, match=r"as the edges of a graph have; use svnn\.operators\.from_edges"):
            as_operator(several)
    with pytest.raises(ValueError, match="edge_index must be integers"):
        from_edges(edges == 1)
    assert layer(torch.ones(4, 1), edges).shape == (4, 1)
    with pytest.raises(ValueError, match="edge_weight belongs to edges"):
        layer(x, torch.eye(2), torch.ones(2))
    assert np.isfinite(CovarianceFilter(1, 1, order=0)(x, edges, torch.ones(2)).detach().numpy()).all()
