"""Principal components of the nodes (plain, kernel or sparse), then a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svnn.estimators._docs import CLASS_WEIGHT, CLASSES, LOSS, document_baseline
from svnn.estimators._parameters import one_of, whole
from svnn.estimators._targets import TrainedClassifier, TrainedRegressor
from svnn.estimators.baselines._mlp import NETWORK, BaseMLP
from svnn.estimators.baselines._reduction import REDUCTIONS, check_components, fit_reduction, reduce_nodes
from svnn.estimators.baselines._store import store


class BasePCAMLP(BaseMLP):
    """Base of :class:`PCAMLPRegressor` and :class:`PCAMLPClassifier`: everything but the targets."""

    reduction: str
    n_components: int
    max_observations: int

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_components(self)
        one_of(self, "reduction", REDUCTIONS)
        if not whole(self.max_observations, 2):
            raise ValueError(f"max_observations must be an integer >= 2, got {self.max_observations!r}.")

    def _fit_shift(self, Z: np.ndarray, weight: np.ndarray | None, seed: int, y: Any = None) -> None:
        super()._fit_shift(Z, weight, seed)
        self.reduction_ = fit_reduction(self.reduction, Z, self.n_components, weight, seed, self.max_observations)
        scores = reduce_nodes(self.reduction_, Z)
        self.n_components_ = scores.shape[1]
        # One number for all: a component keeps its variance relative to the others.
        self._score_scale = float(np.sqrt(np.mean(np.square(scores)))) or 1.0

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return reduce_nodes(self.reduction_, super()._inputs(X)) / self._score_scale

    def _n_nodes(self) -> int:
        return self.n_components_


_OWN = """    reduction : {"pca", "kernel", "sparse"}, default="pca"
        Principal components of the sample covariance; scikit-learn's ``KernelPCA`` with an RBF kernel; or its
        ``SparsePCA``, whose components have an l1 penalty and which is slow with thousands of nodes.
    n_components : int, default=20
        k; the paper searches 10, 20 and 50. Where the training data have fewer nodes or observations, those
        are used, with a warning.
    max_observations : int, default=2000
        The kernel and the sparse reduction are fitted on at most so many observations, drawn at random: a kernel
        matrix has the square of their number.
"""

_ATTRIBUTES = """    reduction_ : object with ``transform``
        From observations (n, N) to (n, k).
    n_components_ : int
    module_ : torch.nn.Module
"""

_SUMMARY = """{task} with a multilayer perceptron on principal components.

    A baseline that sees the covariance through its leading eigenvectors only. Split, standardisation, optimiser and
    early stopping are those of :class:`svnn.{svnn}`.
"""

_NOTES = r"""
    Notes
    -----
    The reduction is of the node axis, :math:`X_k = V_k^\top X` for samples X of shape (N, F): each of the F values
    of a sample is one observation of the N nodes, as it is for the covariance. With tables (t, N) that is ordinary
    PCA. It is fitted on standardised training rows, without those held out for early stopping. All projections are
    divided by one number, their root mean square in training, so that components keep their relative variances; the
    perceptron sees (k, F) flattened. Sample weights count in the loss and in plain PCA; the other two leave out rows
    of weight zero.
"""


class PCAMLPRegressor(TrainedRegressor, BasePCAMLP):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Regression", svnn="SVNNRegressor"),
        _OWN + NETWORK,
        _NOTES
        + """
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn.estimators.baselines import PCAMLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PCAMLPRegressor(n_components=5, max_epochs=30, random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.3)
    True
    """,
        extra=LOSS,
        attributes=_ATTRIBUTES,
        target=", and the targets,",
    )

    def __init__(
        self,
        *,
        reduction: str = "pca",
        n_components: int = 20,
        max_observations: int = 2000,
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


class PCAMLPClassifier(TrainedClassifier, BasePCAMLP):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Classification", svnn="SVNNClassifier"),
        _OWN + NETWORK,
        _NOTES
        + """
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.estimators.baselines import PCAMLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PCAMLPClassifier(n_components=3, max_epochs=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """,
        extra=CLASS_WEIGHT,
        attributes=_ATTRIBUTES + CLASSES,
    )

    def __init__(
        self,
        *,
        reduction: str = "pca",
        n_components: int = 20,
        max_observations: int = 2000,
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
