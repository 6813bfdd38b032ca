"""A multilayer perceptron on all values of a sample: no covariance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from svnn._types import RandomState
from svnn.estimators._rules import LAYERS, TRAINING
from svnn.estimators.training import Callback
from svnn.paper.baselines._network import NetworkBaseline, NetworkClassifier, NetworkRegressor, layer


class MLP(nn.Module):
    """Layers of linear map → batch norm → activation → dropout, and a linear output, on flattened signals.

    Shapes
    ------
    x : (t, N, F), flattened to (t, N F); result : (t, out_features). A graph is taken and not used: all networks are
    called alike.
    """

    def __init__(
        self, in_features: int, out_features: int, hidden: Sequence[int], dropout: float = 0.0, batch_norm: bool = True
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(layer(a, b, dropout, batch_norm) for a, b in pairwise([in_features, *hidden])))
        self.output = nn.Linear(hidden[-1], out_features)

    def forward(self, x: Tensor, graph: Tensor | None = None) -> Tensor:
        result: Tensor = self.output(self.embed(x))
        return result

    def embed(self, x: Tensor, graph: Tensor | None = None) -> Tensor:
        """Return the last hidden layer, of shape (t, hidden[-1])."""
        result: Tensor = self.layers(x.flatten(1))
        return result


class Perceptron(NetworkBaseline):
    """Base of the perceptrons."""

    _rules: ClassVar = {**LAYERS, **TRAINING}

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (32, 32),
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

    def _build(self, n_nodes: int, n_values: int, n_outputs: int) -> MLP:
        hidden = [int(size) for size in self.hidden]
        return MLP(n_nodes * n_values, n_outputs, hidden, float(self.dropout), bool(self.batch_norm))


class MLPRegressor(Perceptron, NetworkRegressor):
    """Regression with a multilayer perceptron on the raw features.

    Parameters
    ----------
    hidden : sequence of int, default=(32, 32)
        Sizes of the hidden layers; the paper searches (32, 32), (256, 128) and (256, 128, 128).
    dropout : float in [0, 1), default=0.0
        Share of the values after each layer that are set to zero at random during training.
    batch_norm : bool, default=True
        Whether the values after each layer are normalised over the batch.
    standardize, lr, weight_decay
        As in :class:`svnn.SVNNRegressor`.
    max_epochs : int or "auto", default="auto"
        The most epochs to train for; "auto" is 1000.
    patience : int or None, default=100
        Number of epochs without a better validation loss after which training stops; None never stops early. The best
        weights are kept.
    batch_size, validation_fraction, device, random_state, verbose, callbacks
        As in :class:`svnn.SVNNRegressor`.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    history_ : dict of lists
        ``train_loss`` and ``valid_loss`` of every epoch, and ``best_epoch``, from 1.
    n_iter_, n_features_in_, feature_names_in_
        As in :class:`svnn.SVNNRegressor`.

    Notes
    -----
    This baseline knows nothing of the covariance. Samples of shape (N, F) are flattened. The split, the
    standardisation, the optimiser and early stopping are those of the S-VNN estimators with ``schedule="constant"``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn.paper.baselines import MLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MLPRegressor(max_epochs=30, random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.3)
    True
    """


class MLPClassifier(Perceptron, NetworkClassifier):
    """Classification with a multilayer perceptron on the raw features.

    The notes of :class:`MLPRegressor` apply.

    Parameters
    ----------
    hidden, dropout, batch_norm, standardize, lr, weight_decay, max_epochs, patience
        As in :class:`MLPRegressor`.
    batch_size, validation_fraction, device, random_state, verbose, callbacks
        As in :class:`svnn.SVNNRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    module_, history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MLPRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.paper.baselines import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier(max_epochs=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """
