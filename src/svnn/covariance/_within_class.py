"""The covariance within classes: what varies among samples of one class."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from svnn._parameters import Rule, anything, check_parameters, seed
from svnn._types import ColumnLike, DataLike, HasFit, Matrix, RandomState
from svnn._validation import at_once, check_data
from svnn.covariance._base import CovarianceEstimator
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._centring import centre, check_variances, deviation, scaled
from svnn.functional.moments import check_weight, observations


class WithinClass(CovarianceEstimator):
    r"""The covariance of the features within classes, the mean of one estimate for each class.

    .. math:: C_w = \sum_c \pi_c \, D_c \hat R_c D_c

    with :math:`\pi_c` the share of class c, :math:`D_c` its standard deviations and :math:`\hat R_c` what the estimator
    makes of its z-scores. A feature that is constant within all classes has a row of zeros.

    Parameters
    ----------
    estimator : str or estimator, default="ledoit_wolf"
        A name or any estimator with ``fit`` and ``covariance_``; see :func:`svnn.covariance.resolve`.
    random_state : int, Generator, RandomState or None, default=None
        Seed of an estimator that is random and has none of its own; every class gets another.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    covariance_ : ndarray of shape (N, N)
        A ``csr_array`` where the estimator's is sparse.
    location_ : ndarray or Tensor of shape (N,)
        Means of the features.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,)
        Only where X has named columns.

    See Also
    --------
    svnn.SVNNClassifier : takes it as ``covariance``, with ``use="precision"`` to shift by :math:`C_w^{-1}`.

    Notes
    -----
    The covariance of all samples mixes what tells classes apart with what does not. :math:`C_w` holds the latter alone:
    the spread of repetitions, and of people or devices where each class has several. One shift by its inverse,
    :math:`C_w^{-1} x`, plays that down, and a linear readout of it can be any linear discriminant
    :math:`\mu_c^T C_w^{-1} x`. With the default estimator :math:`C_w` is the covariance of scikit-learn's
    ``LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")``.

    Rows that are not independent (windows of one recording) make the shrinkage of all rows together too weak; class by
    class it is stronger.

    A class with a single row says nothing about its spread and is left out.

    Examples
    --------
    Two classes far apart, both of spread 1:

    >>> import numpy as np
    >>> from svnn.covariance import SampleCovariance, WithinClass
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=1000)
    >>> X = rng.standard_normal((1000, 2)) + 10 * y[:, None]
    >>> SampleCovariance().fit(X).covariance_.round(0)
    array([[26., 25.],
           [25., 26.]])
    >>> abs(WithinClass("sample").fit(X, y).covariance_).round(0)
    array([[1., 0.],
           [0., 1.]])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "estimator": anything("str or estimator"),
        "random_state": seed(),
    }

    def __init__(
        self,
        estimator: str | HasFit = "ledoit_wolf",
        *,
        random_state: RandomState = None,
    ) -> None:
        super().__init__()
        self.estimator = estimator
        self.random_state = random_state

    @at_once
    def fit(self, X: DataLike, y: ColumnLike | None = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance within the classes ``y``.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)
            With three dimensions, every sample's F values are observations of the N nodes.
        y : array of shape (t,)
            Labels.
        sample_weight : array of shape (t,), optional
            Only ratios of weights matter. Estimators that are not svnn's own get the rows unweighted.

        Returns
        -------
        self
        """
        check_parameters(self)
        data = to_numpy(check_data(self, X, min_samples=2))
        labels = _labels(y)
        check_consistent_length(data, labels)
        weight = None if sample_weight is None else check_weight(sample_weight, data).astype(np.float64)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        mass = np.ones(len(data)) if weight is None else weight
        random = check_random_state(self.random_state)
        total: Any = 0.0
        counted, constant = 0.0, np.ones(data.shape[1], dtype=bool)
        for number in range(len(self.classes_)):
            rows = np.flatnonzero((numbers == number) & (mass > 0))
            if len(rows) > 1:
                share = float(mass[rows].sum())
                estimator = resolve(self.estimator, int(random.randint(2**31)))
                C, still = _one_class(estimator, data[rows], None if weight is None else weight[rows])
                with np.errstate(invalid="ignore"):  # an overflow is said below
                    total, constant = total + share * C, constant & still
                counted += share
        if not counted:
            raise ValueError("WithinClass: every class in y has a single row; a spread takes at least two.")
        C = sp.csr_array(total / counted) if sp.issparse(total) else total / counted
        check_variances(C.diagonal(), constant)
        values, value_weight = observations(data, mass)
        self.location_ = centre(values, value_weight / value_weight.sum()).location
        self.covariance_ = C
        return self

    @property
    def precision_(self) -> Matrix:
        """The (pseudo-)inverse of the covariance, of its kind, computed when asked for."""
        return self.get_precision()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _labels(y: ColumnLike | None) -> np.ndarray:
    if y is None:
        raise ValueError("WithinClass requires y to be passed, but the target y is None: give the classes of the rows.")
    labels = column_or_1d(to_numpy(y) if is_torch(y) else y)
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(f"WithinClass needs y to be class labels. {error}") from error
    return labels


def _one_class(estimator: HasFit, X: np.ndarray, weight: np.ndarray | None) -> tuple[Matrix, np.ndarray]:
    """Return the covariance of the rows of one class, estimated from z-scores, and which features are constant."""
    share = (np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()).astype(X.dtype)
    centred = centre(X.reshape(len(X), -1), share)
    spread = deviation(centred, share).reshape(X.shape[1], -1)
    largest = np.where(spread.max(1) > 0, spread.max(1), X.dtype.type(1))
    # Of a feature's F values, in units of the largest: squares neither overflow nor vanish.
    scale = largest * np.sqrt(np.mean((spread / largest[:, None]) ** 2, 1))
    constant: np.ndarray = np.all(centred.constant.reshape(spread.shape), axis=1)
    divisor = np.repeat(np.where(constant, X.dtype.type(1), scale), spread.shape[1])
    Z = (centred.rest * (centred.unit / divisor)).reshape(X.shape)
    R = fit_covariance(estimator, Z, weight).covariance_
    if sp.issparse(R):
        entries = R.tocoo()
        values = scaled(entries.data, scale[entries.row], scale[entries.col])
        return sp.csr_array((values, (entries.row, entries.col)), shape=R.shape), constant
    return scaled(to_numpy(R), scale[:, None], scale), constant
