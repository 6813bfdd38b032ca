"""Principal components of a covariance, then a support vector machine: the paper's PCA-SVM."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from svnn._fitted import at_once
from svnn.estimators._covariances import fit_seeded, fitted_covariance, is_precomputed
from svnn.estimators._docs import CLASS_WEIGHT, CLASSES, document_baseline
from svnn.estimators._parameters import check_covariance, yes_or_no
from svnn.estimators._range import SQUARES, check_range
from svnn.estimators._standardize import Standardizer
from svnn.estimators._targets import encode_labels, given_numbers
from svnn.estimators._torch import plain_torch
from svnn.estimators._trained import check_signals
from svnn.estimators._weights import check_class_weight, check_sample_weight, relative
from svnn.estimators.baselines._reduction import (
    PrincipalComponents,
    check_components,
    possible_components,
    reduce_nodes,
)
from svnn.estimators.baselines._store import store
from svnn.functional._array import generator
from svnn.functional.eigenvectors import align_signs, leading_eigenvectors
from svnn.operators import as_operator, plain_matrix


class BasePCASVM(ABC, BaseEstimator):
    """Base of :class:`PCASVMRegressor` and :class:`PCASVMClassifier`: everything but the targets."""

    n_components: int
    covariance: Any
    shift: Any
    standardize: bool
    random_state: Any

    @abstractmethod
    def _encode_targets(self, y: Any) -> np.ndarray:
        """Validate ``y`` and return it as the machine takes it, but for its scale."""

    def _scale_targets(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Learn the scale of the targets, where they have one, and return them on it."""
        return y

    def _check_parameters(self) -> None:
        check_components(self)
        check_covariance(self)
        yes_or_no(self, "standardize")

    @abstractmethod
    def _machine(self) -> Any:
        """Return the unfitted support vector machine."""

    @at_once
    @plain_torch()
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, validation_data: Any = None, groups: Any = None) -> Any:
        """Estimate the covariance of ``X``, project on its leading eigenvectors and fit the machine.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,)
        sample_weight : array of shape (t,), optional
            Weights of the samples in the machine, and in the covariance where that is one of svnn's own estimators.
        validation_data, groups : optional
            Taken so that all estimators can be called alike, and not used: there is no early stopping.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = check_signals(self, X, reset=True)
        targets = self._encode_targets(y)
        check_consistent_length(X, targets)
        weight = relative(check_sample_weight(sample_weight, X))
        if not weight.any():
            raise ValueError("sample_weight is zero for every training row; give some of them weight.")
        self._standardizer = Standardizer.fit(X, weight, active=bool(self.standardize))
        Z = self._standardizer(X)
        check_range(Z, "X", *SQUARES)
        limits = {"nodes": Z.shape[1]}
        if is_precomputed(self.covariance):
            matrix = self.shift
        else:
            seed = int(generator(self.random_state).integers(2**31))
            matrix = fit_seeded(self.covariance, Z, None if sample_weight is None else weight, seed).covariance_
            limits["observations"] = Z.shape[0] * Z.shape[2]
        vectors = self._eigenvectors(matrix, possible_components(self.n_components, **limits))
        self.components_ = vectors.T
        machine = self._machine()
        machine.random_state = 0  # of a draw that is not used, and must not come from the caller's global generator
        self.machine_ = machine.fit(
            self._project(Z).reshape(len(Z), -1), self._scale_targets(targets, weight), sample_weight=weight
        )
        return self

    def _eigenvectors(self, matrix: Any, k: int) -> np.ndarray:
        """Set ``covariance_`` and ``operator_``; return k eigenvectors (N, k)."""
        self.operator_ = as_operator(matrix)  # says what is wrong with a matrix that is no covariance
        self.covariance_ = plain_matrix(matrix)
        n = self.operator_.shape[0]
        if n != self.n_features_in_:
            raise ValueError(f"the covariance is {n}x{n}, but X has {self.n_features_in_} features.")
        return leading_eigenvectors(self.covariance_, k)

    def _project(self, Z: np.ndarray) -> np.ndarray:
        return reduce_nodes(PrincipalComponents(self.components_.T), Z)

    def embed(self, X: Any) -> np.ndarray:
        """Return the projections, of shape (t, n_components, F), F = 1 for a table."""
        check_is_fitted(self)
        return self._project(self._standardizer(check_signals(self, X)))

    def _inputs(self, X: Any) -> np.ndarray:
        projections = self.embed(X)
        return projections.reshape(len(projections), -1)

    @plain_torch()
    def on(self, covariance: Any, X: Any = None) -> Any:
        """Return the same fitted machine on projections with another covariance's eigenvectors.

        Parameters
        ----------
        covariance : matrix, operator, fitted or unfitted estimator, or name
            On the scale of the standardised features. What is not fitted yet is fitted on ``X``.
        X : array of shape (t, N) or (t, N, F), optional
            Data to fit it on.

        Returns
        -------
        A fitted estimator that shares the machine and the standardisation. The sign of an eigenvector says
        nothing, so every one gets the sign that brings it closest to its counterpart in training.
        """
        check_is_fitted(self)
        Z = None if X is None else self._standardizer(check_signals(self, X))
        fitted = fitted_covariance(covariance, Z)
        other = copy.copy(self)
        vectors = other._eigenvectors(getattr(fitted, "covariance_", fitted), len(self.components_))
        other.components_ = align_signs(vectors, self.components_.T).T
        return other

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


_OWN = """    n_components : int, default=20
        k. Where the training data have fewer nodes or observations, those are used, with a warning.
    covariance : str or estimator, default="sample"
        The covariance whose eigenvectors are projected on: a name, an estimator with ``fit`` and ``covariance_``, or
        "precomputed" with ``shift=``, as for :class:`svnn.SVNNRegressor`.
    shift : matrix of shape (N, N), optional
        The symmetric matrix for ``covariance="precomputed"``, on the scale of the standardised features.
    C : float, default=1.0
        Penalty of errors against the width of the margin.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the RBF kernel; see :class:`sklearn.svm.SVR`.
    standardize : bool, default=True
        z-score the features@target@ with training statistics.
    random_state : int, Generator, RandomState or None
        Seed of a stochastic covariance; nothing else is random.
