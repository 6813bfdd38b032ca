"""Frequency responses: of a filter, of a bank, of a trained network, and PCA's."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from svnn.functional._array import to_numpy
from svnn.nn import CovarianceFilter
from svnn.stability._inputs import coefficients
from svnn.stability._network import folded_layers, network


def frequency_response(h: Any, lam: Any) -> np.ndarray:
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
    h, lam = coefficients(h), np.asarray(to_numpy(lam), dtype=np.float64)
    lam = lam.reshape(lam.shape + (1,) * (h.ndim - 1))
    response = np.zeros(lam.shape[: lam.ndim - (h.ndim - 1)] + h.shape[1:])
    for tap in h[::-1]:
        response = response * lam + tap
    return response


def generalized_response(h: Any, lams: Any) -> np.ndarray:
    r"""Return the generalised frequency response of a stochastic covariance filter.

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

    Affine in every :math:`\lambda_j`; with all of them equal it is the ordinary response. In terms of the
    bases :math:`\tilde V_j` of the realisations the stochastic filter is

    .. math:: \tilde u = \sum_{i_K} \cdots \sum_{i_1} \hat x_{K i_{K-1} i_K} \cdots \hat x_{1 i_1}\,
              h(\lambda_{1 i_1}, …, \lambda_{K i_K})\, \tilde v_{K i_K},

    the sum over k from 0 and every term in the basis of the last realisation (the paper's appendix
    starts at 1 and leaves term k in basis k, which is not the filter).

    Examples
    --------
    >>> generalized_response([1.0, 1.0, 1.0], [[2.0, 3.0], [3.0, 2.0]])
    array([ 9., 10.])
    """
    h, lams = coefficients(h), np.asarray(to_numpy(lams), dtype=np.float64)
    if lams.ndim == 0 or lams.shape[-1] != len(h) - 1:
        raise ValueError(f"lams must have shape (..., {len(h) - 1}), one eigenvalue a shift, got {lams.shape}.")
    lams = lams.reshape(lams.shape + (1,) * (h.ndim - 1))
    response = np.zeros(lams.shape[: lams.ndim - h.ndim] + h.shape[1:]) + h[-1]
    for k in range(len(h) - 2, -1, -1):
        response = h[k] + lams.take(k, axis=lams.ndim - h.ndim) * response
    return response


def layer_response(layer: nn.Module, lam: Any, scale: float = 1.0) -> np.ndarray:
    r"""Return the frequency responses of a layer's filters.

    Parameters
    ----------
    layer : CovarianceFilter
    lam : array of any shape
        Eigenvalues of the covariance before it is divided by ``scale``.
    scale : float, default=1.0
        The number s that the layer's shift is divided by, ``operator.scale``.

    Returns
    -------
    ndarray of shape ``lam.shape + (in_features, out_features)``
        :math:`W(\lambda / s)`; entry (g, f) is the response from value g to value f.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.nn import CovarianceFilter
    >>> layer_response(CovarianceFilter(2, 8, order=2), np.linspace(0, 1, 50)).shape
    (50, 2, 8)
    """
    if not isinstance(layer, CovarianceFilter):
        raise TypeError(f"layer must be a CovarianceFilter, got {type(layer).__name__}.")
    return frequency_response(layer.weight, np.asarray(to_numpy(lam), dtype=np.float64) / scale)


def network_response(model: Any, lam: Any, scale: float | None = None) -> list[np.ndarray]:
    r"""Return the frequency responses of all layers of a trained network.

    Parameters
    ----------
    model : SVNN or fitted SVNNRegressor or SVNNClassifier
    lam : array of any shape
        Eigenvalues of the covariance as it is before networks scale it.
    scale : float, optional
        The number s that the shift is divided by. By default ``model.operator_.scale`` for an
        estimator. A module does not know the matrices it will run on: 1 by default, so that
        ``lam`` are the eigenvalues of the shift itself.

    Returns
    -------
    list of ndarrays of shape ``lam.shape + (in, out)``, one a layer

    Notes
    -----
    The network runs on :math:`C / s`. Batch norm, as in prediction, multiplies every output of
    a bank by a number and adds another; the former is part of the response, the latter is no
    filter and is left out. The first layer sees standardised features.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.datasets import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=60, n_features=10, random_state=0)
    >>> model = SVNNRegressor(hidden=(4, 4), max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> [response.shape for response in network_response(model, np.linspace(0, 3, 20))]
    [(20, 1, 4), (20, 4, 4)]
    """
    module = network(model)
    if scale is None:
        scale = 1.0 if module is model else float(model.operator_.scale)
    lam = np.asarray(to_numpy(lam), dtype=np.float64) / scale
    return [frequency_response(weight, lam) for weight, _ in folded_layers(module)]


def pca_response(lam: Any, k: int) -> np.ndarray:
    r"""Return the ideal filter of PCA, :math:`1[\lambda \ge \lambda_k]`.

    Parameters
    ----------
    lam : array of shape (N,)
        The eigenvalues of the covariance, in any order.
    k : int
        Number of principal components.

    Returns
    -------
    ndarray of shape (N,)
        1 for the k largest eigenvalues (more than k where :math:`\lambda_k` is repeated), else 0. No
        Lipschitz filter: the response jumps at :math:`\lambda_k`, however close the next eigenvalue is.

    Examples
    --------
    >>> pca_response([3.0, 0.5, 2.0, 0.1], k=2)
    array([1., 0., 1., 0.])
    """
    lam = np.asarray(to_numpy(lam), dtype=np.float64)
    if lam.ndim != 1:
        raise ValueError(f"lam must hold the N eigenvalues in one dimension, got shape {lam.shape}.")
    if int(k) != k or not 1 <= k <= len(lam):
        raise ValueError(f"k must be an integer from 1 to the number of eigenvalues, {len(lam)}, got {k!r}.")
    return (lam >= np.sort(lam)[-int(k)]).astype(np.float64)
