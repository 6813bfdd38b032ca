"""Base of the baselines that train a network: one ``fit``, the fitted values, and predictions."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from svnn._parameters import Rule, check_parameters
from svnn._types import ColumnLike, DataLike, RandomState
from svnn._validation import at_once
from svnn.estimators._base import fitted_property, predictor_tags
from svnn.estimators._data import Data, Rows, check_signals, prepare
from svnn.estimators._fingerprint import fingerprint
from svnn.estimators._history import History
from svnn.estimators._progress_bar import progress_bar
from svnn.estimators._trainers import batch_of, batches, loss_of, optimiser_of
from svnn.estimators._units import Standardizer, Targets, softmax
from svnn.estimators.training import (
    ModuleTrainer,
    Shifts,
    Training,
    new_network,
    noise_generators,
    pick_device,
    plain_torch,
    train,
)
from svnn.functional._array import generator
from svnn.nn._layers import Dropout, NodeNorm

#: Rows that are predicted at once.
_ROWS = 1000


def layer(in_features: int, out_features: int, dropout: float, batch_norm: bool) -> nn.Sequential:
    """Return linear map → batch norm → activation → dropout, as the networks of the paper have them."""
    linear = nn.Linear(in_features, out_features, bias=not batch_norm)  # the normalisation has a bias of its own
    return nn.Sequential(linear, *[NodeNorm(out_features)] * batch_norm, nn.LeakyReLU(), Dropout(dropout))


@dataclass(frozen=True)
class Fitted:
    """Values that ``fit`` learned.

    Attributes
    ----------
    module : Module
        The trained network.
    standardizer, targets : Standardizer, Targets
        The units of the features and of what is predicted.
    n_values : int
        Values per node, F.
    history : History
    projection : callable or None
        Maps standardised signals to what the network takes.
    graph : Tensor or None
        What the network runs on.
    """

    module: nn.Module
    standardizer: Standardizer
    targets: Targets
    n_values: int
    history: History
    projection: Any = None
    graph: Tensor | None = None


class Baseline(BaseEstimator, ABC):
    """Base of all baselines: what ``fit`` takes."""

    _rules: ClassVar[Mapping[str, Rule]]
    _are_labels: ClassVar[bool]
    random_state: RandomState

    @at_once
    @plain_torch()
    def fit(
        self, X: DataLike, y: ColumnLike, sample_weight: Any = None, *, validation_data: Any = None, groups: Any = None
    ) -> Self:
        """Fit the model to the rows of ``X``; PCA-SVMs, which have no epochs, use no validation data and no groups.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,), or (t, n_outputs) for regression by networks
        sample_weight : array of shape (t,), optional
            Weights of the samples. Only their ratios count.
        validation_data : tuple (X, y), optional
            Data for early stopping. By default ``validation_fraction`` of the rows are held out.
        groups : array of shape (t,), optional
            Rows of one group (a subject, say) never fall on both sides of that split.

        Returns
        -------
        self
        """
        check_parameters(self)
        seed = int(generator(self.random_state).integers(2**31))
        return self._fit(X, y, sample_weight, seed, validation_data=validation_data, groups=groups)

    def __sklearn_tags__(self) -> Tags:
        return predictor_tags(super().__sklearn_tags__(), self)

    @abstractmethod
    def _fit(self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, seed: int, **given: Any) -> Self:
        """Learn from the rows with a seed."""


class NetworkBaseline(Baseline):
    """Base of the baselines that train a network: all that does not depend on what is predicted."""

    fitted_: Fitted
    device: str
    verbose: int
    #: Plain Adam, as in the paper.
    schedule = "constant"
    module_ = fitted_property("fitted_.module", "The trained network.")
    history_ = fitted_property("fitted_.history", "The losses of every epoch.")

    @property
    def n_iter_(self) -> int:
        """Number of epochs trained."""
        return len(self.history_["train_loss"])

    def _projection(self, data: Data, seed: int) -> Any:
        """Return what maps standardised signals (t, N, F) to those that the network takes; None where it is nothing."""
        return None

    def _graph(self, n_nodes: int, seed: int) -> Tensor | None:
        """Return what the network runs on; None for networks without a graph."""
        return None

    @abstractmethod
    def _build(self, n_nodes: int, n_values: int, n_outputs: int) -> nn.Module:
        """Return the network; its ``forward`` and ``embed`` take signals (t, N, F) and a graph."""

    def _fit(self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, seed: int, **given: Any) -> Self:
        device = pick_device(self.device)
        data = prepare(self, X, y, sample_weight, seed=seed, are_labels=self._are_labels, **given)
        projection = self._projection(data, seed)
        if projection is not None:
            held_out = None if data.held_out is None else _projected(data.held_out, projection)
            data = replace(data, training=_projected(data.training, projection), held_out=held_out)
        graph = self._graph(data.n_nodes, seed)
        graph = None if graph is None else graph.to(device)
        draws = torch.Generator().manual_seed(seed)
        sizes = data.n_nodes, data.n_values, data.targets.n_outputs
        network = new_network(lambda: self._build(*sizes), draws, device)
        batch, validation = batches(data, lambda rows: batch_of(rows, device))
        noise, shifts = noise_generators(1, draws, device), Shifts(graph)
        trainer = ModuleTrainer([network], loss_of(self), batch, validation, shifts, optimiser_of(self), noise)
        n_rows = len(data.training.signals)
        training = Training.of(self, n_rows, data.training.signals.size)
        with progress_bar(type(self).__name__, training, self.verbose) as shown:
            losses = train(trainer, n_rows, shown, draws, identity=lambda: fingerprint(self, data, [network]))
        training.end()
        history = History(losses)
        self.fitted_ = Fitted(network, data.standardizer, data.targets, data.n_values, history, projection, graph)
        return self

    @plain_torch()
    def _outputs(self, X: DataLike, embed: bool = False) -> np.ndarray:
        """Return the outputs of the network (t, n_outputs), or the embeddings, for every row of ``X``."""
        check_is_fitted(self)
        fitted = self.fitted_
        Z = fitted.standardizer(check_signals(self, X, fitted.n_values))
        Z = Z if fitted.projection is None else fitted.projection(Z)
        if not np.isfinite(Z).all():
            raise ValueError("X holds values too far from those of the training data to compute with.")
        # In double precision a row's result does not depend on the rows it is batched with.
        module: Any = copy.deepcopy(fitted.module).double()
        graph = None if fitted.graph is None else fitted.graph.double()
        x = torch.as_tensor(Z, dtype=torch.float64, device=next(module.parameters()).device)
        run = module.embed if embed else module
        with torch.no_grad():
            return torch.cat([run(part, graph) for part in x.split(_ROWS)]).cpu().numpy()

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the last hidden layer: (t, hidden[-1]), or (t, N, hidden[-1]) where every node has its own."""
        return self._outputs(X, embed=True)


def _projected(rows: Rows, projection: Any) -> Rows:
    return rows._replace(signals=projection(rows.signals))


class NetworkRegressor(RegressorMixin, NetworkBaseline):
    """A network for one or more numbers per sample, trained on the squared error."""

    _are_labels = False
    loss = "squared"

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``."""
        outputs = self._outputs(X)
        return self.fitted_.targets.decode(outputs)


class NetworkClassifier(ClassifierMixin, NetworkBaseline):
    """A network for labels, trained on the cross-entropy."""

    _are_labels = True
    classes_ = fitted_property("fitted_.targets.classes", "The labels, in order.")

    def predict_proba(self, X: DataLike) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``."""
        return softmax(self._outputs(X))

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the most probable label of every row."""
        probabilities = self.predict_proba(X)
        return self.fitted_.targets.decode(probabilities)
