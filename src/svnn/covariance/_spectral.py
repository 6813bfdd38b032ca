"""A function of the eigenvalues of any covariance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags

from svnn._parameters import Rule, anything, check_parameters, either, integer, is_allowed, number, share
from svnn._parameters import seed as seeds
from svnn._types import ColumnLike, DataLike, HasFit, RandomState
from svnn._validation import at_once, check_data
from svnn.covariance._base import CovarianceEstimator
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.covariance._running_moments import decaying
from svnn.functional import sample_moments
from svnn.functional._array import generator, like, to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.functional.moments import check_weight, effective_samples, product_deviations

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
        Seed of an estimator that is random and has none of its own.

    Attributes
    ----------
    eigenvalues_ : ndarray
        The new eigenvalues of features that are not constant.
    intensity_ : float
        How far "shrink" went; not there with other functions.
    covariance_ : ndarray or Tensor of shape (N, N)
    location_ : ndarray or Tensor of shape (N,)
        Means of the features.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,)
        Only where X has named columns.

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
            Estimators that are not svnn's own get the rows unweighted.

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
        found = numpy_matrix(fitted.covariance_)
        C = (found if isinstance(found, np.ndarray) else found.toarray()).astype(np.float64)
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
        """Return the function of the eigenvalues; the data and the weights of its rows say how much noise there is."""
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
