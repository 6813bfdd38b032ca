"""Batch norm over samples and nodes: alone, folded into a filter, or fused with the activation and the readout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn._compiled import load
from svnn.operators._cpu.memory import empty, workspace
from svnn.operators._cpu.threads import run

#: Nodes that a thread takes at a time.
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

    @torch.no_grad()
    def update(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Take the moments of a batch into the running statistics."""
        running: tuple[Any, Any] = (self.running_mean, self.running_var)
        for old, new in zip(running, (mean, variance * (count / (count - 1))), strict=True):
            old.lerp_(new, self.momentum)
        self.num_batches_tracked.add_(1)  # type: ignore[union-attr]


def norm_then(norm: nn.Module | None, activation: nn.Module, u: Tensor, pool: Tensor | None = None) -> Tensor:
    r"""Return the layer's output ``activation(norm(u))`` (…, N, F), or its readout (…, H F).

    ``pool`` holds the H weights of every node in the readout :math:`\sum_j a_{hj} u_j`, of shape (H, N), or
    (…, H, N) where samples differ. With a rectifier all of it takes two passes over ``u``.
    """
    slope = _slope(activation)
    batch, n = math.prod(u.shape[:-2]), u.shape[-2]
    n_threads = torch.get_num_threads()
    if slope is None or not _fusable(norm, u) or (pool is not None and batch < 2 * n_threads and n_threads > 1):
        v: Tensor = activation(u if norm is None else norm(u))
        return v if pool is None else (pool @ v).flatten(-2)
    weights = None if pool is None else pool.expand(*pool.shape[:-2], -1, -1).reshape(-1, *pool.shape[-2:])
    learned = norm if isinstance(norm, NodeNorm) else None
    scale, offset = (None, None) if learned is None else (learned.weight, learned.bias)
    y: Tensor = _Rectified.apply(u.contiguous().view(batch, n, -1), scale, offset, weights, learned, slope)
    return y.view(u.shape) if pool is None else y.view(*u.shape[:-2], -1)


def _fusable(norm: nn.Module | None, u: Tensor) -> bool:
    if u.device.type != "cpu" or u.dtype not in (torch.float32, torch.float64) or _kernels() is None or not u.numel():
        return False
    if not isinstance(norm, NodeNorm):
        return norm is None or isinstance(norm, nn.Identity)
    if norm.weight.dtype != u.dtype:
        return False
    if norm.training:
        return u.numel() > u.shape[-1]
    return not (torch.is_grad_enabled() and (u.requires_grad or norm.weight.requires_grad))


