"""Neighbour sampling: a graph network on a sparse graph that is blind to the covariance."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.utils import Tags
from torch import Tensor

from svnn._parameters import declared, fitted, integer, one_of, parameter
from svnn._types import DataLike
from svnn.estimators._network_estimator import NetworkEstimator
from svnn.estimators._shared_parameters import PooledNodes
from svnn.estimators._tasks import Classification, Regression
from svnn.estimators.training import Shifts
from svnn.nn import Readout
from svnn.paper.baselines._graph import GCN, Edges, as_graph, is_dense, pyg, sample_neighbors


@declared
class NeighborSampling(PooledNodes, NetworkEstimator):
    r"""Base of the graph networks, whatever they predict.

    Notes
    -----
    This baseline has a graph that is sparse but blind to the covariance: every node keeps ``n_neighbors`` others, drawn
    at random from all that it has a covariance with. It needs PyTorch Geometric, ``pip install "svnn[gnn]"``. The
    split, the standardisation, the optimiser and early stopping are those of the S-VNN estimators.

    Layers are graph convolutions of the unweighted graph with loops,
    :math:`u_i' = \sigma(\sum_{j \in \mathcal N(i) \cup i} u_j W / \sqrt{d_i d_j})` with the in-degrees d. As every
    node has the same number of neighbours, that is their mean. A sample covariance is never exactly zero between
    features that vary, so the covariance graph is complete and the neighbours are drawn from all other nodes.

    References
    ----------
    W. L. Hamilton, R. Ying and J. Leskovec, Inductive representation learning on large graphs, NeurIPS 2017.
    T. N. Kipf and M. Welling, Semi-supervised classification with graph convolutional networks, ICLR 2017.
    """

    n_neighbors: int = parameter(
        default=10,
        rule=integer(1),
        doc="Neighbours drawn for every node; where there are no more other nodes than that, all of them are taken.",
    )
    resample: str = parameter(
        default="fixed",
        rule=one_of("fixed", "epoch", "forward"),
        doc="""Train on one sampled graph, or draw a fresh one every epoch or every forward pass. Prediction always uses
        ``edge_index_``.""",
    )
    readout: str = "mean"

    edge_index_: np.ndarray = fitted(
        kind="ndarray of shape (2, N k)",
        doc="Edges from neighbour to node, without the loops that the convolution adds.",
    )

    def _check_parameters(self) -> None:
        pyg("nn", type(self).__name__)
        super()._check_parameters()

    def _fit_structure(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray, seed: int, device: torch.device
    ) -> None:
        """Draw the graph."""
        self.edge_index_ = sample_neighbors(Z.shape[1], int(self.n_neighbors), np.random.default_rng(seed))
        self._graph = self._as_graph(self.edge_index_, device)

    @property
    def _shift(self) -> Tensor | Edges:
        return self._graph

    def _shifts(self, rng: np.random.Generator) -> Shifts:
        device = (self._graph.weight if isinstance(self._graph, Edges) else self._graph).device

        def draw() -> Tensor | Edges:
            return self._as_graph(sample_neighbors(self.n_features_in_, self.n_neighbors, rng), device)

        return Shifts(self._graph, self.resample, draw)

    def _as_graph(self, edges: np.ndarray, device: torch.device) -> Tensor | Edges:
        dense = is_dense(self.n_features_in_, self.n_neighbors)
        return as_graph(edges, self.n_features_in_, dense, device, type(self).__name__)

    def _build(self, in_features: int, n_outputs: int) -> GCN:
        hidden = [int(size) for size in self.hidden]
        heads = self._n_heads(n_outputs) if self.readout == "weighted" else 1
        return GCN(
            in_features,
            n_outputs,
            hidden,
            self.activation,
            float(self.dropout),
            bool(self.batch_norm),
            Readout(self.readout, hidden[-1], self.n_features_in_, heads),
            [int(size) for size in self.mlp],
            is_dense(self.n_features_in_, self.n_neighbors),
            type(self).__name__,
        )

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, hidden[-1])."""
        return self._output(X, embed=True)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # With few nodes the network sees little but their mean.
        (tags.regressor_tags or tags.classifier_tags).poor_score = True
        return tags


@declared
class NeighborSamplingRegressor(NeighborSampling, Regression):
    """Regression with a graph network on randomly sampled neighbours.

    Examples
    --------
    >>> from svnn.paper.baselines import NeighborSamplingRegressor
    >>> NeighborSamplingRegressor(n_neighbors=5)
    NeighborSamplingRegressor(n_neighbors=5)
    """


@declared
class NeighborSamplingClassifier(NeighborSampling, Classification):
    """Classification with a graph network on randomly sampled neighbours.

    Examples
    --------
    >>> from svnn.paper.baselines import NeighborSamplingClassifier
    >>> NeighborSamplingClassifier(n_neighbors=5)
    NeighborSamplingClassifier(n_neighbors=5)
    """
