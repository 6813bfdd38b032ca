"""The bounds of the paper as printed.

Filters on a covariance that is estimated from samples (Thms. 1 and 5, and the moments they need); filters on a slightly
different matrix (Prop. 2), also on thresholded covariances (Thms. 3 and 4); networks (Thm. 2); principal components
(Lemma 1, sparse ones in Prop. 1).
"""

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


def perturbation_rate(P: float, error: float, N: int) -> float:
    r"""Return the leading term of Prop. 2: a filter on a slightly different matrix, :math:`\|x\| \le 1`.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter.
    error : float
        :math:`\|E\| = \|C - \bar C\|`, the spectral norm of the difference.
    N : int
        Number of features.

    Returns
    -------
    float

    Notes
    -----
    .. math:: P \sqrt N \|E\| (1 + \sqrt N)

    This is true to first order in E. With P on the eigenvalues of C alone it fails for larger E: for N = 1, C = 1,
    :math:`\bar C = 10` and :math:`h = \lambda^3`, P is 3 and the formula gives 54, but the filter moves by 999. With P
    on the eigenvalues of both matrices, E need not be small, eigenvalues need not be distinct and the factor
    :math:`(1 + \sqrt N)` is not needed, since :math:`P \|E\|_F \le P \sqrt N \|E\|`: see
    :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> perturbation_rate(3.0, 9.0, 1)
    54.0
    """
    _inputs.check_numbers(0, P=P, error=error)
    _inputs.check_numbers(1, N=N)
    return float(P * np.sqrt(N) * error * (1 + np.sqrt(N)))


def hard_threshold_rate(P: float, t: int, N: int, c0: float, constant: float = 1.0) -> float:
    r"""Return the leading term of Thm. 3: a filter on a hard-thresholded covariance.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter.
    t, N : int
        Numbers of samples and features.
    c0 : float
        Largest number of non-zero entries in a row of the true covariance.
    constant : float, default=1.0
        The constant C that Thm. 3 names and then leaves out of its formula.

    Returns
    -------
    float

    Notes
    -----
    .. math:: t^{-1/2}\, P\, C\, c_0 \sqrt{N \log N}\, (1 + \sqrt N)

    This is an order of magnitude, not a certificate. The constant depends on the largest variance M: with C = 1 and
    data in units 1000 times smaller, the filter :math:`h = \lambda` moves :math:`10^6` times as far and the formula
    gives the same number. P on :math:`[0, \lambda_{\max}]` is not enough, as a thresholded covariance can have
    negative eigenvalues; and the eigenvalues need not be distinct, see :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> round(hard_threshold_rate(1.0, t=100, N=10, c0=3), 4)
    5.9918
    """
    _inputs.check_numbers(0, P=P, c0=c0, constant=constant)
    _inputs.check_numbers(1, t=t, N=N)
    return perturbation_rate(P, constant * c0 * np.sqrt(np.log(N) / t), N)


def soft_threshold_rate(P: float, t: int, N: int, c0: float, lam_max: float, constant: float = 1.0) -> float:
    r"""Return the leading term of Thm. 4: a filter on a soft-thresholded covariance of a spiked model.

    Parameters
    ----------
    P, t, N
        As in :func:`hard_threshold_rate`.
    c0 : float
        Number of non-zero entries of a spike.
    lam_max : float
        Largest eigenvalue of the true covariance.
    constant : float, default=1.0
        The constant C of Thm. 4, which is unknown.

    Returns
    -------
    float

    Notes
    -----
    .. math:: t^{-1/2}\, P\, \sqrt N\, C\, c_0 \max(1, \lambda_{\max}) \sqrt{\max(\log(N / c_0^2), 1)}\, (1 + \sqrt N)

    This is an order of magnitude, not a certificate: C is unknown, and P has to cover negative eigenvalues, as in
    :func:`hard_threshold_rate`. Where :math:`c_0 > \sqrt N`, the threshold :math:`\tau = M' \sqrt{\log(N / c_0^2)}` of
    the theorem is the root of a negative number, though the formula still gives a value.

    Examples
    --------
    >>> round(soft_threshold_rate(1.0, t=100, N=10, c0=3, lam_max=2.0), 4)
    7.8974
    """
    _inputs.check_numbers(0, P=P, c0=c0, lam_max=lam_max, constant=constant)
    _inputs.check_numbers(1, t=t, N=N)
    error = constant * c0 * max(1.0, lam_max) * np.sqrt(max(np.log(N / c0**2), 1.0) / t)
    return perturbation_rate(P, error, N)


