"""Neighbour sampling: a graph network on a sparse graph that is blind to the covariance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svnn.estimators._docs import CLASS_WEIGHT, CLASSES, LOSS, document_baseline
from svnn.estimators._parameters import one_of, whole
from svnn.estimators._targets import TrainedClassifier, TrainedRegressor
from svnn.estimators._trained import TrainedEstimator
from svnn.estimators._training import Shifts
from svnn.estimators.baselines._graph import GCN, as_graph, is_dense, pyg, sample_neighbors
from svnn.estimators.baselines._store import store
from svnn.nn import Readout

RESAMPLE = ("fixed", "epoch", "forward")


class BaseNeighborSampling(TrainedEstimator):
    """Base of the regressor and the classifier: everything but the targets."""

    n_neighbors: int
    resample: str
    activation: str
    dropout: float
    batch_norm: bool
    readout: str
    heads: int
    mlp: Sequence[int]

    def _check_parameters(self) -> None:
        pyg("nn", type(self).__name__)
        super()._check_parameters()
        if not whole(self.n_neighbors, 1):
            raise ValueError(f"n_neighbors must be a positive integer, got {self.n_neighbors!r}.")
        one_of(self, "resample", RESAMPLE)

    def _fit_shift(self, Z: np.ndarray, weight: np.ndarray | None, seed: int, y: Any = None) -> None:
        super()._fit_shift(Z, weight, seed)
        self.edge_index_ = sample_neighbors(Z.shape[1], int(self.n_neighbors), np.random.default_rng(seed))
        self._graph = self._as_graph(self.edge_index_)

    def _as_graph(self, edges: np.ndarray) -> Any:
        return as_graph(edges, self.n_features_in_, self._dense(), self._device, type(self).__name__)

    def _dense(self) -> bool:
        return is_dense(self.n_features_in_, self.n_neighbors)

    def _fixed_shift(self) -> Any:
        return self._graph

    def _shifts(self, estimator: Any, rng: np.random.Generator) -> Shifts:
        def draw() -> Any:
            return self._as_graph(sample_neighbors(self.n_features_in_, self.n_neighbors, rng))

        return Shifts(self._graph, self.resample, draw)

    def _build(self, in_features: int, n_outputs: int) -> GCN:
        hidden = [int(size) for size in self.hidden]
        heads = int(self.heads) if self.readout == "weighted" else 1
        readout = Readout(self.readout, hidden[-1], self.n_features_in_, heads)
        return GCN(
            in_features,
            n_outputs,
            hidden,
            self.activation,
            float(self.dropout),
            bool(self.batch_norm),
            readout,
            [int(size) for size in self.mlp],
            self._dense(),
            type(self).__name__,
        )

    def embed(self, X: Any) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, hidden[-1])."""
        return self._output(X, embed=True)


_OWN = """    n_neighbors : int, default=10
        Neighbours drawn for every node; all other nodes where there are no more.
    resample : {"fixed", "epoch", "forward"}, default="fixed"
        Train on one sampled graph, or draw a fresh one every epoch or every forward pass. Prediction always uses
        ``edge_index_``.
    hidden : sequence of int, default=(32,)
        Values per node after each layer; its length is the number of layers.
    activation : {"leaky_relu", "relu", "elu", "gelu", "silu", "tanh", "identity"}, default="leaky_relu"
    dropout : float in [0, 1), default=0.0
    batch_norm : bool, default=True
    readout : {"mean", "weighted", "flatten"}, default="mean"
        "mean" is the paper's, and cannot tell nodes apart. The others are those of :class:`svnn.nn.Readout`, for
        comparisons at equal readout.
    heads : int, default=4
        Number of weight vectors of the weighted readout.
    mlp : sequence of int, default=(32,)
        Hidden sizes of the head; empty for a linear head.
"""

_ATTRIBUTES = """    edge_index_ : ndarray of shape (2, N k)
        Edges from neighbour to node, without the loops that the convolution adds.
    module_ : torch.nn.Module
"""

_SUMMARY = """{task} with a graph network on randomly sampled neighbours.

    A baseline whose graph is sparse but blind to the covariance: every node keeps ``n_neighbors`` others, drawn at
    random from all that it has a covariance with. Needs PyTorch Geometric, ``pip install "svnn[gnn]"``. Split,
    standardisation, optimiser and early stopping are those of :class:`svnn.{svnn}`.
"""

_NOTES = r"""
    Notes
    -----
    Layers are graph convolutions of the unweighted graph with loops,
    :math:`u_i' = \sigma(\sum_{j \in \mathcal N(i) \cup i} u_j W / \sqrt{d_i d_j})` with the in-degrees d. As every
    node has the same number of neighbours, that is their mean. A sample covariance is never exactly zero between
    features that vary, so the covariance graph is complete and the neighbours are drawn from all other nodes.

    References
    ----------
    W. L. Hamilton, R. Ying and J. Leskovec, Inductive representation learning on large graphs, NeurIPS 2017.
    T. N. Kipf and M. Welling, Semi-supervised classification with graph convolutional networks, ICLR 2017.
"""


class NeighborSamplingRegressor(TrainedRegressor, BaseNeighborSampling):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Regression", svnn="SVNNRegressor"),
        _OWN,
        _NOTES
        + """
    Examples
    --------
    >>> from svnn.estimators.baselines import NeighborSamplingRegressor
    >>> NeighborSamplingRegressor(n_neighbors=5)
    NeighborSamplingRegressor(n_neighbors=5)
    """,
        extra=LOSS,
        attributes=_ATTRIBUTES,
        target=", and the targets,",
    )

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        resample: str = "fixed",
        hidden: Sequence[int] = (32,),
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
        readout: str = "mean",
        heads: int = 4,
        mlp: Sequence[int] = (32,),
        loss: str = "huber",
        standardize: bool = True,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        max_epochs: int = 1000,
        patience: int = 100,
        tol: float = 0.0,
        batch_size: int | str | None = "auto",
        averaging: float = 0.99,
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Any] = (),
    ) -> None:
        store(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # with few nodes, where the network sees little but their mean
        return tags


class NeighborSamplingClassifier(TrainedClassifier, BaseNeighborSampling):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Classification", svnn="SVNNClassifier"),
        _OWN,
        _NOTES
        + """
    Examples
    --------
    >>> from svnn.estimators.baselines import NeighborSamplingClassifier
    >>> NeighborSamplingClassifier(n_neighbors=5)
    NeighborSamplingClassifier(n_neighbors=5)
    """,
        extra=CLASS_WEIGHT,
        attributes=_ATTRIBUTES + CLASSES,
    )

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        resample: str = "fixed",
        hidden: Sequence[int] = (32,),
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
        readout: str = "mean",
        heads: int = 4,
        mlp: Sequence[int] = (32,),
        class_weight: Any = None,
        standardize: bool = True,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        max_epochs: int = 1000,
        patience: int = 100,
        tol: float = 0.0,
        batch_size: int | str | None = "auto",
        averaging: float = 0.99,
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Any] = (),
    ) -> None:
        store(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # with few nodes, where the network sees little but their mean
        return tags
