"""Neighbour sampling: the graph, and the network on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from svnn.paper.baselines import NeighborSamplingRegressor
from svnn.paper.baselines._neighbor_sampling import GCN, averaging, sample_neighbors

QUICK = {"n_neighbors": 2, "hidden": (8,), "max_epochs": 5, "random_state": 0}


@given(n=st.integers(1, 20), k=st.integers(1, 25), seed=st.integers(0, 1000))
def test_every_node_gets_k_others(n, k, seed):
    neighbors = sample_neighbors(n, k, np.random.default_rng(seed))
    k = min(k, n - 1)
    assert neighbors.shape == (n, k)
    for node, own in enumerate(neighbors):
        assert len(set(own)) == k and set(own) <= set(range(n)) - {node}


def test_all_others_are_equally_likely():
    rng = np.random.default_rng(0)
    counts = np.zeros((5, 5))
    for _ in range(2000):
        counts[np.arange(5)[:, None], sample_neighbors(5, 2, rng)] += 1
    expected = 2000 * 2 / 4
    off = counts[~np.eye(5, dtype=bool)]
    assert abs(off - expected).max() < 5 * np.sqrt(expected)  # five standard deviations


@pytest.fixture
def network():
    torch.manual_seed(0)
    return GCN(3, 2, (4, 5)).eval()


def test_the_formula(network):
    neighbors = sample_neighbors(7, 2, np.random.default_rng(0))
    x = torch.randn(6, 7, 3, generator=torch.Generator().manual_seed(0))
    A = np.eye(7)
    A[np.repeat(np.arange(7), 2), neighbors.ravel()] = 1
    A = torch.tensor(A / np.sqrt(np.outer(A.sum(1), A.sum(1))), dtype=torch.float32)
    u = x
    for linear, norm, activation, _ in network.layers:
        u = activation(norm(A @ linear(u)))
    torch.testing.assert_close(network(x, averaging(neighbors)), network.head(u.mean(1)))


def test_it_is_the_convolution_of_pytorch_geometric(network):
    convolution = pytest.importorskip("torch_geometric.nn").GCNConv(3, 4, bias=False)
    neighbors = sample_neighbors(7, 2, np.random.default_rng(0))
    linear = network.layers[0][0]
    linear.weight = convolution.lin.weight
    x = torch.randn(6, 7, 3, generator=torch.Generator().manual_seed(0))
    edges = torch.tensor(np.stack([neighbors.ravel(), np.repeat(np.arange(7), 2)]))
    torch.testing.assert_close(linear(averaging(neighbors) @ x), convolution(x, edges))


def test_the_graph_does_not_depend_on_the_data(data):
    X, y = data
    a = NeighborSamplingRegressor(**QUICK).fit(X, y)
    b = NeighborSamplingRegressor(**QUICK).fit(X[:, ::-1] ** 3, y)
    assert torch.equal(a.graph_, b.graph_)
    assert a.graph_.shape == (6, 6) and a.embed(X).shape == (120, 6, 8)
    c = NeighborSamplingRegressor(**{**QUICK, "random_state": 1}).fit(X, y)
    assert not torch.equal(a.graph_, c.graph_)


def test_the_mean_over_nodes_learns_what_does_not_need_their_names(rng):
    X = rng.standard_normal((300, 12)) * rng.uniform(0.5, 2, size=(300, 1))
    y = X.std(1)
    model = NeighborSamplingRegressor(n_neighbors=2, standardize=True, max_epochs=60, random_state=0)
    assert model.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be a positive integer"),
        ({"hidden": ()}, "hidden must be a sequence of positive integers.*at least one"),
    ],
)
def test_bad_parameters_are_named(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        NeighborSamplingRegressor(**{**QUICK, **parameters}).fit(*data)
