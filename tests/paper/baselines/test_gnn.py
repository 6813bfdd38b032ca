"""Neighbour sampling: the graph, the network on it, and what is said where PyTorch Geometric is missing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from svnn.nn import Readout
from svnn.paper.baselines import NeighborSamplingClassifier, NeighborSamplingRegressor, _graph
from svnn.paper.baselines._graph import GCN, as_graph, is_dense, sample_neighbors

QUICK = {"n_neighbors": 2, "hidden": (8,), "max_epochs": 5, "random_state": 0}


@given(n=st.integers(1, 20), k=st.integers(1, 25), seed=st.integers(0, 1000))
def test_every_node_gets_k_others(n, k, seed):
    edges = sample_neighbors(n, k, np.random.default_rng(seed))
    k = min(k, n - 1)
    assert edges.shape == (2, n * k)
    assert (edges[0] != edges[1]).all()
    for node in range(n):
        neighbours = edges[0][edges[1] == node]
        assert len(set(neighbours)) == k and set(neighbours) <= set(range(n))


def test_all_others_are_equally_likely():
    rng = np.random.default_rng(0)
    counts = np.zeros((5, 5))
    for _ in range(2000):
        source, target = sample_neighbors(5, 2, rng)
        counts[target, source] += 1
    expected = 2000 * 2 / 4
    off = counts[~np.eye(5, dtype=bool)]
    assert abs(off - expected).max() < 5 * np.sqrt(expected)  # five standard deviations


def test_missing_pytorch_geometric_is_named(monkeypatch, data):
    for name in [m for m in sys.modules if m.split(".")[0] == "torch_geometric"] + ["torch_geometric"]:
        monkeypatch.setitem(sys.modules, name, None)
    for model, y in ((NeighborSamplingRegressor(), data[1]), (NeighborSamplingClassifier(), data[1] > 100)):
        with pytest.raises(ImportError, match=rf'{type(model).__name__} needs .*: pip install "svnn\[gnn\]"'):
            model.fit(data[0], y)


def test_nothing_else_needs_it():
    code = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "from svnn.paper.baselines import MLPRegressor, NeighborSamplingRegressor\n"
        "NeighborSamplingRegressor(n_neighbors=3).get_params()\n"
        "MLPRegressor(max_epochs=1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class TestWithPyG:
    """What PyTorch Geometric computes."""

    def network(self, dense):
        torch.manual_seed(0)
        return GCN(3, 2, (4, 5), "leaky_relu", 0.0, True, Readout("mean", 5), (6,), dense)

    def test_edges_and_adjacency_give_the_formula(self):
        edges = sample_neighbors(7, 2, np.random.default_rng(0))
        x = torch.randn(6, 7, 3, generator=torch.Generator().manual_seed(0))
        device = torch.device("cpu")
        outputs = []
        for dense in (True, False):
            network = self.network(dense).eval()
            outputs.append(network(x, as_graph(edges, 7, dense, device, "test")))
        torch.testing.assert_close(outputs[0], outputs[1])
        A = np.eye(7)
        A[edges[1], edges[0]] = 1
        A = torch.tensor(A / np.sqrt(np.outer(A.sum(1), A.sum(1))), dtype=torch.float32)
        u, network = x, self.network(True).eval()
        for convolution, norm in zip(network.convolutions, network.norms, strict=True):
            u = network.activation(norm(A @ convolution.lin(u)))
        torch.testing.assert_close(outputs[0], network.head(u.mean(1)))

    @pytest.mark.parametrize("share", [0.0, 2.0], ids=["adjacency", "edges"])
    def test_both_layouts_train_alike(self, monkeypatch, share, data):
        X, y = data
        expected = NeighborSamplingRegressor(**QUICK).fit(X, y).predict(X)
        monkeypatch.setattr(_graph, "_DENSE_SHARE", share)
        np.testing.assert_allclose(NeighborSamplingRegressor(**QUICK).fit(X, y).predict(X), expected, rtol=1e-3)

    def test_large_sparse_graphs_are_kept_as_edges(self):
        assert is_dense(68, 10) and is_dense(2000, 10) and not is_dense(10_000, 10)

    def test_the_graph_does_not_depend_on_the_data(self, data):
        X, y = data
        a = NeighborSamplingRegressor(**QUICK).fit(X, y)
        b = NeighborSamplingRegressor(**QUICK).fit(X[:, ::-1] ** 3, y)
        np.testing.assert_array_equal(a.edge_index_, b.edge_index_)
        assert a.edge_index_.shape == (2, 12) and a.embed(X).shape == (120, 6, 8)
        c = NeighborSamplingRegressor(**{**QUICK, "random_state": 1}).fit(X, y)
        assert not np.array_equal(a.edge_index_, c.edge_index_)

    @pytest.mark.parametrize("resample", ["epoch", "forward"])
    def test_resampling_is_reproducible_and_changes_the_training(self, resample, data):
        X, y = data
        a, b = (NeighborSamplingRegressor(resample=resample, **QUICK).fit(X, y) for _ in range(2))
        assert a.history_ == b.history_
        assert a.history_ != NeighborSamplingRegressor(**QUICK).fit(X, y).history_
        np.testing.assert_array_equal(a.predict(X), b.predict(X))

    def test_the_mean_over_nodes_learns_what_does_not_need_their_names(self, rng):
        X = rng.standard_normal((300, 12)) * rng.uniform(0.5, 2, size=(300, 1))
        y = X.std(1)
        model = NeighborSamplingRegressor(n_neighbors=2, standardize=True, max_epochs=60, random_state=0)
        assert model.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.4

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"n_neighbors": 0}, "n_neighbors must be a positive integer"),
            ({"resample": "shift"}, "resample must be one of"),
            ({"hidden": ()}, "hidden must be a sequence of positive integers.*at least one"),
            ({"activation": "step"}, "activation must be one of"),
            ({"readout": "max"}, "readout must be one of"),
            ({"mlp": 3}, "mlp must be a sequence"),
        ],
    )
    def test_bad_parameters_are_named(self, parameters, message, data):
        with pytest.raises(ValueError, match=message):
            NeighborSamplingRegressor(**{**QUICK, **parameters}).fit(*data)
