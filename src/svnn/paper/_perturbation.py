"""Filters and networks on a slightly different matrix: Prop. 2, thresholded covariances (Thms. 3 and 4), Thm. 2."""

from __future__ import annotations

import numpy as np

from svnn.stability import _inputs


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
