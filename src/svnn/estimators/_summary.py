"""What a fitted S-VNN says of itself: how large and how sparse its graph is, and how its training went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svnn._summary import FittedSummary, kept_edges
from svnn.covariance._base import off_diagonal_density
from svnn.functional._matrix import own_matrix


class NetworkSummary(FittedSummary):
    """Says N, the edges that were kept, members, epochs and the validation loss of a fitted network."""

    def _summary(self) -> Mapping[str, str]:
        model: Any = self
        if not hasattr(self, "module_") or not hasattr(self, "covariance_"):
            return {}
        n, epochs = model.n_features_in_, model.n_iter_
        members = len(getattr(model.module_, "networks", [None]))
        graph, of = model.covariance_, ""
        if model._as_trained("use") == "precision" and model.covariance_estimator_ is not None:
            graph, of = own_matrix(model.covariance_estimator_.precision_), "the precision"
        losses = model.history_.get("valid_loss")
        found = {
            "features": f"N = {n:,}",
            "graph": kept_edges(n, off_diagonal_density(graph), of),
            "networks": f"{members} members" if members > 1 else "1 member",
            "training": f"{epochs} epochs" if epochs > 1 else "1 epoch",
            "validation": f"validation loss {min(losses):.4g}" if losses else "no validation rows",
        }
        if len(model.blend_) > 1:
            found["blend"] = "blend: " + blend_in_words(model.blend_)
        return found


def blend_in_words(blend: Mapping[str, float]) -> str:
    """Return how much the parts of a model count, in per cent.

    Examples
    --------
    >>> blend_in_words({"with edges": 0.614, "linear": 0.386})
    '61 % with edges, 39 % linear'
    """
    return ", ".join(f"{weight:.0%} {name}".replace("%", " %") for name, weight in blend.items())
