"""Held-out rows: they are held out of everything that is learned, units, covariance, basis and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

from svnn.estimators._data import Data, Rows
from svnn.estimators._shift import Shift
from svnn.estimators._units import NumberTargets, Standardizer, Targets
from svnn.estimators.training import Loss, Trainer
from svnn.nn import SVNN

#: The least share that a class has in the best constant.
_RAREST = 1e-3
#: The probability with which a gain on held-out rows is not by chance: one standard error, with many rows.
_SURE = 0.85
#: Degrees of freedom from which on held-out rows say anything: those of four rows, up to rounding.
_FEWEST = 3 - 1e-9
#: Shares of a network's output to choose from; a constant is the rest.
SHARES = np.linspace(0, 1, 21)


@dataclass(frozen=True)
class Fold:
    """Data of the members that hold out the same rows: in units of the other rows, with their covariance."""

    data: Data
    shift: Shift

    @property
    def units(self) -> Standardizer:
        """The transform of targets from the units of the fit to those of the fold."""
        targets = self.data.targets
        inside = bool(self.data.folds) and isinstance(targets, NumberTargets)
        return targets.standardizer if inside else Standardizer.identity()  # type: ignore[union-attr]


class HeldOut(NamedTuple):
    """Outputs for rows that the members behind them have not seen, of shape (n, n_outputs), in the units of the fit.

    ``constant`` (n, n_outputs) is the best constant of the rows that these members have seen; ``places`` are those of
    the rows in the caller's table, None where the caller gave them as validation data.
    """

    outputs: np.ndarray
    constant: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    places: np.ndarray | None

    def shrunk(self, share: float) -> HeldOut:
        """Return these outputs with a share of what they were; the rest is the constant."""
        return self._replace(outputs=self.constant + share * (self.outputs - self.constant))


def held_out_outputs(trainers: Sequence[Trainer], folds: Sequence[Fold], data: Data) -> HeldOut | None:
    """Return the mean outputs of the members of each fold for its held-out rows; None where no rows are held out."""
    if data.held_out is None and not data.folds:
        return None
    outputs, constants, parts = [], [], []
    for trainer, fold in zip(trainers, folds, strict=True):
        members = [trainer.held_out(m)[0].double().cpu().numpy() for m in range(trainer.n_members)]
        outputs.append(fold.units.inverse(np.mean(members, 0)))
        rows = fold.data.training
        if data.held_out is None:
            (left_out,) = fold.data.folds
            parts.append(left_out)
            rows = some_rows(rows, np.setdiff1d(np.arange(len(rows.targets)), left_out))
        level = fold.units.inverse(best_constant(rows, data.targets).numpy())
        constants.append(np.tile(level, (len(outputs[-1]), 1)))
    if data.held_out is None:
        chosen = np.concatenate(parts)
        rows, places = some_rows(data.training, chosen), data.rows[chosen]
    else:
        rows, places = data.held_out, None if data.callers_rows else data.held_rows
    return HeldOut(np.concatenate(outputs), np.concatenate(constants), rows.targets, rows.weight, places)


def trusted_share(held: HeldOut, loss: Loss) -> float:
    """Return the one of ``SHARES`` of the outputs that held-out rows trust.

    It is the share that gains most over the constant after what the gain may owe to chance is taken away: its standard
    error, or more where there are few rows (Student's distribution). Two or three rows alone some network always suits.
    """
    share = held.weight / held.weight.sum()
    freedom = 1 / float(share @ share) - 1
    if freedom < _FEWEST:
        return 0.0
    y = torch.as_tensor(held.targets)
    losses = np.array([loss(torch.from_numpy(held.shrunk(each).outputs), y).numpy() for each in SHARES])
    gains = losses[0] - losses
    means = gains @ share
    errors = np.sqrt(np.square(gains - means[:, None]) @ share / freedom)
    return float(SHARES[np.argmax(means - float(student.ppf(_SURE, freedom)) * errors)])


def best_constant(rows: Rows, targets: Targets) -> Tensor:
    """Return the outputs of the best constant: the mean of the rows, or the logarithms of the shares of the classes."""
    share = rows.weight / rows.weight.sum()
    if not targets.are_labels:
        return torch.from_numpy(share @ rows.targets)
    counts = np.bincount(rows.targets, share, minlength=targets.n_outputs)
    return torch.from_numpy(np.log(np.maximum(counts, _RAREST)))


def some_rows(rows: Rows, chosen: np.ndarray) -> Rows:
    """Return some of the rows, without matrices of their own."""
    return Rows(rows.signals[chosen], rows.targets[chosen], rows.weight[chosen])


def all_rows(data: Data) -> Rows:
    """Return the rows of the caller's table, also those that were held out of it."""
    rows, held = data.training, data.held_out
    if held is None or data.callers_rows:
        return rows
    signals, targets, weight = (np.concatenate(both) for both in zip(rows[:3], held[:3], strict=True))
    return Rows(signals, targets, weight)


def last_layer(network: SVNN) -> tuple[Tensor, Tensor]:
    """Return the weights and biases of a network's outputs."""
    layer = [layer for layer in network.head if isinstance(layer, nn.Linear)][-1]
    return layer.weight, layer.bias


@torch.no_grad()
def rescale(network: SVNN, scale: np.ndarray | float, constant: np.ndarray | Tensor) -> None:
    """Multiply the outputs of a network, and add a constant, by a change of its last layer."""
    weight, bias = last_layer(network)
    factor = torch.as_tensor(scale, dtype=torch.float64).to(bias)
    weight.mul_(factor.reshape(-1, 1))
    bias.mul_(factor).add_(torch.as_tensor(constant).to(bias))
