"""Principal components of the nodes (plain, kernel or sparse), then a multilayer perceptron."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from sklearn.decomposition import KernelPCA, SparsePCA

from svnn._parameters import integer, one_of
from svnn._types import RandomState
from svnn.covariance import SampleCovariance
from svnn.covariance._resolve import fit_covariance
from svnn.estimators._data import Data
from svnn.estimators.training import Callback
from svnn.functional.spectrum import leading_eigenvectors
from svnn.paper.baselines._mlp import Perceptron
from svnn.paper.baselines._network import NetworkClassifier, NetworkRegressor

#: Values of a kernel matrix held at once when new observations are projected.
_KERNEL_VALUES = 2**24


class Reduction(Protocol):
    """A fitted projection of the nodes."""

    def transform(self, rows: np.ndarray, /) -> np.ndarray:
        """Project observations of shape (n, N) to (n, k)."""
        ...


@dataclass(frozen=True)
class PrincipalComponents:
    r"""The projection :math:`X_k = V_k^\top X` on the k leading eigenvectors of a covariance."""

    vectors: np.ndarray

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Project observations of shape (n, N) to (n, k)."""
        return rows @ self.vectors


@dataclass(frozen=True)
class Projection:
    """A reduction of signals (t, N, F) to (t, k, F), divided by one number for all components."""

    reduction: Reduction
    n_components: int
    scale: float

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        return reduce_nodes(self.reduction, Z) / self.scale


def fit_reduction(
    name: str, Z: np.ndarray, n_components: int, weight: np.ndarray | None, seed: int, max_observations: int
) -> Reduction:
    """Fit a reduction of the node axis on signals (t, N, F); its ``transform`` maps observations (n, N) to (n, k).

    Every one of the F values of a sample is an observation of the N nodes, as for the covariance.
    """
    if name == "pca":
        k = possible_components(n_components, nodes=Z.shape[1], observations=Z.shape[0] * Z.shape[2])
        covariance = fit_covariance(SampleCovariance(), Z, weight).covariance_
        return PrincipalComponents(leading_eigenvectors(covariance, k))
    # scikit-learn's take no weights; rows without any are left out.
    rows = as_observations(Z if weight is None else Z[weight > 0])
    if len(rows) > max_observations:
        chosen = np.random.default_rng(seed).choice(len(rows), max_observations, replace=False)
        rows = rows[np.sort(chosen)]
    if name == "kernel":
        k = possible_components(n_components, observations=len(rows))
        return KernelPCA(k, kernel="rbf", random_state=seed).fit(rows)
    k = possible_components(n_components, nodes=Z.shape[1], observations=len(rows))
    return SparsePCA(k, random_state=seed).fit(rows)


