"""Trainers made of others: several as one, and one that records the outputs for its held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from svnn._threads import in_threads
from svnn.estimators.training._compiled_trainer import CompiledTrainer
from svnn.estimators.training._loop import Loss, Trainer

#: Parts into which the held-out rows are dealt.
_PARTS = 5


class TrainerGroup(Trainer):
    """Several trainers as one: the members of the first come first, then those of the second, and so on.

    Parameters
    ----------
    trainers : sequence of Trainer
    alike : bool
        Whether they train networks of one shape that hold out different rows. The best epoch of a member then follows
        from the losses of the other trainers: the rows that it holds out have no part in its training, the choice of
        its epoch included.
    """

    def __init__(self, trainers: Sequence[Trainer], alike: bool = False) -> None:
        self.trainers, sizes = trainers, [trainer.n_members for trainer in trainers]
        self.n_members = sum(sizes)
        self._starts = np.cumsum([0, *sizes[:-1]]).tolist()
        self.watched = np.concatenate([trainer.watched for trainer in trainers])
        self._others: np.ndarray | None = None
        if alike and len(trainers) > 1:
            owner = np.repeat(np.arange(len(trainers)), sizes)
            others = owner[:, None] != owner
            self._others = others / others.sum(1, keepdims=True)

    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        losses = np.zeros(self.n_members)
        parts = list(self._parts(members))
        # Compiled trainers run side by side: an epoch of each is one pass without Python.
        compiled = len(parts) > 1 and all(isinstance(trainer, CompiledTrainer) for trainer in self.trainers)
        side_by_side = in_threads if compiled else map
        found = side_by_side(lambda part: part[0].epoch(order, ends, rates, part[2]), parts)
        for (trainer, start, _), values in zip(parts, found, strict=True):
            losses[start : start + trainer.n_members] = values
        return losses

    def validate(self, members: np.ndarray) -> np.ndarray:
        losses = np.zeros(self.n_members)
        for trainer, start, numbers in self._parts(members):
            losses[start : start + trainer.n_members] = trainer.validate(numbers)
        return losses

    def monitored(self, losses: np.ndarray) -> np.ndarray:
        return losses if self._others is None else self._others @ losses

    def keep(self, members: Sequence[int]) -> None:
        for trainer, _, numbers in self._parts(np.array(members, dtype=np.intp)):
            trainer.keep(numbers.tolist())

    def restore(self) -> None:
        for trainer in self.trainers:
            trainer.restore()

    def held_out(self, member: int) -> tuple[Tensor, Tensor]:
        ((trainer, _, numbers),) = self._parts(np.array([member]))
        return trainer.held_out(int(numbers[0]))

    def state(self) -> dict[str, Tensor]:
        return {f"trainer {i}.{name}": v for i, each in enumerate(self.trainers) for name, v in each.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for i, trainer in enumerate(self.trainers):
            start = f"trainer {i}."
            trainer.load_state({name.removeprefix(start): v for name, v in state.items() if name.startswith(start)})

    def _parts(self, members: np.ndarray) -> Iterator[tuple[Trainer, int, np.ndarray]]:
        """Yield the trainers of these members, where each trainer starts, and the members' numbers in it."""
        for trainer, start in zip(self.trainers, self._starts, strict=True):
            numbers = members[(start <= members) & (members < start + trainer.n_members)] - start
            if len(numbers):
                yield trainer, start, numbers


class Recorded(TrainerGroup):
    """A trainer of one network that keeps the outputs for held-out rows.

    The epoch that suits some rows best flatters the network on these rows. :meth:`cross_fitted` gives each of them the
    outputs of the epoch that suits the other rows.
    """

    def __init__(self, trainer: Trainer) -> None:
        super().__init__([trainer])
        self.outputs: list[Tensor] = []

    def validate(self, members: np.ndarray) -> np.ndarray:
        losses = super().validate(members)
        self.outputs.append(self.held_out(0)[0].cpu())
        return losses

    def cross_fitted(self, targets: Tensor, weight: np.ndarray, loss: Loss) -> np.ndarray:
        """Return outputs (n, n_outputs) for the held-out rows, each of the epoch that suits rows of other parts."""
        outputs = torch.stack(self.outputs).double()
        losses = np.array([loss(each, targets).numpy() for each in outputs])
        rows = np.arange(len(weight))
        result = np.empty(outputs.shape[1:])
        for part in range(_PARTS):
            own = rows % _PARTS == part
            others = weight * ~own
            epoch = int(np.argmin(losses @ (others if others.any() else weight)))
            result[own] = outputs[epoch].numpy()[own]
        return result

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "recorded": torch.stack(self.outputs)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.outputs = list(state["recorded"])
        super().load_state(state)
