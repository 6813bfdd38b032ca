"""A trained network taken apart into what bounds and responses need: its layers, its units, the matrices it runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from torch import nn

from svnn._types import DataLike, Matrix, MatrixLike
from svnn.covariance._resolve import shift_matrix
from svnn.estimators._base import BaseSVNN, model_on
from svnn.estimators._blend_parts import reads_covariance
from svnn.estimators._shift import scaled
from svnn.functional import log_eigenvalues
from svnn.functional._array import to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import Model, model_parts, network_part, standardised
from svnn.nn import SVNN, CovarianceFilter, Members
from svnn.nn._stacked import folded_filter
from svnn.operators import CovarianceOperator
from svnn.stability._bounds import SPARSE_COST, spectral_norm
from svnn.stability._inputs import coefficients, numbers_in
from svnn.stability._responses import values

#: A network: the module, or a fitted S-VNN or blend that holds one.
Network: TypeAlias = SVNN | Members | Model

#: Lipschitz constants of the activations, rounded up. All of them keep 0 and never increase an absolute value.
#: GELU is steepest at sqrt(2), SiLU near 2.4.
ACTIVATION_SLOPES: dict[type[nn.Module], float] = {
    nn.LeakyReLU: 1.0,
    nn.ReLU: 1.0,
    nn.ELU: 1.0,
    nn.GELU: 1.12891,
    nn.SiLU: 1.09984,
    nn.Tanh: 1.0,
    nn.Identity: 1.0,
}
#: Up to this size matrices are kept dense; beyond, where at most one entry in ``SPARSE_COST`` is not zero, sparse.
_DENSE_LIMIT = 1024


class Layer(NamedTuple):
    """A layer as it predicts, batch norm folded in: weight (K + 1, in, out) and bias (out,) in float64."""

    weight: np.ndarray
    bias: np.ndarray


class Shifts(NamedTuple):
    """The two covariances as the network runs on them, both divided by ``scale``."""

    before: Matrix
    after: Matrix
    scale: float


@dataclass(frozen=True)
class NetworkParts:
    """A module or a fitted S-VNN as this room sees it.

    The outputs of the ``networks`` are averaged. ``units`` are the standard deviations of the targets, by which outputs
    are multiplied. ``signals`` turns data for N nodes into what the first layer takes, of shape (t, N, F). ``scale`` is
    what covariances are divided by, None for a plain module.
    """

    networks: list[SVNN]
    signals: Callable[[DataLike, int], np.ndarray]
    use: str = "covariance"
    scale: float | None = None
    units: np.ndarray | float = 1.0


def networks_in(model: Network) -> list[tuple[float, Any]]:
    """Return what of a model depends on the covariance, with weights: itself, or S-VNNs of a blend."""
    if isinstance(model, (SVNN, Members)):
        return [(1.0, model)]
    if not hasattr(model, "fitted_"):
        hint = "; fit it first" if hasattr(model, "fit") else ""
        raise TypeError(f"model must be an SVNN or a fitted S-VNN or blend, got {type(model).__name__}{hint}.")
    found = [part for part in model_parts(model).values() if reads_covariance(part[1])]
    return found or [network_part(model)]


def parts_of(model: SVNN | Members | BaseSVNN) -> NetworkParts:
    """Take a module or a fitted S-VNN apart."""
    if isinstance(model, SVNN):
        return NetworkParts([model], partial(_module_signals, model))
    if isinstance(model, Members):
        return NetworkParts(model.networks, partial(_module_signals, model.networks[0]))
    targets: Any = model.fitted_.targets
    units = 1.0 if targets.are_labels else np.reshape(targets.standardizer.scale, (-1, 1))
    shift = model.shift_
    return NetworkParts(model.fitted_.networks, lambda X, _: standardised(model, X), shift.use, shift.scale, units)


def parts_on(model: SVNN | Members | BaseSVNN, C: MatrixLike, C_hat: MatrixLike) -> tuple[NetworkParts, Shifts]:
    """Return the parts of a model on the first covariance, and both covariances as it runs on them."""
    parts = parts_of(model)
    A, B = _matrix_of(parts, C, "C"), _matrix_of(parts, C_hat, "C_hat")
    n, other = A.shape[0], B.shape[0]
    if n != other:
        raise ValueError(f"C is {n}x{n}, C_hat {other}x{other}; they must have the same size.")
    if isinstance(model, (SVNN, Members)):
        scales = [c.scale if isinstance(c, CovarianceOperator) else None for c in (C, C_hat)]
        if parts.networks[0].normalize:
            scales = [scales[0] or spectral_norm(A) or 1.0] * 2
        # A module without normalisation runs on an operator as it is: divided, where it is divided already.
        before, after = (M * (1 / (scale or 1.0)) for M, scale in zip((A, B), scales, strict=True))
        return parts, Shifts(_fast_to_multiply(before), _fast_to_multiply(after), scales[0] or 1.0)
    if n != model.n_features_in_:  # the estimator checks that it can run there, and takes another scale
        parts = parts_of(model_on(model, C))
    scale = parts.scale or 1.0
    # Estimators hold their matrix in single precision: the bound is for the network that predicts.
    before, after = (scaled(M, scale, parts.use).astype(np.float32).astype(np.float64) for M in (A, B))
    return parts, Shifts(_fast_to_multiply(before), _fast_to_multiply(after), scale)


def _matrix_of(parts: NetworkParts, C: Any, name: str) -> Matrix:
    """Return the matrix that stands for a covariance: itself, or the precision where the model was trained on that."""
    if isinstance(C, str) or (hasattr(C, "fit") and not hasattr(C, "covariance_")):
        raise ValueError(f"{name} must be a matrix, an operator or a fitted covariance estimator, got {C!r}.")
    return numpy_matrix(
        shift_matrix(C, parts.use) if hasattr(C, "covariance_") and parts.scale is not None else C, name
    )


def _fast_to_multiply(C: Matrix) -> Matrix:
    """Return a matrix dense or sparse, whichever is faster to multiply with; a large sparse one stays sparse."""
    n = C.shape[0]
    if not isinstance(C, np.ndarray):
        return C.toarray() if n <= _DENSE_LIMIT else C
    return sp.csr_array(C) if n > _DENSE_LIMIT and SPARSE_COST * np.count_nonzero(C) < n * n else C


def _module_signals(network: SVNN, X: DataLike, n_nodes: int) -> np.ndarray:
    """Return signals (…, N, F) as the first layer of a plain module takes them, of shape (t, N, F)."""
    x = np.asarray(to_numpy(X), dtype=np.float64)
    first: Any = network.filters[0]
    expected = (n_nodes, int(first.in_features))
    if x.shape[-2:] != expected or not x.size:
        raise ValueError(f"X must have shape (..., {expected[0]}, {expected[1]}), got {x.shape}.")
    return x.reshape(-1, *expected)


def folded_layers(network: SVNN) -> list[Layer]:
    """Return the layers of a network, batch norm folded into their weights and biases."""
    pairs = zip(network.filters, network.norms, strict=True)
    layers = [Layer(*map(to_numpy, folded_filter(layer, norm))) for layer, norm in pairs]
    if not all(np.isfinite(layer.weight).all() for layer in layers):
        raise ValueError("the network has NaN or infinite weights.")
    return layers


def activation_slope(activation: nn.Module) -> float:
    """Return the Lipschitz constant of an activation."""
    if type(activation) not in ACTIVATION_SLOPES:
        raise TypeError(
            f"the Lipschitz constant of {type(activation).__name__} is not known; use one of the activations that "
            "SVNN offers."
        )
    return ACTIVATION_SLOPES[type(activation)]


def output_slopes(network: SVNN, n_nodes: int, units: np.ndarray | float) -> tuple[float, float]:
    """Return Lipschitz constants of the readout, a linear map of (N, F) embeddings, and of the head in ``units``."""
    readout = {"flatten": 1.0, "mean": float(1 / np.sqrt(n_nodes))}.get(network.readout.kind)
    if readout is None:
        readout = float(np.linalg.norm(to_numpy(network.readout.weight.double()), 2) / n_nodes)
    head = 1.0
    parts: list[Any] = list(network.head)
    for part in parts[:-1]:
        linear = isinstance(part, nn.Linear)
        head *= float(np.linalg.norm(to_numpy(part.weight.double()), 2)) if linear else activation_slope(part)
    return readout, float(head * np.linalg.norm(units * to_numpy(parts[-1].weight.double()), 2))


# -- frequency responses ---------------------------------------------------------------------------


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
    model : SVNN, or fitted S-VNN or blend
        Of a blend, the S-VNN ``model.network_part``.
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
    parts = parts_of(networks_in(model)[0][1])
    lam = numbers_in(lam) / ((parts.scale or 1.0) if scale is None else scale)
    if parts.use == "log":
        lam = log_eigenvalues(lam)
    members = [[values(weight, lam) for weight, _ in folded_layers(network)] for network in parts.networks]
    return [np.concatenate(layer, -1) for layer in zip(*members, strict=True)]
