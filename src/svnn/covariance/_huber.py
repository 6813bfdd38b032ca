"""Huber's M-estimator of scatter."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from svnn._parameters import declared, number, parameter
from svnn.covariance._scatter import ScatterEstimator


@declared
class HuberCovariance(ScatterEstimator):
    r"""Huber's M-estimator of scatter with shrinkage: rows beyond a distance count less, the farther the less.

    .. math:: S = (1 - \alpha) \frac1t \sum_k u(z_k^T S^{-1} z_k)\, z_k z_k^T + \alpha I,
        \quad u(d) = \min(1, c / d) / b, \quad \hat C = D S D

    with :math:`z_k = D^{-1}(x_k - M)`, the medians :math:`M`, and :math:`D` the robust standard deviations 1.48 MAD.
    The distance :math:`c` is a quantile of the chi-squared distribution with N degrees of freedom, and :math:`b` makes
    the result consistent for normal data. At the end the trace of :math:`S` is made N.

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

    quantile: float = parameter(
        default=0.9,
        rule=number(0, 1, above=True),
        doc="Share of rows of normal data that count fully. Near one it is the sample covariance, near zero Tyler's.",
    )

    def _weights(self, distances: np.ndarray, n: int, weight: np.ndarray) -> np.ndarray:
        edge = float(chi2.ppf(self.quantile, n))
        inside = float(chi2.cdf(edge, n + 2)) + edge / n * (1 - self.quantile)
        counts: np.ndarray = edge / np.maximum(distances, edge) / inside
        return counts
