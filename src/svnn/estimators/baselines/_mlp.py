"""A multilayer perceptron on all values of a sample: no covariance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor, nn

from svnn.estimators._docs import CLASS_WEIGHT, CLASSES, LOSS, document_baseline
from svnn.estimators._targets import TrainedClassifier, TrainedRegressor
from svnn.estimators._trained import TrainedEstimator
from svnn.estimators.baselines._store import store
from svnn.nn._layers import ACTIVATIONS, Dropout, NodeNorm


class MLP(nn.Module):
    """Layers of linear map → batch norm → activation → dropout, and a linear output, on flattened signals.

    Shapes
    ------
    x : (t, N, F), flattened to (t, N F); result : (t, out_features). A shift is taken and not used, so that the
    training loop can call all networks alike.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: Sequence[int] = (32, 32),
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
    ) -> None:
        super().__init__()
        if not len(hidden):
            raise ValueError("hidden must name at least one layer, e.g. (32, 32).")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {tuple(ACTIVATIONS)}, got {activation!r}.")
        self.widest = max(hidden)
        self.layers = nn.Sequential()
        for before, after in pairwise([in_features, *hidden]):
            # The normalisation has a bias of its own.
            self.layers.append(nn.Linear(before, after, bias=not batch_norm))
            self.layers.extend([NodeNorm(after)] if batch_norm else [])
            self.layers.extend([ACTIVATIONS[activation](), Dropout(dropout)])
        self.output = nn.Linear(hidden[-1], out_features)

    def forward(self, x: Tensor, shift: Any = None) -> Tensor:
        result: Tensor = self.output(self.embed(x))
        return result

    def embed(self, x: Tensor, shift: Any = None) -> Tensor:
        """Return the last hidden layer, of shape (t, hidden[-1])."""
        result: Tensor = self.layers(x.flatten(1))
        return result


class BaseMLP(TrainedEstimator):
    """Base of :class:`MLPRegressor` and :class:`MLPClassifier`: everything but the targets."""

    activation: str
    dropout: float
    batch_norm: bool

    def _n_nodes(self) -> int:
        """Return the number of nodes that the network sees."""
        return self.n_features_in_

    def _build(self, in_features: int, n_outputs: int) -> MLP:
        width = self._n_nodes() * in_features
        hidden = [int(size) for size in self.hidden]
        return MLP(width, n_outputs, hidden, self.activation, float(self.dropout), bool(self.batch_norm))

    def embed(self, X: Any) -> np.ndarray:
        """Return the last hidden layer, of shape (t, hidden[-1])."""
        return self._output(X, embed=True)


NETWORK = """    hidden : sequence of int, default=(32, 32)
        Sizes of the hidden layers; the paper searches (32, 32), (256, 128) and (256, 128, 128).
    activation : {"leaky_relu", "relu", "elu", "gelu", "silu", "tanh", "identity"}, default="leaky_relu"
    dropout : float in [0, 1), default=0.0
    batch_norm : bool, default=True
"""

_MODULE = """    module_ : torch.nn.Module
"""

_SUMMARY = """{task} with a multilayer perceptron on the raw features.

    A baseline that knows nothing of the covariance. Samples of shape (N, F) are flattened. Split, standardisation,
    optimiser and early stopping are those of :class:`svnn.{svnn}`.
"""


class MLPRegressor(TrainedRegressor, BaseMLP):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Regression", svnn="SVNNRegressor"),
        NETWORK,
        """
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn.estimators.baselines import MLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MLPRegressor(max_epochs=30, random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.3)
    True
    """,
        extra=LOSS,
        attributes=_MODULE,
        target=", and the targets,",
    )

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (32, 32),
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
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


class MLPClassifier(TrainedClassifier, BaseMLP):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Classification", svnn="SVNNClassifier"),
        NETWORK,
        """
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.estimators.baselines import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier(max_epochs=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """,
        extra=CLASS_WEIGHT,
        attributes=_MODULE + CLASSES,
    )

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (32, 32),
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
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
