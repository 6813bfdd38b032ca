"""From the parameters of a model and the rows of a fold to what trains its members, by the fastest way for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn.estimators._data import Data, Rows
from svnn.estimators._held_out import Fold
from svnn.estimators._shift import Shift, sampled_operator
from svnn.estimators.training import (
    LOSSES,
    Batch,
    CompiledTrainer,
    GraphTrainer,
    Loss,
    ModuleTrainer,
    Optimiser,
    Plan,
    Shifts,
    StackedTrainer,
    Trainer,
    fits,
    has_kernel,
    noise_generators,
)
from svnn.nn import SVNN, CovarianceFilter, ShiftedSignals
from svnn.nn._shifted import PowerSignals, SpectralSignals

#: Bytes of the first layer's shifted signals up to which they are computed once for all epochs.
_CACHE_BYTES = 2**30
#: The decay of the moving average of the weights, which is validated and kept, with one cycle of the learning rate.
_AVERAGING = 0.99
#: Values per node, after shifting, up to which they are made uncorrelated.
_MOST_WHITENED = 64
#: A network on shifted signals multiplies (K + 1) F values of every node, one in the eigenbasis F + N. Up to this
#: multiple the compiled training of the former is faster than torch's of the latter. With 8 members, 12 filters, 640
#: samples and K = 5, an epoch in the eigenbasis takes 1.3 of its time for 68 nodes of 20 values (a multiple of 1.4),
#: the same for 45 of 32 (2.5) and 23 of 32 (3.5), 0.7 for 23 of 64 (4.4), 0.34 for 23 of 128 (5.1); one core of an x86
#: server.
_MOST_COMPILED = 3


def loss_of(model: Any) -> Loss:
    """Return the loss of every sample: of numbers the model's ``loss``, of labels the cross-entropy."""
    if not hasattr(model, "loss"):
        return partial(nn.functional.cross_entropy, reduction="none")
    values = LOSSES[model.loss]
    return lambda output, y: values(output, y).mean(-1)


def optimiser_of(model: Any) -> Optimiser:
    """Return Adam with the model's weight decay; one cycle also averages the weights."""
    return Optimiser(float(model.weight_decay), _AVERAGING if model.schedule == "one_cycle" else 0.0)


def batch_of(rows: Rows, device: torch.device) -> Batch:
    """Return rows for training: on the device if they fit there, else in memory, to be moved batch by batch."""
    home = device if fits(device, 4 * rows.signals.size) else torch.device("cpu")
    return Batch(
        torch.as_tensor(rows.signals, dtype=torch.float32, device=home),
        torch.as_tensor(rows.targets, dtype=torch.int64 if rows.targets.ndim == 1 else torch.float32, device=home),
        torch.as_tensor(rows.weight, dtype=torch.float32, device=home),
    )


def batches(data: Data, make: Callable[[Rows], Batch]) -> tuple[Batch, Batch | None]:
    """Return the rows to train on, and those held out, which have no weight among the former."""
    batch = make(data.training)
    if data.folds:
        (fold,) = data.folds
        rows = torch.from_numpy(fold).to(batch.y.device)
        held = batch[rows]
        batch.weight = batch.weight.clone()
        batch.weight[rows] = 0
        return batch, held
    return batch, None if data.held_out is None else make(data.held_out)


@dataclass(frozen=True)
class MemberTrainer:
    """A trainer of networks, and what its signals were multiplied with.

    With ``whitening`` T the first layer's filters are those of T z in place of the powers z; ``rest`` is the part of
    each network's known weights that T z does not show.
    """

    trainer: Trainer
    networks: list[SVNN]
    whitening: Tensor | None
    rest: list[Tensor] | None

    @torch.no_grad()
    def give_powers(self) -> None:
        """Give the networks the filters of powers of the covariance."""
        if self.whitening is None:
            return
        for i, network in enumerate(self.networks):
            weight = cast(CovarianceFilter, network.filters[0]).weight
            flat = self.whitening.to(weight.device).T @ weight.flatten(0, 1).double()
            if self.rest is not None:
                flat = flat + self.rest[i].to(flat)
            weight.copy_(flat.view(weight.shape))


