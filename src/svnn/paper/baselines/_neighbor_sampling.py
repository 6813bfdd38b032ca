"""Neighbour sampling: a graph convolutional network on a random sparse graph that is blind to the covariance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np
import torch
from sklearn.utils import Tags
from torch import Tensor, nn

from svnn._parameters import integer
from svnn._types import RandomState
from svnn.estimators._rules import LAYERS, TRAINING
from svnn.estimators.training import Callback
from svnn.paper.baselines._network import NetworkBaseline, NetworkClassifier, NetworkRegressor, layer


def sample_neighbors(n_nodes: int, n_neighbors: int, rng: np.random.Generator) -> np.ndarray:
    """Return k other nodes (N, k) for every node, drawn without replacement; all of them where there are no more.

    Examples
    --------
    >>> sample_neighbors(3, 2, np.random.default_rng(0)).shape
    (3, 2)
    """
    k = min(n_neighbors, n_nodes - 1)
    drawn = np.stack([rng.choice(n_nodes - 1, k, replace=False) for _ in range(n_nodes)])
    return drawn + (drawn >= np.arange(n_nodes)[:, None])  # skips the node itself


def averaging(neighbors: np.ndarray) -> Tensor:
    """Return the matrix (N, N) that takes the mean over each node and its neighbours."""
    n, k = neighbors.shape
    matrix = torch.eye(n, dtype=torch.float32)
    matrix[torch.arange(n)[:, None], torch.as_tensor(neighbors)] = 1.0
    return matrix / (k + 1)


class GCN(nn.Module):
    """Layers of graph convolution → batch norm → activation → dropout, the mean over the nodes, and an MLP head.

    The same as :class:`svnn.nn.SVNN` but for the graph convolution in the place of the covariance filter.

    Shapes
    ------
    x : (t, N, in_features); graph : (N, N), one for all samples; result : (t, out_features).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Sequence[int],
        dropout: float = 0.0,
        batch_norm: bool = True,
        mlp: int = 32,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(a, b, dropout, batch_norm) for a, b in pairwise([in_features, *hidden]))
        self.head = nn.Sequential(nn.Linear(hidden[-1], mlp), nn.LeakyReLU(), nn.Linear(mlp, out_features))

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        result: Tensor = self.head(self.embed(x, graph).mean(1))
        return result

    def embed(self, x: Tensor, graph: Tensor) -> Tensor:
        """Return the node embeddings before the readout, of shape (t, N, hidden[-1])."""
        for each in self.layers:
            x = each(graph @ x)
        return x


class NeighborSampling(NetworkBaseline):
    """Base of the networks on sampled neighbours."""

    _rules: ClassVar = {"n_neighbors": integer(1), **LAYERS, **TRAINING}

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        hidden: Sequence[int] = (32,),
        dropout: float = 0.0,
        batch_norm: bool = True,
        standardize: bool = True,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        max_epochs: int | str = "auto",
        patience: int | None = 100,
        batch_size: int | str | None = "auto",
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: RandomState = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_neighbors = n_neighbors
        self.hidden = hidden
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.standardize = standardize
        self.lr = lr
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _graph(self, n_nodes: int, seed: int) -> Tensor:
        return averaging(sample_neighbors(n_nodes, int(self.n_neighbors), np.random.default_rng(seed)))

    def _build(self, n_nodes: int, n_values: int, n_outputs: int) -> GCN:
        hidden = [int(size) for size in self.hidden]
        return GCN(n_values, n_outputs, hidden, float(self.dropout), bool(self.batch_norm))

    @property
    def graph_(self) -> Tensor:
        """The matrix whose rows take the mean over a node and its neighbours."""
        return cast(Tensor, self.fitted_.graph)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # With few nodes the network sees little but their mean.
        (tags.regressor_tags or tags.classifier_tags).poor_score = True
        return tags


class NeighborSamplingRegressor(NeighborSampling, NetworkRegressor):
    r"""Regression with a graph network on randomly sampled neighbours.

    Parameters
    ----------
    n_neighbors : int, default=10
        Neighbours drawn for every node; all other nodes where there are no more than that.
    hidden : sequence of int, default=(32,)
        Values per node after each layer; its length is the number of layers.
    dropout, batch_norm, standardize, lr, weight_decay, max_epochs, patience
        As in :class:`MLPRegressor`.
    batch_size, validation_fraction, device, random_state, verbose, callbacks
        As in :class:`svnn.SVNNRegressor`.

    Attributes
    ----------
    graph_ : tensor of shape (N, N)
        The matrix whose rows take the mean over a node and its neighbours.
    module_, history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MLPRegressor`.

    Notes
    -----
    This baseline has a graph that is sparse but blind to the covariance: every node keeps ``n_neighbors`` others, drawn
    at random from all that it has a covariance with. A sample covariance is never exactly zero between features that
    vary, so these are all other nodes. The split, the standardisation, the optimiser and early stopping are those of
    the S-VNN estimators with ``schedule="constant"``.

    Layers are graph convolutions, :math:`u_i' = \sigma(\sum_{j \in \mathcal N(i) \cup i} u_j W / (k + 1))`, the mean
    over a node and its k neighbours. The mean over all nodes and an MLP with 32 hidden values follow, as in the paper.

    References
    ----------
    W. L. Hamilton, R. Ying and J. Leskovec, Inductive representation learning on large graphs, NeurIPS 2017.
    T. N. Kipf and M. Welling, Semi-supervised classification with graph convolutional networks, ICLR 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.paper.baselines import NeighborSamplingRegressor
    >>> X = np.random.default_rng(0).standard_normal((60, 12))
    >>> model = NeighborSamplingRegressor(n_neighbors=5, max_epochs=2, random_state=0).fit(X, X.std(1))
    >>> model.graph_.count_nonzero(1).unique()
    tensor([6])
    """


class NeighborSamplingClassifier(NeighborSampling, NetworkClassifier):
    """Classification with a graph network on randomly sampled neighbours.

    The notes of :class:`NeighborSamplingRegressor` apply.

    Parameters
    ----------
    n_neighbors, hidden, dropout, batch_norm, standardize, lr, weight_decay, max_epochs, patience
        As in :class:`NeighborSamplingRegressor`.
    batch_size, validation_fraction, device, random_state, verbose, callbacks
        As in :class:`svnn.SVNNRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    graph_, module_, history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`NeighborSamplingRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.paper.baselines import NeighborSamplingClassifier
    >>> X = np.random.default_rng(0).standard_normal((60, 12))
    >>> model = NeighborSamplingClassifier(n_neighbors=5, max_epochs=2, random_state=0).fit(X, X.std(1) > 1)
    >>> model.graph_.count_nonzero(1).unique()
    tensor([6])
    """
