"""Tyler's and Huber's M-estimators of scatter: covariances in which rows far from the centre count less."""

from __future__ import annotations

import warnings
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, solve_triangular
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from svnn._parameters import Rule, boolean, check_parameters, either, integer, number, share
from svnn._types import ColumnLike, DataLike
from svnn._validation import at_once, check_data
from svnn.covariance._base import CovarianceEstimator
from svnn.functional._array import like, to_numpy
from svnn.functional._centring import centre, check_variances, deviation, scaled
from svnn.functional.correlations import weighted_median
from svnn.functional.moments import check_weight, effective_samples, observations

#: The standard deviation of normal data in units of its median absolute deviation.
_MAD_TO_DEVIATION = 1.482602218505602
#: Earlier guesses that are mixed; with none of them all steps are plain.
_MEMORY = 5
#: A change that grows by more than this factor was a bad step. Logarithms of distances move no farther than that.
_WORSE, _FARTHEST = 10.0, 10.0
#: A distance from the centre, in robust standard deviations, whose square is far from the largest number.
_HUGE = 1e100


class Standardised(NamedTuple):
    """Rows in units of robust scales; constant features are left out of them and have scale zero."""

    rows: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    varies: np.ndarray


class ScatterEstimator(CovarianceEstimator):
    """Base of the M-estimators of scatter. A subclass weighs the rows by their squared distances."""

    _rules: ClassVar[dict[str, Rule]] = {
        "shrinkage": either(share(), "auto"),
        "assume_centered": boolean(),
        "max_iter": integer(1),
        "tol": number(0, above=True),
    }

    def __init__(
        self, *, shrinkage: float | str = "auto", assume_centered: bool = False, max_iter: int = 500, tol: float = 1e-9
    ) -> None:
        super().__init__()
        self.shrinkage = shrinkage
        self.assume_centered = assume_centered
        self.max_iter = max_iter
        self.tol = tol

    @at_once
    def fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``, of shape (t, N) or (t, N, F); see :meth:`HardThreshold.fit`.

        Missing values are an error; impute them first.
        """
        check_parameters(self)
        data = check_data(self, X, min_samples=2)
        table, weights = to_numpy(data), to_numpy(check_weight(sample_weight, data))
        rows, weight = observations(table, weights)
        weight = weight.astype(np.float64) / weight.sum()
        units = standardise(rows, weight, bool(self.assume_centered))
        n_samples = effective_samples(weights)
        alpha = shrinkage_of_signs(units.rows, weight, n_samples) if self.shrinkage == "auto" else float(self.shrinkage)
        n = units.rows.shape[1]
        if alpha == 0 and len(rows) <= n:
            raise ValueError(
                f"shrinkage=0 needs more rows than features, got {len(rows)} and {n}; use "
                'shrinkage="auto" or a number above 0.'
            )
        S, self.n_iter_ = self._iterate(units.rows, weight, alpha)
        C = np.zeros((len(units.scale),) * 2)
        C[np.ix_(units.varies, units.varies)] = S
        C = scaled(C, units.scale[:, None], units.scale)
        self.covariance_, self.location_, self.shrinkage_ = like(C, data), like(units.location, data), alpha
        return self

    def _iterate(self, Z: np.ndarray, weight: np.ndarray, alpha: float) -> tuple[np.ndarray, int]:
        """Return the fixed point with a trace of N, and the number of iterations."""
        n = Z.shape[1]
        if not n:
            return np.zeros((0, 0)), 0
        apart = np.abs(Z).max(1) > 1 / _HUGE  # a row at the centre has no direction, and adds nothing to the covariance
        Z, weight = Z[apart], weight[apart]
        guess, past = np.log((Z**2).sum(1)), Past([], [])
        for i in range(self.max_iter):
            counts = weight * self._weights(np.exp(guess), n, weight)
            S = (1 - alpha) * ((Z * counts[:, None]).T @ Z) + alpha * np.eye(n)
            S = self._normalised((S + S.T) / 2)
            try:
                factor, _ = cho_factor(S, lower=True)
            except LinAlgError as error:
                raise ValueError(
                    f"{type(self).__name__}: the rows lie in too few directions for shrinkage={alpha:g}; use "
                    'shrinkage="auto" or a larger number.'
                ) from error
            change = np.log((solve_triangular(factor, Z.T, lower=True, check_finite=False) ** 2).sum(0)) - guess
            largest = float(np.abs(change).max())
            if largest <= self.tol:
                return S * (n / np.trace(S)), i + 1
            guess = past.next_guess(guess, change)
        warnings.warn(
            f"{type(self).__name__} did not converge in max_iter={self.max_iter} iterations (the last one changed a "
            f"distance by {largest:.2g} of it); use a larger max_iter, tol or shrinkage.",
            ConvergenceWarning,
            stacklevel=4,
        )
        return S * (n / np.trace(S)), self.max_iter

    def _weights(self, distances: np.ndarray, n: int, weight: np.ndarray) -> np.ndarray:
        """Return the weights of rows from their squared Mahalanobis distances in N dimensions."""
        raise NotImplementedError

    def _normalised(self, S: np.ndarray) -> np.ndarray:
        """Return an iterate in the scale in which the next one is sought."""
        return S


class TylerCovariance(ScatterEstimator):
    r"""Tyler's M-estimator of scatter with shrinkage: only the directions of rows count, not their lengths.

    .. math:: S = (1 - \alpha) \frac Nt \sum_k \frac{z_k z_k^T}{z_k^T S^{-1} z_k} + \alpha I,
        \quad \operatorname{tr} S = N, \quad \hat C = D S D

    with :math:`z_k = D^{-1}(x_k - M)`, the medians :math:`M`, and :math:`D` the robust standard deviations 1.48 MAD.

    Parameters
    ----------
    shrinkage : float in [0, 1] or "auto", default="auto"
        How much of the identity is mixed in, :math:`\alpha`. "auto" takes the plug-in value of Chen, Wiesel and
        Hero (2011), which falls as rows become more. Zero needs more rows than features.
    assume_centered : bool, default=False
        Take zero for the location, not the medians of the features.
    max_iter : int, default=500
        Most iterations.
    tol : float, default=1e-09
        It stops when no row's distance changes by a larger share than this.

    Attributes
    ----------
    shrinkage_ : float
        The shrinkage that was used.
    n_iter_ : int
        Number of iterations.
    covariance_ : ndarray or Tensor of shape (N, N)
    location_ : ndarray or Tensor of shape (N,)
        Medians of the features.
    n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    See Also
    --------
    HuberCovariance : counts ordinary rows fully, and only far ones less.
    HardThreshold : makes it sparse, as ``HardThreshold(base="tyler")``.

    Notes
    -----
    Of all elliptical distributions, it has the least error for the worst one, however heavy the tails [1]_. With any
    :math:`\alpha > 0` the iteration has one limit, also with fewer rows than features [2]_. With :math:`\alpha = 0` the
    result follows every linear map of centred data, up to a factor.

    Its overall scale comes from :math:`D`: the mean variance of :math:`z` is one. A feature of which more than half of
    the values are equal has its standard deviation in :math:`D`.

    References
    ----------
    .. [1] D. E. Tyler, A distribution-free M-estimator of multivariate scatter, Annals of Statistics 1987.
    .. [2] Y. Chen, A. Wiesel and A. O. Hero, Robust shrinkage estimation of high-dimensional covariance matrices, IEEE
       Transactions on Signal Processing 2011.

    Examples
    --------
    One row in fifty is a hundred times as long as the others:

    >>> import numpy as np
    >>> from svnn.covariance import SampleCovariance, TylerCovariance
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> X[::50] *= 100
    >>> SampleCovariance().fit(X).covariance_.diagonal().round() > 50
    array([ True,  True])
    >>> TylerCovariance().fit(X).covariance_.diagonal().round()
    array([1., 1.])
    """

    def _weights(self, distances: np.ndarray, n: int, weight: np.ndarray) -> np.ndarray:
        counts: np.ndarray = n / distances / weight.sum()
        return counts

    def _normalised(self, S: np.ndarray) -> np.ndarray:
        normalised: np.ndarray = S * (len(S) / np.trace(S))
        return normalised


class HuberCovariance(ScatterEstimator):
    r"""Huber's M-estimator of scatter with shrinkage: rows beyond a distance count less, the farther the less.

    .. math:: S = (1 - \alpha) \frac1t \sum_k u(z_k^T S^{-1} z_k)\, z_k z_k^T + \alpha I,
        \quad u(d) = \min(1, c / d) / b, \quad \hat C = D S D

    with :math:`z_k = D^{-1}(x_k - M)`, the medians :math:`M`, and :math:`D` the robust standard deviations 1.48 MAD.
    The distance :math:`c` is a quantile of the chi-squared distribution with N degrees of freedom, and :math:`b` makes
    the result consistent for normal data. At the end the trace of :math:`S` is made N.

    Parameters
    ----------
    quantile : float in (0, 1), default=0.9
        Share of rows of normal data that count fully. Near one it is the sample covariance, near zero Tyler's.
    shrinkage, assume_centered, max_iter, tol
        As in :class:`TylerCovariance`.

    Attributes
    ----------
    shrinkage_, n_iter_, covariance_, location_, n_features_in_, feature_names_in_
        As in :class:`TylerCovariance`.

    See Also
    --------
    TylerCovariance : for tails so heavy that no row is ordinary.

    Notes
    -----
    Without shrinkage it is one of Maronna's M-estimators [1]_. With any :math:`\alpha > 0` there is one solution, also
    with fewer rows than features [2]_.

    References
    ----------
    .. [1] R. A. Maronna, Robust M-estimators of multivariate location and scatter, Annals of Statistics 1976.
    .. [2] E. Ollila and D. E. Tyler, Regularized M-estimators of scatter matrix, IEEE Transactions on Signal Processing
       2014.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import HuberCovariance
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> X[::50] *= 100
    >>> HuberCovariance().fit(X).covariance_.diagonal().round()
    array([1., 1.])
    """

    _rules: ClassVar[dict[str, Rule]] = {"quantile": number(0, 1, above=True), **ScatterEstimator._rules}

    def __init__(
        self,
        *,
        quantile: float = 0.9,
        shrinkage: float | str = "auto",
        assume_centered: bool = False,
        max_iter: int = 500,
        tol: float = 1e-9,
    ) -> None:
        super().__init__(shrinkage=shrinkage, assume_centered=assume_centered, max_iter=max_iter, tol=tol)
        self.quantile = quantile

    def _weights(self, distances: np.ndarray, n: int, weight: np.ndarray) -> np.ndarray:
        edge = float(chi2.ppf(self.quantile, n))
        inside = float(chi2.cdf(edge, n + 2)) + edge / n * (1 - self.quantile)
        counts: np.ndarray = edge / np.maximum(distances, edge) / inside
        return counts


class Past(NamedTuple):
    """The last guesses of an iteration and the changes that they led to.

    Anderson's acceleration: plain steps come closer by a factor of about :math:`1 - \\alpha`, with :math:`\\alpha` the
    shrinkage. Here each starts from the mixture of the last guesses whose change would be least. On 200 rows of 300
    features with a common factor that takes 19 steps instead of 190, on 50 rows of 500 features 28 instead of more than
    3000.
    """

    guesses: list[np.ndarray]
    changes: list[np.ndarray]

    def next_guess(self, guess: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return the next guess from the last one and its change."""
        if self.changes and np.abs(change).max() > _WORSE * np.abs(self.changes[-1]).max():
            del self.guesses[:], self.changes[:]  # the mixture did not help: plain steps always do
        self.guesses.append(guess)
        self.changes.append(change)
        del self.guesses[: -_MEMORY - 1], self.changes[: -_MEMORY - 1]
        plain = guess + change
        if len(self.changes) < 2:
            return plain
        differences = np.diff(self.changes, axis=0)
        mixture = np.linalg.lstsq(differences.T, change, rcond=None)[0]
        mixed = plain - mixture @ (np.diff(self.guesses, axis=0) + differences)
        return mixed if np.abs(mixed - plain).max() < _FARTHEST else plain


