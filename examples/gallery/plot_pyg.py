"""
PyTorch Geometric: a covariance for each recording
==================================================

Every recording has a covariance of its own, and not the same number of channels as the others. With PyTorch Geometric
(``pip install "svnn[gnn]"``) each is a graph, a ``DataLoader`` deals them out in batches, and
``svnn.operators.from_pyg`` makes one operator of a batch: the network has an output for every graph in it.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from svnn import HardThreshold, as_operator
from svnn.nn import SVNN
from svnn.operators import from_pyg, to_pyg

# %%
# The recordings are made up. Their channels follow each other on a chain, or each follows the hub of its group of five;
# nobody tells the order of the channels. A graph has the correlations above 0.45 as its edges, and the same value, 1,
# on all nodes: all that can tell the two kinds apart is the covariance.

rng = np.random.default_rng(0)


def recording(kind: int) -> np.ndarray:
    """Return a recording (times, channels) of 10 to 40 channels: a chain (0) or hubs (1)."""
    place = np.arange(5 * rng.integers(2, 9))
    chain = 0.6 ** abs(place - place[:, None])
    to_hub = np.where(place % 5 == 0, 1, 0.6)
    hubs = np.where(place // 5 == place[:, None] // 5, np.outer(to_hub, to_hub), 0)
    np.fill_diagonal(hubs, 1)
    order = rng.permutation(place)
    C = (chain, hubs)[kind][order][:, order]
    return rng.multivariate_normal(np.zeros(len(C)), C, size=150)


def graph(kind: int) -> Data:
    """Return the correlations of a recording as a graph of PyTorch Geometric."""
    X = recording(kind)
    kept = HardThreshold(tau=0.45 * len(X) ** 0.5).fit((X - X.mean(0)) / X.std(0))
    data = to_pyg(as_operator(kept, dtype=torch.float32), torch.ones(X.shape[1], 1))
    data.y = torch.tensor([kind])
    return data


graphs = [graph(i % 2) for i in range(300)]
train, test = DataLoader(graphs[:200], batch_size=32, shuffle=True), DataLoader(graphs[200:], batch_size=100)
print("the operator of all test graphs:", from_pyg(next(iter(test))))

# %%
# The loop is that of any network. Without shifts (``order=0``) it can only guess.


def learn(order: int, epochs: int = 20) -> list[float]:
    """Train a network, and return its accuracy on the test graphs after every epoch."""
    torch.manual_seed(0)
    network = SVNN(1, 2, hidden=(16, 16), order=order, batch_norm=False)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    accuracy = []
    for _ in range(epochs):
        network.train()
        for batch in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(batch.x, from_pyg(batch)), batch.y).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            right = [network(batch.x, from_pyg(batch)).argmax(1) == batch.y for batch in test]
        accuracy.append(float(torch.cat(right).float().mean()))
    return accuracy


curves = {"on the covariances": learn(3), "without edges": learn(0)}
for name, curve in curves.items():
    print(f"{name}: {np.mean(curve[-5:]):.0%} of the test graphs right at the end")

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for axis, data, title in zip(axes, graphs[:2], ("a chain", "hubs"), strict=False):
    n = data.num_nodes
    angle = 2 * np.pi * np.arange(n) / n
    for (i, j), weight in zip(data.edge_index.T.tolist(), data.edge_weight.tolist(), strict=True):
        if i < j:
            colour = "#D55E00" if weight > 0 else "#0072B2"
            axis.plot(np.cos(angle[[i, j]]), np.sin(angle[[i, j]]), color=colour, alpha=0.7, linewidth=2 * abs(weight))
    axis.scatter(np.cos(angle), np.sin(angle), color="#5A5A5A", s=18, zorder=2)
    axis.set(title=f"{title}, {n} channels", xticks=[], yticks=[], aspect="equal")
for (name, curve), colour, line in zip(curves.items(), ("#D55E00", "#5A5A5A"), "-:", strict=True):
    axes[2].plot(range(1, len(curve) + 1), curve, line, color=colour, label=name)
axes[2].set(xlabel="epoch", ylabel="accuracy on test graphs", ylim=(0.4, 1.02))
axes[2].legend(frameon=False)

# %%
# Graphs that do not come from PyTorch Geometric are packed by ``svnn.operators.pack([C1, C2, ...])``, and covariances
# of one size are simply a tensor of shape (samples, nodes, nodes).
#
# A single layer, ``svnn.nn.CovarianceFilter``, takes edges as PyTorch Geometric's own layers do, and may stand in its
# ``Sequential``. It computes what ``TAGConv(normalize=False)`` computes.
