"""How a fitted network goes on when new rows come: its covariance is updated, and its weights with a few epochs."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, Self, cast

import numpy as np
import torch
from sklearn.utils.validation import check_consistent_length
from torch import nn

from svnn._types import ColumnLike, DataLike, HasCovariance, HasFit
from svnn.covariance._resolve import resolve
from svnn.covariance._running_moments import Totals, decaying
from svnn.estimators._carried_filters import carry, shift_change
from svnn.estimators._folds import Fold, last_layer
from svnn.estimators._history import History
from svnn.estimators._linear_update import updated_linear
from svnn.estimators._member_training import MemberTraining, from_whitened
from svnn.estimators._network_estimator import new_network
from svnn.estimators._training_data import (
    SINGLE,
    Given,
    Rows,
    TrainingData,
    check_range,
    check_sample_weight,
    check_targets,
    relative,
    with_class_weight,
)
from svnn.estimators.training import Teams, Trainer, batch_rows, constant, train
from svnn.functional._array import generator
from svnn.nn import SVNN, Members


class GoingOn(MemberTraining):
    """What networks do when rows come after a fit, or when a fit starts from an earlier one."""

    def _go_on(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None,
        validation_data: tuple[DataLike, ColumnLike] | None,
        classes: ColumnLike | None = None,
    ) -> Self:
        """Fit where nothing was fitted before; otherwise go on from what was."""
        if hasattr(self, "module_"):
            return self._fit_more(X, y, sample_weight, validation_data)
        self._check_parameters()
        if self.shift is None:
            can_go_on(resolve(self.covariance))
        self._fit_anew(Given(X, y, sample_weight, validation_data, classes=classes))
        if classes is not None:
            unseen = np.setdiff1d(self.classes_, check_targets(y, are_labels=True))
            self._trained_with["unseen"] = np.searchsorted(self.classes_, unseen).tolist()
        return self

    def _fit_more(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None,
        validation_data: tuple[DataLike, ColumnLike] | None,
    ) -> Self:
        self._check_parameters()
        self._of_one_covariance("partial_fit")
        rng = generator(self.random_state)
        draws = torch.Generator().manual_seed(int(rng.integers(2**31)))
        data = self._more_data(X, y, sample_weight, validation_data)
        before, shift = getattr(self.covariance_estimator_, "_totals_", None), self.operator_
        self._update_structure(data.training.signals, data.given_weight)
        teams = self._known_teams()
        networks = self._known_networks(teams)
        if before is not None:
            after = cast(Any, self.covariance_estimator_)._totals_
            second = np.asarray(after.covariance, dtype=np.float64) + np.outer(after.location, after.location)
            for order in teams.keys() - {0}:
                change = torch.from_numpy(shift_change(shift, self.operator_, second, order))
                for network in networks:
                    if network.order == order:
                        carry(network, change)
        newcomers = self._newcomers(data)
        for network in networks:
            make_likely(*newcomers, *last_layer(network))
        trainers, start = [], 0
        for size in teams.values():
            own = networks[start : start + size]
            trainers.append(self._team_trainer(own, Fold(data, self._present_shift), draws, rng, known=True))
            start += size
        trainer: Trainer = trainers[0] if len(trainers) == 1 else Teams(trainers)
        n_rows = len(data.training.signals)
        losses = train(
            trainer,
            n_rows,
            lr=float(self.partial_lr),
            schedule=constant,
            max_epochs=int(self.partial_epochs),
            patience=None,
            batch_size=batch_rows(self.batch_size, n_rows),
            callbacks=self.callbacks,
            generator=draws,
        )
        self.history_, self.n_iter_ = History(losses), len(losses["train_loss"])
        self._take_more(networks, trainers, data, before, newcomers)
        return self

    def _newcomers(self, data: TrainingData) -> tuple[list[int], list[int]]:
        """Return the classes named in the first call that have their first rows now, and those that had rows before."""
        trained_with: dict[str, Any] = getattr(self, "_trained_with", {})
        unseen = trained_with.get("unseen", [])
        found = [k for k in unseen if bool(((data.training.targets == k) & (data.training.weight > 0)).any())]
        if found:
            self._trained_with = {**trained_with, "unseen": [k for k in unseen if k not in found]}
        return found, [k for k in range(self._targets.n_outputs) if k not in unseen]

    def _more_data(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None,
        validation_data: tuple[DataLike, ColumnLike] | None,
    ) -> TrainingData:
        """Check new rows, and standardise them as those of ``fit`` were."""
        labels = self._target_kind.are_labels
        signals, given = self._signals(X), check_targets(y, labels)
        check_consistent_length(signals, given)
        share = relative(check_sample_weight(sample_weight, len(signals)))
        Z, codes = self._standardizer(signals), self._targets.encode(given, "y")
        check_range(Z[share > 0], "X", *SINGLE)
        check_range(codes[share > 0], "y", *SINGLE)
        validation = None
        if validation_data is not None:
            validation = self._validation_rows(validation_data, signals.shape[2], self._standardizer, self._targets)
        class_weight = getattr(self, "class_weight", None)
        in_loss = share if class_weight is None else with_class_weight(share, class_weight, given)
        weight = None if sample_weight is None else share
        return TrainingData(Rows(Z, codes, in_loss), validation, self._standardizer, self._targets, given, weight)

    def _of_one_covariance(self, what: str) -> None:
        """Raise an error where rows have covariances of their own, which ``what`` does not know about."""

    @abstractmethod
    def _update_structure(self, Z: np.ndarray, weight: np.ndarray | None) -> None:
        """Add standardised signals to the covariance, and make it the shift, divided by the number of ``fit``."""

    # -- fit from the weights of an earlier one ------------------------------------------------------

    @property
    def _kept_by_fit(self) -> tuple[str, ...]:
        """The attributes of an earlier fit that ``fit`` starts from."""
        return ("module_", "blend_") if self.warm_start else ()

    @property
    def _starts_known(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "module_")

    def _networks(self, data: TrainingData, draws: torch.Generator, device: torch.device) -> list[nn.Module]:
        if not self._starts_known:
            return super()._networks(data, draws, device)
        return [network.to(device) for network in self._known_networks(self._teams(data))]

    # -- networks that are trained already ---------------------------------------------------------

    def _known_teams(self) -> dict[int, int]:
        """Return the number of members of every order, as they were trained."""
        names, n = [name for name in self.blend_ if name != "linear"], len(networks_of(self.module_))
        orders = [self._order if name == "with edges" else 0 for name in names]
        return {orders[0]: n} if len(orders) == 1 else {orders[0]: n - n // 2, orders[1]: n // 2}

    def _known_networks(self, teams: dict[int, int]) -> list[SVNN]:
        """Return copies of the trained members, those without edges of order 0, or say why they do not fit."""
        trained = networks_of(self.module_)
        if self._known_teams() != teams:
            before, now = (
                ", ".join(f"{n} of order {k}" for k, n in each.items()) for each in (self._known_teams(), teams)
            )
            raise ValueError(
                f"the networks of the last fit ({before}) are not those of this one ({now}); use the same members, "
                "order, use and blend, or warm_start=False."
            )
        device = next(self.module_.parameters()).device
        shape, orders = (self._n_values, self._targets.n_outputs), [k for k, n in teams.items() for _ in range(n)]
        found = []
        for order, old in zip(orders, trained, strict=True):
            new = cast(SVNN, new_network(partial(self._build, *shape, order), torch.Generator(), device))
            state = old.state_dict()
            for name, value in state.items():
                if order == 0 and name.startswith("filters.") and name.endswith(".weight"):
                    state[name] = value[:1]
            expected = new.state_dict()
            for name in sorted(expected.keys() | state.keys()):
                here, there = (tuple(each[name].shape) if name in each else None for each in (expected, state))
                if here != there:
                    raise ValueError(
                        f"the network of the last fit has {name} of shape {there}, the parameters now ask for {here}; "
                        "go on with the parameters and the data that it was fitted with, or fit with warm_start=False."
                    )
            new.load_state_dict(state)
            found.append(new)
        return found

    @torch.no_grad()
    def _take_more(
        self,
        networks: list[SVNN],
        trainers: list[Trainer],
        data: TrainingData,
        before: Totals | None,
        newcomers: tuple[list[int], list[int]],
    ) -> None:
        """Take over the networks that were trained further; what each part counts stays."""
        members: list[SVNN] = []
        for trainer in trainers:
            own = networks[len(members) : len(members) + trainer.n_members]
            for i, network in enumerate(own):
                from_whitened(network, trainer, i)
            members += [self._of_full_order(network) for network in own]
        trained_with: dict[str, Any] = getattr(self, "_trained_with", {})
        rows = trained_with.get("rows")  # not in older files
        weight = relative(np.asarray(decaying(data.training.weight, self.halflife, data.training.signals)))
        left = 1.0 if self.halflife is None else 0.5 ** (len(weight) / float(self.halflife))
        module = self.module_
        if isinstance(module, Members):
            linear = None
            if module.linear_weight is not None and module.linear_bias is not None:
                linear = module.linear_weight.cpu().clone(), module.linear_bias.cpu().clone()
                make_likely(*newcomers, *linear)
                if rows is not None:
                    prior = float(rows) * left
                    linear = updated_linear(*linear, data.training._replace(weight=weight), before, prior)
            self.module_ = Members(members, module.weights.tolist(), linear)
        else:
            (self.module_,) = members
        self.module_ = self.module_.to(next(members[0].parameters()).device).eval()
        if rows is not None:
            self._trained_with = {**trained_with, "rows": float(rows) * left + float(weight.sum())}


def networks_of(module: nn.Module) -> list[SVNN]:
    """Return the networks that a module holds: its members, or itself."""
    return module.networks if isinstance(module, Members) else [cast(SVNN, module)]


@torch.no_grad()
def make_likely(classes: list[int], others: list[int], weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Give classes that had no rows before the mean output of the others: training made them all but impossible."""
    for k in classes:
        weight[k], bias[k] = weight[others].mean(0), bias[others].mean()


def can_go_on(estimator: HasFit | HasCovariance) -> None:
    """Raise an error where a covariance estimator has no ``partial_fit``."""
    try:
        cast(Any, estimator).partial_fit  # noqa: B018
    except AttributeError as error:
        why = f" ({error})" if "here:" in str(error) else ""
        raise ValueError(
            f"partial_fit needs a covariance that goes on when rows come, but {type(estimator).__name__} has no "
            f'partial_fit{why}. Use covariance="sample", "hard", "soft", "acv" or "rcv", or fit all rows again.'
        ) from error
