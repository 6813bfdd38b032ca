"""What every estimator that trains a network does: check, split, standardise, train, predict.

A family (:class:`~svnn.estimators._covariance_network.CovarianceNetwork`, the baselines) says what the network is and
what it runs on; ``_tasks.py`` says what is predicted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor, nn

from svnn._parameters import check_parameters, declared, fitted
from svnn._types import ColumnLike, DataLike
from svnn._validation import at_once
from svnn.estimators._double import in_double
from svnn.estimators._folds import Fold
from svnn.estimators._history import History
from svnn.estimators._progress_bar import progress_bar
from svnn.estimators._row_covariances import RowMatrices
from svnn.estimators._shared_parameters import SeenFeatures, TrainingParameters
from svnn.estimators._training_data import (
    SINGLE,
    Given,
    LabelTargets,
    NumberTargets,
    Rows,
    Standardizer,
    Targets,
    TrainingData,
    check_range,
    check_sample_weight,
    check_signals,
    check_targets,
    member_folds,
    relative,
    split_rows,
    with_class_weight,
)
from svnn.estimators.training import (
    SCHEDULES,
    Batch,
    Callback,
    ModuleTrainer,
    Optimiser,
    Shifts,
    Trainer,
    Validation,
    batch_ends,
    batch_rows,
    draw_weights,
    epochs,
    fits,
    pick_device,
    plain_torch,
    train,
)
from svnn.functional._array import generator
from svnn.operators import CovarianceOperator

if TYPE_CHECKING:
    from svnn.estimators._checkpoint import Checkpoint

#: Hidden values held at once when predicting. It does not change results: four megabytes stay in the caches.
_PREDICT_VALUES = 2**19


@declared
class NetworkEstimator(TrainingParameters, SeenFeatures, ABC, BaseEstimator):
    """Base of all estimators that train a network."""

    module_: nn.Module = fitted(kind="torch.nn.Module", doc="The trained network.")
    history_: History = fitted(
        kind="dict of lists",
        doc="""``train_loss`` and ``valid_loss`` of every epoch; ``best_epoch`` of every member, from 1.
        ``history_.to_frame()`` is a frame of pandas with a row for every epoch.""",
    )
    n_iter_: int = fitted(kind="int", doc="Number of epochs trained.")

    #: What is predicted.
    _target_kind: ClassVar[type[NumberTargets] | type[LabelTargets]]

    @abstractmethod
    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the loss of every sample."""

    # -- what the family says ---------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _fit_structure(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray, seed: int, device: torch.device
    ) -> None:
        """Learn what the network runs on from standardised signals (t, N, F), their weights and their targets.

        That is a covariance, a graph or a projection; a family without one leaves this out.
        """

    def _row_matrices(
        self, Z: np.ndarray, shift: object, groups: ColumnLike | None, seed: int | None = None
    ) -> RowMatrices | None:
        """Return the matrices of standardised signals whose rows have their own; None where one is of all rows."""
        return None

    def _take_matrices(self, matrices: RowMatrices, device: torch.device) -> None:
        """Take over what is to be known of the training rows' own matrices."""

    @abstractmethod
    def _build(self, in_features: int, n_outputs: int) -> nn.Module:
        """Return the network; its ``forward`` takes signals (t, N, F) and a shift."""

    @property
    def _shift(self) -> object:
        """What validation and prediction give to the network as its shift; None for networks without one."""
        return None

    def _shifts(self, rng: np.random.Generator) -> Shifts:
        """Return the shifts to train with."""
        return Shifts(self._shift)

    def _inputs(self, Z: np.ndarray) -> np.ndarray:
        """Return standardised signals (t, N, F) as the network takes them."""
        return Z

    # -- fitting ----------------------------------------------------------------------------------

    @at_once
    @plain_torch()
    def fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[DataLike, ColumnLike] | None = None,
        groups: ColumnLike | None = None,
    ) -> Self:
        """Learn from the training rows what the network runs on, and train it.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,), or (t, n_outputs) for regression
        sample_weight : array of shape (t,), optional
            Weights of the samples in the loss, and in the covariance where that is one of svnn's own
            estimators (scikit-learn's take no weights). Only their ratios count.
        validation_data : tuple (X, y), optional
            Data for early stopping. By default ``validation_fraction`` of the rows are held out.
        groups : array of shape (t,), optional
            Rows of one group (a subject, say) never fall on both sides of that split.

        Returns
        -------
        self
        """
        return self._fit_anew(Given(X, y, sample_weight, validation_data, groups))

    def _fit_anew(self, given: Given) -> Self:
        self._check_parameters()
        if self.checkpoint is not None and not isinstance(self.random_state, Integral):
            raise ValueError(
                f"checkpoint={self.checkpoint!r} needs an integer as random_state, got {self.random_state!r}: a fit "
                "that goes on has to deal out the rows and draw the weights as before."
            )
        device = pick_device(self.device)
        rng = generator(self.random_state)
        seed = int(rng.integers(2**31))
        draws = torch.Generator().manual_seed(seed)

        data = self._prepare(given, seed)
        self._n_values = data.training.signals.shape[2]
        self._standardizer, self._targets = data.standardizer, data.targets
        if isinstance(data.targets, LabelTargets):
            self.classes_ = data.targets.classes
        if data.training.matrices is None:
            self._fit_structure(data.training.signals, data.given_weight, data.given_targets, seed, device)
        else:
            self._take_matrices(data.training.matrices, device)
        networks = self._networks(data, draws, device)
        folds = self._folds(data, seed, device)
        trainer = self._trainer(networks, folds, draws, rng)
        n_epochs = self._n_epochs(data)
        quiet: AbstractContextManager[list[Callback]] = nullcontext([])
        keeper = self._keeper(data, networks, rng)
        with progress_bar(type(self).__name__, n_epochs) if self.verbose else quiet as progress:
            losses = self._train(trainer, data, n_epochs, draws, [*self.callbacks, *progress], keeper)
        self.history_, self.n_iter_ = History(losses), len(losses["train_loss"])
        self._finish(networks, trainer, data, folds, draws)
        if keeper is not None:
            keeper.remove()
        return self

    def _n_epochs(self, data: TrainingData) -> int:
        """Return the most epochs to train for."""
        n_rows = len(data.training.signals)
        n_batches = len(batch_ends(n_rows, batch_rows(self.batch_size, n_rows)))
        return epochs(self.max_epochs, self.schedule, n_batches, data.training.signals.size)

    def _train(
        self,
        trainer: Trainer,
        data: TrainingData,
        n_epochs: int,
        draws: torch.Generator,
        callbacks: Sequence[Callback] = (),
        keeper: Checkpoint | None = None,
    ) -> dict[str, list[float]]:
        """Train networks; return the losses of every epoch."""
        n_rows = len(data.training.signals)
        return train(
            trainer,
            n_rows,
            lr=float(self.lr),
            schedule=SCHEDULES[self.schedule],
            max_epochs=n_epochs,
            patience=None if self.patience is None else int(self.patience),
            tol=float(self.tol),
            batch_size=batch_rows(self.batch_size, n_rows),
            callbacks=callbacks,
            generator=draws,
            keeper=keeper,
        )

    def _keeper(self, data: TrainingData, networks: list[nn.Module], rng: np.random.Generator) -> Checkpoint | None:
        """Return what writes checkpoints; None where none are asked for."""
        if self.checkpoint is None:
            return None
        from svnn.estimators._checkpoint import Checkpoint
        from svnn.estimators._fingerprint import fingerprint

        fit = fingerprint(type(self).__name__, self.get_params(deep=False), data, networks)
        return Checkpoint(self.checkpoint, float(self.checkpoint_seconds), fit, rng)

    @property
    def _n_members(self) -> int:
        """How many networks are trained."""
        return 1

    @property
    def _most_folds(self) -> int:
        """How many sets of rows are held out by different members, at most."""
        return 1

    def _networks(self, data: TrainingData, draws: torch.Generator, device: torch.device) -> list[nn.Module]:
        """Return the networks to train."""
        build = partial(self._build, self._n_values, self._targets.n_outputs)
        return [new_network(build, draws, device) for _ in range(self._n_members)]

    def _folds(self, data: TrainingData, seed: int, device: torch.device) -> list[Fold]:
        """Return what the members that hold out the same rows learn from, for each set of such rows."""
        return [Fold(data, None)]

    def _trainer(
        self, networks: list[nn.Module], folds: list[Fold], draws: torch.Generator, rng: np.random.Generator
    ) -> Trainer:
        """Return what trains the networks, with the data of this fit."""
        device, ((data, _),) = next(networks[0].parameters()).device, folds
        batch, validation = self._batches(data, device, len(networks), self._batch)
        noise = noise_generators(len(networks), draws, device)
        return ModuleTrainer(networks, self._loss, batch, validation, self._shifts(rng), self._optimiser, noise)

    @property
    def _optimiser(self) -> Optimiser:
        return Optimiser(weight_decay=float(self.weight_decay), averaging=float(self.averaging))

    def _finish(
        self,
        networks: list[nn.Module],
        trainer: Trainer,
        data: TrainingData,
        folds: list[Fold],
        draws: torch.Generator,
    ) -> None:
        """Take over the trained networks."""
        (self.module_,) = networks

    def _prepare(self, given: Given, seed: int) -> TrainingData:
        """Check the data, split off the rows for early stopping, and standardise with those that are trained on."""
        signals, validation_data, groups = check_signals(self, given.X), given.validation_data, given.groups
        y = check_targets(given.y, self._target_kind.are_labels)
        check_consistent_length(signals, y)
        weight = check_sample_weight(given.sample_weight, len(signals))
        fraction = float(self.validation_fraction) if validation_data is None else 0.0
        stratify = self._target_kind.are_labels
        rows, held_out, folds = np.arange(len(y)), np.arange(0), list[np.ndarray]()
        if self._n_members == 1:
            rows, held_out = split_rows(y, groups, fraction, seed, stratify)
            rows = rows if getattr(self, "halflife", None) is None else np.sort(rows)  # the newest row is the last
        else:
            folds = member_folds(y, groups, weight, fraction, self._most_folds, seed, stratify)

        share = relative(weight[rows])
        if not share.any():
            raise ValueError("sample_weight is zero for every training row; give some of them weight.")
        standardizer = Standardizer.fit(signals[rows], share, active=bool(self.standardize))
        targets: Targets
        if given.classes is None:
            targets = self._target_kind.learn(y, rows, share, standardize=bool(self.standardize))
        else:
            targets = LabelTargets.known(given.classes, y)
        Z, codes = standardizer(signals), targets.encode(y[rows])
        matrices = self._row_matrices(Z, given.shift, groups, seed)
        own, held = (None, None) if matrices is None else (matrices[rows], matrices[held_out])
        Z, Z_held = Z[rows], Z[held_out]
        check_range(Z[share > 0], "X", *SINGLE)
        check_range(codes[share > 0], "y", *SINGLE)

        validation = None
        if validation_data is not None:
            validation = self._validation_rows(validation_data, signals.shape[2], standardizer, targets)
        elif weight[held_out].any():
            validation = Rows(Z_held, targets.encode(y[held_out]), relative(weight[held_out]), held)
        class_weight = getattr(self, "class_weight", None)
        in_loss = share if class_weight is None else with_class_weight(share, class_weight, y[rows])
        return TrainingData(
            Rows(Z, codes, in_loss, own),
            validation,
            standardizer,
            targets,
            y[rows],
            None if given.sample_weight is None else share,
            folds,
            validation_data is not None,
        )

    def _validation_rows(
        self, given: tuple[Any, ...], n_values: int, standardizer: Standardizer, targets: Targets
    ) -> Rows:
        """Return the caller's rows for early stopping."""
        try:
            X_valid, y_valid = given
        except (TypeError, ValueError):
            raise ValueError("validation_data must be a pair (X, y).") from None
        seen = standardizer(check_signals(self, X_valid, n_values))
        expected = targets.encode(check_targets(y_valid, self._target_kind.are_labels))
        check_consistent_length(seen, expected)
        return Rows(seen, expected, np.ones(len(seen)))

    def _batches(
        self, data: TrainingData, device: torch.device, n: int, make: Callable[[Rows, torch.device], Batch]
    ) -> tuple[Batch, Validation | None]:
        """Return the rows to train ``n`` networks on, with the weights that each gives them, and those held out."""
        batch = make(data.training, device)
        batch.weight = batch.weight.repeat(n, 1)
        if data.folds:
            (fold,) = data.folds
            rows = torch.from_numpy(fold).to(batch.y.device)
            held = Batch(batch.x, batch.y, batch.weight[0].clone(), batch.shift)
            batch.weight[:, rows] = 0
            return batch, Validation(held, [rows] * n)
        return batch, None if data.held_out is None else Validation(make(data.held_out, device), [None] * n)

    def _batch(self, rows: Rows, device: torch.device) -> Batch:
        """Return rows for training: on the device if they fit there, else in memory, to be moved batch by batch."""
        home = device if fits(device, 4 * rows.signals.size) else torch.device("cpu")
        kind = torch.int64 if self._target_kind.are_labels else torch.float32
        return Batch(
            torch.as_tensor(self._inputs(rows.signals), dtype=torch.float32, device=home),
            torch.as_tensor(rows.targets, dtype=kind, device=home),
            torch.as_tensor(rows.weight, dtype=torch.float32, device=home),
            self._operator_of(rows.matrices, torch.float32, device),
        )

    def _operator_of(
        self, matrices: RowMatrices | None, dtype: torch.dtype, device: torch.device
    ) -> CovarianceOperator | None:
        """Return the operator of rows that have their own matrices."""
        return None

    # -- using the trained network ----------------------------------------------------------------

    def _signals(self, X: DataLike) -> np.ndarray:
        """Return data as signals of shape (t, N, F) after a comparison with those of ``fit``."""
        return check_signals(self, X, self._n_values)

    @plain_torch()
    def _output(
        self, X: DataLike, embed: bool = False, shift: object = None, groups: ColumnLike | None = None
    ) -> np.ndarray:
        """Return the outputs of all members, (members, t, n_outputs), or the embeddings, for every row of ``X``.

        ``shift`` and ``groups`` are for models whose rows have covariances of their own.
        """
        check_is_fitted(self)
        Z = self._standardizer(self._signals(X))
        inputs = self._inputs(Z)
        if not np.isfinite(inputs).all():
            raise ValueError("X holds values too far from those of the training data to compute with.")
        return self._outputs_of(inputs, embed, self._row_matrices(Z, shift, groups))

    def _outputs_of(self, inputs: np.ndarray, embed: bool = False, matrices: RowMatrices | None = None) -> np.ndarray:
        """Return the same for inputs as the network takes them."""
        # In double precision a row's result does not depend on the rows it is batched with.
        module: Any = in_double(self.module_)
        x = torch.as_tensor(inputs, dtype=torch.float64, device=next(module.parameters()).device)
        run = module.embed if embed else getattr(module, "outputs", lambda x, shift: module(x, shift)[None])
        rows = max(1, _PREDICT_VALUES // (x.shape[1] * module.widest))
        parts = []
        with torch.no_grad():
            for start in range(0, len(x), rows):
                some = slice(start, start + rows)
                shift = self._shift if matrices is None else self._operator_of(matrices[some], x.dtype, x.device)
                parts.append(run(x[some], shift))
        return torch.cat(parts, 0 if embed else 1).cpu().numpy()

    def _mean(self, outputs: np.ndarray) -> np.ndarray:
        """Return the mean of the parts' outputs or probabilities (parts, t, n_outputs), by what each counts."""
        weights = getattr(self.module_, "weights", None)
        found: np.ndarray = outputs.mean(0) if weights is None else np.tensordot(weights.cpu().numpy(), outputs, 1)
        return found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = not self._target_kind.are_labels
        return tags


def new_network(build: Callable[[], nn.Module], draws: torch.Generator, device: torch.device) -> nn.Module:
    """Return an untrained network in single precision whose weights are drawn from a generator of this fit."""
    with torch.device("meta"):  # where nothing is drawn and nothing allocated
        network = build()
    # Not by to_empty, which imports sympy: that takes longer than many a fit.
    state = {
        name: torch.empty(value.shape, dtype=torch.float32 if value.is_floating_point() else value.dtype)
        for name, value in network.state_dict().items()
    }
    network.load_state_dict(state, assign=True)
    draw_weights(network, draws)
    return network.to(device)


def noise_generators(n: int, draws: torch.Generator, device: torch.device, alone: bool = True) -> list[torch.Generator]:
    """Return what each of ``n`` networks draws its dropout from.

    A single network that is trained alone takes the generator of the fit itself.
    """
    if n == 1 and alone:
        if device.type == "cpu":
            return [draws]
        seeds = [draws.initial_seed()]
    else:
        seeds = torch.randint(2**62, (n,), generator=draws).tolist()
    return [torch.Generator(device).manual_seed(seed) for seed in seeds]
