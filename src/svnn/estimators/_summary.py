"""The facts of a fitted network: its graph and its training."""

from __future__ import annotations

from typing import Any

from svnn._summary import kept_edges
from svnn.covariance._base import off_diagonal_density
from svnn.functional._matrix import unchecked_matrix


def network_facts(model: Any) -> dict[str, str]:
    """Return N, the edges that were kept, members, epochs and the validation loss of a fitted network, in words."""
    n, epochs, members = model.n_features_in_, model.n_iter_, len(model.fitted_.networks)
    graph, of = model.covariance_, ""
    if model.shift_.use == "precision" and model.covariance_estimator_ is not None:
        graph, of = unchecked_matrix(model.covariance_estimator_.precision_), "the precision"
    losses = model.history_.get("valid_loss")
    return {
        "features": f"N = {n:,}",
        "graph": kept_edges(n, off_diagonal_density(graph), of),
        "networks": f"{members} members" if members > 1 else "1 member",
        "training": f"{epochs} epochs" if epochs > 1 else "1 epoch",
        "validation": f"validation loss {min(losses):.4g}" if losses else "no validation rows",
    }
