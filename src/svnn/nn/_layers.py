"""The small layers between the filters of a network: activations, batch norm over nodes, dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from svnn.operators._tracing import traced

#: The activations by their names.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "leaky_relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "identity": nn.Identity,
}

#: The number of values that 16 random bits can take.
_LEVELS = 1 << 16


class NodeNorm(nn.BatchNorm1d):
    """Batch norm of each of the F values over all samples and nodes of a (…, N, F) tensor.

    A batch of one sample with one node has no spread to normalise by; the running statistics are used then.

    Examples
    --------
    >>> u = NodeNorm(2)(3 + 5 * torch.randn(40, 7, 2))
    >>> bool(u.mean((0, 1)).abs().max() < 1e-5)
    True
    """

    weight: nn.Parameter
    bias: nn.Parameter
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def forward(self, u: Tensor) -> Tensor:
        flat = u.reshape(-1, u.shape[-1])
        if self.training and flat.shape[0] == 1:
            normed = nn.functional.batch_norm(
                flat, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        else:
            normed = super().forward(flat)
        return normed.reshape(u.shape)

    def folded(self, weight: Tensor, moments: tuple[Tensor, Tensor] | None, count: int) -> tuple[Tensor, Tensor]:
        r"""Return the weight and the bias of a filter that filters and normalises in one step.

        The outputs :math:`z^T W` of a filter have the mean :math:`m^T W` and the variances
        :math:`\operatorname{diag}(W^T S W)`, where ``moments`` = (m, S) are the mean and the covariance of its
        ``count`` inputs z. They are taken into the running statistics, as by a call of the layer. Without moments,
        or with a single input, the running statistics themselves are used.
        """
        mean, variance = self.running_mean, self.running_var
        flat = weight.flatten(0, 1)
        if moments is not None and count > 1:
            mean = moments[0] @ flat
            variance = (flat * (moments[1] @ flat)).sum(0).clamp_min(0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
                self.num_batches_tracked.add_(1)
        return fold_norm(self, weight, mean, variance)


def fold_norm(norm: nn.BatchNorm1d, weight: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a filter (…, in, out) and of the norm of its outputs, which have these moments."""
    factor = norm.weight.to(weight) * torch.rsqrt(variance + norm.eps)
    return weight * factor, norm.bias.to(weight) - mean * factor


class SeededDropout(nn.Dropout):
    """torch's dropout; where it has a ``generator``, it draws from that in place of torch's global one.

    Examples
    --------
    >>> layer, draws = SeededDropout(0.5), []
    >>> for _ in range(2):
    ...     with drawing_from(layer, torch.Generator().manual_seed(0)):
    ...         draws.append(layer(torch.ones(100)))
    >>> torch.equal(*draws)
    True
    """

    generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.generator is None or not self.training or not 0 < self.p < 1 or traced():
            return super().forward(x)
        # The same draws as those of torch's own dropout on a CPU.
        return x * torch.empty_like(x).bernoulli_(1 - self.p, generator=self.generator).div_(1 - self.p)


def drop_threshold(p: float) -> int:
    """Return the number below which a draw of 16 bits, from -32768 on, falls with probability ``p``.

    However close ``p`` is to 1, one draw of all does not.
    """
    return min(round(p * _LEVELS), _LEVELS - 1) - _LEVELS // 2


def node_draws(n_rows: int, n_nodes: int, generator: torch.Generator | None) -> Tensor:
    """Draw integers of 16 bits for every node of every row, of shape (n_rows, at least n_nodes), on the CPU.

    Four of them come from one integer of the generator. Rows are drawn one after the other: those of two batches are
    the same as those of one batch of all rows.
    """
    draws = torch.empty(n_rows, -(-n_nodes // 4), dtype=torch.int64, device="cpu")
    return draws.random_(-(2**63), None, generator=generator).view(torch.int16)


def node_factors(n_rows: int, n_nodes: int, p: float, generator: torch.Generator | None) -> Tensor:
    """Return what dropout makes of every node of every row: 0 with probability ``p``, else a number above 1."""
    threshold = drop_threshold(p)
    kept = node_draws(n_rows, n_nodes, generator)[:, :n_nodes] >= threshold
    return kept.float().mul_(_LEVELS / (_LEVELS // 2 - threshold))


class NodeDropout(SeededDropout):
    """Dropout of single numbers (…, N), one of each node, that draws as :func:`node_factors` does on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or traced():
            return super().forward(x)
        return x * node_factors(x.numel() // x.shape[-1], x.shape[-1], self.p, self.generator).view(x.shape).to(x)


class Dropout(SeededDropout):
    """Set a share of the values to zero at random while training, and scale the others so that the mean stays.

    On a CPU, torch draws a double for every value, which takes longer than a filter and its gradient. Here a draw has
    16 bits, four of them from one integer of the generator, and the share is rounded to a multiple of 2⁻¹⁶. Forward
    and backward take 0.3 of the time of torch's dropout (one core of an x86 server).

    Examples
    --------
    >>> kept = Dropout(0.25)(torch.ones(1000, 100))
    >>> sorted({round(v, 3) for v in kept.unique().tolist()}), round(kept.mean().item(), 1)
    ([0.0, 1.333], 1.0)
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        dropped = round(self.p * _LEVELS)
        if not 0 < dropped < _LEVELS or x.device.type != "cpu" or traced():
            return super().forward(x)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        draws = draws.random_(-(2**63), None, generator=self.generator).view(torch.int16)
        kept = draws[: x.numel()].view(x.shape) >= dropped - _LEVELS // 2
        return x * kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))


@contextmanager
def drawing_from(module: nn.Module, generator: torch.Generator | None) -> Iterator[None]:
    """Let all dropout in ``module`` draw from ``generator`` for a while, and then from where it drew before.

    The layers hold the generator for that time only, because not every version of torch can copy a generator.
    """
    layers = [(part, part.generator) for part in module.modules() if isinstance(part, SeededDropout)]
    for layer, _ in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer, before in layers:
            layer.generator = before