def member_trainer(
    model: Any,
    networks: list[SVNN],
    fold: Fold,
    draws: torch.Generator,
    rng: np.random.Generator,
    *,
    known: bool = False,
    n_folds: int = 1,
) -> MemberTrainer:
    """Return what trains the members of a fold: those of one layer on known signals, faster than by modules.

    ``known`` networks have filters of powers of the covariance already, random ones are of any signals.
    """
    n_values, order = fold.data.n_values, networks[0].order
    device = next(networks[0].parameters()).device
    possible = Plan.of(networks[0], fold.data.training.signals.shape[1])
    by_kernel = (
        possible is not None
        and possible.n_inputs <= _MOST_COMPILED * (n_values + possible.n_nodes)
        and has_kernel(possible, device)
    )
    whitened = model.schedule == "one_cycle" and (order + 1) * n_values <= _MOST_WHITENED
    cached = (model.resample == "fixed" or not order) and fold.shift.operator.device == device
    make = partial(
        _shifted_batch,
        shift=fold.shift,
        order=order,
        device=device,
        n_bytes=4 * (order + 1) * n_folds if cached else None,
        as_powers=whitened or by_kernel,
    )
    batch, validation = batches(fold.data, make)
    whitening: Tensor | None = None
    rest: list[Tensor] | None = None
    if whitened and isinstance(batch.x, PowerSignals):
        counting = batch.x[batch.weight > 0]
        whitening = counting.whitening()
        if known:
            rest = _into_whitened(networks, counting, whitening)
        for part in (batch, validation):
            if part is not None:
                part.x = cast(PowerSignals, part.x).transformed(whitening)

    alone, optimiser, loss = int(model.members) == 1, optimiser_of(model), loss_of(model)
    trainer: Trainer
    stackable = PowerSignals if device.type == "cuda" else (PowerSignals, SpectralSignals)
    if possible is None or not isinstance(batch.x, stackable):
        noise = noise_generators(len(networks), draws, device, alone)
        modules = cast("list[nn.Module]", networks)
        trainer = ModuleTrainer(
            modules, loss, batch, validation, _shifts(model, fold.shift, order, rng), optimiser, noise
        )
    else:
        noise = noise_generators(len(networks), draws, torch.device("cpu"), alone)
        compiled = isinstance(batch.x, PowerSignals) and has_kernel(possible, device)
        kind = GraphTrainer if device.type == "cuda" else CompiledTrainer if compiled else StackedTrainer
        trainer = kind(networks, possible, loss, batch, validation, optimiser, noise)
        if isinstance(trainer, CompiledTrainer):
            trainer.prepare(getattr(model, "loss", "cross_entropy"))
    return MemberTrainer(trainer, networks, whitening, rest)


def _shifted_batch(
    rows: Rows, *, shift: Shift, order: int, device: torch.device, n_bytes: int | None, as_powers: bool
) -> Batch:
    """Return rows for training, shifted once for all epochs where the covariance is fixed and memory allows it."""
    batch = batch_of(rows, device)
    if rows.matrices is not None:
        batch.shift = rows.matrices.operator(shift.scale, torch.float32, device)
    size = None if n_bytes is None else n_bytes * rows.signals.size
    if size is None or size > _CACHE_BYTES or batch.y.device != device or not fits(device, 2 * size):
        return batch
    own = (shift.operator if batch.shift is None else batch.shift) if order else None
    x = cast(Tensor, batch.x)
    if not as_powers:
        return Batch(ShiftedSignals.of(x, own, order), batch.y, batch.weight, batch.shift)
    signals = PowerSignals.from_shift(x, own, order)
    signals.scale = None if own is None else own.scale
    return Batch(signals, batch.y, batch.weight, batch.shift)


def _shifts(model: Any, shift: Shift, order: int, rng: np.random.Generator) -> Shifts:
    """Return the shifts of the forward passes in training."""
    if not order:
        return Shifts(None)
    return Shifts(shift.operator, model.resample, partial(sampled_operator, shift, rng), order * len(model.hidden))


@torch.no_grad()
def _into_whitened(networks: list[SVNN], signals: PowerSignals, T: Tensor) -> list[Tensor]:
    """Give networks the filters W' of T z that do what their filters W of z did; return what T z does not show of W.

    With G the mean of z z' that T whitens, T G T' = 1 and W' = T G W.
    """
    flat = signals.powers[..., :-1].flatten(0, 1).double()
    gram = (flat.T @ flat / max(len(flat), 1)).cpu()
    rest = []
    for network in networks:
        weight = cast(CovarianceFilter, network.filters[0]).weight
        before = weight.flatten(0, 1).double().cpu()
        weight.copy_((T @ (gram @ before)).view(weight.shape))
        rest.append(before - T.T @ weight.flatten(0, 1).double().cpu())
    return rest
