"""Frequency responses: of a filter, of a stochastic filter, and of PCA seen as a filter."""

from __future__ import annotations

import numpy as np

from svnn._types import DataLike
from svnn.stability._inputs import FilterLike, check_integer, coefficients, numbers_in
from svnn.stability._polynomials import values


def frequency_response(h: FilterLike, lam: DataLike) -> np.ndarray:
    r"""Return the frequency response of a covariance filter.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter, or of a bank as ``CovarianceFilter.weight`` holds them.
    lam : array of any shape
        Eigenvalues of the matrix that the filter runs on.

    Returns
    -------
    ndarray of shape ``lam.shape`` for a filter, ``lam.shape + (in, out)`` for a bank

    Notes
    -----
    .. math:: h(\lambda) = \sum_{k=0}^K h_k \lambda^k, \qquad V^T H(C) x
              = \operatorname{diag}(h(\lambda_1), …, h(\lambda_N)) V^T x

    Examples
    --------
    >>> frequency_response([1.0, 0.0, 2.0], [0.0, 1.0, 2.0])
    array([1., 3., 9.])
    """
    return values(coefficients(h), numbers_in(lam))


def generalized_response(h: FilterLike, lams: DataLike) -> np.ndarray:
    r"""Return the generalised frequency response of a stochastic covariance filter (Def. 6).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    lams : array of shape (…, K)
        One eigenvalue of each of the K realisations, that of the first shift first.

    Returns
    -------
    ndarray of shape (…) for a filter, (…, in, out) for a bank

    Notes
    -----
    .. math:: h(\boldsymbol\lambda) = \sum_{k=0}^K h_k \prod_{j=1}^k \lambda_j

    It is affine in every :math:`\lambda_j`; with all of them equal it is the ordinary response. In terms of the
    eigenvectors :math:`\tilde V_j` of the realisations the stochastic filter is

    .. math:: \tilde u = \sum_{i_K} \cdots \sum_{i_1} \hat x_{K i_{K-1} i_K} \cdots \hat x_{1 i_1}\,
              h(\lambda_{1 i_1}, …, \lambda_{K i_K})\, \tilde v_{K i_K},

    with every term in the basis of the last realisation. (The sum in Appendix D of the paper starts at k = 1 and
    leaves term k in the basis of realisation k, which is not the filter.)

    Examples
    --------
    >>> generalized_response([1.0, 1.0, 1.0], [[2.0, 3.0], [3.0, 2.0]])
    array([ 9., 10.])
    """
    h, lams = coefficients(h), numbers_in(lams)
    if lams.ndim == 0 or lams.shape[-1] != len(h) - 1:
        raise ValueError(f"lams must have shape (..., {len(h) - 1}), one eigenvalue per shift, got {lams.shape}.")
    lams = lams.reshape(lams.shape + (1,) * (h.ndim - 1))
    response = np.zeros(lams.shape[: lams.ndim - h.ndim] + h.shape[1:]) + h[-1]
    for k in range(len(h) - 2, -1, -1):
        response = h[k] + lams.take(k, axis=lams.ndim - h.ndim) * response
    return response


def pca_response(lam: DataLike, k: int) -> np.ndarray:
    r"""Return PCA as a filter: :math:`1[\lambda \ge \lambda_k]`, which lets the k largest eigenvalues pass.

    Parameters
    ----------
    lam : array of shape (N,)
        The eigenvalues of the covariance, in any order.
    k : int
        Number of principal components.

    Returns
    -------
    ndarray of shape (N,)
        1 for the k largest eigenvalues (for more than k where :math:`\lambda_k` is repeated), 0 for the others. This
        filter has no Lipschitz constant: the response jumps at :math:`\lambda_k`, however close the next eigenvalue
        is.

    Examples
    --------
    >>> pca_response([3.0, 0.5, 2.0, 0.1], k=2)
    array([1., 0., 1., 0.])
    """
    lam = numbers_in(lam)
    if lam.ndim != 1:
        raise ValueError(f"lam must hold the N eigenvalues in one dimension, got shape {lam.shape}.")
    wanted = f"k must be an integer from 1 to the number of eigenvalues, {len(lam)}"
    k = check_integer(int(k) if int(k) == k else k, wanted, 1, len(lam))
    return (lam >= np.sort(lam)[-k]).astype(np.float64)
