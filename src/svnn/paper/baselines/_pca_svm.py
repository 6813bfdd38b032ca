"""Principal components of a covariance, then a support vector machine: PCA-SVM, as the paper calls it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.svm import SVC, SVR
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import Rule, anything, boolean, class_weights, integer, number, seed
from svnn._types import ColumnLike, CovarianceLike, DataLike, HasCovariance, Matrix, MatrixLike, RandomState
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.estimators._base import fitted_property
from svnn.estimators._data import check_signals, prepare
from svnn.estimators._per_sample import given_matrix
from svnn.estimators._shift import known_covariance, plain_covariance
from svnn.estimators._units import Standardizer, Targets, check_targets
from svnn.estimators.training import plain_torch
from svnn.functional.spectrum import align_signs, leading_eigenvectors
from svnn.operators import as_operator
from svnn.paper.baselines._network import Baseline
from svnn.paper.baselines._pca_mlp import PrincipalComponents, possible_components, reduce_nodes


@dataclass(frozen=True)
class Fitted:
    """Values that ``fit`` learned: units, a covariance, its leading eigenvectors (k, N), and the machine on them."""

    standardizer: Standardizer
    targets: Targets
    n_values: int
    covariance: Matrix
    estimator: HasCovariance | None
    components: np.ndarray
    machine: SVC | SVR


class PCASVM(Baseline):
    """Base of the support vector machines on principal components."""

    fitted_: Fitted
    n_features_in_: int
    n_components: int
    covariance: CovarianceLike | MatrixLike
    _rules: ClassVar[Mapping[str, Rule]] = {
        "n_components": integer(1),
        "covariance": anything("name, estimator or matrix"),
        "C": number(above=True),
        "standardize": boolean(),
        "random_state": seed(),
    }
    #: All rows are trained on: there are no epochs to stop after.
    validation_fraction = 0.0

    @abstractmethod
    def _machine(self) -> SVC | SVR:
        """Return the unfitted support vector machine."""

    def _fit(self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, seed: int, **given: Any) -> Self:
        y = check_targets(y, self._are_labels, multi_output=False)
        data = prepare(self, X, y, sample_weight, seed=seed, are_labels=self._are_labels)
        Z, weight, limits = data.training.signals, data.given_weight, {"nodes": data.n_nodes}
        estimator, matrix = None, given_matrix(self.covariance)
        if matrix is None:
            estimator = fit_covariance(resolve(cast(CovarianceLike, self.covariance), seed), Z, weight)
            matrix = estimator.covariance_
            limits["observations"] = Z.shape[0] * Z.shape[2]
        covariance = self._checked(matrix)
        components = leading_eigenvectors(covariance, possible_components(int(self.n_components), **limits)).T
        machine = self._machine()
        machine.random_state = 0  # of a draw that is not used, and must not come from the caller's global generator
        inputs = _projected(Z, components).reshape(len(Z), -1)
        codes = data.given_targets if self._are_labels else data.training.targets[:, 0]
        machine.fit(inputs, codes, sample_weight=weight)
        units = data.standardizer, data.targets, data.n_values
        self.fitted_ = Fitted(*units, covariance, estimator, components, machine)
        return self

    def _checked(self, matrix: MatrixLike) -> Matrix:
        """Return a covariance of the features of ``fit``, or say what is wrong with it."""
        n = as_operator(matrix).shape[0]  # says what is wrong with a matrix that is no covariance
        if n != self.n_features_in_:
            raise ValueError(f"the covariance is {n}x{n}, but X has {self.n_features_in_} features.")
        return plain_covariance(matrix)

    @property
    def covariance_estimator_(self) -> HasCovariance | None:
        """The fitted estimator of the covariance."""
        return self.fitted_.estimator

    @property
    def covariance_(self) -> Matrix:
        """The covariance of the standardised features."""
        return self.fitted_.covariance

    @property
    def components_(self) -> np.ndarray:
        """The leading eigenvectors of the covariance, (k, N)."""
        return self.fitted_.components

    @property
    def machine_(self) -> SVC | SVR:
        """The fitted machine."""
        return self.fitted_.machine

    def _signals(self, X: DataLike) -> np.ndarray:
        check_is_fitted(self)
        return self.fitted_.standardizer(check_signals(self, X, self.fitted_.n_values))

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the projections, of shape (t, n_components, F), F = 1 for a table."""
        return _projected(self._signals(X), self.components_)

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
        estimator, matrix = known_covariance(covariance, None if X is None else self._signals(X))
        matrix, before = self._checked(matrix), self.components_
        components = align_signs(leading_eigenvectors(matrix, len(before)), before.T).T
        other = copy.copy(self)
        other.fitted_ = replace(self.fitted_, covariance=matrix, estimator=estimator, components=components)
        return other

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = tags.target_tags.multi_output = False
        return tags


