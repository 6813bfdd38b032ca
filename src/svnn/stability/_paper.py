"""The paper's own theorems: leading terms with the constants as arguments. Orders, not certificates."""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn.functional._array import to_numpy
from svnn.stability import _inputs
from svnn.stability._moments import check_exponent


def vnn_rate(beta: float, n_layers: int, n_features: int) -> float:
    r"""Thm. 2: :math:`L F^{L-1} \beta` for a network of L layers with F values a node, :math:`\|x\| \le 1`.

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

    Notes
    -----
    Not a bound as printed. The proof needs filters of gain at most 1, which the theorem does not
    ask for: with N = F = 1, L = 2 and :math:`h = 10\lambda`, going from C = 1 to 1.01 moves the output by 2.01, and
    :math:`L F^{L-1} \beta = 0.2`. Nor are the F outputs of the last layer counted: one layer of F equal filters
    moves by :math:`\sqrt F \beta`, and the theorem allows :math:`\beta`. Where both are granted it is
    far from tight. :func:`svnn.stability.certificate` has neither restriction.

    Examples
    --------
    >>> vnn_rate(0.1, n_layers=2, n_features=32)
    6.4
    """
    _inputs.numbers(0, beta=beta)
    _inputs.numbers(1, n_layers=n_layers, n_features=n_features)
    return float(n_layers * n_features ** (n_layers - 1) * beta)


def hard_threshold_rate(P: float, t: int, N: int, c0: float, constant: float = 1.0) -> float:
    r"""Leading term of Thm. 3: a filter on a hard-thresholded covariance.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter.
    t, N : int
        Numbers of samples and features.
    c0 : float
        Largest number of non-zero entries in a row of the true covariance.
    constant : float, default=1.0
        The theorem's C, which its formula then leaves out.

    Returns
    -------
    float

    Notes
    -----
    .. math:: t^{-1/2}\, P\, C\, c_0 \sqrt{N \log N}\, (1 + \sqrt N)

    An order, not a certificate. The constant depends on the largest variance M: with C = 1 and data in
    units 1000 times smaller, the filter :math:`h = \lambda` moves :math:`10^6` times as far and the formula stays.
    P on :math:`[0, \lambda_{\max}]` does not do, as a thresholded covariance can have negative eigenvalues; and
    the eigenvalues need not be distinct, see :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> round(hard_threshold_rate(1.0, t=100, N=10, c0=3), 4)
    5.9918
    """
    _inputs.numbers(0, P=P, c0=c0, constant=constant)
    _inputs.numbers(1, t=t, N=N)
    return perturbation_rate(P, constant * c0 * np.sqrt(np.log(N) / t), N)


def soft_threshold_rate(P: float, t: int, N: int, c0: float, lam_max: float, constant: float = 1.0) -> float:
    r"""Leading term of Thm. 4: a filter on a soft-thresholded covariance of a spiked model.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter.
    t, N : int
        Numbers of samples and features.
    c0 : float
        Number of non-zero entries of a spike.
    lam_max : float
        Largest eigenvalue of the true covariance.
    constant : float, default=1.0
        The theorem's C.

    Returns
    -------
    float

    Notes
    -----
    .. math:: t^{-1/2}\, P\, \sqrt N\, C\, c_0 \max(1, \lambda_{\max}) \sqrt{\max(\log(N / c_0^2), 1)}\, (1 + \sqrt N)

    An order, not a certificate: C is unknown, and P has to cover negative eigenvalues, as in
    :func:`hard_threshold_rate`. The threshold :math:`\tau = M' \sqrt{\log(N / c_0^2)}` is that of no real number where
    :math:`c_0 > \sqrt N`, though the formula then still gives a value.

    Examples
    --------
    >>> round(soft_threshold_rate(1.0, t=100, N=10, c0=3, lam_max=2.0), 4)
    7.8974
    """
    _inputs.numbers(0, P=P, c0=c0, lam_max=lam_max, constant=constant)
    _inputs.numbers(1, t=t, N=N)
    error = constant * c0 * max(1.0, lam_max) * np.sqrt(max(np.log(N / c0**2), 1.0) / t)
    return perturbation_rate(P, error, N)


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
    r"""Leading terms of Thm. 5: the expected squared error of a stochastic filter, :math:`\|x\| \le 1`.

    Parameters
    ----------
    P_gi : float
        See :func:`svnn.stability.generalized_lipschitz`.
    Q : float
        :math:`\sum c_{ij}^2 (1 - p_{ij})`.
    P, t, N, norm, k_max, k_min, epsilon, constant
        As in :func:`vnn_filter_rate`.

    Returns
    -------
    float

    Notes
    -----
    .. math:: P_{gi}^2 Q + \frac{P^2 k_{\max}^2}{t^{1 - 2\epsilon}}\, c\, \Big(N
              + \frac{\|C\|^2 \log(N t)}{k_{\min}^2 t^{4\epsilon}}\Big)

    An order, not a certificate. The terms of order :math:`(1-p)^2` that it drops are a bias and can be the larger
    ones: for :math:`C = (1-c) I + c 11^T`, :math:`h = \lambda^3`, c = 1e-4 and p = 0.25 the sparsification error
    is 2.15 times :math:`P_{gi}^2 Q`. The two parts are added by :math:`\|a + b\|^2 \le \|a\|^2 + \|b\|^2`, which
    fails for a = b: with :math:`h = \lambda`, p = 0 and an off-diagonal entry of 1 that was estimated as 1/2,
    the left side is 1 and the right side 1/2. :func:`svnn.stability.stochastic_bound` and
    :func:`svnn.stability.expected_error` hold.

    Examples
    --------
    >>> round(stochastic_filter_rate(1.0, 0.5, 1.0, t=100, N=10, norm=2.0, k_max=3.0, k_min=1.0), 4)
    9.7487
    """
    _inputs.numbers(0, P_gi=P_gi, Q=Q, P=P, norm=norm, k_max=k_max, k_min=k_min, constant=constant)
    _inputs.numbers(1, t=t, N=N)
    check_exponent(epsilon, k_min)
    inside = N + norm**2 * np.log(N * t) / (k_min**2 * t ** (4 * epsilon))
    return float(P_gi**2 * Q + (P * k_max) ** 2 / t ** (1 - 2 * epsilon) * constant * inside)


