"""Filters on a covariance that is estimated from samples: Thm. 1, Thm. 5, and the moments of the data they need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svnn._types import DataLike, MatrixLike
from svnn.stability import _inputs


class KurtosisTerms(NamedTuple):
    """The moments of Thm. 1; see :func:`kurtosis_terms`."""

    k: np.ndarray
    k_min: float
    k_max: float
    kappa: float


def kurtosis_terms(C: MatrixLike, X: DataLike | None = None) -> KurtosisTerms:
    r"""Return the moments of the data that Thm. 1 depends on.

    Parameters
    ----------
    C : matrix of shape (N, N)
        The covariance.
    X : array of shape (t, N), optional
        Samples to take the fourth moments from, about their mean. Without them the data are taken to be Gaussian.

    Returns
    -------
    KurtosisTerms
        ``k`` of shape (N,), in ascending order of the eigenvalues, ``k_min``, ``k_max``, ``kappa``.

    Notes
    -----
    .. math:: k_j = \sqrt{E\|x x^T v_j\|^2 - \lambda_j^2}, \quad k_{\min} = \min_{j: \lambda_j > 0} k_j, \quad
              k_{\max} = \max_j k_j, \quad \kappa = \max_{\lambda_i \ne \lambda_j} \frac{k_i^2}{|\lambda_i - \lambda_j|}

    For Gaussian data :math:`k_j^2 = \lambda_j (\operatorname{tr} C + \lambda_j)` exactly. Eigenvalues closer than
    rounding count as equal; where all of them are equal, ``kappa`` is 0.

    Examples
    --------
    >>> import numpy as np
    >>> terms = kurtosis_terms(np.diag([1.0, 3.0]))
    >>> terms.k**2, terms.kappa
    (array([ 5., 21.]), 10.5)
    """
    C = _inputs.dense(C)
    lam, V = np.linalg.eigh(C)
    if X is None:
        squares = lam * (lam.sum() + lam)
    else:
        samples = _inputs.samples(X, len(C))
        samples = samples - samples.mean(0)
        squares = ((samples**2).sum(1) @ (samples @ V) ** 2) / len(samples) - lam**2
    squares = np.maximum(squares, 0.0)  # rounding, or samples of another covariance, can make them negative
    rounding = 1e-12 * np.abs(lam).max()
    gaps = np.abs(lam[:, None] - lam)
    nearest = np.where(gaps > rounding, gaps, np.inf).min(1)
    k, positive = np.sqrt(squares), lam > rounding
    if not positive.any():
        raise ValueError("C has no positive eigenvalue; the moments of Thm. 1 need one.")
    return KurtosisTerms(k, float(k[positive].min()), float(k.max()), float((squares / nearest).max()))


def vnn_filter_rate(
    P: float, t: int, N: int, *, norm: float, k_max: float, k_min: float, epsilon: float = 0.25, constant: float = 1.0
) -> float:
    r"""Return the leading term of Thm. 1: how far a filter on the sample covariance is from one on the true covariance.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter on an interval that covers the eigenvalues of both matrices.
    t, N : int
        Numbers of samples and features.
    norm : float
        :math:`\|C\|`.
    k_max, k_min : float
        See :func:`kurtosis_terms`.
    epsilon : float in (0, 1/2], default=0.25
        Between a smaller bound (near 0) and a larger probability that it holds (near 1/2).
    constant : float, default=1.0
        c, the constant that the :math:`\mathcal O` of Thm. 1 leaves open.

    Returns
    -------
    float

    Notes
    -----
    .. math:: \beta = \frac{P k_{\max}}{t^{1/2 - \epsilon}}\, c\, \Big(\sqrt N
              + \frac{\|C\| \sqrt{\log(N t)}}{k_{\min} t^{2\epsilon}}\Big)
              \quad\text{with probability at least } 1 - t^{-2\epsilon} - 2\kappa N / t.

    This is an order of magnitude, not a certificate: the constant is unknown, and the probability says nothing where
    two eigenvalues are close. For C = diag(1, 1.001) and Gaussian data, :math:`\kappa` is about 3000 and the
    probability is negative up to t = 12,000; see :func:`vnn_filter_probability`. For two given matrices
    :func:`svnn.stability.filter_bound` is certain.

    Examples
    --------
    >>> round(vnn_filter_rate(1.0, t=100, N=10, norm=2.0, k_max=3.0, k_min=1.0), 4)
    3.4987
    """
    _inputs.check_numbers(0, P=P, norm=norm, k_max=k_max, k_min=k_min, constant=constant)
    _inputs.check_numbers(1, t=t, N=N)
    _check_exponent(epsilon, k_min)
    inside = np.sqrt(N) + norm * np.sqrt(np.log(N * t)) / (k_min * t ** (2 * epsilon))
    return float(P * k_max / t ** (0.5 - epsilon) * constant * inside)


def vnn_filter_probability(t: int, N: int, kappa: float, epsilon: float = 0.25) -> float:
    r"""Return the probability that Thms. 1 and 5 claim, :math:`1 - t^{-2\epsilon} - 2\kappa N / t`.

    Parameters
    ----------
    t, N : int
        Numbers of samples and features.
    kappa : float
        See :func:`kurtosis_terms`.
    epsilon : float in (0, 1/2], default=0.25
        As in :func:`vnn_filter_rate`.

    Returns
    -------
    float
        Negative where the theorems claim nothing.

    Examples
    --------
    >>> round(vnn_filter_probability(10_000, 10, kappa=5.0), 6)
    0.98
    """
    _inputs.check_numbers(0, kappa=kappa)
    _inputs.check_numbers(1, t=t, N=N)
    _check_exponent(epsilon)
    return float(1 - t ** (-2 * epsilon) - 2 * kappa * N / t)


def stochastic_filter_rate(
    P_gi: float,
    Q: float,
    P: float,
    t: int,
    N: int,
    *,
    norm: float,
    k_max: float,
    k_min: float,
    epsilon: float = 0.25,
    constant: float = 1.0,
) -> float:
    r"""Return the leading terms of Thm. 5: the expected squared error of a stochastic filter, :math:`\|x\| \le 1`.

    Parameters
    ----------
    P_gi : float
        See :func:`svnn.stability.generalized_lipschitz`.
    Q : float
        :math:`\sum c_{ij}^2 (1 - p_{ij})`; see :func:`svnn.stability.sparsification_error`.
    P, t, N, norm, k_max, k_min, epsilon, constant
        As in :func:`vnn_filter_rate`.

    Returns
    -------
    float

    Notes
    -----
    .. math:: P_{gi}^2 Q + \frac{P^2 k_{\max}^2}{t^{1 - 2\epsilon}}\, c\, \Big(N
              + \frac{\|C\|^2 \log(N t)}{k_{\min}^2 t^{4\epsilon}}\Big)

    This is an order of magnitude, not a certificate. The terms of order :math:`(1-p)^2` that it drops are a bias and
    can be the larger ones: for :math:`C = (1-c) I + c 11^T`, :math:`h = \lambda^3`, c = 1e-4 and p = 0.25 the
    sparsification error is 2.15 times :math:`P_{gi}^2 Q`. The two parts are added by
    :math:`\|a + b\|^2 \le \|a\|^2 + \|b\|^2`, which fails for a = b: with :math:`h = \lambda`, p = 0 and an
    off-diagonal entry of 1 that was estimated as 1/2, the left side is 1 and the right side 1/2. What holds is
    :func:`svnn.stability.stochastic_bound` and :func:`svnn.stability.expected_error`.

    Examples
    --------
    >>> round(stochastic_filter_rate(1.0, 0.5, 1.0, t=100, N=10, norm=2.0, k_max=3.0, k_min=1.0), 4)
    9.7487
    """
    _inputs.check_numbers(0, P_gi=P_gi, Q=Q, P=P, norm=norm, k_max=k_max, k_min=k_min, constant=constant)
    _inputs.check_numbers(1, t=t, N=N)
    _check_exponent(epsilon, k_min)
    inside = N + norm**2 * np.log(N * t) / (k_min**2 * t ** (4 * epsilon))
    return float(P_gi**2 * Q + (P * k_max) ** 2 / t ** (1 - 2 * epsilon) * constant * inside)


def _check_exponent(epsilon: float, k_min: float = 1.0) -> None:
    """Check what Thms. 1 and 5 raise t to, and what they divide by."""
    if not 0 < epsilon <= 0.5:
        raise ValueError(f"epsilon must be in (0, 1/2], got {epsilon!r}.")
    if k_min == 0:
        raise ValueError("k_min must be above 0; it is the smallest k_j of a positive eigenvalue.")