def vnn_rate(beta: float, n_layers: int, n_features: int) -> float:
    r"""Return the bound of Thm. 2 on a network of L layers with F values per node, :math:`L F^{L-1} \beta`.

    Parameters
    ----------
    beta : float
        The largest change of a single filter of the network, :math:`\max \|H^l_{fg}(\hat C) - H^l_{fg}(C)\|`; see
        :func:`svnn.stability.largest_filter_change`.
    n_layers, n_features : int
        L and F.

    Returns
    -------
    float
        For signals with :math:`\|x\| \le 1`.

    Notes
    -----
    As printed this is not a bound. The proof needs filters of gain at most 1, which the theorem does not
    ask for: with N = F = 1, L = 2 and :math:`h = 10\lambda`, going from C = 1 to 1.01 moves the output by 2.01, and
    :math:`L F^{L-1} \beta = 0.2`. Nor are the F outputs of the last layer counted: one layer of F equal filters
    moves by :math:`\sqrt F \beta`, and the theorem allows :math:`\beta`. Where both are granted it is
    far from tight. :func:`svnn.stability.certificate` has neither restriction.

    Examples
    --------
    >>> vnn_rate(0.1, n_layers=2, n_features=32)
    6.4
    """
    _inputs.check_numbers(0, beta=beta)
    _inputs.check_numbers(1, n_layers=n_layers, n_features=n_features)
    return float(n_layers * n_features ** (n_layers - 1) * beta)


def pca_rate(t: int, eigenvalues: DataLike, constant: float = 1.0) -> float:
    r"""Return the leading term of Lemma 1: how far the principal components of a signal move, :math:`\|x\| \le 1`.

    Parameters
    ----------
    t : int
        Number of samples.
    eigenvalues : array of shape (N,)
        Of the true covariance.
    constant : float, default=1.0
        c, the constant that Lemma 1 leaves open.

    Returns
    -------
    float
        Infinite where an eigenvalue is repeated.

    Notes
    -----
    .. math:: \frac{c}{\sqrt t\, \min_j |\lambda_j - \lambda_{j+1}|}

    This is an order of magnitude, not a certificate: the constant hides :math:`\sqrt N` and :math:`\|C\|`. With c = 1
    the value falls as the units of the data shrink, while the components move as far as before. The proof takes
    :math:`\|v_i - \hat v_i\| \le \sqrt 2 \|E\| / \text{gap}` with the gap of the true eigenvalues; for C = diag(1, 0)
    and E = diag(-0.51, 0.51) the components change places, and :math:`\sqrt 2 > 0.51 \sqrt 2`. With
    :math:`2 \sqrt 2` it holds.

    Examples
    --------
    >>> pca_rate(100, [1.0, 1.5, 3.0])
    0.2
    """
    _inputs.check_numbers(0, constant=constant)
    _inputs.check_numbers(1, t=t)
    lam = np.sort(_inputs.numbers_in(eigenvalues))
    if lam.ndim != 1 or len(lam) < 2 or not np.isfinite(lam).all():
        raise ValueError(f"eigenvalues must be two or more finite numbers in one dimension, got shape {lam.shape}.")
    gap = np.diff(lam).min()
    return float(constant / (np.sqrt(t) * gap)) if gap else np.inf


def sparse_pca_rate(t: int, eigenvalues: DataLike, c0: float, constant: float = 1.0) -> float:
    r"""Return the leading term of Prop. 1: how far sparse principal components of a signal move, :math:`\|x\| \le 1`.

    Parameters
    ----------
    t, eigenvalues
        As in :func:`pca_rate`.
    c0 : float
        Largest number of non-zero entries in a row of the true covariance.
    constant : float, default=1.0
        c, the constant of the thresholding error, which Prop. 1 leaves out.

    Returns
    -------
    float
        Infinite where two eigenvalues are equal.

    Notes
    -----
    .. math:: \frac{c\, c_0 N \sqrt{2 \log N}}{\sqrt t\, \min_j |\lambda_j - \lambda_{j+1}|}

    This is an order of magnitude, not a certificate; it fails with the units as :func:`pca_rate` does, and by the same
    :math:`\sqrt 2` where :math:`2 \sqrt 2` is needed.

    Examples
    --------
    >>> round(sparse_pca_rate(100, [1.0, 1.5, 3.0], c0=2), 4)
    1.7788
    """
    _inputs.check_numbers(0, c0=c0, constant=constant)
    _inputs.check_numbers(1, t=t)
    n = np.size(_inputs.numbers_in(eigenvalues))
    return constant * c0 * n * float(np.sqrt(2 * np.log(n))) * pca_rate(t, eigenvalues)
