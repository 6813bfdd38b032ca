"""How the members of a covariance network are trained: in teams of one order each, by the fastest way for each team."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn._parameters import declared, fitted
from svnn.estimators._blend import Linear, class_weights, discriminants, number_weights, ridge, sharpness, strongest
from svnn.estimators._covariance_parameters import FilterParameters, GivenCovariance, GoingOnParameters
from svnn.estimators._network_estimator import NetworkEstimator, new_network, noise_generators
from svnn.estimators._shared_parameters import PooledNodes
from svnn.estimators._training_data import Rows, TrainingData
from svnn.estimators.training import (
    Batch,
    CompiledTrainer,
    GraphTrainer,
    ModuleTrainer,
    Plan,
    Shifts,
    StackedTrainer,
    Teams,
    Trainer,
    fits,
    has_kernel,
)
from svnn.nn import SVNN, CovarianceFilter, Members, ShiftedSignals
from svnn.nn._shifted import PowerSignals, SpectralSignals

#: Values per node, after shifting, up to which they are made uncorrelated.
_MOST_WHITENED = 64
#: A network on shifted signals multiplies (K + 1) F values of every node, one in the eigenbasis F + N. Up to this
#: multiple the compiled training of the former is faster than torch's of the latter. With 8 members, 12 filters, 640
#: samples and K = 5, an epoch in the eigenbasis takes 1.3 of its time for 68 nodes of 20 values (a multiple of 1.4),
#: the same for 45 of 32 (2.5) and 23 of 32 (3.5), 0.7 for 23 of 64 (4.4), 0.34 for 23 of 128 (5.1); one core of an x86
#: server.
_MOST_COMPILED = 3
#: Rows or features, whichever are fewer, and values of the table, up to which a linear model takes part: beyond, it
#: would take minutes, or gigabytes.
_MOST_LINEAR, _MOST_LINEAR_VALUES = 3000, 2**25
#: Held-out rows from which on they say how much the parts count.
_FEWEST_HELD_OUT = 20


@declared
class MemberTraining(GivenCovariance, FilterParameters, PooledNodes, GoingOnParameters, NetworkEstimator):
    """The training of members, and what each of them counts in the end."""

    blend_: dict[str, float] = fitted(
        kind="dict",
        doc="""How much the parts count in a prediction: members "with edges", members "without edges" and the "linear"
        model, as far as there are any. The weights add up to 1.""",
    )

    # -- teams: members of one order ---------------------------------------------------------------

    @property
    def _n_members(self) -> int:
        return int(self.members)

    @property
    def _order(self) -> int:
        """K, also where ``order="auto"``."""
        if self.order != "auto":
            return int(self.order)
        return 5 if self._as_trained("use") == "log" else 2

    def _as_trained(self, name: str) -> Any:
        """Return a parameter as it was in ``fit``, whatever ``set_params`` made of it since."""
        return getattr(self, "_trained_with", {}).get(name, getattr(self, name))

    def _may_blend(self) -> bool:
        """Say whether this network can be blended with others at all."""
        return bool(self.blend) and self._n_members > 1 and self.readout != "mean"

    def _teams(self, data: TrainingData) -> dict[int, int]:
        """Return the number of members of every order. Those without edges hold out the same rows as the others."""
        n = self._n_members
        if not self._blends(data) or self._order == 0:
            return {self._order: n}
        return {self._order: n - n // 2, 0: n // 2}

    def _blends(self, data: TrainingData) -> bool:
        """Say whether there are enough held-out rows to learn from how much each part counts."""
        held = [data.held_out.weight] if data.held_out is not None else []
        if data.folds is not None:
            used = data.folds if self._order == 0 else data.folds[: self._n_members // 2]  # those of the smaller team
            held = [data.training.weight[np.unique(np.concatenate(used))]]
        return self._may_blend() and sum(int((weight > 0).sum()) for weight in held) >= _FEWEST_HELD_OUT

    # -- networks and trainers ---------------------------------------------------------------------

    def _networks(self, data: TrainingData, draws: torch.Generator, device: torch.device) -> list[nn.Module]:
        shape = self._n_values, self._targets.n_outputs
        return [
            new_network(partial(self._build, *shape, order), draws, device)
            for order, size in self._teams(data).items()
            for _ in range(size)
        ]

    def _build(self, in_features: int, n_outputs: int, order: int | None = None) -> SVNN:
        return SVNN(
            in_features,
            n_outputs,
            hidden=[int(size) for size in self.hidden],
            order=self._order if order is None else order,
            activation=self.activation,
            dropout=float(self.dropout),
            batch_norm=bool(self.batch_norm),
            readout=self.readout,
            heads=self._n_heads(n_outputs) if self.readout == "weighted" else 1,
            n_nodes=self.n_features_in_,
            mlp=[int(size) for size in self.mlp],
            node_dropout=float(self.node_dropout),
        )

    def _trainer(
        self, networks: list[nn.Module], data: TrainingData, draws: torch.Generator, rng: np.random.Generator
    ) -> Trainer:
        teams, start = [], 0
        for size in self._teams(data).values():
            members = cast("list[SVNN]", networks[start : start + size])
            teams.append(self._team_trainer(members, data, draws, rng, self._starts_known))
            start += size
        return teams[0] if len(teams) == 1 else Teams(teams)

    @property
    def _starts_known(self) -> bool:
        """Whether a fit starts from weights of an earlier one."""
        return False

    def _team_trainer(
        self,
        networks: list[SVNN],
        data: TrainingData,
        draws: torch.Generator,
        rng: np.random.Generator,
        known: bool = False,
    ) -> Trainer:
        """Return what trains a team: for networks of one layer on known signals, a faster way than by modules.

        ``known`` networks have filters of powers of the covariance already, random ones are of any signals.
        """
        device, order = next(networks[0].parameters()).device, networks[0].order
        possible = Plan.of(networks[0], self.n_features_in_)
        by_kernel = (
            possible is not None
            and possible.n_inputs <= _MOST_COMPILED * (self._n_values + possible.n_nodes)
            and has_kernel(possible, device)
        )
        make = partial(self._shifted_batch, order=order, by_kernel=by_kernel)
        batch, validation = self._batches(data, device, len(networks), make)
        whitening: Tensor | None = None
        rest: list[Tensor] | None = None
        whitened = self.basis == "orthonormal" and (order + 1) * self._n_values <= _MOST_WHITENED
        if whitened and isinstance(batch.x, PowerSignals):
            whitening = batch.x[batch.weight.amax(0) > 0].whitening()  # of the rows that count
            if known:
                rest = into_whitened(networks, batch.x, whitening)
            same = validation is not None and validation.data.x is batch.x
            batch.x = batch.x.transformed(whitening)
            if validation is not None:
                validation.data.x = batch.x if same else cast(PowerSignals, validation.data.x).transformed(whitening)
        trainer: Trainer
        stackable = PowerSignals if device.type == "cuda" else (PowerSignals, SpectralSignals)
        if possible is None or not isinstance(batch.x, stackable):
            shifts = self._shifts(rng) if order else Shifts(None)
            noise = noise_generators(len(networks), draws, device)
            modules = cast("list[nn.Module]", networks)
            trainer = ModuleTrainer(modules, self._loss, batch, validation, shifts, self._optimiser, noise)
        else:
            noise = noise_generators(len(networks), draws, torch.device("cpu"))
            known = isinstance(batch.x, PowerSignals) and has_kernel(possible, device)
            kernel = CompiledTrainer if known else StackedTrainer
            kind = GraphTrainer if device.type == "cuda" else kernel
            trainer = kind(networks, possible, self._loss, batch, validation, self._optimiser, noise)
            if isinstance(trainer, CompiledTrainer):
                trainer.prepare(getattr(self, "loss", "cross_entropy"))
        trainer.whitening, trainer.rest = whitening, rest
        return trainer

    def _shifted_batch(self, rows: Rows, device: torch.device, order: int, by_kernel: bool) -> Batch:
        """Return rows for training, shifted once for all epochs where the covariance is fixed and memory allows it."""
        batch = self._batch(rows, device)
        size = 4 * rows.signals.size * (order + 1)
        redrawn = self.resample != "fixed" and order > 0
        if redrawn or size > self.cache_bytes or batch.y.device != self.operator_.device:
            return batch
        if not isinstance(batch.x, Tensor) or not fits(device, 2 * size):
            return batch
        plain = self.basis == "powers" or (order + 1) * batch.x.shape[2] > _MOST_WHITENED
        own = self.operator_ if batch.shift is None else batch.shift
        operator = own if order else None
        if plain and not by_kernel:
            return Batch(ShiftedSignals.of(batch.x, operator, order), batch.y, batch.weight, batch.shift)
        signals = PowerSignals.from_shift(batch.x, operator, order)
        signals.scale = None if operator is None else operator.scale
        return Batch(signals, batch.y, batch.weight, batch.shift)

    # -- what was trained --------------------------------------------------------------------------

    @torch.no_grad()
    def _finish(self, networks: list[nn.Module], trainer: Trainer, data: TrainingData) -> None:
        """Take over the trained networks, with filters of powers of the covariance, and weigh the parts."""
        teams = list(trainer.teams) if isinstance(trainer, Teams) else [trainer]
        held = held_out(teams, data)  # of the networks as they were trained, for signals as they were then
        members: list[SVNN] = []
        for team in teams:
            own = cast("list[SVNN]", networks[len(members) : len(members) + team.n_members])
            for i, network in enumerate(own):
                from_whitened(network, team, i)
            members += [self._of_full_order(network) for network in own]
        names = ["with edges" if order else "without edges" for order in self._teams(data)]
        if not self._blends(data):
            self.blend_ = {names[0]: 1.0}
            self.module_ = members[0] if len(members) == 1 else Members(members)
        else:
            assert held is not None
            linear, held = self._with_linear(held, data)
            found = self._part_weights(held)
            self.blend_ = dict(zip([*names, "linear"], found.tolist(), strict=False))
            sizes = [team.n_members for team in teams]
            weights = [weight / size for weight, size in zip(found, sizes, strict=False) for _ in range(size)]
            fixed = None
            if linear is not None:
                weights.append(float(found[-1]))
                fixed = torch.from_numpy(linear.weight), torch.from_numpy(linear.bias)
            self.module_ = Members(members, weights, fixed)
        self.module_ = self.module_.to(next(members[0].parameters()).device).eval()
        self._learn_noise(held, data)

    def _of_full_order(self, network: SVNN) -> SVNN:
        """Return a network without edges as one of order K whose filters do not shift."""
        if network.order == self._order:
            return network
        state = network.state_dict()
        for name, value in state.items():
            if name.startswith("filters.") and name.endswith(".weight"):
                state[name] = torch.cat([value, value.new_zeros(self._order, *value.shape[1:])])
        with torch.device("meta"):
            full = self._build(self._n_values, self._targets.n_outputs)
        full.load_state_dict(state, assign=True)
        return full.eval()

    def _with_linear(self, held: HeldOut, data: TrainingData) -> tuple[Linear | None, HeldOut]:
        """Return a linear model of all training rows, and its outputs for held-out ones beside those of the teams."""
        rows = data.training
        Z = rows.signals.reshape(len(rows.signals), -1)
        if min(Z.shape) > _MOST_LINEAR or Z.size > _MOST_LINEAR_VALUES:
            return None, held
        Z = Z.astype(np.float64, copy=False)
        kept = rows.weight > 0

        def fit(used: np.ndarray) -> list[Linear]:
            return self._linear_models(Z[used], rows.targets[used], rows.weight[used])

        models = fit(kept)
        if data.held_out is not None:
            unseen = data.held_out.signals.reshape(len(data.held_out.signals), -1)
            outputs = [model(unseen) for model in models]
        else:
            parts = []
            for fold in held.folds:
                used = kept.copy()
                used[fold] = False
                parts.append([model(Z[fold]) for model in fit(used)])
            outputs = [np.concatenate(part) for part in zip(*parts, strict=True)]
        if self._target_kind.are_labels:
            factors, surprises = zip(*(sharpness(own, held.targets, held.weight) for own in outputs), strict=True)
            best = strongest(surprises)
            linear = Linear(models[best].weight * factors[best], models[best].bias * factors[best])
            own = outputs[best] * factors[best]
        else:
            (linear,), (own,) = models, outputs
        return linear, held._replace(outputs=np.concatenate([held.outputs, own[None]]))

    def _linear_models(self, Z: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> list[Linear]:
        """Return linear models of a table, one or several to choose from."""
        if self._target_kind.are_labels:
            return discriminants(Z, targets, self._targets.n_outputs, weight)
        return [ridge(Z, targets, weight)]

    def _part_weights(self, held: HeldOut) -> np.ndarray:
        """Return how much the parts count, from their outputs for held-out rows."""
        if self._target_kind.are_labels:
            return class_weights(held.outputs, held.targets, held.weight)
        return number_weights(held.outputs, held.targets, held.weight, str(cast(Any, self).loss))

    def _learn_noise(self, held: HeldOut | None, data: TrainingData) -> None:
        """Learn from held-out rows how far predictions are off; for classes the probabilities say so."""


@torch.no_grad()
def into_whitened(networks: list[SVNN], signals: PowerSignals, T: Tensor) -> list[Tensor]:
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


@torch.no_grad()
def from_whitened(network: SVNN, trainer: Trainer, member: int) -> None:
    """Give a member of a trainer the filters of powers of the covariance."""
    if trainer.whitening is None:
        return
    weight = cast(CovarianceFilter, network.filters[0]).weight
    flat = trainer.whitening.to(weight.device).T @ weight.flatten(0, 1).double()
    if trainer.rest is not None:
        flat = flat + trainer.rest[member].to(flat)
    weight.copy_(flat.view(weight.shape))


class HeldOut(NamedTuple):
    """Outputs of every part for rows that it has not seen, of shape (parts, n, n_outputs), and what is known of them.

    ``folds`` are the rows in the training data, fold by fold; empty where there is a table of its own for validation.
    """

    outputs: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    folds: list[np.ndarray]


def held_out(teams: list[Trainer], data: TrainingData) -> HeldOut | None:
    """Return the outputs of teams for rows that they have not seen, or None where no rows are held out.

    Where members hold out rows of their own, a row's output is that of the member that held it out; where all watch
    the same rows, it is their mean.
    """
    if data.held_out is not None:
        found = [np.mean([_numbers(team.held_out(m)[0]) for m in range(team.n_members)], 0) for team in teams]
        return HeldOut(np.array(found), data.held_out.targets, data.held_out.weight, [])
    if data.folds is None:
        return None
    n = min(len(data.folds), *(team.n_members for team in teams))
    found = [np.concatenate([_numbers(team.held_out(m)[0]) for m in range(n)]) for team in teams]
    rows = np.concatenate(data.folds[:n])
    return HeldOut(np.array(found), data.training.targets[rows], data.training.weight[rows], data.folds[:n])


def _numbers(output: Tensor) -> np.ndarray:
    return output.double().cpu().numpy()
