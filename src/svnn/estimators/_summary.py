"""Tags for scikit-learn, and the facts of a fitted model: its graph and its training."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from torch import nn

from svnn._summary import kept_edges
from svnn._types import RandomState
from svnn.covariance._base import off_diagonal_density
from svnn.estimators._history import History
from svnn.functional._matrix import unchecked_matrix


class Predictor(BaseEstimator):
    """Base of the estimators of numbers or labels from tables (t, N) and signals (t, N, F)."""

    random_state: RandomState
    _are_labels: ClassVar[bool]

    def _after_fit(self, name: str = "fitted_") -> Any:
        """Return a fitted value; before ``fit`` an AttributeError, as for any attribute that is not there."""
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first.") from None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = not self._are_labels
        return tags


class Labelled(Predictor):
    """Base of classifiers."""

    @property
    def classes_(self) -> np.ndarray:
        """The labels, in order."""
        found: np.ndarray = self._after_fit().targets.classes
        return found


class Trained(Predictor):
    """Base of the estimators that train networks."""

    @property
    def module_(self) -> nn.Module:
        """The trained network, or several of them that predict together."""
        module: nn.Module = self._after_fit().module
        return module

    @property
    def history_(self) -> History:
        """The losses of every epoch."""
        history: History = self._after_fit().history
        return history

    @property
    def n_iter_(self) -> int:
        """Number of epochs trained."""
        return len(self.history_["train_loss"])


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