def _projected(Z: np.ndarray, components: np.ndarray) -> np.ndarray:
    return reduce_nodes(PrincipalComponents(components.T), Z)


class PCASVMRegressor(RegressorMixin, PCASVM):
    r"""Regression with an RBF support vector machine on principal components.

    Parameters
    ----------
    n_components : int, default=20
        Number of components, k; the paper searches 10, 20 and 50. Where the training data have fewer nodes or
        observations, k is their number, with a warning.
    covariance : name, estimator or matrix, default="sample"
        The covariance whose eigenvectors are projected on: a name, an estimator with ``fit`` and ``covariance_``, or a
        matrix on the scale of the standardised features, as for :class:`svnn.SVNNRegressor`.
    C : float, default=1.0
        Penalty of errors against the width of the margin.
    standardize : bool, default=True
        Whether every feature, and the target, gets mean 0 and standard deviation 1.
    random_state : int, Generator, RandomState or None, default=None
        Seed of a stochastic covariance; nothing else is random.

    Attributes
    ----------
    covariance_estimator_ : estimator or None
        The fitted estimator of the covariance; None where a matrix was given.
    covariance_ : csr_array or ndarray of shape (N, N)
        The covariance of the standardised features.
    components_ : ndarray of shape (n_components, N)
        The leading eigenvectors of the covariance.
    machine_ : sklearn.svm.SVR
        The fitted machine.
    n_features_in_, feature_names_in_
        As in :class:`svnn.SVNNRegressor`.

    Notes
    -----
    The paper compares covariance networks with this baseline where the covariance is estimated from few samples. It is
    fitted on all rows; there are no epochs, hence no early stopping.

    Samples X of shape (N, F) are projected along the node axis, :math:`X_k = V_k^\top X`, and flattened; with tables
    (t, N) that is ordinary PCA. The columns of :math:`V_k` are the eigenvectors of the k largest eigenvalues.

    Examples
    --------
    >>> from svnn.paper import make_sparse_cov
    >>> from svnn.paper.baselines import PCASVMRegressor
    >>> data = make_sparse_cov(n_samples=300, n_features=20, random_state=0)
    >>> X, y = data.X[:200], data.y[:200]
    >>> model = PCASVMRegressor(covariance=data.covariance, n_components=5).fit(X, y)
    >>> model.embed(data.X[200:]).shape
    (100, 5, 1)

    The same machine on the eigenvectors of a covariance estimated from few samples:

    >>> model.on("sample", X=data.X[200:230]).predict(data.X[200:]).shape
    (100,)
    """

    _are_labels = False

    def __init__(
        self,
        *,
        n_components: int = 20,
        covariance: CovarianceLike | MatrixLike = "sample",
        C: float = 1.0,
        standardize: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.C = C
        self.standardize = standardize
        self.random_state = random_state

    def _machine(self) -> SVR:
        return SVR(C=self.C)

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predicted targets, of shape (t,)."""
        inputs = self._inputs(X)
        return self.fitted_.targets.decode(self.machine_.predict(inputs)[:, None])


class PCASVMClassifier(ClassifierMixin, PCASVM):
    """Classification with an RBF support vector machine on principal components.

    The notes of :class:`PCASVMRegressor` apply.

    Parameters
    ----------
    n_components, covariance, C
        As in :class:`PCASVMRegressor`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss.
    standardize, random_state
        As in :class:`PCASVMRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    covariance_estimator_, covariance_, components_
        As in :class:`PCASVMRegressor`.
    machine_ : sklearn.svm.SVC
        The fitted machine.
    n_features_in_, feature_names_in_
        As in :class:`PCASVMRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn.paper.baselines import PCASVMClassifier
    >>> iris = load_iris()
    >>> bool(PCASVMClassifier(n_components=3).fit(iris.data, iris.target).score(iris.data, iris.target) > 0.9)
    True
    """

    _are_labels = True
    classes_ = fitted_property("fitted_.targets.classes", "The labels, in order.")
    _rules: ClassVar[Mapping[str, Rule]] = {**PCASVM._rules, "class_weight": class_weights()}

    def __init__(
        self,
        *,
        n_components: int = 20,
        covariance: CovarianceLike | MatrixLike = "sample",
        C: float = 1.0,
        class_weight: Mapping[Hashable, float] | str | None = None,
        standardize: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.C = C
        self.class_weight = class_weight
        self.standardize = standardize
        self.random_state = random_state

    def _machine(self) -> SVC:
        return SVC(C=self.C, class_weight=self.class_weight)

    def decision_function(self, X: DataLike) -> np.ndarray:
        """Return the distances to the margins, of shape (t,) for two classes, else (t, n_classes)."""
        inputs = self._inputs(X)
        found: np.ndarray = self.machine_.decision_function(inputs)
        return found

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the label of every row."""
        inputs = self._inputs(X)
        found: np.ndarray = self.machine_.predict(inputs)
        return found
