"""From node embeddings to one vector per sample."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from svnn.nn._layers import NodeDropout
from svnn.operators import PackedOperator

READOUTS = ("mean", "weighted", "flatten")


class Readout(nn.Module):
    r"""Pool node embeddings ``(…, N, F)`` to ``(…, out_features)``.

    Parameters
    ----------
    kind : {"mean", "weighted", "flatten"}
        - "mean": the average over nodes; any N.
        - "weighted": ``heads`` learned weights per node, :math:`\frac1N \sum_j a_{hj} u_j`. All
          weights are 1 at the start, which makes the mean.
        - "flatten": all embeddings side by side.
    in_features : int
        F, the values per node.
    n_nodes : int, optional
        N; "weighted" and "flatten" need it.
    heads : int, default=1
        Number of weight vectors of the weighted readout.
    node_dropout : float in [0, 1), default=0.0
        Share of the nodes that are left out of a sample's readout at random during training. Where nodes
        are correlated, the network should not rely on a single one of them.

    Examples
    --------
    >>> import torch
    >>> Readout("mean", 8)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 8])
    >>> Readout("weighted", 8, n_nodes=3, heads=2)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 16])

    Graphs of several sizes are pooled each by itself:

    >>> from svnn.operators import pack
    >>> Readout("mean", 8)(torch.ones(5, 8), pack([torch.eye(2), torch.eye(3)])).shape
    torch.Size([2, 8])
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
        self.node_dropout = NodeDropout(float(node_dropout))
        self.n_nodes = None if kind == "mean" or n_nodes is None else int(n_nodes)
        if kind == "weighted":
            self.weight = nn.Parameter(torch.ones(int(heads), self.n_nodes or 0))
        self.out_features = int(in_features * ((n_nodes or 1) if kind == "flatten" else heads))

    def reset_parameters(self) -> None:
        """Start as the mean over the nodes."""
        if self.kind == "weighted":
            nn.init.ones_(self.weight)

    def forward(self, u: Tensor, graphs: PackedOperator | None = None) -> Tensor:
        """Pool ``u`` of shape (…, N, F); of packed graphs, (…, N_1 + … + N_B, F) to (…, B, out_features)."""
        if graphs is not None:
            if graphs.same_size is None:
                return self._ragged(u, graphs)
            u = u.unflatten(-2, (graphs.n_samples, graphs.same_size))
        n = u.shape[-2]
        if self.n_nodes is not None and n != self.n_nodes:
            raise ValueError(
                f'readout="{self.kind}" was built for {self.n_nodes} nodes and cannot run on {n}; '
                'only readout="mean" transfers to another number of nodes.'
            )
        dropping = self.training and self.node_dropout.p > 0
        if self.kind == "flatten":
            kept = u * self.node_dropout(u.new_ones(u.shape[:-1]))[..., None] if dropping else u
            return kept.flatten(-2)
        if self.kind == "mean" and not dropping:
            return u.mean(-2)
        weights = self.weight / n if self.kind == "weighted" else u.new_full((1, n), 1 / n)
        if dropping:  # the weights are far fewer than the embeddings
            weights = weights * self.node_dropout(u.new_ones(*u.shape[:-2], 1, n))
        # With as many matrices of weights as samples, torch does not rearrange the embeddings to make one product.
        return (weights.expand(*u.shape[:-2], -1, -1) @ u).flatten(-2)

    def _ragged(self, u: Tensor, graphs: PackedOperator) -> Tensor:
        if self.kind != "mean":
            raise ValueError(
                f'readout="{self.kind}" learns about {self.n_nodes} single nodes, but the graphs have from '
                f'{min(graphs.sizes)} to {max(graphs.sizes)} nodes; use readout="mean".'
            )
        if self.training and self.node_dropout.p > 0:
            u = u * self.node_dropout(u.new_ones(u.shape[:-1]))[..., None]
        return graphs.means(u)

    def extra_repr(self) -> str:
        return f"{self.kind}, out_features={self.out_features}"
