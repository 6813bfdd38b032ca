"""The average gradient in closed form, where a network has one nonlinear layer and all else is linear."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from svnn.estimators._covariance_network import networks_of
from svnn.inspection._outputs import Outputs
from svnn.nn._layers import ACTIVATIONS

#: Below this change of its input, the slope of an activation is taken at the middle.
_CLOSE = 1e-6


class Secant(nn.Module):
    r"""An activation with another derivative: its mean slope on the way from the baseline.

    The input of the only activation moves on a straight line from :math:`a_0` to :math:`a`, so that

    .. math:: \int_0^1 \sigma'(a_0 + s (a - a_0)) ds = \frac{\sigma(a) - \sigma(a_0)}{a - a_0}

    The first call is for the baseline alone, and remembers :math:`a_0`.
    """

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.start: Tensor | None = None

    def forward(self, a: Tensor) -> Tensor:
        value: Tensor = self.activation(a)
        if self.start is None:
            self.start = a.detach()
            return value
        value, here = value.detach(), a.detach()
        change = here - self.start
        close = change.abs() < _CLOSE
        middle = ((here + self.start) / 2).requires_grad_()
        (slope,) = torch.autograd.grad(self.activation(middle).sum(), middle)
        secant = (value - self.activation(self.start)) / torch.where(close, 1.0, change)
        return value + torch.where(close, slope, secant) * (a - here)


def closed_form(outputs: Outputs, baseline: Tensor) -> Outputs | None:
    """Return a function whose gradients are the average ones on the way from a baseline (N, F), or None.

    There is one for networks of one layer with a linear head (``mlp=()``), as long as numbers or logits are explained.
    """
    if not outputs.linear:
        return None
    module = copy.deepcopy(outputs.module)
    for network in networks_of(module):
        kinds = tuple(kind for kind in ACTIVATIONS.values() if kind is not nn.Identity)
        others = [part for part in network.modules() if isinstance(part, kinds) and part is not network.activation]
        if len(network.filters) != 1 or others:
            return None
        network.activation = Secant(network.activation)
    found = replace(outputs, module=module)
    with torch.no_grad():
        found(baseline[None])
    return found
