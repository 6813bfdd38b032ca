"""A random sparse graph of the nodes, and a graph convolutional network on it (PyTorch Geometric)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from svnn.nn import Readout
from svnn.nn._layers import ACTIVATIONS, Dropout, NodeNorm

#: Share of the pairs joined beyond which a dense product is faster than gathering messages along edges.
_DENSE_SHARE = 0.005


class Edges(NamedTuple):
    """Edges and their weights in a graph convolution."""

    pairs: Tensor
    weight: Tensor


def pyg(module: str, user: str) -> ModuleType:
    """Return a module of PyTorch Geometric, or say how to get it."""
    try:
        return import_module(f"torch_geometric.{module}")
    except ImportError as error:
        raise ImportError(f'{user} needs PyTorch Geometric: pip install "svnn[gnn]".') from error


def sample_neighbors(n_nodes: int, n_neighbors: int, rng: np.random.Generator) -> np.ndarray:
    """Return the edges (2, N k), from neighbour to node, of k neighbours drawn for every node without replacement.

    A sample covariance joins every pair of nodes, so the neighbours are drawn from all others; all of them are taken
    where there are no more than k.

    Examples
    --------
    >>> import numpy as np
    >>> sample_neighbors(3, 2, np.random.default_rng(0))[1]
    array([0, 0, 1, 1, 2, 2])
    """
    k = min(n_neighbors, n_nodes - 1)
    drawn = [rng.choice(n_nodes - 1, k, replace=False) for _ in range(n_nodes)]
    target = np.repeat(np.arange(n_nodes), k)
    source = np.concatenate(drawn).astype(np.int64)
    return np.stack([source + (source >= target), target])  # skips the node itself


def is_dense(n_nodes: int, n_neighbors: int) -> bool:
    """Say whether a sampled graph is better held as an adjacency matrix."""
    return min(n_neighbors, n_nodes - 1) >= _DENSE_SHARE * n_nodes


def as_graph(edges: np.ndarray, n_nodes: int, dense: bool, device: torch.device, user: str) -> Tensor | Edges:
    r"""Return what the convolutions take: the adjacency matrix (N, N), row i for the neighbours of node i, or edges.

    Edges come with loops and the weights :math:`1 / \sqrt{d_i d_j}`; the dense layer makes those itself.
    """
    index = torch.as_tensor(edges, device=device)
    if dense:
        adjacency = torch.zeros(n_nodes, n_nodes, dtype=torch.float32, device=device)
        adjacency[index[1], index[0]] = 1.0
        return adjacency
    gcn_norm = pyg("nn.conv.gcn_conv", user).gcn_norm
    return Edges(*gcn_norm(index, num_nodes=n_nodes, dtype=torch.float32))


class GCN(nn.Module):
    """Layers of graph convolution → batch norm → activation → dropout, a readout over the nodes and an MLP head.

    The same as :class:`svnn.nn.SVNN` but for the graph convolution (``torch_geometric.nn.GCNConv``, or
    ``DenseGCNConv`` for the same on an adjacency matrix) in the place of the covariance filter.

    Shapes
    ------
    x : (t, N, in_features); graph : of N nodes, one for all samples; result : (t, out_features).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Sequence[int],
        activation: str,
        dropout: float,
        batch_norm: bool,
        readout: Readout,
        mlp: Sequence[int],
        dense: bool = True,
        user: str = "GCN",
    ) -> None:
        super().__init__()
        layers = pyg("nn", user)
        # The weights of edges are normalised once, not in every pass.
        convolution = layers.DenseGCNConv if dense else partial(layers.GCNConv, normalize=False)
        pairs = list(pairwise([in_features, *hidden]))
        self.widest = max(hidden)
        self.convolutions = nn.ModuleList(convolution(a, b, bias=not batch_norm) for a, b in pairs)
        self.norms = nn.ModuleList(NodeNorm(b) if batch_norm else nn.Identity() for _, b in pairs)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.readout = readout
        self.head = nn.Sequential()
        width = readout.out_features
        for size in mlp:
            self.head.extend([nn.Linear(width, size), ACTIVATIONS[activation]()])
            width = size
        self.head.append(nn.Linear(width, out_features))

    def forward(self, x: Tensor, graph: Tensor | Edges) -> Tensor:
        result: Tensor = self.head(self.readout(self.embed(x, graph)))
        return result

    def embed(self, x: Tensor, graph: Tensor | Edges) -> Tensor:
        """Return the node embeddings before the readout, of shape (t, N, hidden[-1])."""
        arguments = (graph.pairs, graph.weight.to(x.dtype)) if isinstance(graph, Edges) else (graph.to(x.dtype),)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = self.dropout(self.activation(norm(convolution(x, *arguments))))
        return x
