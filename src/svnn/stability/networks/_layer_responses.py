"""Frequency responses of the layers of a network."""

from __future__ import annotations

import numpy as np
from torch import nn

from svnn._types import DataLike
from svnn.functional import log_eigenvalues
from svnn.nn import CovarianceFilter
from svnn.stability._inputs import coefficients, numbers_in
from svnn.stability._polynomials import values
from svnn.stability.networks._network_parts import Network, folded_layers, networks_in


def layer_response(layer: nn.Module, lam: DataLike, scale: float = 1.0) -> np.ndarray:
    r"""Return the frequency responses of the filters of a layer.

    Parameters
    ----------
    layer : CovarianceFilter
    lam : array of any shape
        Eigenvalues of the covariance before it is divided by ``scale``.
    scale : float, default=1.0
        The number s that the matrix is divided by before the layer sees it, ``operator.scale``.

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
    return values(coefficients(layer.weight), numbers_in(lam) / scale)


def network_response(model: Network, lam: DataLike, scale: float | None = None) -> list[np.ndarray]:
    r"""Return the frequency responses of all layers of a trained network.

    Parameters
    ----------
    model : SVNN or fitted SVNNRegressor or SVNNClassifier
    lam : array of any shape
        Eigenvalues of the covariance as it is before networks scale it.
    scale : float, optional
        The number s that the matrix is divided by. By default that of the training for an estimator. A module
        does not know the matrices it will run on, so the default is 1 and ``lam`` are the eigenvalues of the matrix
        that the module is given.

    Returns
    -------
    list of ndarrays of shape ``lam.shape + (in, out)``, one per layer; the outputs of several members side by side

    Notes
    -----
    The network runs on :math:`C / s`, or on the logarithm of that with ``use="log"``. Batch norm, as in prediction,
    multiplies every output of a bank by a number and adds another. The former is part of the response; the latter does
    not depend on the signal and is left out. The first layer sees standardised features.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.nn import SVNN
    >>> network = SVNN(in_features=1, out_features=1, hidden=(4, 6))
    >>> [response.shape for response in network_response(network, np.linspace(0, 3, 20))]
    [(20, 1, 4), (20, 4, 6)]
    """
    networks = networks_in(model)
    if scale is None:
        scale = float(getattr(model, "_scale", 1.0))
    lam = numbers_in(lam) / scale
    if not isinstance(model, nn.Module) and model._as_trained("use") == "log":
        lam = log_eigenvalues(lam)
    members = [[values(weight, lam) for weight, _ in folded_layers(network)] for network in networks]
    return [np.concatenate(layer, -1) for layer in zip(*members, strict=True)]
