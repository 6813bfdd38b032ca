"""Covariances made of another estimator: a function of its eigenvalues, and the mean of it within classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from svnn._parameters import Rule, anything, check_parameters, either, integer, is_allowed, number, share
from svnn._parameters import seed as seeds
from svnn._types import ColumnLike, DataLike, HasFit, Matrix, RandomState
from svnn._validation import at_once, check_data
from svnn.covariance._base import CovarianceEstimator
from svnn.covariance._moments import decaying
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.functional import sample_moments
from svnn.functional._array import generator, is_torch, like, to_numpy
from svnn.functional._centring import centre, check_variances, deviation, scaled
from svnn.functional._matrix import numpy_matrix
from svnn.functional.moments import check_weight, effective_samples, observations, product_deviations

_FUNCTIONS = ("shrink", "clip", "density")
_RULE = Rule(
    f"one of {_FUNCTIONS} or a function of an array of eigenvalues",
    lambda value: is_allowed(value, options=_FUNCTIONS, otherwise=callable),
    '{"shrink", "clip", "density"} or callable',
)


class Spectral(CovarianceEstimator):
    r"""Any covariance with a function applied to its eigenvalues.

    .. math:: \tilde C = \sum_i f(\lambda_i)\, v_i v_i^T, \qquad \hat C = \sum_i \lambda_i v_i v_i^T

    Parameters
    ----------
    estimator : str or estimator, default="sample"
        A name or any estimator with ``fit`` and ``covariance_``; see :func:`svnn.covariance.resolve`.
    function : {"shrink", "clip", "density"} or callable, default="shrink"
        What to apply.
    intensity : float in [0, 1] or None, default=None
        How far "shrink" goes, from 0 to 1. None takes Ledoit and Wolf's value for the sample covariance of the
        data.
    beta : float, default=1.0
        Inverse temperature of "density".
    dense_limit : int, default=10000
        All eigenvalues take a dense matrix; more features than this are an error.
    random_state : int, Generator, RandomState or None, default=None
        Seed of a random estimator whose ``random_state`` is None.

    Attributes
    ----------
    eigenvalues_ : ndarray
        The new eigenvalues of features that are not constant.
    intensity_ : float
        How far "shrink" went; not there with other functions.
    covariance_ : ndarray or Tensor of shape (N, N)
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    Notes
    -----
    - "shrink": :math:`f(\lambda) = (1 - a)\lambda + a \bar\lambda`, towards the mean eigenvalue [1]_.
    - "clip": eigenvalues below the edge of the Marchenko-Pastur law, :math:`\sigma^2 (1 + \sqrt{N/t})^2`, are what
      noise alone would give. They are replaced by their mean, which keeps the trace [2]_. :math:`\sigma^2` is that mean
      too: it starts as the mean of all, and is taken again until no further eigenvalue lies above the edge. Noise has
      to be of the same size in all features, so standardise them first, as the networks do.
    - "density": :math:`f(\lambda) = e^{-\beta\lambda} / \sum_j e^{-\beta\lambda_j}`, the density matrix of a network
      [3]_: the directions of least variance count most.
    - A callable gets all eigenvalues, in ascending order, and returns as many numbers. A model with a callable cannot
      be saved: files hold no code.

    Eigenvectors stay as they are. So to a polynomial filter this is only another response: :math:`h(\tilde C)` is the
    filter :math:`h \circ f` on :math:`\hat C`, and networks that can learn one can nearly learn the other. What changes
    is how easy it is to learn, and how much noise passes.

    Constant features keep rows of zeros. The result is dense.

    References
    ----------
    .. [1] O. Ledoit and M. Wolf, A well-conditioned estimator for large-dimensional covariance matrices, Journal of
       Multivariate Analysis 2004.
    .. [2] L. Laloux, P. Cizeau, J.-P. Bouchaud and M. Potters, Noise dressing of financial correlation matrices,
       Physical Review Letters 1999.
    .. [3] M. De Domenico and J. Biamonte, Spectral entropies as information-theoretic tools for complex network
       comparison, Physical Review X 2016.

    Examples
    --------
    One common factor, and noise:

    >>> import numpy as np
    >>> from svnn.covariance import Spectral
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 1)) + rng.standard_normal((100, 5))
    >>> clipped = Spectral("sample", function="clip").fit(X)
    >>> clipped.eigenvalues_.round(2)
    array([0.98, 0.98, 0.98, 0.98, 5.4 ])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "estimator": anything("str or estimator"),
        "function": _RULE,
        "intensity": either(share(), None),
        "beta": number(0),
        "dense_limit": integer(0),
        "random_state": seeds(),
    }

    def __init__(
        self,
        estimator: str | HasFit = "sample",
        *,
        function: str | Callable[[np.ndarray], Any] = "shrink",
        intensity: float | None = None,
        beta: float = 1.0,
        dense_limit: int = 10000,
        random_state: RandomState = None,
    ) -> None:
        super().__init__()
        self.estimator = estimator
        self.function = function
        self.intensity = intensity
        self.beta = beta
        self.dense_limit = dense_limit
        self.random_state = random_state

    @at_once
    def fit(self, X: DataLike, y: ColumnLike | None = None, sample_weight: ColumnLike | None = None) -> Self:
        """Fit the estimator to ``X``, of shape (t, N) or (t, N, F), and apply the function.

        Parameters
        ----------
        X : array, tensor or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,)
            Given to estimators that need targets, such as ``WithinClass``.
        sample_weight : array of shape (t,), optional
            Estimators of other packages get the rows unweighted.

        Returns
        -------
        self
        """
        check_parameters(self)
        data = check_data(self, X, min_samples=2)
        if data.shape[1] > self.dense_limit:
            raise ValueError(
                f"Spectral takes the eigenvalues of a dense matrix of {data.shape[1]} features, more than "
                f"dense_limit={self.dense_limit}; raise dense_limit if there is memory for several such matrices."
            )
        seed = None if self.random_state is None else int(generator(self.random_state).integers(2**31))
        fitted = fit_covariance(resolve(self.estimator, seed), data, sample_weight, y)
        matrix = numpy_matrix(fitted.covariance_)
        C = (matrix if isinstance(matrix, np.ndarray) else matrix.toarray()).astype(np.float64)
        varies = np.flatnonzero(C.any(0))
        eigenvalues, vectors = np.linalg.eigh(C[np.ix_(varies, varies)])
        table = to_numpy(data).astype(np.float64)
        weight = check_weight(decaying(sample_weight, getattr(fitted, "halflife", None), data), table)
        self.eigenvalues_ = new = self._applied(eigenvalues, table, weight)
        D = np.zeros_like(C)
        D[np.ix_(varies, varies)] = (vectors * new) @ vectors.T
        location = getattr(fitted, "location_", None)
        location = sample_moments(data, 0, sample_weight).location if location is None else location
        self.covariance_, self.location_ = like((D + D.T) / 2, data), like(location, data)
        return self

    def _applied(self, eigenvalues: np.ndarray, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the function of the eigenvalues; the noise is estimated from the data and the weights of its rows."""
        if not len(eigenvalues):
            return eigenvalues
        if self.function == "shrink":
            self.intensity_ = ledoit_wolf_intensity(X, weight) if self.intensity is None else float(self.intensity)
            return (1 - self.intensity_) * eigenvalues + self.intensity_ * eigenvalues.mean()
        if self.function == "clip":
            return clipped(eigenvalues, effective_samples(weight))
        if self.function == "density":
            powers = np.exp(-self.beta * (eigenvalues - eigenvalues.min()))
            return powers / powers.sum()
        assert callable(self.function), "the rule of the parameter has been checked"
        new = np.asarray(self.function(eigenvalues.copy()))
        if new.shape != eigenvalues.shape or new.dtype.kind not in "biuf" or not np.isfinite(new).all():
            raise ValueError(
                f"function must return {len(eigenvalues)} finite numbers, one for each eigenvalue it is given; it "
                f"returned {new.dtype} of shape {new.shape}."
            )
        return new.astype(np.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = getattr(self.estimator, "__sklearn_tags__", None)
        tags.target_tags.required = inner is not None and inner().target_tags.required
        return tags


def clipped(eigenvalues: np.ndarray, n_samples: float) -> np.ndarray:
    """Return ascending eigenvalues with the mean of those below the edge of noise in their place.

    Examples
    --------
    >>> clipped(np.array([0.9, 1.1, 9.0]), n_samples=100)
    array([1., 1., 9.])
    """
    n = len(eigenvalues)
    inside = n
    while inside:
        noise = float(eigenvalues[:inside].mean())
        edge = noise * (1 + math.sqrt(n / n_samples)) ** 2
        below = int(np.searchsorted(eigenvalues[:inside], edge, side="right"))
        if below == inside:
            break
        inside = below
    new = eigenvalues.copy()
    new[:inside] = new[:inside].mean() if inside else 0.0
    return new


def ledoit_wolf_intensity(X: np.ndarray, weight: np.ndarray) -> float:
    r"""Return how far to shrink the sample covariance S of weighted data of shape (t, N) or (t, N, F).

    .. math:: a = \min\left(1, \frac{\sum_{ij} \theta_{ij}}{t\, \|S - \bar\lambda I\|_F^2}\right)

    with :math:`\theta_{ij}` the variances of the products behind S, and t the effective number of samples (Ledoit &
    Wolf 2004). Features of any units are allowed: the largest variance is made one before anything is squared.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> round(ledoit_wolf_intensity(X, np.ones(100)), 2)
    0.91
    """
    moments = sample_moments(X, 0, weight)
    S, varies = moments.covariance, np.flatnonzero(moments.covariance.diagonal())
    if not len(varies):
        return 0.0
    unit = S.diagonal().max()
    noise = float(((product_deviations(X, moments, weight) / unit) ** 2).sum()) / moments.n_samples
    S = S[np.ix_(varies, varies)] / unit
    apart = float(((S - np.trace(S) / len(S) * np.eye(len(S))) ** 2).sum())
    return min(noise, apart) / apart if noise > 0 and apart > 0 else 0.0


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
        Seed of a random estimator whose ``random_state`` is None; every class gets another seed.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    covariance_ : ndarray of shape (N, N)
        A ``csr_array`` where the estimator's is sparse.
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

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

    A class with a single row has no spread and is left out.

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

    _rules: ClassVar[dict[str, Rule]] = {"estimator": anything("str or estimator"), "random_state": seeds()}

    def __init__(self, estimator: str | HasFit = "ledoit_wolf", *, random_state: RandomState = None) -> None:
        super().__init__()
        self.estimator = estimator
        self.random_state = random_state

    @at_once
    def fit(self, X: DataLike, y: ColumnLike | None = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``, of shape (t, N) or (t, N, F), within the classes ``y``, of shape (t,).

        Only ratios of ``sample_weight`` matter. Estimators of other packages get the rows unweighted.
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
        for each in range(len(self.classes_)):
            rows = np.flatnonzero((numbers == each) & (mass > 0))
            if len(rows) > 1:
                share = float(mass[rows].sum())
                estimator = resolve(self.estimator, int(random.randint(2**31)))
                C, still = _one_class(estimator, data[rows], None if weight is None else weight[rows])
                with np.errstate(invalid="ignore"):  # an overflow is reported below
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
        """The (pseudo-)inverse of the covariance, dense or sparse as it is, computed on each access."""
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
