"""Dropout that can draw from a generator of its own, and that does not cost more than the layer it follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

#: Values that a random 16-bit number takes.
_LEVELS = 1 << 16


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
        if self.generator is None or not self.training or not 0 < self.p < 1:
            return super().forward(x)
        # The draws of torch's own on a CPU.
        return x * torch.empty_like(x).bernoulli_(1 - self.p, generator=self.generator).div_(1 - self.p)


class Dropout(SeededDropout):
    """Zero a share of the values at random while training, and scale the others so that the mean stays.

    On a CPU, torch draws a double for every value, which takes longer than a filter and its gradient. Here a draw is
    16 bits, four to an integer of the generator, and the share is rounded to a multiple of 2⁻¹⁶.

    Examples
    --------
    >>> kept = Dropout(0.25)(torch.ones(1000, 100))
    >>> sorted({round(v, 3) for v in kept.unique().tolist()}), round(kept.mean().item(), 1)
    ([0.0, 1.333], 1.0)
    """

    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.p * _LEVELS)
        if not self.training or not 0 < dropped < _LEVELS or x.device.type != "cpu":
            return super().forward(x)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        draws = draws.random_(-(2**63), None, generator=self.generator).view(torch.int16)
        kept = draws[: x.numel()].view(x.shape) >= dropped - _LEVELS // 2
        return x * kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))


@contextmanager
def drawing_from(module: nn.Module, generator: torch.Generator | None) -> Iterator[None]:
    """Let all dropout in ``module`` draw from ``generator`` for a while, and then from where it drew before.

    It holds the generator for that time only: a generator cannot be copied with every version of torch.
    """
    layers = [(part, part.generator) for part in module.modules() if isinstance(part, SeededDropout)]
    for layer, _ in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer, before in layers:
            layer.generator = before
