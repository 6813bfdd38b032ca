"""Attributes, tags and facts of fitted estimators."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from sklearn.utils import Tags

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


def fitted_property(path: str, doc: str) -> property:
    """Return a property that reads part of a value that ``fit`` stored, such as "shift_.covariance".

    Before ``fit`` there is no such attribute.
    """
    name, read = path.partition(".")[0], attrgetter(path)

    def get(model: Any) -> Any:
        if name not in vars(model):
            raise AttributeError(f"this {type(model).__name__} is not fitted yet; call fit first.")
        return read(model)

    return property(get, doc=doc)


def predictor_tags(tags: Tags, model: Any) -> Tags:
    """Return the tags of an estimator of numbers or labels from tables (t, N) and signals (t, N, F)."""
    tags.non_deterministic = model.random_state is None
    tags.input_tags.three_d_array = True
    tags.target_tags.multi_output = not model._are_labels
    return tags