class _Rectified(torch.autograd.Function):
    r"""Batch norm, where there is one, :math:`\max(v, \text{slope}\, v)`, and a weighted sum over the nodes.

    With :math:`h = g \cdot \sigma'(v)`, :math:`\hat y = (y - m) i` and M values a channel,
    :math:`dy = \gamma i\,(h - \tfrac1M \sum h - \hat y\, \tfrac1M \sum h \hat y)`. The sign of v is computed
    anew, so that only the input is kept.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Any, bias: Any, pool: Tensor | None, norm: Any, slope: float) -> Tensor:
        factors = y.new_zeros(7, y.shape[-1])
        factors[0] = slope
        factors[1] = 1
        inverse: Any = None
        first: Any = None
        if norm is not None and norm.training:
            count = y.numel() // y.shape[-1]
            # About the mean, and no outlier: a few rows from all over the batch.
            factors[3] = pivot = y.reshape(count, -1)[:: max(count // 64, 1)].mean(0)
            first, second = _sums(_kernels().MOMENTS, y, None, factors, None) / count
            variance = (second - first**2).clamp_min(0)
            norm.update(pivot + first, variance, count)
        elif norm is not None:
            factors[3], first, variance = norm.running_mean, torch.zeros_like(norm.running_mean), norm.running_var
        if norm is not None:
            inverse = torch.rsqrt(variance + norm.eps)
            factors[1] = weight * inverse
            factors[2] = bias - first * factors[1]
        ctx.save_for_backward(y, weight, bias, pool, factors, inverse, first)
        ctx.norm, ctx.training, ctx.slope = norm, norm is not None and norm.training, slope
        if pool is None:
            return _run(_kernels().APPLY, y, None, factors, out=empty(y, *y.shape))
        out = y.new_zeros(len(y), pool.shape[1], y.shape[2])
        return _run(_kernels().POOLED, y, None, factors, out=out, pool=pool.contiguous())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        y, weight, bias, pool, factors, inverse, first = ctx.saved_tensors
        g = gradients[0].contiguous()
        if torch.is_grad_enabled():  # these gradients will be differentiated again: torch's own operations
            needed = ctx.needs_input_grad[:4]
            inputs = [t if wants else None for t, wants in zip((y, weight, bias, pool), needed, strict=True)]
            wanted = [t for t in inputs if t is not None]
            u = _plain(y, weight, bias, pool, ctx.norm, ctx.training, ctx.slope)
            found = iter(torch.autograd.grad(u, wanted, g, create_graph=True))
            return *(None if t is None else next(found) for t in inputs), None, None
        pool = None if pool is None else pool.contiguous()
        factors = factors.clone()
        factors[4] = factors[1]
        d_weight = d_bias = d_pool = None
        if inverse is not None:
            count = y.numel() // y.shape[-1]
            d_bias, sum_hy = _sums(_kernels().GRADIENT_SUMS, y, g, factors, pool)
            d_weight = inverse * (sum_hy - first * d_bias)
            factors[5] = -factors[1] * inverse * d_weight / count
            factors[6] = -factors[1] * d_bias / count - factors[5] * first
        if pool is not None and ctx.needs_input_grad[3]:
            d_pool = y.new_empty(len(y), *pool.shape[1:])
        dy = None
        if ctx.needs_input_grad[0] or d_pool is not None:
            dy = _run(_kernels().GRADIENT_APPLY, y, g, factors, empty(y, *y.shape), pool=pool, pool_gradient=d_pool)
        if d_pool is not None and len(pool) == 1:
            d_pool = d_pool.sum(0, keepdim=True)
        return dy, d_weight, d_bias, d_pool, None, None


def _plain(y: Tensor, weight: Any, bias: Any, pool: Tensor | None, norm: Any, training: bool, slope: float) -> Tensor:
    """Return what the fused passes compute, without touching the running statistics."""
    if norm is not None:
        mean, variance = (None, None) if training else (norm.running_mean, norm.running_var)
        flat = y.reshape(-1, y.shape[-1])
        flat = nn.functional.batch_norm(flat, mean, variance, weight, bias, training=training, eps=norm.eps)
        y = flat.view(y.shape)
    u = nn.functional.leaky_relu(y, slope)
    return u if pool is None else pool @ u


def _slope(activation: nn.Module) -> float | None:
    """Return the slope of a rectifier below zero, or None for another activation."""
    if isinstance(activation, nn.LeakyReLU):
        return float(activation.negative_slope)
    return {nn.ReLU: 0.0, nn.Identity: 1.0}.get(type(activation))


def _kernels() -> Any:
    return load("svnn.nn._norm_kernels")


def _sums(mode: int, y: Tensor, g: Tensor | None, factors: Tensor, pool: Tensor | None) -> Tensor:
    """Return the two sums over samples and nodes, of shape (2, F)."""
    sums = y.new_zeros(-(-len(y) // _samples(y)), _kernels().ROWS, y.shape[-1])
    _run(mode, y, g, factors, pool=pool, sums=sums)
    return sums.sum(0)[:2]


def _samples(y: Tensor) -> int:
    """Return how many samples a thread takes at a time."""
    return max(1, _BLOCK // y.shape[1])


def _run(
    mode: int,
    y: Tensor,
    g: Tensor | None,
    factors: Tensor,
    out: Tensor | None = None,
    pool: Tensor | None = None,
    sums: Tensor | None = None,
    pool_gradient: Tensor | None = None,
) -> Any:
    """Make a pass over y (B, N, F) and return ``out``."""
    blocks = -(-len(y) // _samples(y))
    if sums is None:
        sums = workspace("rows", (blocks, _kernels().ROWS, y.shape[2]), y.dtype)
    heads = 0 if pool is None else pool.shape[1]
    step = 0 if pool is None or len(pool) == 1 else heads * y.shape[1]
    shapes = (*y.shape, heads, _samples(y), y.element_size(), step)
    arrays = (0 if t is None else t.data_ptr() for t in (y, g, out, factors, sums, pool, pool_gradient))
    job = np.array([0, mode, *shapes, *arrays], dtype=np.int64)
    work = _kernels().work32 if y.element_size() == 4 else _kernels().work64
    run(work.address, job, min(torch.get_num_threads(), blocks))
    return out
