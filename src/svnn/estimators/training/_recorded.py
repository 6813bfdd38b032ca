"""A single network's outputs for its held-out rows, each from the epoch that the other rows would choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from svnn.estimators.training._loop import Loss, Trainer

#: Parts into which the held-out rows are dealt.
_PARTS = 5


class Recorded(Trainer):
    """A trainer of one network that keeps the outputs for held-out rows.

    The epoch that suits some rows best flatters the network on these rows. :meth:`cross_fitted` gives each of them the
    outputs of the epoch that suits the other rows.
    """

    n_members = 1

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.watched = trainer, trainer.watched
        self.whitening, self.rest = trainer.whitening, trainer.rest
        self.outputs: list[Tensor] = []

    def cross_fitted(self, targets: Tensor, weight: np.ndarray, loss: Loss) -> np.ndarray:
        """Return outputs (n, n_outputs) for the held-out rows, each of the epoch that suits rows of other parts."""
        outputs = torch.stack(self.outputs).double()
        losses = np.array([loss(each, targets).numpy() for each in outputs])
        rows = np.arange(len(weight))
        found = np.empty(outputs.shape[1:])
        for part in range(_PARTS):
            own = rows % _PARTS == part
            others = weight * ~own
            epoch = int(np.argmin(losses @ (others if others.any() else weight)))
            found[own] = outputs[epoch].numpy()[own]
        return found

    def validate(self, members: np.ndarray) -> np.ndarray:
        losses = self.trainer.validate(members)
        self.outputs.append(self.trainer.held_out(0)[0].cpu())
        return losses

    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        return self.trainer.epoch(order, ends, rates, members)

    def keep(self, members: Sequence[int]) -> None:
        self.trainer.keep(members)

    def restore(self) -> None:
        self.trainer.restore()

    def held_out(self, member: int) -> tuple[Tensor, Tensor]:
        return self.trainer.held_out(member)

    def state(self) -> dict[str, Tensor]:
        return {**self.trainer.state(), "recorded": torch.stack(self.outputs)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.outputs = list(state["recorded"])
        self.trainer.load_state({name: value for name, value in state.items() if name != "recorded"})
