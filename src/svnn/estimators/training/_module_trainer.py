"""Training of any networks, one after the other in every epoch, by torch's gradients and its Adam."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn.estimators.training._loop import Loss, Trainer, weighted
from svnn.nn import ShiftedSignals
from svnn.nn._layers import drawing_from
from svnn.nn._readout import Readout
from svnn.operators import CovarianceOperator

#: Bytes of signals up to which an epoch's order is made by one gather; its batches are slices then.
_GATHER_BYTES = 2**28
#: Values of signals evaluated at once.
_EVALUATE_VALUES = 2**22


@dataclass
class Batch:
    """Inputs (t, N, F), shifted already where that pays, with targets and sample weights (t,)."""

    x: Tensor | ShiftedSignals
    y: Tensor
    weight: Tensor
    shift: CovarianceOperator | None = None  # of each row, where rows have their own

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: slice | Tensor) -> Batch:
        shift: Any = self.shift
        return Batch(self.x[rows], self.y[rows], self.weight[rows], None if shift is None else shift[rows])

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        if self.y.device == device:
            return self
        return Batch(self.x.to(device), self.y.to(device), self.weight.to(device), self.shift)


def watched_members(validation: Batch | None, n_members: int) -> np.ndarray:
    """Return for every member whether there are held-out rows of some weight."""
    return np.full(n_members, validation is not None and bool(validation.weight.any()))


@dataclass(frozen=True)
class Optimiser:
    """The parameters of every optimiser.

    ``averaging`` is the decay of a moving average of the weights, which is validated and kept in their place.
    """

    weight_decay: float
    averaging: float


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


def readout_rate(n_nodes: int) -> float:
    """Return the multiple of the learning rate for the weights of the nodes in a readout.

    They enter divided by N, so a step of one of them moves the output by an N-th of what a step of another weight
    does. Up to 100 nodes that is made up for. With more nodes, whose steps add up, less is enough.

    Examples
    --------
    >>> readout_rate(68), readout_rate(5000), readout_rate(40000)
    (68.0, 100.0, 200.0)
    """
    return max(min(float(n_nodes), 100.0), math.sqrt(n_nodes))


class ModuleTrainer(Trainer):
    """Any torch modules of the same kind, each with its own optimiser.

    Parameters
    ----------
    modules : list of modules
    loss : function of outputs and targets, the loss of every row
    data : Batch
        A row of weight 0 is not trained on.
    validation : Batch or None
        Rows that all these modules hold out.
    shifts : Shifts
    optimiser : Optimiser
    noise : list of generators
        What each member draws its dropout from, on the device of the modules.
    """

    def __init__(
        self,
        modules: list[nn.Module],
        loss: Loss,
        data: Batch,
        validation: Batch | None,
        shifts: Shifts,
        optimiser: Optimiser,
        noise: Sequence[torch.Generator | None],
    ) -> None:
        self.modules, self.loss, self.data, self.validation, self.shifts = modules, loss, data, validation, shifts
        self.n_members, self.noise = len(modules), noise
        self.watched = watched_members(validation, len(modules))
        self.device = next(modules[0].parameters()).device
        self.optimizers = [
            torch.optim.Adam(_groups(module), lr=1.0, weight_decay=optimiser.weight_decay, fused=True)
            for module in modules
        ]
        self.averages = [WeightAverage(module, optimiser.averaging) for module in modules]
        self.best = [copy.deepcopy(module.state_dict()) for module in modules]

    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(order).to(self.data.y.device)
        whole = len(ends) == 1
        small = 4 * math.prod(self.data.x.shape) <= _GATHER_BYTES
        gathered = self.data if whole else self.data[rows] if small else None
        starts = [0, *ends[:-1]]
        losses = np.zeros(self.n_members)
        for member in members.tolist():
            module = self.modules[member]
            module.train()
            shift = self._draw() if self.shifts.resample == "epoch" else self.shifts.fixed
            found = []
            with drawing_from(module, self.noise[member]):
                for start, end, rate in zip(starts, ends, rates, strict=True):
                    part = self.data[rows[start:end]] if gathered is None else gathered[start:end]
                    part = part.to(self.device)
                    shift = self._draw() if self.shifts.resample in ("forward", "shift") else shift
                    own = shift if part.shift is None else part.shift
                    objective = weighted(self.loss(module(part.x, own), part.y), part.weight)
                    self._step(member, objective, rate)
                    found.append(objective.detach() * ((end - start) / len(order)))
            losses[member] = float(torch.stack(found).sum())
        return losses

    def _draw(self) -> object:
        """Return a fresh realisation of the shift, or one for each shift of a forward pass."""
        draw = self.shifts.draw
        assert draw is not None
        return [draw() for _ in range(self.shifts.n_shifts)] if self.shifts.resample == "shift" else draw()

    def _step(self, member: int, objective: Tensor, rate: float) -> None:
        optimizer = self.optimizers[member]
        for group in optimizer.param_groups:
            group["lr"] = rate * group["multiple"]
        optimizer.zero_grad(set_to_none=True)
        objective.backward()
        optimizer.step()
        self.averages[member].update()

    def validate(self, members: np.ndarray) -> np.ndarray:
        losses = np.zeros(self.n_members)
        for member in members[self.watched[members]].tolist():
            assert self.validation is not None
            values = self.loss(*self.held_out(member))
            losses[member] = float(weighted(values, self.validation.weight.to(self.device)))
        return losses

    @torch.no_grad()
    def held_out(self, member: int) -> tuple[Tensor, Tensor]:
        assert self.validation is not None
        module, data = self.averages[member].module.eval(), self.validation
        rows = max(1, _EVALUATE_VALUES // (data.x.shape[1] * data.x.shape[2]))
        found = []
        for part in (data[i : i + rows].to(self.device) for i in range(0, len(data), rows)):
            found.append(module(part.x, self.shifts.fixed if part.shift is None else part.shift))
        return torch.cat(found), data.y.to(self.device)

    def keep(self, members: Sequence[int]) -> None:
        for member in members:
            self.best[member] = copy.deepcopy(self.averages[member].module.state_dict())

    def state(self) -> dict[str, Tensor]:
        found = generator_states([each for each in self.noise if each is not None])
        for member, (module, average) in enumerate(zip(self.modules, self.averages, strict=True)):
            parts = {"now": module.state_dict(), "average": average.module.state_dict(), "best": self.best[member]}
            for number, moments in self.optimizers[member].state_dict()["state"].items():
                parts[f"adam.{number}"] = moments
            found |= {f"{member}.{part}.{name}": v for part, values in parts.items() for name, v in values.items()}
            found[f"{member}.steps"] = torch.tensor(average.steps)
        return found

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        set_generators([each for each in self.noise if each is not None], state)
        for member, (module, average) in enumerate(zip(self.modules, self.averages, strict=True)):
            for part, own in (("now", module), ("average", average.module)):
                own.load_state_dict(_part(state, f"{member}.{part}."))
            self.best[member] = {k: v.to(self.device) for k, v in _part(state, f"{member}.best.").items()}
            average.steps = int(state[f"{member}.steps"])
            optimizer = self.optimizers[member]
            n = sum(len(group["params"]) for group in optimizer.param_groups)
            moments = {i: _part(state, f"{member}.adam.{i}.") for i in range(n)}
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": {i: v for i, v in moments.items() if v}, "param_groups": groups})

    def restore(self) -> None:
        for member, module in enumerate(self.modules):
            module.load_state_dict(self.best[member])
            self.averages[member].module = module.eval()


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the entries whose names start in some way, without that."""
    return {name.removeprefix(prefix): value.clone() for name, value in state.items() if name.startswith(prefix)}


def generator_states(generators: Sequence[torch.Generator]) -> dict[str, Tensor]:
    """Return the states of generators by names."""
    return {f"noise.{i}": each.get_state() for i, each in enumerate(generators)}


def set_generators(generators: Sequence[torch.Generator], state: Mapping[str, Tensor]) -> None:
    """Take over states of generators."""
    for i, each in enumerate(generators):
        each.set_state(state[f"noise.{i}"])


def _groups(module: nn.Module) -> list[dict[str, object]]:
    """Return the parameters of a module in groups, each with its multiple of the learning rate."""
    pooled = [part.weight for part in module.modules() if isinstance(part, Readout) and part.kind == "weighted"]
    others = [p for p in module.parameters() if all(p is not weight for weight in pooled)]
    groups: list[dict[str, object]] = [{"params": others, "multiple": 1.0}]
    return groups + [{"params": [weight], "multiple": readout_rate(weight.shape[1])} for weight in pooled]


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
        torch._foreach_lerp_(self._averaged, self._current, 1 - decay_at(self.decay, self.steps))


def decay_at(decay: float, step: int) -> float:
    """Return the decay of a moving average in a step: small at first."""
    return min(decay, (1 + step) / (10 + step))
