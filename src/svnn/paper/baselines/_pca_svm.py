"""Principal components of a covariance, then a support vector machine: PCA-SVM, as the paper calls it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.svm import SVC, SVR
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from svnn._parameters import anything, declared, fitted, parameter, seed
from svnn._types import ColumnLike, CovarianceLike, DataLike, HasCovariance, MatrixLike, RandomState
from svnn._validation import at_once
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.estimators._covariance_network import known_covariance, plain_covariance
from svnn.estimators._covariance_parameters import GivenCovariance
from svnn.estimators._shared_parameters import ClassWeight, SeenFeatures, TrainingParameters
from svnn.estimators._training_data import (
    SQUARES,
    LabelTargets,
    NumberTargets,
    Standardizer,
    check_range,
    check_sample_weight,
    check_signals,
    check_targets,
    relative,
)
from svnn.estimators.training import plain_torch
from svnn.functional._array import generator
from svnn.functional.eigenvectors import align_signs, leading_eigenvectors
from svnn.operators import CovarianceOperator, as_operator
from svnn.paper.baselines._reduction import PrincipalComponents, ReducedNodes, possible_components, reduce_nodes


@declared
class PCASVM(ReducedNodes, GivenCovariance, SeenFeatures, ABC, BaseEstimator):
    r"""Base of the support vector machines on principal components, whatever they predict.

    Notes
    -----
    The paper compares covariance networks with this baseline where the covariance is estimated from few samples. It is
    fitted on all rows; there are no epochs, hence no early stopping.

    Samples X of shape (N, F) are projected along the node axis, :math:`X_k = V_k^\top X`, and flattened; with tables
    (t, N) that is ordinary PCA. The columns of :math:`V_k` are the eigenvectors of the k largest eigenvalues.
    """

    covariance: CovarianceLike = parameter(
        default="sample",
        rule=anything("str or estimator"),
        doc="""The covariance whose eigenvectors are projected on: a name, an estimator with ``fit`` and
        ``covariance_``, or "precomputed" with ``shift=``, as for :class:`svnn.SVNNRegressor`.""",
    )
    C: float = parameter(default=1.0, rule=anything("float"), doc="Penalty of errors against the width of the margin.")
    gamma: float | str = parameter(
        default="scale",
        rule=anything('{"scale", "auto"} or float'),
        doc="Width of the RBF kernel; see :class:`sklearn.svm.SVR`.",
    )
    standardize: bool = parameter(default=True, like=TrainingParameters)
    random_state: RandomState = parameter(
        default=None, rule=seed(), doc="Seed of a stochastic covariance; nothing else is random."
    )

    operator_: CovarianceOperator = fitted(
        kind="CovarianceOperator", doc="The covariance as an operator, not normalised: an eigenvector has no scale."
    )
    components_: np.ndarray = fitted(
        kind="ndarray of shape (n_components, N)", doc="The leading eigenvectors of the covariance."
    )
    machine_: SVC | SVR = fitted(kind="sklearn.svm.SVR or SVC", doc="The fitted machine.")

    @abstractmethod
    def _check_targets(self, y: ColumnLike) -> np.ndarray:
        """Return targets of shape (t,), or say what is wrong with them."""

    @abstractmethod
    def _keep_targets(self, y: np.ndarray, weight: np.ndarray) -> None:
        """Learn from checked targets what predictions need to know of them."""

    @abstractmethod
    def _machine(self) -> SVC | SVR:
        """Return the unfitted support vector machine."""

    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Return checked targets as the machine takes them."""
        return y

    @at_once
    @plain_torch()
    def fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[DataLike, ColumnLike] | None = None,
        groups: ColumnLike | None = None,
    ) -> Self:
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
        signals = check_signals(self, X)
        targets = self._check_targets(y)
        check_consistent_length(signals, targets)
        weight = relative(check_sample_weight(sample_weight, len(signals)))
        self._n_values = signals.shape[2]
        self._standardizer = Standardizer.fit(signals, weight, active=bool(self.standardize))
        Z = self._standardizer(signals)
        check_range(Z, "X", *SQUARES)

        limits = {"nodes": Z.shape[1]}
        if self.shift is None:
            draw = int(generator(self.random_state).integers(2**31))
            given_weight = None if sample_weight is None else weight
            estimator = fit_covariance(resolve(self.covariance, draw), Z, given_weight)
            self._set_covariance(estimator, estimator.covariance_)
            limits["observations"] = Z.shape[0] * Z.shape[2]
        else:
            self._set_covariance(None, self.shift)
        k = possible_components(int(self.n_components), **limits)
        self.components_ = leading_eigenvectors(self.covariance_, k).T

        self._keep_targets(targets, weight)
        machine = self._machine()
        machine.random_state = 0  # of a draw that is not used, and must not come from the caller's global generator
        inputs = self._project(Z).reshape(len(Z), -1)
        self.machine_ = machine.fit(inputs, self._encode(targets), sample_weight=weight)
        return self

    def _set_covariance(self, estimator: HasCovariance | None, matrix: MatrixLike) -> None:
        """Set what is known of the covariance: its estimator, where there is one, and the matrix."""
        self.operator_ = as_operator(matrix)  # says what is wrong with a matrix that is no covariance
        self.covariance_estimator_, self.covariance_ = estimator, plain_covariance(matrix)
        n = self.operator_.shape[0]
        if n != self.n_features_in_:
            raise ValueError(f"the covariance is {n}x{n}, but X has {self.n_features_in_} features.")

    def _project(self, Z: np.ndarray) -> np.ndarray:
        return reduce_nodes(PrincipalComponents(self.components_.T), Z)

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the projections, of shape (t, n_components, F), F = 1 for a table."""
        check_is_fitted(self)
        return self._project(self._standardizer(check_signals(self, X, self._n_values)))

    def _inputs(self, X: DataLike) -> np.ndarray:
        projections = self.embed(X)
        return projections.reshape(len(projections), -1)

    @plain_torch()
    def on(self, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Self:
        """Return the same fitted machine on projections with another covariance's eigenvectors.

        Parameters
        ----------
        covariance : matrix, operator, fitted or unfitted estimator, or name
            As for :meth:`svnn.SVNNRegressor.on`.
        X : array of shape (t, N) or (t, N, F), optional
            Data to fit it on.

        Returns
        -------
        A fitted estimator that shares the machine and the standardisation. The sign of an eigenvector says
        nothing, so every one gets the sign that brings it closest to its counterpart in training.
        """
        check_is_fitted(self)
        Z = None if X is None else self._standardizer(check_signals(self, X, self._n_values))
        other = copy.copy(self)
        other._set_covariance(*known_covariance(covariance, Z))
        vectors = leading_eigenvectors(other.covariance_, len(self.components_))
        other.components_ = align_signs(vectors, self.components_.T).T
        return other

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


@declared
class PCASVMRegressor(RegressorMixin, PCASVM):
    """Regression with an RBF support vector machine on principal components.

    Examples
    --------
    >>> from svnn.paper import make_sparse_cov
    >>> from svnn.paper.baselines import PCASVMRegressor
    >>> data = make_sparse_cov(n_samples=300, n_features=20, random_state=0)
    >>> X, y = data.X[:200], data.y[:200]
    >>> model = PCASVMRegressor(covariance="precomputed", shift=data.covariance, n_components=5).fit(X, y)
    >>> model.embed(data.X[200:]).shape
    (100, 5, 1)

    The same machine on the eigenvectors of a covariance estimated from few samples:

    >>> model.on("sample", X=data.X[200:230]).predict(data.X[200:]).shape
    (100,)
    """

    epsilon: float = parameter(
        default=0.1,
        rule=anything("float"),
        doc="Errors below it cost nothing; in standard deviations of the target with ``standardize=True``.",
    )

    def _check_targets(self, y: ColumnLike) -> np.ndarray:
        return check_targets(y, are_labels=False, multi_output=False)

    def _keep_targets(self, y: np.ndarray, weight: np.ndarray) -> None:
        self._targets = NumberTargets.learn(y, np.arange(len(y)), weight, standardize=bool(self.standardize))

    def _encode(self, y: np.ndarray) -> np.ndarray:
        codes = self._targets.encode(y)[:, 0]
        check_range(codes, "y", *SQUARES)
        return codes

    def _machine(self) -> SVR:
        return SVR(C=self.C, gamma=self.gamma, epsilon=self.epsilon)

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predicted targets, of shape (t,)."""
        inputs = self._inputs(X)
        return self._targets.decode(self.machine_.predict(inputs)[:, None])


@declared
class PCASVMClassifier(ClassifierMixin, PCASVM, ClassWeight):
    """Classification with an RBF support vector machine on principal components.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.paper.baselines import PCASVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(PCASVMClassifier(n_components=3).fit(X, y).score(X, y) > 0.9)
    True
    """

    def _check_targets(self, y: ColumnLike) -> np.ndarray:
        return check_targets(y, are_labels=True)

    def _keep_targets(self, y: np.ndarray, weight: np.ndarray) -> None:
        self.classes_ = LabelTargets.learn(y, np.arange(len(y)), weight, standardize=False).classes

    def _machine(self) -> SVC:
        return SVC(C=self.C, gamma=self.gamma, class_weight=self.class_weight)

    def decision_function(self, X: DataLike) -> np.ndarray:
        """Return the distances to the margins, of shape (t,) for two classes, else (t, n_classes)."""
        inputs = self._inputs(X)
        return self.machine_.decision_function(inputs)

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the label of every row."""
        inputs = self._inputs(X)
        return self.machine_.predict(inputs)
