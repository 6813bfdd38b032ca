"""Classification with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence

from svnn._parameters import declared
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._network_estimator import Classification


@declared
class SVNNClassifier(CovarianceNetwork, Classification):
    """Classification with a sparse covariance neural network.

    Two or more classes, labels of any type. Estimates the covariance of the features, sparsifies
    it, and trains a network whose layers are polynomials of it.

    See Also
    --------
    SVNNRegressor : the same for numbers.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn import SVNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVNNClassifier(max_epochs=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    hidden: Sequence[int] = (12,)
    heads: int | str = "auto"
    mlp: Sequence[int] = ()
    node_dropout: float = 0.4

    def _n_heads(self, n_outputs: int) -> int:
        return min(max(2 * n_outputs, 8), 32) if self.heads == "auto" else int(self.heads)