def reduce_nodes(reduction: Reduction, Z: np.ndarray) -> np.ndarray:
    """Map signals (t, N, F) to (t, k, F), one value (time step) of a sample after the other."""
    rows = as_observations(Z)
    size = max(1, _KERNEL_VALUES // len(reduction.X_fit_)) if isinstance(reduction, KernelPCA) else len(rows)
    parts = [reduction.transform(rows[i : i + size]) for i in range(0, len(rows), size)]
    return np.concatenate(parts).reshape(len(Z), Z.shape[2], -1).transpose(0, 2, 1)


def as_observations(Z: np.ndarray) -> np.ndarray:
    """Return signals (t, N, F) as observations (t F, N) of the nodes, in float64.

    In float32 the rounding of a projected row would depend on how many rows are projected with it.
    """
    return Z.transpose(0, 2, 1).reshape(-1, Z.shape[1]).astype(np.float64, copy=False)


def possible_components(n_components: int, **limits: int) -> int:
    """Return ``n_components``, or with a warning the most that there can be."""
    what, most = min(limits.items(), key=lambda item: item[1])
    if n_components > most:
        warnings.warn(
            f"n_components={n_components} is more than the {most} {what} of the training data; {most} are used.",
            UserWarning,
            stacklevel=2,
        )
    return min(n_components, most)


class ReducedPerceptron(Perceptron):
    """Base of the perceptrons on principal components."""

    _rules: ClassVar = {
        "n_components": integer(1),
        "reduction": one_of("pca", "kernel", "sparse"),
        "max_observations": integer(2),
        **Perceptron._rules,
    }

    def __init__(
        self,
        *,
        n_components: int = 20,
        reduction: str = "pca",
        max_observations: int = 2000,
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
        self.n_components = n_components
        self.reduction = reduction
        self.max_observations = max_observations
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

    def _projection(self, data: Data, seed: int) -> Projection:
        Z, k, most = data.training.signals, int(self.n_components), int(self.max_observations)
        reduction = fit_reduction(self.reduction, Z, k, data.given_weight, seed, most)
        scores = reduce_nodes(reduction, Z)
        # One number for all: a component keeps its variance relative to the others.
        return Projection(reduction, scores.shape[1], float(np.sqrt(np.mean(np.square(scores)))) or 1.0)

    @property
    def reduction_(self) -> Reduction:
        """The projection from observations (n, N) to (n, k)."""
        return self.fitted_.projection.reduction

    @property
    def n_components_(self) -> int:
        """Number of components, k."""
        return self.fitted_.projection.n_components


class PCAMLPRegressor(ReducedPerceptron, NetworkRegressor):
    r"""Regression with a multilayer perceptron on principal components.

    Parameters
    ----------
    n_components : int, default=20
        Number of components, k; the paper searches 10, 20 and 50. Where the training data have fewer nodes or
        observations, k is their number, with a warning.
    reduction : {"pca", "kernel", "sparse"}, default="pca"
        Principal components of the sample covariance; scikit-learn's ``KernelPCA`` with an RBF kernel; or its
        ``SparsePCA``, whose components have an l1 penalty and which is slow with thousands of nodes.
    max_observations : int, default=2000
        The kernel and the sparse reduction are fitted on at most this number of observations, drawn at random: a kernel
        matrix has the square of their number.
    hidden, dropout, batch_norm, standardize, lr, weight_decay, max_epochs, patience
        As in :class:`MLPRegressor`.
    batch_size, validation_fraction, device, random_state, verbose, callbacks
        As in :class:`svnn.SVNNRegressor`.

    Attributes
    ----------
    reduction_ : object with ``transform``
        The projection from observations (n, N) to (n, k).
    n_components_ : int
        Number of components, k.
    module_, history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MLPRegressor`.

    Notes
    -----
    This baseline sees the covariance through its leading eigenvectors only. The split, the standardisation, the
    optimiser and early stopping are those of the S-VNN estimators with ``schedule="constant"``.

    The reduction is of the node axis, :math:`X_k = V_k^\top X` for samples X of shape (N, F): each of the F values of a
    sample is one observation of the N nodes, as it is for the covariance. With tables (t, N) that is ordinary PCA. It
    is fitted on standardised training rows, without those held out for early stopping. All projections are divided by
    one number, their root mean square in training, so that components keep their relative variances; the perceptron
    sees (k, F) flattened. Sample weights count in the loss and in plain PCA; the other two leave out rows of weight
    zero.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn.paper.baselines import PCAMLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PCAMLPRegressor(n_components=5, max_epochs=30, random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.3)
    True
    """


class PCAMLPClassifier(ReducedPerceptron, NetworkClassifier):
    """Classification with a multilayer perceptron on principal components.

    The notes of :class:`PCAMLPRegressor` apply.

    Parameters
    ----------
    n_components, reduction, max_observations
        As in :class:`PCAMLPRegressor`.
    hidden, dropout, batch_norm, standardize, lr, weight_decay, max_epochs, patience
        As in :class:`MLPRegressor`.
    batch_size, validation_fraction, device, random_state, verbose, callbacks
        As in :class:`svnn.SVNNRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    reduction_, n_components_, module_, history_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`PCAMLPRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.paper.baselines import PCAMLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PCAMLPClassifier(n_components=3, max_epochs=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """
