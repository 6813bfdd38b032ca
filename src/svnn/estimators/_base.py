"""What the regressor and the classifier share: from a table to a trained network."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted
from torch import Tensor

from svnn._validation import check_data
from svnn.covariance._resolve import fit_covariance, resolve, shift_matrix
from svnn.covariance._stochastic import StochasticSparsifier
from svnn.estimators._parameters import batch_rows, check_parameters, cuda_devices, fits, pick_device
from svnn.estimators._progress import progress_callback
from svnn.estimators._standardize import Standardizer
from svnn.estimators._training import Batch, Callback, Shifts, train
from svnn.functional._array import generator, is_torch, to_numpy
from svnn.nn import SVNN, ShiftedSignals
from svnn.operators import CovarianceOperator, as_operator, plain_matrix

#: Hidden values held at once when predicting; bounds memory, not results.
_PREDICT_VALUES = 2**24


class BaseSVNN(ABC, BaseEstimator):
    """Base of :class:`SVNNRegressor` and :class:`SVNNClassifier`.

    A subclass encodes targets, names the loss, and decodes the network's output.
    """

    def __init__(
        self,
        *,
        covariance: Any = "hard",
        shift: Any = None,
        use: str = "covariance",
        hidden: Sequence[int] = (32,),
        order: int = 2,
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
        readout: str = "weighted",
        heads: int = 4,
        mlp: Sequence[int] = (32,),
        node_dropout: float = 0.2,
        standardize: bool = True,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        max_epochs: int = 1000,
        patience: int = 100,
        tol: float = 0.0,
        batch_size: int | str | None = "auto",
        averaging: float = 0.99,
        validation_fraction: float = 0.1,
        resample: str = "fixed",
        cache_bytes: int = 2**30,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.covariance = covariance
        self.shift = shift
        self.use = use
        self.hidden = hidden
        self.order = order
        self.activation = activation
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.readout = readout
        self.heads = heads
        self.mlp = mlp
        self.node_dropout = node_dropout
        self.standardize = standardize
        self.lr = lr
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.tol = tol
        self.batch_size = batch_size
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.resample = resample
        self.cache_bytes = cache_bytes
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # -- what a subclass says ---------------------------------------------------------------------

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

    def _check_parameters(self) -> None:
        check_parameters(self)

    # -- fitting ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation_data: tuple[Any, Any] | None = None,
        groups: Any = None,
    ) -> Any:
        """Estimate the covariance of ``X`` and train the network on it.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,), or (t, n_outputs) for regression
        sample_weight : array of shape (t,), optional
            Weights of the samples in the loss, and in the covariance where that is one of svnn's own
            estimators (scikit-learn's take no weights).
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
        weight = _check_sample_weight(
            to_numpy(sample_weight) if is_torch(sample_weight) else sample_weight, X, ensure_non_negative=True
        )
        rng = generator(self.random_state)
        seed = int(rng.integers(2**31))

        train_rows, held_out = self._split(targets, groups, seed, split=validation_data is None)
        X_train, weight_train = X[train_rows], weight[train_rows]
        if weight_train.sum() <= 0:
            raise ValueError("sample_weight is zero for every training row; give some of them weight.")
        self._standardizer = Standardizer.fit(X_train, weight_train, active=self.standardize)
        self._learn_target_scale(targets[train_rows], weight_train)
        scaled = self._scale_targets(targets)
        estimator = self._fit_shift(
            self._standardizer(X_train), weight_train if sample_weight is not None else None, seed
        )

        validation = None
        if validation_data is not None:
            X_valid, y_valid = self._check_validation(validation_data)
            validation = self._batch(X_valid, y_valid, np.ones(len(X_valid)))
        elif weight[held_out].sum() > 0:
            validation = self._batch(X[held_out], scaled[held_out], weight[held_out])
        row_weight = self._row_weight(targets[train_rows], weight_train)
        data = self._batch(X_train, scaled[train_rows], row_weight)

        n_outputs = self._n_outputs(targets)
        with torch.random.fork_rng(devices=cuda_devices(self._device)), progress_callback(self) as progress:
            torch.manual_seed(seed)
            self.module_ = self._build(self._n_values, n_outputs).to(self._device)
            data = self._shifted(data)
            validation = None if validation is None else self._shifted(validation)
            self.history_ = train(
                self.module_,
                self._loss,
                data,
                validation,
                self._shifts(estimator, rng),
                lr=self.lr,
                weight_decay=self.weight_decay,
                max_epochs=self.max_epochs,
                patience=self.patience,
                tol=self.tol,
                batch_size=batch_rows(self.batch_size, len(data.x)),
                averaging=self.averaging,
                callbacks=[*self.callbacks, *progress],
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

    def _fit_shift(self, Z: np.ndarray, weight: np.ndarray | None, seed: int) -> Any:
        """Set ``covariance_`` and ``operator_`` from standardised training data; return the estimator."""
        self._device = pick_device(self.device)
        estimator = None
        if isinstance(self.covariance, str) and self.covariance == "precomputed":
            matrix = self.covariance_ = plain_matrix(self.shift)
        else:
            estimator = resolve(self.covariance)
            parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
            if "random_state" in parameters and parameters["random_state"] is None:
                estimator.set_params(random_state=seed)
            fit_covariance(estimator, Z, weight)
            self.covariance_ = plain_matrix(estimator.covariance_)
            matrix = shift_matrix(estimator, self.use)
        if self.resample != "fixed" and not isinstance(estimator, StochasticSparsifier):
            raise ValueError(f'resample="{self.resample}" needs a stochastic covariance such as "acv" or "rcv".')
        self.operator_ = self._operator(matrix)
        if self.operator_.shape[0] != Z.shape[1]:
            n = self.operator_.shape[0]
            raise ValueError(f"shift is {n}x{n}, but X has {Z.shape[1]} features.")
        return estimator

    def _operator(self, matrix: Any, scale: float | None = None) -> CovarianceOperator:
        """Return ``matrix`` as a normalised operator: scaled first, so that no unit overflows float32."""
        return as_operator(matrix).normalized(scale).to(device=self._device, dtype=torch.float32)

    def _shifts(self, estimator: Any, rng: np.random.Generator) -> Shifts:
        def draw() -> CovarianceOperator:
            operator = self._operator(estimator.sample(rng), self.operator_.scale)
            operator.fleeting = True
            return operator

        return Shifts(self.operator_, self.resample, draw, max(self.order * len(self.hidden), 1))

    def _build(self, in_features: int, n_outputs: int) -> SVNN:
        return SVNN(
            in_features,
            n_outputs,
            hidden=self.hidden,
            order=self.order,
            activation=self.activation,
            dropout=self.dropout,
            batch_norm=self.batch_norm,
            readout=self.readout,
            heads=self.heads if self.readout == "weighted" else 1,
            n_nodes=self.n_features_in_,
            mlp=self.mlp,
            node_dropout=self.node_dropout,
        )

    def _batch(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Batch:
        """Return the data for training: on the device if it fits there, else in memory, to be moved batch by batch."""
        home = self._device if fits(self._device, 4 * X.size) else torch.device("cpu")
        return Batch(
            torch.as_tensor(self._standardizer(X), dtype=torch.float32, device=home),
            torch.as_tensor(y, device=home),
            torch.as_tensor(weight, dtype=torch.float32, device=home),
        )

    def _shifted(self, batch: Batch) -> Batch:
        """Shift the signals of a batch once for all epochs, where the covariance is fixed and memory allows it."""
        if self.resample != "fixed" or not isinstance(batch.x, Tensor):
            return batch
        size = 4 * batch.x.numel() * (self.order + 1)
        if size > self.cache_bytes or batch.x.device != self.operator_.device or not fits(batch.x.device, 2 * size):
            return batch
        return Batch(ShiftedSignals.of(batch.x, self.operator_, self.order), batch.y, batch.weight)

    def _tensor(self, X: np.ndarray, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return signals, standardised, on the device."""
        return torch.as_tensor(self._standardizer(X), dtype=dtype, device=self._device)

    def _signals(self, X: Any, reset: bool = False) -> np.ndarray:
        """Validate data and return it as signals of shape (t, N, F), F = 1 for a table."""
        X = to_numpy(check_data(self, X, reset=reset, min_samples=2 if reset else 1))
        signals = X[..., None] if X.ndim == 2 else X
        if reset:
            self._n_values = signals.shape[2]
        elif signals.shape[2] != self._n_values:
            raise ValueError(
                f"X has shape {X.shape}, but {type(self).__name__} was fitted with {self._n_values} values per node."
            )
        return signals

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

    def _output(self, X: Any, embed: bool = False) -> np.ndarray:
        """Return the network's output, or its node embeddings, for every row of ``X``."""
        check_is_fitted(self)
        x = self._tensor(self._signals(X), torch.float64)
        # In double precision a row's result does not depend on the rows it is batched with.
        module = copy.deepcopy(self.module_).double().eval()
        run = module.embed if embed else module
        rows = max(1, _PREDICT_VALUES // (x.shape[1] * max(self.hidden)))
        with torch.no_grad():
            parts = [run(part, self.operator_) for part in x.split(rows)]
        return torch.cat(parts).cpu().numpy()

    def embed(self, X: Any) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, hidden[-1])."""
        return self._output(X, embed=True)

    def on(self, covariance: Any, X: Any = None) -> Any:
        """Return the same trained network on another covariance.

        Parameters
        ----------
        covariance : matrix, operator, fitted or unfitted estimator, or name
            On the scale of the standardised features. What is not fitted yet is fitted on ``X``.
        X : array of shape (t, N') or (t, N', F), optional
            Data to fit it on. With another N the training means and scales do not apply: those of
            ``X`` are used, or none where ``X`` is not given (features then have to come
            standardised).

        Returns
        -------
        A fitted estimator that shares the weights. With the same N it applies exactly the same
        filters, the matrix divided by the same number as in training, so that outputs can be
        compared. With another N (which needs ``readout="mean"``) the matrix is scaled to unit
        spectral norm as in training.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        if X is not None:
            X = copy.copy(self)._signals(X, reset=True)
            if X.shape[2] != self._n_values:
                raise ValueError(f"X has {X.shape[2]} values per node, the network was trained with {self._n_values}.")
            if X.shape[1] != self.n_features_in_:
                other._standardizer = Standardizer.fit(X, np.ones(len(X)), active=self.standardize)
        if isinstance(covariance, str) or (hasattr(covariance, "fit") and not hasattr(covariance, "covariance_")):
            if X is None:
                raise ValueError("a covariance that is not fitted yet needs data to fit it on: pass X=.")
            covariance = fit_covariance(resolve(covariance), other._standardizer(X))
        matrix = shift_matrix(covariance, self.use) if hasattr(covariance, "covariance_") else covariance
        n = as_operator(matrix).shape[0]
        if X is not None and X.shape[1] != n:
            raise ValueError(f"the covariance has {n} features, X has {X.shape[1]}.")
        if n != self.n_features_in_:
            if self.readout != "mean":
                raise ValueError(
                    f'the network was trained on {self.n_features_in_} features with readout="{self.readout}", '
                    f'which learns about each of them; it cannot run on {n}. Train with readout="mean" to transfer.'
                )
            if X is None:
                other._standardizer = Standardizer.identity()
            other.n_features_in_ = n
            other.__dict__.pop("feature_names_in_", None)
        other.operator_ = self._operator(matrix, self.operator_.scale if n == self.n_features_in_ else None)
        other.covariance_ = plain_matrix(getattr(covariance, "covariance_", covariance))
        return other

    def save(self, path: Any) -> None:
        """Write the fitted estimator to ``path``: one safetensors file, its header in JSON.

        :func:`svnn.load` reads it back. ``callbacks`` are not stored.
        """
        from svnn.estimators._storage import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.three_d_array = True
        return tags
