"""Is a correlation matrix sparse? Its spectrum against pure noise, and how many pairs are related."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from svnn.functional._array import upper_values

#: The median absolute value of a standard normal variable.
_MEDIAN = 0.6744897501960817


def marchenko_pastur_edge(n_samples: float, n_features: int, variance: float = 1.0) -> float:
    r"""Return the largest eigenvalue that noise alone gives a sample covariance.

    .. math:: \lambda_+ = \sigma^2 \left(1 + \sqrt{N / t}\right)^2

    Parameters
    ----------
    n_samples : float
        t, the number of samples.
    n_features : int
        N, the number of features.
    variance : float, default=1.0
        :math:`\sigma^2`, the variance of independent features; 1 for correlations.

    Returns
    -------
    float

    Notes
    -----
    This is the upper end of the Marchenko–Pastur law, the limit of the spectrum for independent features as N and t
    grow in proportion. At finite N the largest eigenvalue exceeds it by a share of order :math:`N^{-2/3}`.

    References
    ----------
    V. A. Marchenko and L. A. Pastur, Distribution of eigenvalues for some sets of random matrices, 1967.

    Examples
    --------
    >>> round(marchenko_pastur_edge(n_samples=400, n_features=100), 4)
    2.25
    """
    if n_samples <= 0 or n_features < 1 or variance < 0:
        raise ValueError(
            f"n_samples, n_features and variance must be positive, got {n_samples!r}, {n_features!r}, {variance!r}."
        )
    return variance * (1 + math.sqrt(n_features / n_samples)) ** 2


class NoiseSpectrum(NamedTuple):
    """The eigenvalues of a correlation matrix that noise does not explain.

    ``n_above`` of them are larger than ``edge``, the largest that pure noise would give, and carry the share
    ``variance_above`` of the variance. ``spread`` is the share of the pairs over which their part of the correlations
    extends: near 1 for factors that all features share, the density of the blocks for blocks, 0 where no eigenvalue
    is above the edge.
    """

    edge: float
    n_above: int
    variance_above: float
    spread: float


def noise_spectrum(R: np.ndarray, n_samples: float) -> NoiseSpectrum:
    r"""Compare the spectrum of a correlation matrix with the Marchenko–Pastur edge.

    Parameters
    ----------
    R : ndarray of shape (N, N)
    n_samples : float

    Returns
    -------
    NoiseSpectrum

    Notes
    -----
    With :math:`L = \sum_{\lambda_k > \lambda_+} (\lambda_k - 1) v_k v_k^\top`, the part of R above the edge, the
    spread is the participation ratio of its off-diagonal entries,
    :math:`(\sum |l_{ij}|)^2 / (M \sum l_{ij}^2)` over the M pairs. It is 1 where all entries are alike, and
    :math:`2/\pi` for Gaussian ones. Eigenvectors of close eigenvalues mix in any way, and single ones say little; the
    spread does not depend on that.

    Examples
    --------
    >>> import numpy as np
    >>> factor = np.full((50, 50), 0.5) + 0.5 * np.eye(50)
    >>> noise_spectrum(factor, n_samples=200)
    NoiseSpectrum(edge=2.25, n_above=1, variance_above=0.51, spread=1.0)
    """
    n = len(R)
    edge = marchenko_pastur_edge(n_samples, n)
    values, vectors = np.linalg.eigh(R)
    above = values > edge
    if not above.any():
        return NoiseSpectrum(edge, 0, 0.0, 0.0)
    V = vectors[:, above]
    entries = abs(upper_values((V * (values[above] - 1)) @ V.T))
    spread = entries.sum() ** 2 / (len(entries) * (entries**2).sum())
    share = values[above].sum() / values.sum()
    return NoiseSpectrum(edge, int(above.sum()), round(float(share), 12), round(float(spread), 12))


def related_share(R: np.ndarray, theta: np.ndarray, n_samples: float) -> float:
    r"""Estimate the share of the pairs of features that are related.

    Parameters
    ----------
    R : ndarray of shape (N, N)
        Sample correlations.
    theta : ndarray of shape (N, N)
        Variances of the products behind them, see :func:`svnn.functional.product_variances`.
    n_samples : float

    Returns
    -------
    float between 0 and 1

    Notes
    -----
    With :math:`z_{ij} = r_{ij} \sqrt{t/\theta_{ij}}`, half of the pairs that are not related have
    :math:`|z_{ij}| < 0.674`, the median absolute value of a standard normal variable; of the related ones few do, as t
    grows. Twice the share of such pairs therefore estimates the share of unrelated ones (Storey 2002). It is too large
    rather than too small: relations too weak for t samples are not seen. With :math:`\theta_{ij}` this holds for heavy
    tails and for rows that are loud or quiet as a whole, too.

    References
    ----------
    J. D. Storey, A direct approach to false discovery rates, JRSS B 2002.

    Examples
    --------
    >>> import numpy as np
    >>> R = np.array([[1.0, 0.01, 0.5], [0.01, 1.0, 0.5], [0.5, 0.5, 1.0]])
    >>> round(related_share(R, np.ones((3, 3)), n_samples=100), 3)
    0.333
    """
    r, theta = upper_values(R), upper_values(theta)
    if len(r) == 0:
        return 0.0
    small = r**2 * n_samples < _MEDIAN**2 * theta
    return float(max(0.0, 1 - 2 * (small | (r == 0)).mean()))
