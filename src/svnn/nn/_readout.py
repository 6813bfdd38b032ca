"""From node embeddings to one vector a sample."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from svnn.nn._dropout import SeededDropout

READOUTS = ("mean", "weighted", "flatten")


class Readout(nn.Module):
    r"""Pool node embeddings ``(…, N, F)`` to ``(…, out_features)``.

    Parameters
    ----------
    kind : {"mean", "weighted", "flatten"}
        - "mean": the average over nodes; any N.
        - "weighted": ``heads`` learned weights a node, :math:`\frac1N \sum_j a_{hj} u_j`, starting
          as the mean.
        - "flatten": all embeddings side by side.
    in_features : int
        F, the values per node.
    n_nodes : int, optional
        N; needed by all but the mean.
    heads : int, default=1
        Number of weight vectors of the weighted readout.
    node_dropout : float in [0, 1), default=0.0
        Share of the nodes left out of a sample's readout at random during training. Where nodes are
        correlated, no single one of them should be relied on.

    Examples
    --------
    >>> import torch
    >>> Readout("mean", 8)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 8])
    >>> Readout("weighted", 8, n_nodes=3, heads=2)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 16])
    """

    def __init__(
        self, kind: str, in_features: int, n_nodes: int | None = None, heads: int = 1, node_dropout: float = 0.0
    ) -> None:
        super().__init__()
        if kind not in READOUTS:
            raise ValueError(f"readout must be one of {READOUTS}, got {kind!r}.")
        if kind != "mean" and n_nodes is None:
            raise ValueError(f'readout="{kind}" learns about single nodes and needs n_nodes; "mean" runs on any N.')
        if heads < 1 or int(heads) != heads:
            raise ValueError(f"heads must be an integer >= 1, got {heads!r}.")
        if heads > 1 and kind != "weighted":
            raise ValueError(f'heads={heads} needs readout="weighted", got "{kind}".')
        if not 0 <= node_dropout < 1:
            raise ValueError(f"node_dropout must be in [0, 1), got {node_dropout!r}.")
        self.kind = kind
        self.node_dropout = SeededDropout(float(node_dropout))
        self.n_nodes = None if kind == "mean" or n_nodes is None else int(n_nodes)
        if kind == "weighted":
            self.weight = nn.Parameter(torch.ones(int(heads), self.n_nodes or 0))
        self.out_features = int(in_features * ((n_nodes or 1) if kind == "flatten" else heads))

    def reset_parameters(self) -> None:
        """Start as the mean over the nodes."""
        if self.kind == "weighted":
            nn.init.ones_(self.weight)

    def forward(self, u: Tensor) -> Tensor:
        weights = self.weights(u)
        if weights is not None:
            return (weights @ u).flatten(-2)
        return self._drop(u.new_ones(*u.shape[:-1], 1)).mul(u).flatten(-2) if self._dropping() else u.flatten(-2)

    def weights(self, u: Tensor) -> Tensor | None:
        """Return the nodes' weights (heads, N) in the pooled embeddings, or (…, heads, N) where samples differ.

        ``flatten`` has none.
        """
        n = u.shape[-2]
        if self.n_nodes is not None and n != self.n_nodes:
            raise ValueError(
                f'readout="{self.kind}" was built for {self.n_nodes} nodes and cannot run on {n}; '
                'only readout="mean" transfers to another number of nodes.'
            )
        if self.kind == "flatten":
            return None
        weights = self.weight / n if self.kind == "weighted" else u.new_full((1, n), 1 / n)
        if self._dropping():  # the weights are far fewer than the embeddings
            weights = weights * self._drop(u.new_ones(*u.shape[:-2], 1, n))
        return weights

    def _dropping(self) -> bool:
        return self.training and self.node_dropout.p > 0

    def _drop(self, ones: Tensor) -> Tensor:
        kept: Tensor = self.node_dropout(ones)
        return kept

    def extra_repr(self) -> str:
        return f"{self.kind}, out_features={self.out_features}"
