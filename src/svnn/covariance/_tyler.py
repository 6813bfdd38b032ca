"""Tyler's M-estimator."""

from __future__ import annotations

import numpy as np

from svnn._parameters import declared
from svnn.covariance._scatter import ScatterEstimator


@declared
class TylerCovariance(ScatterEstimator):
    r"""Tyler's M-estimator of scatter with shrinkage: only the directions of rows count, not their lengths.

    .. math:: S = (1 - \alpha) \frac Nt \sum_k \frac{z_k z_k^T}{z_k^T S^{-1} z_k} + \alpha I,
        \quad \operatorname{tr} S = N, \quad \hat C = D S D

    with :math:`z_k = D^{-1}(x_k - M)`, the medians :math:`M`, and :math:`D` the robust standard deviations 1.48 MAD.

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
