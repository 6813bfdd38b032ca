"""What a training asks of torch: a device, the first weights, and that the caller's modes are set aside.

All that is of the thread that asks for it, so that estimators can be fitted in several threads at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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


def pick_device(device: str | torch.device) -> torch.device:
    """Return the torch device for a name; "auto" is the GPU where there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device must be "auto" or a torch device such as "cpu" or "cuda", got {device!r}.') from error
    try:
        torch.zeros(1, device=picked).item()  # a number can be put there and read back
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f'device="{device}" is not available here; use device="auto".') from error
    return picked


def fits(device: torch.device, n_bytes: int) -> bool:
    """Say whether ``n_bytes`` take at most half of what is free on a GPU; main memory is not asked."""
    return device.type != "cuda" or n_bytes <= torch.cuda.mem_get_info(device)[0] // 2


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
