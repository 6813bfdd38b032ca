"""Torch for training: a device, networks with their first weights, generators, and the caller's modes set aside.

All of it belongs to the calling thread, so that estimators can be fitted in several threads at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import torch
from torch import nn

from svnn.nn import CovarianceFilter, Readout
from svnn.nn._layers import NodeNorm

Network = TypeVar("Network", bound=nn.Module)


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
    """Return whether ``n_bytes`` take at most half of what is free on a GPU; main memory is not asked."""
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
        elif own:
            raise TypeError(f"how to draw the weights of {type(part).__name__} is not known.")


def new_network(build: Callable[[], Network], draws: torch.Generator, device: torch.device) -> Network:
    """Return an untrained network in single precision whose weights are drawn from ``draws``."""
    with torch.device("meta"):  # where nothing is drawn and nothing allocated
        network = build()
    # Not by to_empty, which imports sympy: that takes longer than many a fit.
    state = {
        name: torch.empty(value.shape, dtype=torch.float32 if value.is_floating_point() else value.dtype)
        for name, value in network.state_dict().items()
    }
    network.load_state_dict(state, assign=True)
    draw_weights(network, draws)
    return network.to(device)


def noise_generators(n: int, draws: torch.Generator, device: torch.device, alone: bool = True) -> list[torch.Generator]:
    """Return the generators from which ``n`` networks draw their dropout.

    A single network that is trained alone takes the generator of the fit itself.
    """
    if n == 1 and alone:
        if device.type == "cpu":
            return [draws]
        seeds = [draws.initial_seed()]
    else:
        seeds = torch.randint(2**62, (n,), generator=draws).tolist()
    return [torch.Generator(device).manual_seed(seed) for seed in seeds]
