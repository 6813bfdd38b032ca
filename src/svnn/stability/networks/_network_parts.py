"""A trained network taken apart into what a bound needs: two matrices, the layers, and what follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn._types import DataLike, HasCovariance, Matrix, MatrixLike
from svnn.covariance._resolve import shift_matrix
from svnn.estimators._covariance_network import networks_of, scaled
from svnn.functional._array import to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.nn import SVNN, Members
from svnn.operators import CovarianceOperator
from svnn.stability._inputs import coefficients
from svnn.stability._norms import spectral_norm
from svnn.stability.networks._filter_banks import bank_on, in_fastest_form

if TYPE_CHECKING:
    from svnn.estimators import SVNNClassifier, SVNNRegressor

    #: A fitted estimator of a network on a covariance.
    FittedNetwork: TypeAlias = SVNNRegressor | SVNNClassifier
    #: A network: the module, or a fitted estimator that holds one.
    Network: TypeAlias = SVNN | Members | FittedNetwork
else:
    FittedNetwork = Network = object

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
#: Hidden values held at once when signals pass the network.
_VALUES = 2**23


class Layer(NamedTuple):
    """A layer as it predicts, batch norm folded in: weight (K + 1, in, out) and bias (out,) in float64."""

    weight: np.ndarray
    bias: np.ndarray


class Shifts(NamedTuple):
    """The two covariances as the network runs on them, both divided by ``scale``."""

    before: Matrix
    after: Matrix
    scale: float


def networks_in(model: Network) -> list[SVNN]:
    """Return the networks of an estimator or a module: its members, or the only one."""
    module = getattr(model, "module_", model)
    if not isinstance(module, (SVNN, Members)):
        hint = "; fit it first" if hasattr(model, "fit") else ""
        raise TypeError(f"model must be an SVNN or a fitted SVNN estimator, got {type(model).__name__}{hint}.")
    return networks_of(module)


def on_both(model: Network, C: MatrixLike, C_hat: MatrixLike) -> tuple[Network, Shifts]:
    """Return the model on the first covariance, and both covariances as it runs on them."""
    A, B = _shift_of(model, C, "C"), _shift_of(model, C_hat, "C_hat")
    n, other = A.shape[0], B.shape[0]
    if n != other:
        raise ValueError(f"C is {n}x{n}, C_hat {other}x{other}; they must have the same size.")
    scales = [c.scale if isinstance(c, CovarianceOperator) else None for c in (C, C_hat)]
    if isinstance(model, (SVNN, Members)):
        if networks_of(model)[0].normalize:
            scales = [scales[0] or spectral_norm(A) or 1.0] * 2
        # A module without normalisation runs on an operator as it is: divided, where it is divided already.
        factors = [1 / (scale or 1.0) for scale in scales]
        before, after = A * factors[0], B * factors[1]
        return model, Shifts(in_fastest_form(before), in_fastest_form(after), scales[0] or 1.0)
    # For another number of features the estimator checks that it can run there, and takes another scale.
    model = model if n == model.n_features_in_ else model._on(C)
    scale, use = model._scale, str(model._as_trained("use"))
    # Estimators hold their matrix in single precision: the bound is for the network that predicts.
    before, after = (scaled(M, scale, use).astype(np.float32).astype(np.float64) for M in (A, B))
    return model, Shifts(in_fastest_form(before), in_fastest_form(after), scale)


def _shift_of(model: Network, C: MatrixLike, name: str) -> Matrix:
    """Return the matrix that stands for a covariance: itself, or the precision where the model was trained on that."""
    if isinstance(C, str) or (hasattr(C, "fit") and not hasattr(C, "covariance_")):
        raise ValueError(f"{name} must be a matrix, an operator or a fitted covariance estimator, got {C!r}.")
    if hasattr(C, "covariance_") and not isinstance(model, (SVNN, Members)):
        C = shift_matrix(cast(HasCovariance, C), str(model._as_trained("use")))
    return numpy_matrix(C, name)


def folded_layers(module: SVNN) -> list[Layer]:
    """Return the layers of a network, batch norm folded into their weights and biases."""
    layers = []
    pairs: Any = zip(module.filters, module.norms, strict=True)  # torch knows its submodules as modules only
    for layer, norm in pairs:
        weight = coefficients(layer.weight)
        bias = np.zeros(weight.shape[2]) if layer.bias is None else _double(layer.bias)
        if getattr(norm, "running_var", None) is not None:
            factor = _double(norm.weight) / np.sqrt(_double(norm.running_var) + norm.eps)
            weight, bias = weight * factor, _double(norm.bias) + (bias - _double(norm.running_mean)) * factor
        layers.append(Layer(weight, bias))
    return layers


def first_signals(model: Network, X: DataLike, n_nodes: int) -> np.ndarray:
    """Return data as the first layer takes it: signals (t, N, F), standardised where the model does that."""
    if not isinstance(model, (SVNN, Members)):
        return np.asarray(model._standardizer(model._signals(X)), dtype=np.float64)
    x = np.asarray(to_numpy(X), dtype=np.float64)
    first: Any = networks_of(model)[0].filters[0]
    expected = (n_nodes, int(first.in_features))
    if x.shape[-2:] != expected or not x.size:
        raise ValueError(f"X must have shape (..., {expected[0]}, {expected[1]}), got {x.shape}.")
    return x.reshape(-1, *expected)


def hidden_norms(C: Matrix, layers: list[Layer], activation: nn.Module, signals: np.ndarray) -> list[np.ndarray]:
    """Return the norms of the signals and of the output of every layer on C, each of shape (t,)."""
    widest = max(layer.weight.shape[2] for layer in layers)
    rows = max(1, _VALUES // (signals.shape[1] * widest))
    run = bank_on(C)
    parts = []
    for start in range(0, len(signals), rows):
        u = signals[start : start + rows]
        norms = [np.linalg.norm(u, axis=(1, 2))]
        for weight, bias in layers:
            u = activation(torch.from_numpy(run(u, weight) + bias)).numpy()
            norms.append(np.linalg.norm(u, axis=(1, 2)))
        parts.append(norms)
    return list(np.concatenate(parts, axis=1))


def activation_slope(activation: nn.Module) -> float:
    """Return the Lipschitz constant of an activation."""
    if type(activation) not in ACTIVATION_SLOPES:
        raise TypeError(
            f"the Lipschitz constant of {type(activation).__name__} is not known; use one of the activations that "
            "SVNN offers."
        )
    return ACTIVATION_SLOPES[type(activation)]


def readout_norm(module: SVNN, n_nodes: int) -> float:
    """Return the norm of the readout, a linear map from (N, F) embeddings."""
    readout = module.readout
    if readout.kind == "flatten":
        return 1.0
    if readout.kind == "mean":
        return float(1 / np.sqrt(n_nodes))
    return float(np.linalg.norm(_double(readout.weight), 2) / n_nodes)


def head_slope(model: Network, module: SVNN) -> float:
    """Return a Lipschitz constant of the MLP head, for a regressor up to the units of the target."""
    slope = 1.0
    parts: list[Any] = list(module.head)
    for part in parts[:-1]:
        linear = isinstance(part, nn.Linear)
        slope *= float(np.linalg.norm(_double(part.weight), 2)) if linear else activation_slope(part)
    targets = getattr(model, "_target_standardizer", None)
    units = 1.0 if targets is None else np.reshape(targets.scale, (-1, 1))
    return float(slope * np.linalg.norm(units * _double(parts[-1].weight), 2))


def _double(values: Tensor) -> np.ndarray:
    return to_numpy(values).astype(np.float64)