def pca_rate(t: int, eigenvalues: Any, constant: float = 1.0) -> float:
    r"""Leading term of Lemma 1: how far the principal components of a signal move, :math:`\|x\| \le 1`.

    Parameters
    ----------
    t : int
        Number of samples.
    eigenvalues : array of shape (N,)
        Of the true covariance.
    constant : float, default=1.0

    Returns
    -------
    float
        Infinite where an eigenvalue is repeated.

    Notes
    -----
    .. math:: \frac{c}{\sqrt t\, \min_j |\lambda_j - \lambda_{j+1}|}

    An order, not a certificate: the constant hides :math:`\sqrt N` and :math:`\|C\|`. With c = 1 the value falls as the
    units of the data shrink, and the components do not move less. The proof takes :math:`\|v_i - \hat v_i\| \le
    \sqrt 2 \|E\| / \text{gap}` with the gap of the true eigenvalues; for C = diag(1, 0) and E = diag(-0.51, 0.51) the
    components change places, and :math:`\sqrt 2 > 0.51 \sqrt 2`. With :math:`2 \sqrt 2` it holds.

    Examples
    --------
    >>> pca_rate(100, [1.0, 1.5, 3.0])
    0.2
    """
    _inputs.numbers(0, constant=constant)
    _inputs.numbers(1, t=t)
    gap = _smallest_gap(eigenvalues)
    return float(constant / (np.sqrt(t) * gap)) if gap else np.inf


def sparse_pca_rate(t: int, eigenvalues: Any, c0: float, constant: float = 1.0) -> float:
    r"""Leading term of Prop. 1: how far sparse principal components of a signal move, :math:`\|x\| \le 1`.

    Parameters
    ----------
    t : int
        Number of samples.
    eigenvalues : array of shape (N,)
        Of the true covariance.
    c0 : float
        Largest number of non-zero entries in a row of the true covariance.
    constant : float, default=1.0
        The constant of the thresholding error, which the proposition leaves out.

    Returns
    -------
    float
        Infinite where an eigenvalue is repeated.

    Notes
    -----
    .. math:: \frac{c\, c_0 N \sqrt{2 \log N}}{\sqrt t\, \min_j |\lambda_j - \lambda_{j+1}|}

    An order, not a certificate; it fails with the units as :func:`pca_rate` does, and by the same
    :math:`\sqrt 2` where :math:`2 \sqrt 2` is needed.

    Examples
    --------
    >>> round(sparse_pca_rate(100, [1.0, 1.5, 3.0], c0=2), 4)
    1.7788
    """
    _inputs.numbers(0, c0=c0, constant=constant)
    _inputs.numbers(1, t=t)
    n = len(np.ravel(to_numpy(eigenvalues)))
    return constant * c0 * n * float(np.sqrt(2 * np.log(n))) * pca_rate(t, eigenvalues)


def perturbation_rate(P: float, error: float, N: int) -> float:
    r"""Leading term of Prop. 2: a filter on a slightly different matrix, :math:`\|x\| \le 1`.

    Parameters
    ----------
    P : float
        Lipschitz constant of the filter.
    error : float
        :math:`\|E\| = \|C - \bar C\|`, the spectral norm.
    N : int

    Returns
    -------
    float

    Notes
    -----
    .. math:: P \sqrt N \|E\| (1 + \sqrt N)

    To first order in E. With P on C's own spectrum it fails for larger E: for N = 1, C = 1, :math:`\bar C = 10` and
    :math:`h = \lambda^3`, P = 3 and the formula gives 54, the filter moves by 999. With P on both spectra no
    smallness, no distinct eigenvalues and no :math:`(1 + \sqrt N)` are needed, since
    :math:`P \|E\|_F \le P \sqrt N \|E\|`: see :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> perturbation_rate(3.0, 9.0, 1)
    54.0
    """
    _inputs.numbers(0, P=P, error=error)
    _inputs.numbers(1, N=N)
    return float(P * np.sqrt(N) * error * (1 + np.sqrt(N)))


def _smallest_gap(eigenvalues: Any) -> float:
    lam = np.sort(np.asarray(to_numpy(eigenvalues), dtype=np.float64))
    if lam.ndim != 1 or len(lam) < 2 or not np.isfinite(lam).all():
        raise ValueError(f"eigenvalues must be two or more finite numbers in one dimension, got shape {lam.shape}.")
    return float(np.diff(lam).min())
