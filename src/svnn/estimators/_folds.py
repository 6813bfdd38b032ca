"""What is held out of a fit is held out of everything that is learned: units, covariance, basis and weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

from svnn._types import HasCovariance, Matrix
from svnn.estimators._training_data import NumberTargets, Rows, Standardizer, Targets, TrainingData
from svnn.estimators.training import Trainer
from svnn.nn import SVNN
from svnn.operators import CovarianceOperator

#: The least share that a class has in the best constant.
_RAREST = 1e-3
#: The probability with which a gain on held-out rows is not by chance: one standard error, with many rows.
_SURE = 0.85
#: Degrees of freedom from which on held-out rows say anything: those of four rows, up to rounding.
_FEWEST = 3 - 1e-9
#: Shares of a network's output to choose from; a constant is the rest.
SHARES = np.linspace(0, 1, 21)


class Shift(NamedTuple):
    """What filters are polynomials of: an operator, its covariance, and the number that this is divided by."""

    estimator: HasCovariance | None
    covariance: Matrix
    operator: CovarianceOperator
    scale: float


class Fold(NamedTuple):
    """What members that hold out the same rows learn from: data in units of the other rows, and their covariance."""

    data: TrainingData
    shift: Shift | None

    def in_units_of_fit(self, outputs: np.ndarray) -> np.ndarray:
        """Return outputs (…, n_outputs) of such members in the units of the whole fit."""
        units = self._units
        return outputs if units is None else units.inverse(outputs)

    @torch.no_grad()
    def give_units_of_fit(self, weight: Tensor, bias: Tensor) -> None:
        """Change the last layer of such a member, so that its outputs are in the units of the whole fit."""
        units = self._units
        if units is not None:
            scale, mean = (torch.from_numpy(np.atleast_1d(each)).to(bias) for each in (units.scale, units.mean))
            weight.mul_(scale[:, None])
            bias.mul_(scale).add_(mean)

    @property
    def _units(self) -> Standardizer | None:
        """What takes targets in the units of the fit to those of the fold; None where they are the same."""
        targets = self.data.targets
        return targets.standardizer if self.data.folds and isinstance(targets, NumberTargets) else None


def dealt(networks: list[SVNN], folds: list[Fold]) -> list[tuple[list[SVNN], Fold]]:
    """Return the networks of every order, in sets that hold out the same rows, each with what they learn from."""
    found = []
    for _, group in groupby(networks, lambda network: network.order):
        own = list(group)
        ends = np.cumsum([len(part) for part in np.array_split(np.arange(len(own)), len(folds))])
        found += [(own[start:end], fold) for start, end, fold in zip([0, *ends[:-1]], ends, folds, strict=True)]
    return found


def last_layer(network: SVNN) -> tuple[Tensor, Tensor]:
    """Return the weights and biases of a network's outputs."""
    layer = [layer for layer in network.head if isinstance(layer, nn.Linear)][-1]
    return layer.weight, layer.bias


def best_constant(rows: Rows, targets: Targets) -> Tensor:
    """Return the outputs of the best constant: the mean of the rows, or the logarithms of the shares of the classes."""
    share = rows.weight / rows.weight.sum()
    if not targets.are_labels:
        return torch.from_numpy(share @ rows.targets)
    counts = np.bincount(rows.targets, share, minlength=targets.n_outputs)
    return torch.from_numpy(np.log(np.maximum(counts, _RAREST)))


@torch.no_grad()
def shrink(network: SVNN, share: float, constant: Tensor) -> None:
    """Make the outputs of a network this share of what they were; the rest is a constant."""
    weights, bias = last_layer(network)
    weights.mul_(share)
    bias.mul_(share).add_((1 - share) * constant.to(bias))


class HeldOut(NamedTuple):
    """Outputs of every part for rows that it has not seen, of shape (parts, n, n_outputs), with their targets.

    ``constant`` (n, n_outputs) is the best constant of the rows that the parts have seen.
    """

    outputs: np.ndarray
    constant: np.ndarray
    targets: np.ndarray
    weight: np.ndarray

    def shrunk(self, shares: np.ndarray) -> HeldOut:
        """Return the same where a share of the outputs of every part is its own, and the rest the constant."""
        return self._replace(outputs=self.constant + shares[:, None, None] * (self.outputs - self.constant))


def held_out(teams: list[Trainer], data: TrainingData, folds: list[Fold]) -> HeldOut | None:
    """Return the outputs of teams for rows that they have not seen, or None where no rows are held out.

    A row's output is the mean of the members that held it out.
    """
    if data.held_out is None and not data.folds:
        return None
    outputs = []
    for start in range(0, len(teams), len(folds)):
        own = zip(teams[start : start + len(folds)], folds, strict=True)
        parts = [
            fold.in_units_of_fit(np.mean([_numbers(team.held_out(m)[0]) for m in range(team.n_members)], 0))
            for team, fold in own
        ]
        outputs.append(np.concatenate(parts))
    if data.held_out is not None:
        rows, sizes, seen = data.held_out, [len(data.held_out.targets)], [data.training]
    else:
        rows, sizes = some_rows(data.training, np.concatenate(data.folds)), [len(own) for own in data.folds]
        seen = [_without(fold.data.training, own) for fold, own in zip(folds, data.folds, strict=True)]
    levels = [
        np.tile(fold.in_units_of_fit(best_constant(known, data.targets).numpy()), (size, 1))
        for fold, known, size in zip(folds, seen, sizes, strict=True)
    ]
    return HeldOut(np.array(outputs), np.concatenate(levels), rows.targets, rows.weight)


def some_rows(rows: Rows, chosen: np.ndarray) -> Rows:
    """Return some of the rows, without matrices of their own."""
    return Rows(rows.signals[chosen], rows.targets[chosen], rows.weight[chosen])


def all_rows(data: TrainingData) -> Rows:
    """Return the rows of the caller's table, also those that were held out of it."""
    rows, held = data.training, data.held_out
    if held is None or data.callers_rows:
        return rows
    signals, targets, weight = (np.concatenate(both) for both in zip(rows[:3], held[:3], strict=True))
    return Rows(signals, targets, weight)


def _without(rows: Rows, left_out: np.ndarray) -> Rows:
    return some_rows(rows, np.setdiff1d(np.arange(len(rows.targets)), left_out))


def trusted_share(losses: Sequence[np.ndarray], weight: np.ndarray) -> float:
    """Return which of ``SHARES`` held-out rows trust, from their losses with each of them.

    It is the share that gains most over the constant after what the gain may owe to chance is taken away: its standard
    error, or more where there are few rows (Student's distribution). Two or three rows alone some network always suits.
    """
    share = weight / weight.sum()
    freedom = 1 / float(share @ share) - 1
    if freedom < _FEWEST:
        return 0.0
    gains = losses[0] - np.array(losses)
    means = gains @ share
    errors = np.sqrt(np.square(gains - means[:, None]) @ share / freedom)
    return float(SHARES[np.argmax(means - float(student.ppf(_SURE, freedom)) * errors)])


def _numbers(output: Tensor) -> np.ndarray:
    return output.double().cpu().numpy()
