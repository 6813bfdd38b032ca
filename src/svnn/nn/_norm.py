"""Batch norm over samples and nodes, alone, folded into a filter, or fused with the activation that follows."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn.operators._cpu.passes import kernels as cpu_kernels
from svnn.operators._cpu.threads import run

#: Rows that a thread takes at a time.
_BLOCK = 512


class NodeNorm(nn.BatchNorm1d):
    """Batch norm of each of the F values over all samples and nodes of a (…, N, F) tensor.

    A single value per channel has no spread to normalise by; the running statistics serve then.
    """

    def forward(self, u: Tensor) -> Tensor:
        flat = u.reshape(-1, u.shape[-1])
        if self.training and len(flat) == 1:
            return nn.functional.batch_norm(
                flat, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            ).reshape(u.shape)
        return super().forward(flat).reshape(u.shape)

    def folded(self, weight: Tensor, moments: tuple[Tensor, Tensor] | None, count: int) -> tuple[Tensor, Tensor]:
        r"""Return the weight and bias of a filter that is followed by this norm.

        The outputs of :math:`z^T W` have mean :math:`m^T W` and variances :math:`\operatorname{diag}(W^T S W)`
        where ``moments`` = (m, S) are those of the ``count`` inputs z. Without moments (or with a single
        input) the running statistics serve.
        """
        mean: Any = self.running_mean
        variance: Any = self.running_var
        flat = weight.flatten(0, 1)
        if moments is not None and count > 1:
            mean = moments[0] @ flat
            variance = (flat * (moments[1] @ flat)).sum(0).clamp_min(0)
            self.update(mean.detach(), variance.detach(), count)
        factor = self.weight * torch.rsqrt(variance + self.eps)
        return weight * factor, self.bias - mean * factor

    def then(self, activation: nn.Module, u: Tensor) -> Tensor:
        """Return ``activation(norm(u))``, in two passes over ``u`` where the activation is a rectifier."""
        slope = _slope(activation)
        fusable = u.device.type == "cpu" and u.dtype in (torch.float32, torch.float64) and u.dtype == self.weight.dtype
        if not self.training or slope is None or u.numel() <= u.shape[-1] or not fusable or _kernels() is None:
            result: Tensor = activation(self(u))
            return result
        fused: Tensor = _NormRectifier.apply(u.contiguous(), self.weight, self.bias, self, slope)
        return fused

    @torch.no_grad()
    def update(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Take the moments of a batch into the running statistics."""
        running: tuple[Any, Any] = (self.running_mean, self.running_var)
        for old, new in zip(running, (mean, variance * (count / (count - 1))), strict=True):
            old.lerp_(new, self.momentum)
        self.num_batches_tracked.add_(1)  # type: ignore[union-attr]


class _NormRectifier(torch.autograd.Function):
    r"""Batch norm and :math:`\max(v, \text{slope}\, v)`.

    With :math:`h = g \cdot \sigma'(v)`, :math:`\hat y = (y - m) i` and M values a channel,
    :math:`dy = \gamma i\,(h - \tfrac1M \sum h - \hat y\, \tfrac1M \sum h \hat y)`. The sign of v is computed
    anew, so that only the input is kept.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, norm: NodeNorm, slope: float) -> Tensor:
        count = y.numel() // y.shape[-1]
        factors = y.new_zeros(7, y.shape[-1])
        factors[0] = slope
        # About the mean, and no outlier: a few rows from all over the batch.
        factors[3] = pivot = y.reshape(count, -1)[:: max(count // 64, 1)].mean(0)
        first, second = _sums(_kernels().MOMENTS, y, None, factors) / count
        variance = (second - first**2).clamp_min(0)
        norm.update(pivot + first, variance, count)
        inverse = torch.rsqrt(variance + norm.eps)
        factors[1] = weight * inverse
        factors[2] = bias - first * factors[1]
        ctx.save_for_backward(y, factors, inverse, first)
        return _apply(_kernels().APPLY, y, None, factors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        y, factors, inverse, first = ctx.saved_tensors
        g = gradients[0].contiguous()
        count = y.numel() // y.shape[-1]
        sum_h, sum_hy = _sums(_kernels().GRADIENT_SUMS, y, g, factors)
        d_weight = inverse * (sum_hy - first * sum_h)
        if not ctx.needs_input_grad[0]:
            return None, d_weight, sum_h, None, None
        factors = factors.clone()
        factors[4] = factors[1]
        factors[5] = -factors[1] * inverse * d_weight / count
        factors[6] = -factors[1] * sum_h / count - factors[5] * first
        return _apply(_kernels().GRADIENT_APPLY, y, g, factors), d_weight, sum_h, None, None


def _slope(activation: nn.Module) -> float | None:
    """Return the slope of a rectifier below zero, or None for another activation."""
    if isinstance(activation, nn.LeakyReLU):
        return float(activation.negative_slope)
    return {nn.ReLU: 0.0, nn.Identity: 1.0}.get(type(activation))


@cache
def _kernels() -> Any:
    return None if cpu_kernels() is None else import_module("svnn.nn._norm_kernels")


def _sums(mode: int, y: Tensor, g: Tensor | None, factors: Tensor) -> Tensor:
    count = y.numel() // y.shape[-1]
    sums = y.new_zeros(-(-count // _BLOCK), 2, y.shape[-1])
    _run(mode, y, g, factors, None, sums)
    return sums.sum(0)


def _apply(mode: int, y: Tensor, g: Tensor | None, factors: Tensor) -> Tensor:
    out = torch.empty_like(y)
    _run(mode, y, g, factors, out, None)
    return out


def _run(mode: int, y: Tensor, g: Tensor | None, factors: Tensor, out: Tensor | None, sums: Tensor | None) -> None:
    shapes = (y.numel() // y.shape[-1], y.shape[-1], _BLOCK, y.element_size())
    arrays = (0 if t is None else t.data_ptr() for t in (y, g, out, factors, sums))
    job = np.array([0, mode, *shapes, *arrays], dtype=np.int64)
    work = _kernels().work32 if y.element_size() == 4 else _kernels().work64
    run(work.address, job, min(torch.get_num_threads(), -(-shapes[0] // _BLOCK)))
