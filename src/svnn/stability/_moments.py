"""The moments of the data in Thm. 1, and what the theorem makes of them: an order, not a certificate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from svnn.functional._array import to_numpy
from svnn.stability import _inputs


class KurtosisTerms(NamedTuple):
    """The moments of Thm. 1; see :func:`kurtosis_terms`."""

    k: np.ndarray
    k_min: float
    k_max: float
    kappa: float


def kurtosis_terms(C: Any, X: Any = None) -> KurtosisTerms:
    r"""Return the moments of the data that Thm. 1 depends on.

    Parameters
    ----------
    C : matrix of shape (N, N)
        The covariance.
    X : array of shape (t, N), optional
        Samples to take the fourth moments from, about their mean. Gaussian data without.

    Returns
    -------
    KurtosisTerms
        ``k`` of shape (N,), in ascending order of the eigenvalues, ``k_min``, ``k_max``, ``kappa``.

    Notes
    -----
    .. math:: k_j = \sqrt{E\|x x^T v_j\|^2 - \lambda_j^2}, \quad k_{\min} = \min_{j: \lambda_j > 0} k_j, \quad
              k_{\max} = \max_j k_j, \quad \kappa = \max_{\lambda_i \ne \lambda_j} \frac{k_i^2}{|\lambda_i - \lambda_j|}

    For Gaussian data :math:`k_j^2 = \lambda_j (\operatorname{tr} C + \lambda_j)` exactly. Eigenvalues closer than
    rounding count as equal; ``kappa`` is 0 where all are.

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
        X = np.asarray(to_numpy(X), dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != len(C) or not len(X) or not np.isfinite(X).all():
            raise ValueError(f"X must be finite and have shape (t, {len(C)}), got shape {X.shape}.")
        X = X - X.mean(0)
        squares = ((X**2).sum(1) @ (X @ V) ** 2) / len(X) - lam**2
    squares = np.maximum(squares, 0.0)  # of samples that are not C's own, or rounding
    rounding = 1e-12 * np.abs(lam).max(initial=0.0)
    gaps = np.abs(lam[:, None] - lam)
    nearest = np.where(gaps > rounding, gaps, np.inf).min(1)
    k, positive = np.sqrt(squares), lam > rounding
    if not positive.any():
        raise ValueError("C has no positive eigenvalue; the moments of Thm. 1 need one.")
    return KurtosisTerms(k, float(k[positive].min()), float(k.max()), float((squares / nearest).max()))


def vnn_filter_rate(
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
    r"""Leading term of Thm. 1: a filter on the sample covariance against one on the true covariance.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter on an interval that covers both spectra.
    t, N : int
        Numbers of samples and features.
    norm : float
        :math:`\|C\|`.
    k_max, k_min : float
        See :func:`kurtosis_terms`.
    epsilon : float in (0, 1/2], default=0.25
    constant : float, default=1.0
        What the paper's :math:`\mathcal O` leaves open.

    Returns
    -------
    float

    Notes
    -----
    .. math:: \beta = \frac{P k_{\max}}{t^{1/2 - \epsilon}}\, c\, \Big(\sqrt N
              + \frac{\|C\| \sqrt{\log(N t)}}{k_{\min} t^{2\epsilon}}\Big)
              \quad\text{with probability at least } 1 - t^{-2\epsilon} - 2\kappa N / t.

    An order, not a certificate: the constant is unknown, and the probability says nothing where two
    eigenvalues are close. For C = diag(1, 1.001) and Gaussian data, :math:`\kappa` is about 3000 and the
    probability negative up to t = 12,000; see :func:`vnn_filter_probability`. For two given matrices
    :func:`svnn.stability.filter_bound` is certain.

    Examples
    --------
    >>> round(vnn_filter_rate(1.0, t=100, N=10, norm=2.0, k_max=3.0, k_min=1.0), 4)
    3.4987
    """
    _inputs.numbers(0, P=P, norm=norm, k_max=k_max, k_min=k_min, constant=constant)
    _inputs.numbers(1, t=t, N=N)
    check_exponent(epsilon, k_min)
    inside = np.sqrt(N) + norm * np.sqrt(np.log(N * t)) / (k_min * t ** (2 * epsilon))
    return float(P * k_max / t ** (0.5 - epsilon) * constant * inside)


def vnn_filter_probability(t: int, N: int, kappa: float, epsilon: float = 0.25) -> float:
    r"""Return the probability that Thms. 1 and 5 claim, :math:`1 - t^{-2\epsilon} - 2\kappa N / t`.

    Parameters
    ----------
    t, N : int
    kappa : float
        See :func:`kurtosis_terms`.
    epsilon : float in (0, 1/2], default=0.25

    Returns
    -------
    float
        Negative where they claim nothing.

    Examples
    --------
    >>> round(vnn_filter_probability(10_000, 10, kappa=5.0), 6)
    0.98
    """
    _inputs.numbers(0, kappa=kappa)
    _inputs.numbers(1, t=t, N=N)
    check_exponent(epsilon)
    return float(1 - t ** (-2 * epsilon) - 2 * kappa * N / t)


def check_exponent(epsilon: float, k_min: float = 1.0) -> None:
    """Check what Thms. 1 and 5 raise t to, and what they divide by."""
    if not 0 < epsilon <= 0.5:
        raise ValueError(f"epsilon must be in (0, 1/2], got {epsilon!r}.")
    if k_min == 0:
        raise ValueError("k_min must be above 0; it is the smallest k_j of a positive eigenvalue.")
