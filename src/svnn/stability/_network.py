"""What the bounds need to know of a network: its filters, its activations, what follows them, its scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn.functional._array import to_numpy
from svnn.nn import SVNN
from svnn.operators import CovarianceOperator, as_operator
from svnn.stability._inputs import coefficients

#: Lipschitz constants of the activations, rounded up. All of them keep 0 and never grow a value's modulus.
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


def network(model: Any) -> SVNN:
    """Return the module of an estimator, or the module itself."""
    module = getattr(model, "module_", model)
    if not isinstance(module, SVNN):
        hint = "; fit it first" if hasattr(model, "fit") else ""
        raise TypeError(f"model must be an SVNN or a fitted SVNN estimator, got {type(model).__name__}{hint}.")
    return module


def folded_layers(module: SVNN) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return weight (K + 1, in, out) and bias (out,) of every layer in float64, batch norm folded in as it predicts."""
    layers = []
    pairs: Any = zip(module.filters, module.norms, strict=True)
    for layer, norm in pairs:
        weight = coefficients(layer.weight)
        bias = np.zeros(weight.shape[2]) if layer.bias is None else _double(layer.bias)
        if getattr(norm, "running_var", None) is not None:
            factor = _double(norm.weight) / np.sqrt(_double(norm.running_var) + norm.eps)
            weight, bias = weight * factor, _double(norm.bias) + (bias - _double(norm.running_mean)) * factor
        layers.append((weight, bias))
    return layers


def on_both(model: Any, module: SVNN, C: Any, C_hat: Any) -> tuple[CovarianceOperator, CovarianceOperator, Any]:
    """Return both covariances as operators in float64 on the same scale, and the model on the first."""
    for name, value in (("C", C), ("C_hat", C_hat)):
        if isinstance(value, str) or (hasattr(value, "fit") and not hasattr(value, "covariance_")):
            raise ValueError(f"{name} must be a matrix, an operator or a fitted covariance estimator, got {value!r}.")
    if model is module:
        before, after = (as_operator(getattr(c, "covariance_", c)) for c in (C, C_hat))
        if module.normalize:
            before = before.to(dtype=torch.float64).normalized()
            after = after.to(dtype=torch.float64).normalized(before.scale)
    else:
        model, other = model.on(C), model.on(C_hat)
        before, after = model.operator_, other.operator_.normalized(model.operator_.scale)
    if before.shape != after.shape:
        raise ValueError(f"C is {before.shape[0]}x{before.shape[0]}, C_hat {after.shape[0]}x{after.shape[0]}.")
    first, second = (o.to(device="cpu", dtype=torch.float64) for o in (before, after))
    return first, second, model


def signals_of(model: Any, module: SVNN, X: Any, n_nodes: int) -> Tensor:
    """Return signals (t, N, F) as the first layer takes them."""
    if model is not module:
        return torch.as_tensor(model._standardizer(model._signals(X)), dtype=torch.float64)
    x = torch.as_tensor(X).detach().to(device="cpu", dtype=torch.float64)
    expected = (n_nodes, module.filters[0].in_features)
    if x.shape[-2:] != expected or not x.numel():
        raise ValueError(f"X must have shape (..., {expected[0]}, {expected[1]}), got {tuple(x.shape)}.")
    return x.reshape(-1, *expected)


def hidden_norms(shift: CovarianceOperator, layers: Any, activation: nn.Module, signals: Tensor) -> list[np.ndarray]:
    """Return the norms of the signals and of every layer's output, each of shape (t,)."""
    widest = max(weight.shape[2] for weight, _ in layers)
    parts = []
    for u in signals.split(max(1, _VALUES // (signals.shape[1] * widest))):
        norms = [u.flatten(1).norm(dim=1)]
        for weight, bias in layers:
            u = activation(shift.filter(u, torch.from_numpy(weight), torch.from_numpy(bias)))
            norms.append(u.flatten(1).norm(dim=1))
        parts.append(torch.stack(norms))
    return list(torch.cat(parts, 1).numpy())


def activation_slope(activation: nn.Module) -> float:
    """Return the Lipschitz constant of an activation."""
    if type(activation) not in ACTIVATION_SLOPES:
        raise TypeError(f"the Lipschitz constant of {type(activation).__name__} is not known; use one of SVNN's own.")
    return ACTIVATION_SLOPES[type(activation)]


def readout_norm(module: SVNN, n_nodes: int) -> float:
    """Return the norm of the readout, a linear map from (N, F) embeddings."""
    readout = module.readout
    if readout.kind == "flatten":
        return 1.0
    if readout.kind == "mean":
        return float(1 / np.sqrt(n_nodes))
    return float(np.linalg.norm(_double(readout.weight), 2) / n_nodes)


def head_slope(model: Any, module: SVNN) -> float:
    """Return a Lipschitz constant of the MLP head, up to the target's units for a regressor."""
    slope = 1.0
    *hidden, last = module.head
    for part in hidden:
        linear = isinstance(part, nn.Linear)
        slope *= float(np.linalg.norm(_double(part.weight), 2)) if linear else activation_slope(part)
    targets = getattr(model, "_target_standardizer", None)
    units = 1.0 if targets is None else np.reshape(targets.scale, (-1, 1))
    return float(slope * np.linalg.norm(units * _double(last.weight), 2))


def _double(values: Any) -> np.ndarray:
    return to_numpy(values).astype(np.float64)
