"""How the members of a covariance network are trained: in teams of one order each, by the fastest way for each team."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from itertools import groupby
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn._parameters import declared, fitted
from svnn.estimators._blend import Linear, class_weights, discriminants, number_weights, ridge, sharpness, strongest
from svnn.estimators._covariance_parameters import FilterParameters, GivenCovariance, GoingOnParameters
from svnn.estimators._folds import (
    SHARES,
    Fold,
    HeldOut,
    Shift,
    all_rows,
    best_constant,
    dealt,
    held_out,
    last_layer,
    shrink,
    trusted_share,
)
from svnn.estimators._network_estimator import NetworkEstimator, new_network, noise_generators
from svnn.estimators._shared_parameters import PooledNodes
from svnn.estimators._training_data import Rows, TrainingData
from svnn.estimators.training import (
    Batch,
    CompiledTrainer,
    GraphTrainer,
    ModuleTrainer,
    Plan,
    Recorded,
    Shifts,
    StackedTrainer,
    Teams,
    Trainer,
    fits,
    has_kernel,
)
from svnn.nn import SVNN, CovarianceFilter, Members, ShiftedSignals
from svnn.nn._shifted import PowerSignals, SpectralSignals
from svnn.operators import CovarianceOperator

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
_FEWEST_HELD_OUT = 4
#: Held-out rows whose word on the linear model counts half.
_DOUBT = 10
#: The epochs with all rows, relative to those before.
_REFINING = 0.3
#: Outputs for held-out rows that are recorded in every epoch. Where they would be more, the rows are many, and the
#: choice of an epoch by them hardly flatters a network.
_MOST_RECORDED = 2**24
#: Sets of rows that are held out by different members, at most: each needs its own covariance.
_MOST_FOLDS = 4


@declared
class MemberTraining(GivenCovariance, FilterParameters, PooledNodes, GoingOnParameters, NetworkEstimator):
    """The training of members, and what each of them counts in the end."""

    blend_: dict[str, float] = fitted(
        kind="dict",
        doc="""How much the parts count in a prediction: members "with edges", members "without edges" and the "linear"
        model, as far as there are any. The weights add up to 1. Members that held-out rows trust only in part give the
        rest of their weight to a constant.""",
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
        held = [data.training.weight[rows] for rows in data.folds]
        if data.held_out is not None:
            held = [data.held_out.weight]
        enough = sum(int((weight > 0).sum()) for weight in held) >= _FEWEST_HELD_OUT
        return self._may_blend() and (enough or self._too_few(data))

    def _too_few(self, data: TrainingData) -> bool:
        """Return whether rows were to be held out, but are too few: nothing would show that a network has learned."""
        return self.validation_fraction > 0 and data.held_out is None and not data.folds

    @property
    def _most_folds(self) -> int:
        return min(max(self._n_members // (2 if self._may_blend() else 1), 1), _MOST_FOLDS)

    def _folds(self, data: TrainingData, seed: int, device: torch.device) -> list[Fold]:
        if not data.folds:
            return [Fold(data, self._present_shift)]
        found = []
        for rows in data.folds:
            part = data.without(rows, bool(self.standardize))
            shift = self._present_shift
            if shift.estimator is not None:
                kept = np.setdiff1d(np.arange(len(part.given_targets)), rows)
                weight = None if part.given_weight is None else part.given_weight[kept]
                shift = self._learn_shift(part.training.signals[kept], weight, part.given_targets[kept], seed, device)
            found.append(Fold(part, shift))
        return found

    @property
    @abstractmethod
    def _present_shift(self) -> Shift:
        """What the fitted filters are polynomials of."""

    @abstractmethod
    def _learn_shift(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray | None, seed: int, device: torch.device
    ) -> Shift:
        """Return the covariance of standardised signals as what filters are polynomials of."""

    @abstractmethod
    def _shifts_of(self, shift: Shift, rng: np.random.Generator) -> Shifts:
        """Return the shifts to train with."""

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
        self, networks: list[nn.Module], folds: list[Fold], draws: torch.Generator, rng: np.random.Generator
    ) -> Trainer:
        teams, orders = [], []
        for own, fold in dealt(cast("list[SVNN]", networks), folds):
            teams.append(self._team_trainer(own, fold, draws, rng, self._starts_known))
            orders.append(own[0].order)
        if len(teams) > 1:
            return Teams(teams, orders)
        (trainer,), data = teams, folds[0].data
        if self._n_members > 1 or not self.blend or data.held_out is None or data.callers_rows:
            return trainer
        n_values = data.held_out.targets.shape[0] * self._targets.n_outputs * self._n_epochs(data)
        return Recorded(trainer) if n_values <= _MOST_RECORDED else trainer

    @property
    def _starts_known(self) -> bool:
        """Whether a fit starts from weights of an earlier one."""
        return False

    def _team_trainer(
        self,
        networks: list[SVNN],
        fold: Fold,
        draws: torch.Generator,
        rng: np.random.Generator,
        known: bool = False,
    ) -> Trainer:
        """Return what trains networks of one order: for those of one layer on known signals, faster than by modules.

        ``known`` networks have filters of powers of the covariance already, random ones are of any signals.
        """
        assert fold.shift is not None
        device, order = next(networks[0].parameters()).device, networks[0].order
        possible = Plan.of(networks[0], self.n_features_in_)
        by_kernel = (
            possible is not None
            and possible.n_inputs <= _MOST_COMPILED * (self._n_values + possible.n_nodes)
            and has_kernel(possible, device)
        )
        make = partial(self._shifted_batch, operator=fold.shift.operator, order=order, by_kernel=by_kernel)
        batch, validation = self._batches(fold.data, device, len(networks), make)
        whitening: Tensor | None = None
        rest: list[Tensor] | None = None
        whitened = self.basis == "orthonormal" and (order + 1) * self._n_values <= _MOST_WHITENED
        if whitened and isinstance(batch.x, PowerSignals):
            counting = batch.x[batch.weight.amax(0) > 0]
            whitening = counting.whitening()
            if known:
                rest = into_whitened(networks, counting, whitening)
            same = validation is not None and validation.data.x is batch.x
            batch.x = batch.x.transformed(whitening)
            if validation is not None:
                validation.data.x = batch.x if same else cast(PowerSignals, validation.data.x).transformed(whitening)
        trainer: Trainer
        stackable = PowerSignals if device.type == "cuda" else (PowerSignals, SpectralSignals)
        if possible is None or not isinstance(batch.x, stackable):
            shifts = self._shifts_of(fold.shift, rng) if order else Shifts(None)
            noise = noise_generators(len(networks), draws, device, self._n_members == 1)
            modules = cast("list[nn.Module]", networks)
            trainer = ModuleTrainer(modules, self._loss, batch, validation, shifts, self._optimiser, noise)
        else:
            noise = noise_generators(len(networks), draws, torch.device("cpu"), self._n_members == 1)
            known = isinstance(batch.x, PowerSignals) and has_kernel(possible, device)
            kernel = CompiledTrainer if known else StackedTrainer
            kind = GraphTrainer if device.type == "cuda" else kernel
            trainer = kind(networks, possible, self._loss, batch, validation, self._optimiser, noise)
            if isinstance(trainer, CompiledTrainer):
                trainer.prepare(getattr(self, "loss", "cross_entropy"))
        trainer.whitening, trainer.rest = whitening, rest
        return trainer

    def _shifted_batch(
        self, rows: Rows, device: torch.device, operator: CovarianceOperator, order: int, by_kernel: bool
    ) -> Batch:
        """Return rows for training, shifted once for all epochs where the covariance is fixed and memory allows it."""
        batch = self._batch(rows, device)
        size = 4 * rows.signals.size * (order + 1)
        redrawn = self.resample != "fixed" and order > 0
        if redrawn or size * self._most_folds > self.cache_bytes or batch.y.device != operator.device:
            return batch
        if not isinstance(batch.x, Tensor) or not fits(device, 2 * size * self._most_folds):
            return batch
        plain = self.basis == "powers" or (order + 1) * batch.x.shape[2] > _MOST_WHITENED
        own = (operator if batch.shift is None else batch.shift) if order else None
        if plain and not by_kernel:
            return Batch(ShiftedSignals.of(batch.x, own, order), batch.y, batch.weight, batch.shift)
        signals = PowerSignals.from_shift(batch.x, own, order)
        signals.scale = None if own is None else own.scale
        return Batch(signals, batch.y, batch.weight, batch.shift)

    # -- what was trained --------------------------------------------------------------------------

    def _finish(
        self,
        networks: list[nn.Module],
        trainer: Trainer,
        data: TrainingData,
        folds: list[Fold],
        draws: torch.Generator,
    ) -> None:
        """Take over the trained networks, with filters of powers of the covariance, and weigh the parts."""
        teams = list(trainer.teams) if isinstance(trainer, Teams) else [trainer]
        held = held_out(teams, data, folds)  # of the networks as they were trained, for signals as they were then
        if held is not None and isinstance(trainer, Recorded):
            outputs = trainer.cross_fitted(torch.as_tensor(held.targets), held.weight, self._loss)
            held = held._replace(outputs=outputs[None])
        shares = self._trusted_shares(held, data)
        if held is not None:
            held = held.shrunk(shares)
        members: list[SVNN] = []
        for team, (own, fold) in zip(teams, dealt(cast("list[SVNN]", networks), folds), strict=True):
            for i, network in enumerate(own):
                from_whitened(network, team, i)
                fold.give_units_of_fit(*last_layer(network))
                members.append(network)
        members = self._refined(members, shares, data, draws)
        members = [self._of_full_order(network) for network in members]
        sizes = self._teams(data)
        names = ["with edges" if order else "without edges" for order in sizes]
        linear: Linear | None = None
        if not self._blends(data):
            found, names = np.ones(1), names[:1]
        elif held is None:
            linear = self._linear_models(data.training, data.training.weight > 0)[-1]
            found = np.array([0.0] * len(names) + [1.0])
        else:
            linear, held = self._with_linear(held, data, folds)
            found = self._part_weights(held)
            if linear is not None:
                found = self._with_doubt(found, int((held.weight > 0).sum()))
        self.blend_ = dict(zip([*names, "linear"], found.tolist(), strict=False))
        if len(found) == 1:
            self.module_ = members[0] if len(members) == 1 else Members(members)
        else:
            weights = [w / n for w, n in zip(found.tolist(), sizes.values(), strict=False) for _ in range(n)]
            fixed = None
            if linear is not None:
                weights.append(float(found[-1]))
                fixed = torch.from_numpy(linear.weight), torch.from_numpy(linear.bias)
            self.module_ = Members(members, weights, fixed)
        self.module_ = self.module_.to(next(members[0].parameters()).device).eval()
        self._learn_noise(held, data)

    def _trusted_shares(self, held: HeldOut | None, data: TrainingData) -> np.ndarray:
        """Return how much of its members' outputs each order keeps; a constant is the rest."""
        n_orders = len(self._teams(data))
        if held is None and self._too_few(data):
            return np.full(n_orders, 0.0 if self.blend else 1.0)
        if held is None or data.callers_rows or not self.blend:
            return np.ones(n_orders)
        y = torch.as_tensor(held.targets)
        losses = [
            [self._loss(torch.from_numpy(outputs), y).numpy() for outputs in held.shrunk(np.full(n_orders, s)).outputs]
            for s in SHARES
        ]
        return np.array([trusted_share(own, held.weight) for own in zip(*losses, strict=True)])

    def _refined(
        self, members: list[SVNN], shares: np.ndarray, data: TrainingData, draws: torch.Generator
    ) -> list[SVNN]:
        """Return the members for all rows and their covariance.

        Members that held out rows of their own are trained on all of them for a share of the epochs that they took so
        far. Of each order only that share of the outputs counts which held-out rows trust.
        """
        everything = Fold(data._replace(folds=(), held_out=None), self._present_shift)
        constant = best_constant(all_rows(data), data.targets)
        found = list[SVNN]()
        for share, (_, group) in zip(shares.tolist(), groupby(members, lambda network: network.order), strict=True):
            own = list(group)
            if share and data.folds:
                epochs = self.history_["best_epoch"][len(found) : len(found) + len(own)]
                n_epochs = max(round(_REFINING * float(np.mean(epochs))), 1)
                trainer = self._team_trainer(own, everything, draws, np.random.default_rng(draws.initial_seed()), True)
                self._train(trainer, everything.data, n_epochs, draws)
                for i, network in enumerate(own):
                    from_whitened(network, trainer, i)
            for network in own:
                shrink(network, share, constant)
            found += own
        return found

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

    def _with_linear(self, held: HeldOut, data: TrainingData, folds: list[Fold]) -> tuple[Linear | None, HeldOut]:
        """Return a linear model of all training rows, and its outputs for held-out ones beside those of the teams."""
        Z = data.training.signals
        if min(len(Z), Z[0].size) > _MOST_LINEAR or Z.size > _MOST_LINEAR_VALUES:
            return None, held

        models = self._linear_models(data.training, data.training.weight > 0)
        parts = []
        for fold in folds:
            rows = fold.data.training
            if data.held_out is not None:
                parts.append([model(_flat(data.held_out.signals)) for model in models])
                continue
            (left_out,) = fold.data.folds
            used = rows.weight > 0
            used[left_out] = False
            others = self._linear_models(rows, used)
            parts.append([fold.in_units_of_fit(model(_flat(rows.signals[left_out]))) for model in others])
        outputs = [np.concatenate(part) for part in zip(*parts, strict=True)]
        if self._target_kind.are_labels:
            factors, surprises = zip(*(sharpness(own, held.targets, held.weight) for own in outputs), strict=True)
            best = strongest(surprises)
            linear = Linear(models[best].weight * factors[best], models[best].bias * factors[best])
            own = outputs[best] * factors[best]
        else:
            (linear,), (own,) = models, outputs
        return linear, held._replace(outputs=np.concatenate([held.outputs, own[None]]))

    def _linear_models(self, rows: Rows, used: np.ndarray) -> list[Linear]:
        """Return linear models of some of the rows, one or several to choose from."""
        Z, targets, weight = _flat(rows.signals[used]), rows.targets[used], rows.weight[used]
        if self._target_kind.are_labels:
            return discriminants(Z, targets, self._targets.n_outputs, weight)
        return [ridge(Z, targets, weight)]

    def _part_weights(self, held: HeldOut) -> np.ndarray:
        """Return how much the parts count, from their outputs for held-out rows."""
        if self._target_kind.are_labels:
            return class_weights(held.outputs, held.targets, held.weight)
        return number_weights(held.outputs, held.targets, held.weight, str(cast(Any, self).loss))

    def _with_doubt(self, found: np.ndarray, n_rows: int) -> np.ndarray:
        """Return weights of parts, the last one the linear model's: a few held-out rows do not outvote it."""
        trust = n_rows**2 / (n_rows**2 + _DOUBT**2)
        weights: np.ndarray = trust * found
        weights[-1] += 1 - trust
        return weights

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


def _flat(signals: np.ndarray) -> np.ndarray:
    return signals.reshape(len(signals), -1).astype(np.float64, copy=False)
