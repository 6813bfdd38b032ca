"""
Graph learning: a torch loop of your own
========================================

``svnn.nn.SVNN`` is a torch module that gets the graph with every call, so it fits into any training loop. Here the
nodes are the 64 pixels of handwritten digits, and the graph is their thresholded covariance: pixels that light up
together are neighbours, and nobody told the network where they lie.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from svnn import HardThreshold, as_operator
from svnn.nn import SVNN

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=400, stratify=y, random_state=0)
mean, scale = X_train.mean(0), X_train.std(0) + 1e-6
scale[scale < 0.1] = 1
graph = HardThreshold(density=0.2).fit((X_train - mean) / scale)


def nodes(rows: np.ndarray) -> torch.Tensor:
    """Return a tensor of shape (samples, nodes, values per node)."""
    return torch.tensor((rows - mean) / scale, dtype=torch.float32)[..., None]


def learn(shift: object, seed: int, epochs: int = 40) -> list[float]:
    """Train on a graph, and return the accuracy on the test rows after every epoch."""
    torch.manual_seed(seed)
    network = SVNN(1, 10, hidden=(8,), order=2, readout="flatten", n_nodes=64, mlp=())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    x, labels, accuracy = nodes(X_train), torch.tensor(y_train), []
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x[rows], shift), labels[rows]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            accuracy.append(float((network(nodes(X_test), shift).argmax(1).numpy() == y_test).mean()))
        network.train()
    return accuracy


graphs = {"on the covariance": as_operator(graph.covariance_), "without edges": torch.eye(64)}
curves = {name: np.array([learn(shift, seed) for seed in range(3)]) for name, shift in graphs.items()}
for name, accuracy in curves.items():
    last = accuracy[:, -5:].mean(1)
    print(f"{name}: {last.mean():.1%} right at the end, from {last.min():.1%} to {last.max():.1%} over three seeds")

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
axes[0].imshow(mean.reshape(8, 8), cmap="Greys", vmax=40)
for i, j in np.argwhere(np.triu(graph.covariance_, 1)):
    axes[0].plot([i % 8, j % 8], [i // 8, j // 8], color="#D55E00", alpha=0.5, linewidth=0.8)
axes[0].set(title="pixels and the pairs that were kept", xticks=[], yticks=[])
for (name, accuracy), colour, line in zip(curves.items(), ("#D55E00", "#5A5A5A"), "-:", strict=False):
    axes[1].plot(accuracy.mean(0), line, color=colour, label=name)
    axes[1].fill_between(range(accuracy.shape[1]), accuracy.min(0), accuracy.max(0), color=colour, alpha=0.15, lw=0)
axes[1].set(xlabel="epoch", ylabel="accuracy on test rows", ylim=(0.8, 1))
axes[1].legend(frameon=False)

# %%
# Only 400 digits are used for training. The gap between the two is small, and depends on the number of rows, the
# density and the layers: vary them before you believe in it.
#
# The same graph serves any other graph network. With PyTorch Geometric (``pip install torch_geometric``) the entries
# that were kept are edges with weights:

try:
    from torch_geometric.nn import TAGConv
except ImportError:
    print("PyTorch Geometric is not installed.")
else:
    edges = np.argwhere(graph.covariance_)
    weight = torch.tensor(graph.covariance_[tuple(edges.T)], dtype=torch.float32)
    layer = TAGConv(1, 8, K=2, normalize=False)
    print("output of PyG's layer:", tuple(layer(nodes(X_test[:5]), torch.tensor(edges.T), weight).shape))
