"""A multilayer perceptron on all values of a sample: no covariance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from torch import Tensor, nn

from svnn._parameters import declared, parameter, sizes
from svnn._types import DataLike
from svnn.estimators._network_estimator import NetworkEstimator
from svnn.estimators._tasks import Classification, Regression
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
        self.widest = max(hidden)
        self.layers = nn.Sequential()
        for before, after in pairwise([in_features, *hidden]):
            # The normalisation has a bias of its own.
            self.layers.append(nn.Linear(before, after, bias=not batch_norm))
            self.layers.extend([NodeNorm(after)] if batch_norm else [])
            self.layers.extend([ACTIVATIONS[activation](), Dropout(dropout)])
        self.output = nn.Linear(hidden[-1], out_features)

    def forward(self, x: Tensor, shift: object = None) -> Tensor:
        result: Tensor = self.output(self.embed(x))
        return result

    def embed(self, x: Tensor, shift: object = None) -> Tensor:
        """Return the last hidden layer, of shape (t, hidden[-1])."""
        result: Tensor = self.layers(x.flatten(1))
        return result


@declared
class Perceptron(NetworkEstimator):
    """Base of the perceptrons, whatever they predict.

    Notes
    -----
    This baseline knows nothing of the covariance. Samples of shape (N, F) are flattened. The split, the
    standardisation, the optimiser and early stopping are those of the S-VNN estimators.
    """

    hidden: Sequence[int] = parameter(
        default=(32, 32),
        rule=sizes(least=1),
        doc="Sizes of the hidden layers; the paper searches (32, 32), (256, 128) and (256, 128, 128).",
    )

    def _build(self, in_features: int, n_outputs: int) -> MLP:
        hidden = [int(size) for size in self.hidden]
        width = self._n_nodes() * in_features
        return MLP(width, n_outputs, hidden, self.activation, float(self.dropout), bool(self.batch_norm))

    def _n_nodes(self) -> int:
        """Return the number of nodes that the network sees."""
        return self.n_features_in_

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the last hidden layer, of shape (t, hidden[-1])."""
        return self._output(X, embed=True)


@declared
class MLPRegressor(Perceptron, Regression):
    """Regression with a multilayer perceptron on the raw features.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn.paper.baselines import MLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MLPRegressor(max_epochs=30, random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.3)
    True
    """


@declared
class MLPClassifier(Perceptron, Classification):
    """Classification with a multilayer perceptron on the raw features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.paper.baselines import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier(max_epochs=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """
