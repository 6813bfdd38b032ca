"""What every trained estimator does: split, standardise, train, predict. Subclasses say what network, what targets."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor, nn

from svnn._fitted import at_once
from svnn._validation import check_data
from svnn.estimators._parameters import batch_rows, check_training, fits, pick_device
from svnn.estimators._progress import progress_callback
from svnn.estimators._range import SINGLE, check_range
from svnn.estimators._standardize import Standardizer
from svnn.estimators._torch import draw_weights, plain_torch, without_weights
from svnn.estimators._training import Batch, Callback, Shifts, train
from svnn.estimators._weights import check_sample_weight, relative
from svnn.functional._array import generator, to_numpy

#: Hidden values held at once when predicting; bounds memory, not results.
_PREDICT_VALUES = 2**24


class TrainedEstimator(ABC, BaseEstimator):
    """Base of all estimators that train a network.

    :class:`TrainedRegressor` and :class:`TrainedClassifier` encode the targets, name the loss and decode the output; a
    family (:class:`BaseSVNN`, the baselines) builds the network and what it runs on.
    """

    hidden: Sequence[int]
    standardize: bool
    lr: float
    weight_decay: float
    max_epochs: int
    patience: int
    tol: float
    batch_size: int | str | None
    averaging: float
    validation_fraction: float
    device: str
    random_state: Any
    verbose: int
    callbacks: Sequence[Callback]
    module_: nn.Module

    # -- what the targets say ---------------------------------------------------------------------

    @abstractmethod
    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        """Validate ``y`` and return it as numbers; with ``reset`` learn what decoding needs."""

    def _learn_target_scale(self, y: np.ndarray, weight: np.ndarray) -> None:
        """Learn the scale of the training targets, where they have one."""

    def _scale_targets(self, y: np.ndarray) -> np.ndarray:
        """Return encoded targets as the loss takes them."""
        return y

    @abstractmethod
    def _n_outputs(self, y: np.ndarray) -> int:
        """Return the number of outputs of the network."""

    @abstractmethod
    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the loss of every sample."""

    def _row_weight(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return weight

    def _splitter(self, y: np.ndarray, size: int, seed: int) -> Any:
        return ShuffleSplit(1, test_size=size, random_state=seed)

    # -- what the family says ---------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_training(self)

    def _fit_shift(self, Z: np.ndarray, weight: np.ndarray | None, seed: int, y: Any = None) -> Any:
        """Pick the device and learn from standardised training data (t, N, F), of targets y, what the network runs on.

        Returns what :meth:`_shifts` may draw realisations from.
        """
        self._device = pick_device(self.device)

    @abstractmethod
    def _build(self, in_features: int, n_outputs: int) -> nn.Module:
        """Return the network; its ``forward`` takes signals (t, N, F) and a shift."""

    def _fixed_shift(self) -> Any:
        """Return the shift that validation and prediction use; None for networks without one."""
        return None

    def _shifts(self, estimator: Any, rng: np.random.Generator) -> Shifts:
        return Shifts(self._fixed_shift())

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        """Return signals (t, N, F) as the network takes them."""
        return self._standardizer(X)

    def _shifted(self, batch: Batch) -> Batch:
        """Return a batch with whatever of the forward pass can be done once for all epochs."""
        return batch

    # -- fitting ----------------------------------------------------------------------------------

    @at_once
    @plain_torch()
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation_data: tuple[Any, Any] | None = None,
        groups: Any = None,
    ) -> Any:
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
        self._check_parameters()
        X = self._signals(X, reset=True)
        targets = self._encode_targets(y, reset=True)
        check_consistent_length(X, targets)
        weight = check_sample_weight(sample_weight, X)
        rng = generator(self.random_state)
        seed = int(rng.integers(2**31))

        train_rows, held_out = self._split(targets, groups, seed, split=validation_data is None)
        X_train, weight_train = X[train_rows], relative(weight[train_rows])
        if not weight_train.any():
            raise ValueError("sample_weight is zero for every training row; give some of them weight.")
        self._standardizer = Standardizer.fit(X_train, weight_train, active=bool(self.standardize))
        self._learn_target_scale(targets[train_rows], weight_train)
        scaled = self._scale_targets(targets)
        Z = self._standardizer(X_train)
        check_range(Z[weight_train > 0], "X", *SINGLE)
        given_weight = None if sample_weight is None else weight_train
        estimator = self._fit_shift(Z, given_weight, seed, targets[train_rows])

        validation = None
        if validation_data is not None:
            X_valid, y_valid = self._check_validation(validation_data)
            validation = self._batch(X_valid, y_valid, np.ones(len(X_valid)))
        elif weight[held_out].any():
            validation = self._batch(X[held_out], scaled[held_out], relative(weight[held_out]))
        row_weight = self._row_weight(targets[train_rows], weight_train)
        data = self._batch(X_train, scaled[train_rows], row_weight)

        n_outputs = self._n_outputs(targets)
        draws = torch.Generator().manual_seed(seed)
        module = without_weights(lambda: self._build(self._n_values, n_outputs))
        draw_weights(module, draws)
        self.module_ = module.to(self._device)
        data = self._shifted(data)
        validation = None if validation is None else self._shifted(validation)
        with progress_callback(self) as progress:
            self.history_ = train(
                self.module_,
                self._loss,
                data,
                validation,
                self._shifts(estimator, rng),
                lr=float(self.lr),
                weight_decay=float(self.weight_decay),
                max_epochs=int(self.max_epochs),
                patience=int(self.patience),
                tol=float(self.tol),
                batch_size=batch_rows(self.batch_size, len(data.x)),
                averaging=float(self.averaging),
                callbacks=[*self.callbacks, *progress],
                generator=draws,
            )
        self.n_iter_ = len(self.history_["train_loss"])
        return self

    def _split(self, y: np.ndarray, groups: Any, seed: int, split: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows to train on and those held out for early stopping."""
        rows = np.arange(len(y))
        if groups is not None:
            check_consistent_length(y, groups)
        size = round(self.validation_fraction * len(y)) if split else 0
        if size < 1 or len(y) - size < 2:
            return rows, rows[:0]
        if groups is None:
            return next(self._splitter(y, size, seed).split(rows, y))
        if len(np.unique(groups)) < 2:
            raise ValueError("groups holds a single group, which cannot be split; pass validation_data instead.")
        splitter = GroupShuffleSplit(1, test_size=self.validation_fraction, random_state=seed)
        return next(splitter.split(rows, y, groups))

    def _batch(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Batch:
        """Return the data for training: on the device if it fits there, else in memory, to be moved batch by batch."""
        home = self._device if fits(self._device, 4 * X.size) else torch.device("cpu")
        return Batch(
            torch.as_tensor(self._inputs(X), dtype=torch.float32, device=home),
            torch.as_tensor(y, device=home),
            torch.as_tensor(weight, dtype=torch.float32, device=home),
        )

    def _signals(self, X: Any, reset: bool = False) -> np.ndarray:
        """Validate data and return it as signals of shape (t, N, F), F = 1 for a table."""
        return check_signals(self, X, reset)

    def _check_validation(self, validation_data: Any) -> tuple[np.ndarray, np.ndarray]:
        try:
            X, y = validation_data
        except (TypeError, ValueError):
            raise ValueError("validation_data must be a pair (X, y).") from None
        X = self._signals(X)
        y = self._encode_targets(y, reset=False)
        check_consistent_length(X, y)
        return X, self._scale_targets(y)

    # -- using the trained network ----------------------------------------------------------------

    @plain_torch()
    def _output(self, X: Any, embed: bool = False) -> np.ndarray:
        """Return the network's output, or its embeddings, for every row of ``X``."""
        check_is_fitted(self)
        inputs = self._inputs(self._signals(X))
        if not np.isfinite(inputs).all():
            raise ValueError("X holds values too far from those of the training data to compute with.")
        x = torch.as_tensor(inputs, dtype=torch.float64, device=self._device)
        # In double precision a row's result does not depend on the rows it is batched with.
        module: Any = copy.deepcopy(self.module_).double().eval()
        run = module.embed if embed else module
        rows = max(1, _PREDICT_VALUES // (x.shape[1] * module.widest))
        with torch.no_grad():
            parts = [run(part, self._fixed_shift()) for part in x.split(rows)]
        return torch.cat(parts).cpu().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.three_d_array = True
        return tags


def check_signals(estimator: Any, X: Any, reset: bool = False) -> np.ndarray:
    """Validate data and return it as signals of shape (t, N, F), F = 1 for a table.

    Sets (``reset=True``) or compares ``n_features_in_``, ``feature_names_in_`` and the number of values per node.
    """
    # In one memory layout, whatever that of the table: the order of sums, and so their rounding, depends on it.
    X = np.ascontiguousarray(to_numpy(check_data(estimator, X, reset=reset, min_samples=2 if reset else 1)))
    signals = X[..., None] if X.ndim == 2 else X
    if reset:
        estimator._n_values = signals.shape[2]
    elif signals.shape[2] != estimator._n_values:
        name, values = type(estimator).__name__, estimator._n_values
        raise ValueError(f"X has shape {X.shape}, but {name} was fitted with {values} values per node.")
    return signals
