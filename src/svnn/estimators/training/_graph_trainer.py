"""Training of stacked networks on a GPU: a step is recorded once and then replayed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn.estimators.training._stacked_networks import StackedTrainer

#: Numbers of dropout to make at a time.
_DRAWN_VALUES = 2**26
#: Steps before a recording, in which torch chooses its kernels.
_REHEARSALS = 3


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """Return the stream for rehearsals: a single one, since torch keeps memory for each that there ever was."""
    return torch.cuda.Stream(device)


class _Recording(NamedTuple):
    """A step for batches of some length, and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    rows: Tensor
    factors: Tensor | None
    sizes: Tensor
    losses: Tensor


class GraphTrainer(StackedTrainer):
    """The same training as :class:`StackedTrainer`, on a GPU that is told once what a step is.

    A step of small networks takes a GPU less time than it takes Python to ask for it. On an H200, 8 members on
    450 samples of 68 nodes train in 0.3 of the time of :class:`StackedTrainer`.
    """

    _recordings: dict[int, _Recording] | None = None

    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        device = self.theta.device
        rows = torch.from_numpy(order).to(device)
        sizes = []
        for rate in rates:
            self.steps += 1
            sizes.append(self._step_sizes(rate))
        numbers = torch.tensor(sizes, dtype=torch.float32, device=device)
        total = self.theta.new_zeros(self.n_members)
        row = self.n_members * self.plan.n_nodes
        factors, drawn = None, 0
        for batch, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if self.plan.node_dropout and end > drawn:
                stop = end
                while stop < ends[-1] and (stop - start) * row < _DRAWN_VALUES:
                    stop = next(e for e in ends if e > stop)
                factors, first, drawn = self._factors(stop - start), start, stop
            part = None if factors is None else factors[:, start - first : end - first]
            total += self._replay(rows[start:end], part, numbers[batch]) * ((end - start) / len(order))
        return total.double().cpu().numpy()

    def _replay(self, rows: Tensor, factors: Tensor | None, sizes: Tensor) -> Tensor:
        if self._recordings is None:
            self._recordings = {}
        if len(rows) not in self._recordings:
            self._recordings[len(rows)] = self._record(rows, factors, sizes)
        recording = self._recordings[len(rows)]
        recording.rows.copy_(rows)
        recording.sizes.copy_(sizes)
        if recording.factors is not None and factors is not None:
            recording.factors.copy_(factors)
        recording.graph.replay()
        return recording.losses

    def _record(self, rows: Tensor, factors: Tensor | None, sizes: Tensor) -> _Recording:
        """Record a step; the rehearsals leave no trace."""
        rows, sizes = rows.clone(), sizes.clone()
        factors = None if factors is None else factors.clone()
        state = [part.clone() for part in (self.theta, self.moments, self.average)]
        aside = _aside(self.theta.device)
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_REHEARSALS):
                self._step(rows, factors, *sizes.unbind())
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            losses = self._step(rows, factors, *sizes.unbind())
        for part, before in zip((self.theta, self.moments, self.average), state, strict=True):
            part.copy_(before)
        return _Recording(graph, rows, factors, sizes, losses)
