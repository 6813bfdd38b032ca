"""The training of members: networks of one shape, each with its own weights, held-out rows and best epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from svnn.estimators._data import Data
from svnn.estimators._fingerprint import fingerprint
from svnn.estimators._held_out import Fold, HeldOut, all_rows, best_constant, held_out_outputs, rescale, trusted_share
from svnn.estimators._history import History
from svnn.estimators._progress_bar import progress_bar
from svnn.estimators._shift import Shift, learn_shift_without
from svnn.estimators._trainers import MemberTrainer, loss_of, member_trainer
from svnn.estimators.training import Recorded, Trainer, TrainerGroup, Training, new_network, train
from svnn.nn import SVNN

#: Sets of rows that are held out by different members, at most: each needs its own covariance.
_MOST_FOLDS = 4
#: The epochs with all rows, relative to those before.
_REFINING = 0.3
#: Outputs for held-out rows that are recorded in every epoch. Where they would be more, the rows are many, and the
#: choice of an epoch by them hardly flatters a network.
_MOST_RECORDED = 2**24


@dataclass(frozen=True)
class Networks:
    """Trained members, the losses of their training, and what they predict for rows that they have not seen."""

    members: list[SVNN]
    history: History
    held_out: HeldOut | None


def n_folds(model: Any) -> int:
    """Return how many sets of rows members hold out, at most; 0 where a single network holds out one."""
    return 0 if int(model.members) == 1 else min(int(model.members), _MOST_FOLDS)


def train_members(
    model: Any, data: Data, shift: Shift, *, seed: int, rng: np.random.Generator, start: Sequence[SVNN] = ()
) -> Networks:
    """Train the members of a model, each without the rows that it holds out, and then with all rows.

    ``start`` holds the networks to start from, in place of random ones. ``rng`` draws the realisations of a stochastic
    covariance.
    """
    device = shift.operator.device
    order = filter_order(model, shift.use)
    draws = torch.Generator().manual_seed(seed + (order == 0))  # members without edges have other weights
    networks = [each.to(device) for each in start] or [
        new_network(lambda: build_svnn(model, data, order), draws, device) for _ in range(int(model.members))
    ]
    folds = _folds(model, data, shift, seed, device)
    shares = np.array_split(np.arange(len(networks)), len(folds))
    trainers = [
        member_trainer(model, [networks[i] for i in own], fold, draws, rng, known=bool(start), n_folds=len(folds))
        for own, fold in zip(shares, folds, strict=True)
    ]
    training = Training.of(model, len(data.training.signals), data.training.signals.size)
    together = _together(trainers, model, data, training)
    with progress_bar(type(model).__name__, training, model.verbose) as shown:
        losses = train(
            together,
            len(data.training.signals),
            shown,
            draws,
            rng=rng,
            identity=lambda: fingerprint(model, data, networks),
        )
    history = History(losses)

    held = held_out_outputs([each.trainer for each in trainers], folds, data)  # of the networks as they were trained
    if held is not None and isinstance(together, Recorded):
        outputs = together.cross_fitted(torch.as_tensor(held.targets), held.weight, loss_of(model))
        held = held._replace(outputs=outputs)
    for each, fold in zip(trainers, folds, strict=True):
        each.give_powers()
        for network in each.networks:
            rescale(network, fold.units.scale, fold.units.mean)
    share = _share(model, data, held)
    if share and data.folds:
        _refine(model, networks, data, shift, training, history, draws)
    constant = best_constant(all_rows(data), data.targets)
    for network in networks:
        rescale(network, share, (1 - share) * constant)
    training.end()
    return Networks(networks, history, None if held is None else held.shrunk(share))


def _folds(model: Any, data: Data, shift: Shift, seed: int, device: torch.device) -> list[Fold]:
    """Return what the members that hold out the same rows learn from, for each set of such rows."""
    if not data.folds:
        return [Fold(data, shift)]
    parts = [data.without(rows, bool(model.standardize)) for rows in data.folds]
    return [Fold(part, learn_shift_without(model, part, shift, seed, device)) for part in parts]


def _together(trainers: list[MemberTrainer], model: Any, data: Data, training: Training) -> Trainer:
    """Return one trainer of all members."""
    if len(trainers) > 1:
        return TrainerGroup([each.trainer for each in trainers], alike=True)
    trainer = trainers[0].trainer
    if trainer.n_members > 1 or not model.shrink or data.held_out is None or data.callers_rows:
        return trainer
    n_values = len(data.held_out.targets) * data.targets.n_outputs * training.max_epochs
    return Recorded(trainer) if n_values <= _MOST_RECORDED else trainer


def _share(model: Any, data: Data, held: HeldOut | None) -> float:
    """Return how much of their outputs the members keep; a constant is the rest."""
    if not model.shrink or data.callers_rows:
        return 1.0
    if held is None:  # where rows were to be held out but are too few, nothing shows that a network has learned
        return 0.0 if model.validation_fraction > 0 else 1.0
    return trusted_share(held, loss_of(model))


def _refine(
    model: Any,
    networks: list[SVNN],
    data: Data,
    shift: Shift,
    training: Training,
    history: History,
    draws: torch.Generator,
) -> None:
    """Train members that held out rows on all of them, for a share of the epochs that they took so far."""
    everything = Fold(replace(data, folds=(), held_out=None), shift)
    n_epochs = max(round(_REFINING * float(np.mean(history["best_epoch"]))), 1)
    rng = np.random.default_rng(draws.initial_seed())
    trainer = member_trainer(model, networks, everything, draws, rng, known=True)
    more = replace(training, max_epochs=n_epochs, callbacks=())
    train(trainer.trainer, len(data.training.signals), more, draws)
    trainer.give_powers()


# -- networks -------------------------------------------------------------------------------------


def filter_order(model: Any, use: str) -> int:
    """Return K, also where ``order="auto"``."""
    if model.order != "auto":
        return int(model.order)
    return 5 if use == "log" else 2


def build_svnn(model: Any, data: Any, order: int) -> SVNN:
    """Return a network for the signals and targets of ``data``, as the parameters of a model ask for it."""
    n_outputs, n_nodes = data.targets.n_outputs, data.n_nodes
    heads = model.heads
    if heads == "auto":
        heads = min(max(2 * n_outputs, 8) if data.targets.are_labels else max(n_outputs, 4), 32)
    return SVNN(
        data.n_values,
        n_outputs,
        hidden=[int(size) for size in model.hidden],
        order=order,
        activation=model.activation,
        dropout=float(model.dropout),
        batch_norm=bool(model.batch_norm),
        readout=model.readout,
        heads=int(heads) if model.readout == "weighted" else 1,
        n_nodes=n_nodes,
        mlp=[int(size) for size in model.mlp],
        node_dropout=float(model.node_dropout),
    )


def warm_networks(model: Any, trained: Sequence[SVNN], data: Any, order: int) -> list[SVNN]:
    """Return copies of trained members to start from, or an error where the parameters ask for other ones."""
    if len(trained) != int(model.members):
        raise ValueError(
            f"the last fit has {len(trained)} networks, members={model.members} asks for others; use the same members, "
            "or warm_start=False."
        )
    device = next(trained[0].parameters()).device
    found = []
    for old in trained:
        new = new_network(lambda: build_svnn(model, data, order), torch.Generator(), device)
        state, expected = old.state_dict(), new.state_dict()
        for name in sorted(expected.keys() | state.keys()):
            here, there = (tuple(each[name].shape) if name in each else None for each in (expected, state))
            if here != there:
                raise ValueError(
                    f"the network of the last fit has {name} of shape {there}, the parameters now ask for {here}; "
                    "use the parameters and the data that it was fitted with, or fit with warm_start=False."
                )
        new.load_state_dict(state)
        found.append(new)
    return found
