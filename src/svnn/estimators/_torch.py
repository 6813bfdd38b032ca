"""What estimators ask of torch: the caller's modes set aside, and weights drawn from a generator of their own.

Everything here is of the thread that asks for it, so that estimators can be fitted in several threads at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from svnn.nn import CovarianceFilter, Readout
from svnn.nn._layers import NodeNorm


@contextmanager
def plain_torch() -> Iterator[None]:
    """Compute as torch does by default, whatever ``no_grad``, autocast or default device is around."""
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                modes.enter_context(torch.autocast(kind, enabled=False))
        if torch.empty(0).device.type != "cpu":
            modes.enter_context(torch.device("cpu"))
        yield


def without_weights(build: Callable[[], nn.Module]) -> Any:
    """Return the network that ``build`` makes, in single precision on the CPU; its weights are still to be set."""
    with torch.device("meta"):  # where nothing is drawn and nothing allocated
        network = build()
    return network.float().to_empty(device="cpu")


@torch.no_grad()
def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Set all weights and statistics of a network as its construction does, but with draws from ``generator``."""
    for part in network.modules():
        own = {**dict(part.named_parameters(recurse=False)), **dict(part.named_buffers(recurse=False))}
        if isinstance(part, CovarianceFilter):
            part.reset_parameters(generator)
        elif isinstance(part, (NodeNorm, Readout)):
            part.reset_parameters()
        elif isinstance(part, nn.Linear):
            bound = 1 / math.sqrt(part.in_features)
            nn.init.kaiming_uniform_(part.weight, a=math.sqrt(5), generator=generator)
            if part.bias is not None:
                nn.init.uniform_(part.bias, -bound, bound, generator)
        elif type(part).__module__.startswith("torch_geometric.") and own.keys() <= {"weight", "bias"}:
            if "weight" in own:
                for _ in range(2):  # a convolution draws the weights that its linear map has drawn already
                    nn.init.xavier_uniform_(own["weight"], generator=generator)
            if own.get("bias") is not None:
                nn.init.zeros_(own["bias"])
        elif own:
            raise TypeError(f"how to draw the weights of {type(part).__name__} is not known.")
