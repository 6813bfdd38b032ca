"""The training loop: batches, the learning rate of every step, early stopping, best weights restored.

It does not know what is trained. A :class:`Trainer` holds one or more networks, its members, and takes the steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]
Callback = Callable[[dict[str, float]], object]

#: Losses of every value. The Huber loss is scaled to agree with the squared one near zero.
LOSSES: dict[str, Loss] = {
    "huber": partial(nn.functional.smooth_l1_loss, reduction="none", beta=0.5),
    "squared": partial(nn.functional.mse_loss, reduction="none"),
    "absolute": partial(nn.functional.l1_loss, reduction="none"),
}
#: The share of the steps in which the learning rate rises, and the multiple of its largest value that it starts from.
_RISE, _START = 0.3, 1 / 25
#: The steps that a training of one cycle takes, and the values of nodes that it passes, at most: unless that would be
#: fewer or more epochs than these.
_STEPS, _VALUES, _FEWEST_EPOCHS, _MOST_EPOCHS = 1500, 2e7, 40, 120
#: The most epochs at a constant rate.
_CONSTANT_EPOCHS = 1000


def one_cycle(progress: float) -> float:
    """Return the multiple of the learning rate after a share of all steps: a rise, then a longer fall to zero.

    Examples
    --------
    >>> [round(one_cycle(share), 2) for share in (0.0, 0.3, 0.65, 1.0)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if progress < _RISE:
        return _START + (1 - _START) * (1 - math.cos(math.pi * progress / _RISE)) / 2
    return (1 + math.cos(math.pi * (progress - _RISE) / (1 - _RISE))) / 2


SCHEDULES: dict[str, Callable[[float], float]] = {"one_cycle": one_cycle, "constant": lambda progress: 1.0}


class Trainer(ABC):
    """Networks that are trained together on the same rows, and the optimiser of each.

    Attributes
    ----------
    n_members : int
    watched : ndarray of shape (n_members,)
        Whether a member has held-out rows.
    """

    n_members: int
    watched: np.ndarray

    @abstractmethod
    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        """Take a step for each batch of rows; return the mean losses (n_members,).

        Parameters
        ----------
        order : the rows in the order of this epoch
        ends : where in it the batches end
        rates : the learning rate of every batch
        members : the members that are still trained; the others need no steps, and their losses do not count
        """

    @abstractmethod
    def validate(self, members: np.ndarray) -> np.ndarray:
        """Return the losses (n_members,) on the held-out rows; only those of watched ones of ``members`` count."""

    def monitored(self, losses: np.ndarray) -> np.ndarray:
        """Return the losses that each member's best epoch and patience follow from, given those of every member."""
        return losses

    @abstractmethod
    def keep(self, members: Sequence[int]) -> None:
        """Note the present weights of some members as their best ones."""

    @abstractmethod
    def restore(self) -> None:
        """Go back to the best weights of every member."""

    @abstractmethod
    def held_out(self, member: int) -> tuple[Tensor, Tensor]:
        """Return a member's outputs for its held-out rows, and their targets."""

    def state(self) -> dict[str, Tensor]:
        """Return all that changes in training, by names: weights, optimisers, averages, best weights, generators."""
        raise NotImplementedError(f"{type(self).__name__} cannot be stored; leave Checkpoint out of callbacks.")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` returned, in place."""
        raise NotImplementedError(f"{type(self).__name__} cannot be stored; leave Checkpoint out of callbacks.")


@dataclass
class Course:
    """The epochs done, their losses, and what best epochs and patience follow from.

    Arrays have an entry for each member.
    """

    epoch: int
    history: dict[str, list[float]]
    best: np.ndarray
    best_epoch: np.ndarray
    trained: np.ndarray
    validated: np.ndarray
    running: np.ndarray

    @classmethod
    def start(cls, n: int) -> Course:
        """Return the course before the first epoch."""
        never = np.full(n, np.inf)
        history: dict[str, list[float]] = {"train_loss": [], "valid_loss": []}
        return cls(0, history, never, np.ones(n, dtype=int), never.copy(), never.copy(), np.full(n, True))

    def to_json(self) -> dict[str, Any]:
        """Return the course as lists and numbers."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], n: int) -> Course:
        """Return a stored course of n members; one of Python's plain errors where it cannot be one."""
        like = cls.start(n)
        arrays = {k: np.array(stored[k], dtype=v.dtype) for k, v in vars(like).items() if isinstance(v, np.ndarray)}
        if any(values.shape != (n,) for values in arrays.values()):
            raise ValueError(f"its members are not the {n} of this training")
        history = {name: [float(value) for value in stored["history"][name]] for name in like.history}
        epoch = int(stored["epoch"])
        if epoch != len(history["train_loss"]):
            raise ValueError("its epochs are not those of its losses")
        return cls(epoch, history, **arrays)


@dataclass(frozen=True)
class Run:
    """A training as a stateful callback sees it: all that changes beside its course.

    Parameters
    ----------
    trainer : Trainer
    draws : torch.Generator or None
        Draws the order of the rows.
    rng : numpy.random.Generator or None
        Draws the realisations of the covariance.
    identity : function without arguments
        Returns digests that distinguish this fit from others, by names; they cost a pass over the data.
    """

    trainer: Trainer
    draws: torch.Generator | None
    rng: np.random.Generator | None
    identity: Callable[[], Mapping[str, str]]


@runtime_checkable
class StatefulCallback(Protocol):
    """A callback that also stores the state of a training, and restores it."""

    def __call__(self, record: dict[str, float], /) -> object:
        """Take the losses of an epoch, as any callback."""

    def resume(self, course: Course, run: Run) -> Course:
        """Restore an earlier training and return its course; or return ``course``. Called before the first epoch."""

    def after_epoch(self, course: Course, run: Run) -> None:
        """Store the training. Called after every epoch that another one may follow."""

    def end(self) -> None:
        """Clean up. Called after a successful fit."""


@dataclass(frozen=True)
class Training:
    """The parameters of the loop, with "auto" resolved."""

    lr: float
    schedule: str
    max_epochs: int
    patience: int | None
    batch_size: int
    callbacks: tuple[Callback, ...] = ()

    @classmethod
    def of(cls, model: Any, n_rows: int, n_values: int) -> Training:
        """Return how to train a model on ``n_rows`` rows whose signals are ``n_values`` numbers altogether."""
        batch_size = batch_rows(model.batch_size, n_rows)
        n_batches = len(batch_ends(n_rows, batch_size))
        return cls(
            lr=float(model.lr),
            schedule=model.schedule,
            max_epochs=epochs(model.max_epochs, model.schedule, n_batches, n_values),
            patience=None if model.patience is None else int(model.patience),
            batch_size=batch_size,
            callbacks=tuple(model.callbacks),
        )

    @property
    def stateful(self) -> list[StatefulCallback]:
        """The callbacks that store the state of a training."""
        return [callback for callback in self.callbacks if isinstance(callback, StatefulCallback)]

    def end(self) -> None:
        """Let stateful callbacks clean up after a successful fit."""
        for callback in self.stateful:
            callback.end()


def train(
    trainer: Trainer,
    n_rows: int,
    training: Training,
    draws: torch.Generator | None = None,
    *,
    rng: np.random.Generator | None = None,
    identity: Callable[[], Mapping[str, str]] | None = None,
) -> dict[str, list[float]]:
    """Train all members; return the losses of every epoch, means over the members, and each member's best epoch.

    A member's best epoch is that of the smallest validation loss, or training loss where it has no validation rows. It
    is its own loss, or that of members that hold out other rows (:class:`TrainerGroup`).
    A member stops ``patience`` epochs after its best one; its last losses count on.
    All stop when a callback returns True. The best weights are restored.

    Parameters
    ----------
    trainer : Trainer
    n_rows : int
        Training rows.
    training : Training
    draws : torch.Generator, optional
        Draws the order of the rows; by default torch's own generator does.
    rng, identity
        For stateful callbacks, see :class:`Run`. Without ``identity`` these are plain callbacks.
    """
    schedule, ends = SCHEDULES[training.schedule], batch_ends(n_rows, training.batch_size)
    n_steps = training.max_epochs * len(ends)
    at, run = Course.start(trainer.n_members), Run(trainer, draws, rng, identity or dict)
    stateful = training.stateful if identity is not None else []
    for each in stateful:
        at = each.resume(at, run)
    for epoch in range(at.epoch, training.max_epochs):
        order = np.arange(n_rows)
        if len(ends) > 1:
            order = torch.randperm(n_rows, generator=draws).numpy()
        rates = [training.lr * schedule((epoch * len(ends) + i) / n_steps) for i in range(len(ends))]
        members = np.flatnonzero(at.running)
        at.trained[members] = trainer.epoch(order, ends, rates, members)[members]
        _check_finite("training", at.trained, epoch)
        at.validated[members] = np.where(trainer.watched, trainer.validate(members), at.trained)[members]
        at.history["train_loss"].append(float(at.trained.mean()))
        if trainer.watched.any():
            at.history["valid_loss"].append(float(at.validated.mean()))
        _check_finite("validation", at.validated, epoch)
        losses = trainer.monitored(at.validated)
        better = at.running & (losses < at.best)
        at.best, at.best_epoch = np.where(better, losses, at.best), np.where(better, epoch + 1, at.best_epoch)
        trainer.keep(np.flatnonzero(better).tolist())
        record = {
            "epoch": epoch + 1,
            "train_loss": float(at.trained.mean()),
            "valid_loss": float(at.validated.mean()),
            "best_loss": float(at.best.mean()),
        }
        answers = [callback(record) for callback in training.callbacks]
        at.epoch = epoch + 1
        if training.patience is not None:
            at.running = at.epoch - at.best_epoch < training.patience
        if not at.running.any() or any(isinstance(a, (bool, np.bool_)) and a for a in answers):
            break
        for each in stateful:
            each.after_epoch(at, run)
    trainer.restore()
    return {**at.history, "best_epoch": at.best_epoch.tolist()}


def _check_finite(name: str, losses: np.ndarray, epoch: int) -> None:
    if not np.isfinite(losses).all():
        wrong = losses[~np.isfinite(losses)][0]
        raise FloatingPointError(
            f"the {name} loss became {wrong} in epoch {epoch + 1}; use a smaller lr, standardize=True, "
            "or data of a common scale."
        )


def batch_ends(n_rows: int, batch_size: int) -> list[int]:
    """Return where the batches of an epoch end.

    A last batch of a single row joins the one before it: batch norm cannot use it.

    Examples
    --------
    >>> batch_ends(10, 4), batch_ends(9, 4), batch_ends(3, 4)
    ([4, 8, 10], [4, 9], [3])
    """
    return [n_rows] if batch_size >= n_rows else [*range(batch_size, n_rows - 1, batch_size), n_rows]


def batch_rows(batch_size: int | str | None, n_rows: int) -> int:
    """Return the rows of a gradient step.

    "auto" is the power of two at or above a quarter of the rows, but no more than 64: tiny data
    sets need several steps per epoch as well.
    """
    if batch_size == "auto":
        return min(64, 2 ** math.ceil(math.log2(max(n_rows / 4, 2))))
    return int(batch_size or n_rows)


def epochs(max_epochs: int | str, schedule: str, n_batches: int, n_values: int) -> int:
    """Return the most epochs to train for; "auto" takes fewer where an epoch has many batches, or many values.

    Examples
    --------
    >>> epochs("auto", "one_cycle", 3, 10**4), epochs("auto", "one_cycle", 21, 10**5), epochs(7, "one_cycle", 3, 10)
    (120, 71, 7)
    >>> epochs("auto", "one_cycle", 4, 54 * 7129)
    51
    """
    if max_epochs != "auto":
        return int(max_epochs)
    if schedule == "constant":
        return _CONSTANT_EPOCHS
    wanted = min(_STEPS // n_batches, int(_VALUES / n_values))
    return min(max(wanted, _FEWEST_EPOCHS), _MOST_EPOCHS)


def weighted(values: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean of losses (…, t); a batch may hold only rows of zero weight, its loss is zero then."""
    total = weight.sum(-1)
    return (values * weight).sum(-1) / torch.where(total > 0, total, 1)
