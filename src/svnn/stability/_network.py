"""A trained network taken apart into what bounds and responses need: its layers, its units, the matrices it runs on."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from torch import nn

from svnn._types import DataLike, Matrix, MatrixLike
from svnn.covariance._resolve import shift_matrix
from svnn.estimators._base import BaseSVNN, model_on
from svnn.estimators._blend_parts import reads_covariance
from svnn.estimators._data import check_signals
from svnn.estimators._shift import scaled
from svnn.functional import log_eigenvalues
from svnn.functional._array import to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import BLENDS, Model, model_parts, network_part
from svnn.nn import SVNN, CovarianceFilter, Members
from svnn.nn._stacked import folded_filter
from svnn.operators import CovarianceOperator
from svnn.stability._bounds import SPARSE_COST, spectral_norm
from svnn.stability._inputs import coefficients, numbers_in
from svnn.stability._responses import values

#: A network: the module, or a fitted S-VNN or blend that holds one.
Network: TypeAlias = SVNN | Members | Model

_MODULES = SVNN, Members


class _Slopes(dict[type[nn.Module], float]):
    def __missing__(self, activation: type[nn.Module]) -> float:
        raise TypeError(f"the Lipschitz constant of {activation.__name__} is not known; use an activation of SVNN.")


#: Lipschitz constants of the activations, rounded up. All of them keep 0 and never increase an absolute value.
#: GELU is steepest at sqrt(2), SiLU near 2.4.
ACTIVATION_SLOPES = _Slopes(
    {nn.LeakyReLU: 1.0, nn.ReLU: 1.0, nn.ELU: 1.0, nn.GELU: 1.12891, nn.SiLU: 1.09984, nn.Tanh: 1.0, nn.Identity: 1.0}
)
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


class NetworkParts(NamedTuple):
    """A module or a fitted S-VNN as this room sees it.

    The outputs of the ``networks`` are averaged. ``scale`` is what covariances are divided by, None for a plain module.
    ``units`` are the standard deviations of the targets, by which outputs are multiplied.
    """

    networks: list[SVNN]
    use: str = "covariance"
    scale: float | None = None
    units: np.ndarray | float = 1.0


def networks_in(model: Network) -> list[tuple[float, Any]]:
    """Return what of a model depends on the covariance, with weights: itself, or S-VNNs of a blend."""
    if not isinstance(model, _MODULES) and not hasattr(model, "fitted_"):
        hint = "; fit it first" if hasattr(model, "fit") else ""
        raise TypeError(f"model must be an SVNN or a fitted S-VNN or blend, got {type(model).__name__}{hint}.")
    if not isinstance(model, BLENDS):
        return [(1.0, model)]
    return [part for part in model_parts(model).values() if reads_covariance(part[1])] or [network_part(model)]


def parts_of(model: SVNN | Members | BaseSVNN) -> NetworkParts:
    """Take a module or a fitted S-VNN apart."""
    module: Any = model if isinstance(model, _MODULES) else model.fitted_.module
    networks: list[Any] = list(module.members) if isinstance(module, Members) else [module]
    if isinstance(model, _MODULES):
        return NetworkParts(networks)
    targets: Any = model.fitted_.targets
    units = 1.0 if targets.are_labels else np.reshape(targets.standardizer.scale, (-1, 1))
    return NetworkParts(networks, model.shift_.use, model.shift_.scale, units)


def parts_on(model: SVNN | Members | BaseSVNN, C: MatrixLike, C_hat: MatrixLike) -> tuple[NetworkParts, Shifts]:
    """Return the parts of a model on the first covariance, and both covariances as it runs on them."""
    parts, matrices = parts_of(model), []
    for name, given in (("C", C), ("C_hat", C_hat)):
        of: Any = given
        if isinstance(of, str) or (hasattr(of, "fit") and not hasattr(of, "covariance_")):
            raise ValueError(f"{name} must be a matrix, an operator or a fitted covariance estimator, got {of!r}.")
        if hasattr(of, "covariance_") and parts.scale is not None:
            of = shift_matrix(of, parts.use)
        matrices.append(numpy_matrix(of, name))
    n, other = (matrix.shape[0] for matrix in matrices)
    if n != other:
        raise ValueError(f"C is {n}x{n}, C_hat {other}x{other}; they must have the same size.")
    if isinstance(model, _MODULES):
        scales = [c.scale if isinstance(c, CovarianceOperator) else None for c in (C, C_hat)]
        if parts.networks[0].normalize:
            scales = [scales[0] or spectral_norm(matrices[0]) or 1.0] * 2
        # A module without normalisation runs on an operator as it is: divided, where it is divided already.
        before, after = (M * (1 / (scale or 1.0)) for M, scale in zip(matrices, scales, strict=True))
        return parts, Shifts(_fast_to_multiply(before), _fast_to_multiply(after), scales[0] or 1.0)
    if n != model.n_features_in_:  # the estimator checks that it can run there, and takes another scale
        parts = parts_of(model_on(model, C))
    scale = parts.scale or 1.0
    # Estimators hold their matrix in single precision: the bound is for the network that predicts.
    before, after = (scaled(M, scale, parts.use).astype(np.float32).astype(np.float64) for M in matrices)
    return parts, Shifts(_fast_to_multiply(before), _fast_to_multiply(after), scale)


def signals_for_network(model: SVNN | Members | BaseSVNN, X: DataLike, n_nodes: int) -> np.ndarray:
    """Return data as the first layer takes them, (t, N, F): for a module they are signals (…, N, F) themselves."""
    if not isinstance(model, _MODULES):
        fitted = model.fitted_
        return np.asarray(fitted.standardizer(check_signals(model, X, fitted.n_values)), dtype=np.float64)
    x = np.asarray(to_numpy(X), dtype=np.float64)
    first: Any = parts_of(model).networks[0].filters[0]
    expected = (n_nodes, int(first.in_features))
    if x.shape[-2:] != expected or not x.size:
        raise ValueError(f"X must have shape (..., {expected[0]}, {expected[1]}), got {x.shape}.")
    return x.reshape(-1, *expected)


def _fast_to_multiply(C: Matrix) -> Matrix:
    """Return a matrix dense or sparse, whichever is faster to multiply with; a large sparse one stays sparse."""
    n = C.shape[0]
    if not isinstance(C, np.ndarray):
        return C.toarray() if n <= _DENSE_LIMIT else C
    return sp.csr_array(C) if n > _DENSE_LIMIT and SPARSE_COST * np.count_nonzero(C) < n * n else C


def folded_layers(network: SVNN) -> list[Layer]:
    """Return the layers of a network, batch norm folded into their weights and biases."""
    pairs = zip(network.filters, network.norms, strict=True)
    layers = [Layer(*map(to_numpy, folded_filter(layer, norm))) for layer, norm in pairs]
    if not all(np.isfinite(layer.weight).all() for layer in layers):
        raise ValueError("the network has NaN or infinite weights.")
    return layers


def output_slopes(network: SVNN, n_nodes: int, units: np.ndarray | float) -> tuple[float, float]:
    """Return Lipschitz constants of the readout, a linear map of (N, F) embeddings, and of the head in ``units``."""
    readout = {"flatten": 1.0, "mean": float(1 / np.sqrt(n_nodes))}.get(network.readout.kind)
    if readout is None:
        readout = float(np.linalg.norm(to_numpy(network.readout.weight.double()), 2) / n_nodes)
    head = 1.0
    parts: list[Any] = list(network.head)
    for part in parts[:-1]:
        linear = isinstance(part, nn.Linear)
        head *= float(np.linalg.norm(to_numpy(part.weight.double()), 2)) if linear else ACTIVATION_SLOPES[type(part)]
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