def standardise(rows: np.ndarray, weight: np.ndarray, centred: bool) -> Standardised:
    """Return rows minus the medians (or zero), in units of 1.48 times the median absolute deviations.

    Where more than half of a feature's values are equal, its unit is the standard deviation.
    """
    usual = centre(rows, weight.astype(rows.dtype))
    spread = deviation(usual, weight.astype(rows.dtype)).astype(np.float64)
    values = rows.astype(np.float64) / usual.unit
    location = np.zeros(rows.shape[1]) if centred else weighted_median(values.T, weight)
    rest = values - location
    scale = _MAD_TO_DEVIATION * weighted_median(abs(rest).T, weight)
    scale = np.where(usual.constant, 0.0, np.where(scale > 0, scale, spread / usual.unit))
    varies = scale > 0
    check_variances(((scale * usual.unit) ** 2).astype(rows.dtype), ~varies)
    Z = rest[:, varies] / scale[varies]
    # Of a row that is very far only the direction counts. It is taken closer, where squares are numbers.
    Z /= np.maximum(np.abs(Z).max(1, initial=0) / _HUGE, 1)[:, None]
    return Standardised(Z, location * usual.unit, scale * usual.unit, varies)


def shrinkage_of_signs(Z: np.ndarray, weight: np.ndarray, n_samples: float) -> float:
    """Return the shrinkage of least expected error, were the covariance that of the rows' directions.

    It is Eq. 13 of Chen, Wiesel and Hero (2011), with the covariance of the directions for the true one.
    """
    n, t = Z.shape[1], n_samples
    if n < 2:
        return 1.0
    length = np.linalg.norm(Z, axis=1)
    directions = Z / np.where(length > 0, length, 1)[:, None]
    R = (directions * weight[:, None]).T @ directions
    size = n**2 * float((R**2).sum()) / max(float(np.trace(R)), 1e-300) ** 2
    above = n**2 + (1 - 2 / n) * size
    below = n**2 - t * n - 2 * t + (t + 1 + 2 * (t - 1) / n) * size
    return float(np.clip(above / below, 0.0, 1.0))
