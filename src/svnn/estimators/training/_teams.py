"""Members of several shapes, trained side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from svnn._threads import in_threads
from svnn.estimators.training._compiled_trainer import CompiledTrainer
from svnn.estimators.training._loop import Trainer


class Teams(Trainer):
    """Several trainers as one: the members of the first come first, then those of the second, and so on.

    Teams of one shape, such as those of one order, hold out different rows. The best epoch of each is that of the
    others: the rows that a member holds out have no part in its training, the choice of its epoch included.

    Parameters
    ----------
    teams : sequence of Trainer
    shapes : sequence of int, optional
        What teams of one shape have in common. By default no two teams have one shape.
    """

    def __init__(self, teams: Sequence[Trainer], shapes: Sequence[int] | None = None) -> None:
        self.teams = teams
        team = np.repeat(np.arange(len(teams)), [each.n_members for each in teams])
        shape = team if shapes is None else np.array(shapes)[team]
        others = (shape[:, None] == shape) & (team[:, None] != team)
        alone = ~others.any(1)
        others[alone, np.flatnonzero(alone)] = True
        self._others = others / others.sum(1, keepdims=True)
        self.starts = np.cumsum([0, *(team.n_members for team in teams[:-1])])
        self.n_members = sum(team.n_members for team in teams)
        self.watched = np.concatenate([team.watched for team in teams])

    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        losses = np.zeros(self.n_members)
        dealt = list(self._dealt(members))
        # Compiled teams run side by side: each is one pass without Python.
        side_by_side = in_threads if all(isinstance(team, CompiledTrainer) for team in self.teams) else map
        found = side_by_side(lambda each: each[0].epoch(order, ends, rates, each[2]), dealt)
        for (team, start, _), own in zip(dealt, found, strict=True):
            losses[start : start + team.n_members] = own
        return losses

    def validate(self, members: np.ndarray) -> np.ndarray:
        losses = np.zeros(self.n_members)
        for team, start, own in self._dealt(members):
            losses[start : start + team.n_members] = team.validate(own)
        return losses

    def monitored(self, losses: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._others @ losses
        return found

    def keep(self, members: Sequence[int]) -> None:
        for team, _, own in self._dealt(np.array(members, dtype=np.intp)):
            team.keep(own.tolist())

    def state(self) -> dict[str, Tensor]:
        return {f"team {i}.{name}": v for i, team in enumerate(self.teams) for name, v in team.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for i, team in enumerate(self.teams):
            start = f"team {i}."
            team.load_state({name.removeprefix(start): v for name, v in state.items() if name.startswith(start)})

    def restore(self) -> None:
        for team in self.teams:
            team.restore()

    def held_out(self, member: int) -> tuple[Tensor, Tensor]:
        ((team, _, own),) = self._dealt(np.array([member]))
        return team.held_out(int(own[0]))

    def _dealt(self, members: np.ndarray) -> Iterator[tuple[Trainer, int, np.ndarray]]:
        """Yield the teams of these members, where each team starts, and the members' numbers in it."""
        for team, start in zip(self.teams, self.starts.tolist(), strict=True):
            own = members[(start <= members) & (members < start + team.n_members)] - start
            if len(own):
                yield team, start, own