"""

_EPSILON = """    epsilon : float, default=0.1
        Errors below it cost nothing; in standard deviations of the target with ``standardize=True``.
"""

_ATTRIBUTES = """    covariance_ : csr_array or ndarray of shape (N, N)
        Of the standardised features.
    operator_ : CovarianceOperator
        The same, not normalised: an eigenvector has no scale.
    components_ : ndarray of shape (n_components, N)
        Its leading eigenvectors.
    machine_ : sklearn.svm.{machine}
"""

_SUMMARY = """{task} with an RBF support vector machine on principal components.

    The paper's PCA-SVM: what covariance networks are compared with where the covariance is estimated from few samples.
    It is fitted on all rows; there are no epochs, hence no early stopping.
"""

_NOTES = r"""
    Notes
    -----
    Samples X of shape (N, F) are projected along the node axis, :math:`X_k = V_k^\top X`, and flattened; with tables
    (t, N) that is ordinary PCA. The columns of :math:`V_k` are the eigenvectors of the k largest eigenvalues.
"""


class PCASVMRegressor(RegressorMixin, BasePCASVM):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Regression"),
        _OWN.replace("@target@", ", and the target,"),
        _NOTES
        + """
    Examples
    --------
    >>> from svnn.datasets import make_sparse_cov
    >>> from svnn.estimators.baselines import PCASVMRegressor
    >>> data = make_sparse_cov(n_samples=300, n_features=20, random_state=0)
    >>> X, y = data.X[:200], data.y[:200]
    >>> model = PCASVMRegressor(covariance="precomputed", shift=data.covariance, n_components=5).fit(X, y)
    >>> model.embed(data.X[200:]).shape
    (100, 5, 1)

    The same machine on the eigenvectors of a covariance estimated from few samples:

    >>> model.on("sample", X=data.X[200:230]).predict(data.X[200:]).shape
    (100,)
    """,
        extra=_EPSILON,
        attributes=_ATTRIBUTES.format(machine="SVR"),
        trained=False,
    )

    def __init__(
        self,
        *,
        n_components: int = 20,
        covariance: Any = "sample",
        shift: Any = None,
        C: float = 1.0,
        gamma: float | str = "scale",
        standardize: bool = True,
        random_state: Any = None,
        epsilon: float = 0.1,
    ) -> None:
        store(self, locals())

    C: float
    gamma: float | str
    epsilon: float

    def _encode_targets(self, y: Any) -> np.ndarray:
        return given_numbers(self, y)

    def _scale_targets(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        self._target_standardizer = Standardizer.fit(y, weight, active=bool(self.standardize))
        scaled = self._target_standardizer(y)
        check_range(scaled, "y", *SQUARES)
        return scaled

    def _machine(self) -> SVR:
        return SVR(C=self.C, gamma=self.gamma, epsilon=self.epsilon)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, of shape (t,)."""
        inputs = self._inputs(X)
        return self._target_standardizer.inverse(self.machine_.predict(inputs))


class PCASVMClassifier(ClassifierMixin, BasePCASVM):
    __doc__ = document_baseline(
        _SUMMARY.format(task="Classification"),
        _OWN.replace("@target@", ""),
        _NOTES
        + """
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.estimators.baselines import PCASVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(PCASVMClassifier(n_components=3).fit(X, y).score(X, y) > 0.9)
    True
    """,
        extra=CLASS_WEIGHT,
        attributes=_ATTRIBUTES.format(machine="SVC") + CLASSES,
        trained=False,
    )

    def __init__(
        self,
        *,
        n_components: int = 20,
        covariance: Any = "sample",
        shift: Any = None,
        C: float = 1.0,
        gamma: float | str = "scale",
        standardize: bool = True,
        random_state: Any = None,
        class_weight: Any = None,
    ) -> None:
        store(self, locals())

    C: float
    gamma: float | str
    class_weight: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_class_weight(self.class_weight)

    def _encode_targets(self, y: Any) -> np.ndarray:
        self.classes_, encoded = encode_labels(self, y)
        return self.classes_[encoded]

    def _machine(self) -> SVC:
        return SVC(C=self.C, gamma=self.gamma, class_weight=self.class_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the distances to the margins, of shape (t,) for two classes, else (t, n_classes)."""
        inputs = self._inputs(X)
        return self.machine_.decision_function(inputs)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of every row."""
        inputs = self._inputs(X)
        return self.machine_.predict(inputs)
