"""Principal components of the nodes (plain, kernel or sparse), then a multilayer perceptron."""

from __future__ import annotations

import numpy as np
import torch

from svnn._parameters import declared, fitted, integer, one_of, parameter
from svnn.estimators._tasks import Classification, Regression
from svnn.paper.baselines._mlp import Perceptron
from svnn.paper.baselines._reduction import REDUCTIONS, ReducedNodes, Reduction, fit_reduction, reduce_nodes


@declared
class ReducedPerceptron(ReducedNodes, Perceptron):
    r"""Base of the perceptrons on principal components, whatever they predict.

    Notes
    -----
    This baseline sees the covariance through its leading eigenvectors only. The split, the standardisation, the
    optimiser and early stopping are those of the S-VNN estimators.

    The reduction is of the node axis, :math:`X_k = V_k^\top X` for samples X of shape (N, F): each of the F values
    of a sample is one observation of the N nodes, as it is for the covariance. With tables (t, N) that is ordinary
    PCA. It is fitted on standardised training rows, without those held out for early stopping. All projections are
    divided by one number, their root mean square in training, so that components keep their relative variances; the
    perceptron sees (k, F) flattened. Sample weights count in the loss and in plain PCA; the other two leave out rows
    of weight zero.
    """

    reduction: str = parameter(
        default="pca",
        rule=one_of(*REDUCTIONS),
        doc="""Principal components of the sample covariance; scikit-learn's ``KernelPCA`` with an RBF kernel; or its
        ``SparsePCA``, whose components have an l1 penalty and which is slow with thousands of nodes.""",
    )
    max_observations: int = parameter(
        default=2000,
        rule=integer(2),
        doc="""The kernel and the sparse reduction are fitted on at most so many observations, drawn at random: a kernel
        matrix has the square of their number.""",
    )

    reduction_: Reduction = fitted(
        kind="object with ``transform``", doc="The projection from observations (n, N) to (n, k)."
    )
    n_components_: int = fitted(kind="int", doc="Number of components, k.")

    def _fit_structure(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray, seed: int, device: torch.device
    ) -> None:
        """Learn the projection of standardised signals, and the common scale of what it gives."""
        k, most = int(self.n_components), int(self.max_observations)
        self.reduction_ = fit_reduction(self.reduction, Z, k, weight, seed, most)
        scores = reduce_nodes(self.reduction_, Z)
        self.n_components_ = scores.shape[1]
        # One number for all: a component keeps its variance relative to the others.
        self._score_scale = float(np.sqrt(np.mean(np.square(scores)))) or 1.0

    def _inputs(self, Z: np.ndarray) -> np.ndarray:
        return reduce_nodes(self.reduction_, Z) / self._score_scale

    def _n_nodes(self) -> int:
        return self.n_components_


@declared
class PCAMLPRegressor(ReducedPerceptron, Regression):
    """Regression with a multilayer perceptron on principal components.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn.paper.baselines import PCAMLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PCAMLPRegressor(n_components=5, max_epochs=30, random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.3)
    True
    """


@declared
class PCAMLPClassifier(ReducedPerceptron, Classification):
    """Classification with a multilayer perceptron on principal components.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.paper.baselines import PCAMLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PCAMLPClassifier(n_components=3, max_epochs=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """
