"""The training loop: Adam, early stopping on the validation loss, best weights restored.

Below it stands what a training asks of torch: a device, the first weights, and that the caller's modes are set aside.
All that is of the thread that asks for it, so that estimators can be fitted in several threads at once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from svnn.nn import CovarianceFilter, Readout, ShiftedSignals
from svnn.nn._layers import NodeNorm, drawing_from

Loss = Callable[[Tensor, Tensor], Tensor]
Callback = Callable[[dict[str, float]], object]

#: Losses of every value. The Huber loss is scaled to agree with the squared one near zero.
LOSSES: dict[str, Loss] = {
    "huber": partial(nn.functional.smooth_l1_loss, reduction="none", beta=0.5),
    "squared": partial(nn.functional.mse_loss, reduction="none"),
    "absolute": partial(nn.functional.l1_loss, reduction="none"),
}
#: Bytes of signals up to which an epoch's order is made by one gather; its batches are slices then.
_GATHER_BYTES = 2**28
#: Values of signals evaluated at once.
_EVALUATE_VALUES = 2**22


@dataclass
class Batch:
    """Inputs (t, N, F), shifted already where that pays, with targets and sample weights."""

    x: Tensor | ShiftedSignals
    y: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: slice | Tensor) -> Batch:
        return Batch(self.x[rows], self.y[rows], self.weight[rows])

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        if self.y.device == device:
            return self
        return Batch(self.x.to(device), self.y.to(device), self.weight.to(device))


@dataclass
class Shifts:
    """The shift of each forward pass: one for all of them, or fresh realisations of a random one.

    ``resample`` says how often a realisation is drawn: never ("fixed"), for every epoch, for every forward pass, or for
    each of the ``n_shifts`` shifts of a forward pass ("shift").
    """

    fixed: object
    resample: str = "fixed"
    draw: Callable[[], object] | None = None
    n_shifts: int = 1


def train(
    module: nn.Module,
    loss: Loss,
    data: Batch,
    validation: Batch | None,
    shifts: Shifts,
    *,
    lr: float,
    weight_decay: float,
    max_epochs: int,
    patience: int,
    tol: float = 0.0,
    batch_size: int,
    averaging: float = 0.0,
    callbacks: Sequence[Callback] = (),
    generator: torch.Generator | None = None,
) -> dict[str, list[float]]:
    """Train ``module`` in place and return the losses of every epoch.

    With ``averaging`` the loss is validated, and the weights are kept, for a moving average of them.
    Stops after ``patience`` epochs in which the validation loss (the training loss where there is no
    validation data) does not fall by more than ``tol``, or when a callback returns True, and restores the best weights.
    Batches and dropout are drawn from ``generator``, by default torch's global one.
    """
    optimizer = torch.optim.Adam(module.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    device = next(module.parameters()).device
    average = WeightAverage(module, averaging)
    noise = generator
    if generator is not None and device.type != "cpu":
        noise = torch.Generator(device).manual_seed(generator.initial_seed())
    history: dict[str, list[float]] = {"train_loss": [], "valid_loss": []}
    best_loss, best_weights = math.inf, copy.deepcopy(module.state_dict())
    mark, mark_epoch = math.inf, -1  # the loss that patience waits to see undercut
    for epoch in range(max_epochs):
        module.train()
        shift = shifts.draw() if shifts.draw and shifts.resample == "epoch" else shifts.fixed
        losses = []
        with drawing_from(module, noise):
            for part in batches(data, batch_size, generator):
                part = part.to(device)
                if shifts.draw and shifts.resample == "forward":
                    shift = shifts.draw()
                elif shifts.draw and shifts.resample == "shift":
                    shift = [shifts.draw() for _ in range(shifts.n_shifts)]
                objective = _weighted(loss(module(part.x, shift), part.y), part.weight)
                optimizer.zero_grad(set_to_none=True)
                objective.backward()
                optimizer.step()
                average.update()
                losses.append(objective.detach() * (len(part.y) / len(data.y)))
        total = float(torch.stack(losses).sum())
        monitored = total if validation is None else evaluate(average.module, loss, validation, shifts.fixed)
        history["train_loss"].append(total)
        if validation is not None:
            history["valid_loss"].append(monitored)
        for name, value in (("training", total), ("validation", monitored)):
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"the {name} loss became {value} in epoch {epoch + 1}; use a smaller lr, standardize=True, "
                    "or data of a common scale."
                )
        if monitored < best_loss:
            best_loss = monitored
            best_weights = copy.deepcopy(average.module.state_dict())
        if monitored < mark - tol:
            mark, mark_epoch = monitored, epoch
        record = {"epoch": epoch + 1, "train_loss": total, "valid_loss": monitored, "best_loss": best_loss}
        stop = [callback(record) for callback in callbacks]
        if epoch - mark_epoch >= patience or any(isinstance(s, (bool, np.bool_)) and s for s in stop):
            break
    module.load_state_dict(best_weights)
    module.eval()
    return history


class WeightAverage:
    """An exponential moving average of a module's weights and running statistics.

    The decay rises towards its value from the first steps on, so that the random start is soon
    forgotten. With decay 0 the average is the module itself.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.module = copy.deepcopy(module) if decay else module
        self._averaged, self._current = (
            [v for v in m.state_dict().values() if v.is_floating_point()] for m in (self.module, module)
        )

    @torch.no_grad()
    def update(self) -> None:
        """Take a step's weights into the average."""
        if not self.decay:
            return
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self._averaged, self._current, 1 - decay)


@torch.no_grad()
def evaluate(module: nn.Module, loss: Loss, data: Batch, shift: object) -> float:
    """Return the weighted mean loss on ``data``."""
    module.eval()
    device = next(module.parameters()).device
    rows = max(1, _EVALUATE_VALUES // (data.x.shape[1] * data.x.shape[2]))
    parts = (data[i : i + rows].to(device) for i in range(0, len(data.y), rows))
    values = [loss(module(part.x, shift), part.y) for part in parts]
    return float(_weighted(torch.cat(values), data.weight.to(device)))


def batches(data: Batch, batch_size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
    """Yield the data in shuffled batches, or in its own order where one batch holds all.

    A last batch of a single row joins the one before it: batch norm cannot use it.
    """
    n = len(data.y)
    if batch_size >= n:
        yield data
        return
    order = torch.randperm(n, generator=generator).to(data.y.device)
    ends = [*range(batch_size, n - 1, batch_size), n]
    starts = [0, *ends[:-1]]
    gathered = data[order] if 4 * math.prod(data.x.shape) <= _GATHER_BYTES else None
    for start, end in zip(starts, ends, strict=True):
        yield data[order[start:end]] if gathered is None else gathered[start:end]


def batch_rows(batch_size: int | str | None, n_rows: int) -> int:
    """Return the rows of a gradient step.

    "auto" is the power of two at or above a quarter of the rows, but no more than 32: tiny data
    sets need several steps per epoch as well.
    """
    if batch_size == "auto":
        return min(32, 2 ** math.ceil(math.log2(max(n_rows / 4, 2))))
    return int(batch_size or n_rows)


def _weighted(values: Tensor, weight: Tensor) -> Tensor:
    # A batch may hold only rows of zero weight; its loss is zero then.
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, 1)


# -- what a training asks of torch ----------------------------------------------------------------


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
