"""What the S-VNN regressor and classifier share: the covariance of the data as a shift, and the network on it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from svnn.covariance._resolve import shift_matrix
from svnn.estimators._covariances import fit_seeded, fitted_covariance, is_precomputed
from svnn.estimators._parameters import check_parameters, fits
from svnn.estimators._standardize import Standardizer
from svnn.estimators._torch import plain_torch
from svnn.estimators._trained import TrainedEstimator
from svnn.estimators._training import Batch, Callback, Shifts
from svnn.nn import SVNN, ShiftedSignals
from svnn.operators import CovarianceOperator, as_operator, plain_matrix


class BaseSVNN(TrainedEstimator):
    """Base of :class:`SVNNRegressor` and :class:`SVNNClassifier`: everything but the targets."""

    module_: SVNN

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

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _fit_shift(self, Z: np.ndarray, weight: np.ndarray | None, seed: int, y: Any = None) -> Any:
        """Set ``covariance_`` and ``operator_`` from standardised training data; return the estimator."""
        super()._fit_shift(Z, weight, seed)
        self._trained_with = {"use": str(self.use), "standardize": bool(self.standardize)}
        estimator = None
        if is_precomputed(self.covariance):
            matrix = self.covariance_ = plain_matrix(self.shift).copy()  # the caller's may change later
        else:
            estimator = fit_seeded(self.covariance, Z, weight, seed, y)
            self.covariance_ = plain_matrix(estimator.covariance_)
            matrix = shift_matrix(estimator, self.use)
        if self.resample != "fixed" and not hasattr(estimator, "sample"):
            raise ValueError(f'resample="{self.resample}" needs a stochastic covariance such as "acv" or "rcv".')
        self.operator_ = self._operator(matrix)
        if self.operator_.shape[0] != Z.shape[1]:
            n = self.operator_.shape[0]
            raise ValueError(f"shift is {n}x{n}, but X has {Z.shape[1]} features.")
        return estimator

    def _operator(self, matrix: Any, scale: float | None = None) -> CovarianceOperator:
        """Return ``matrix`` as a normalised operator: scaled first, so that no unit overflows float32."""
        return as_operator(matrix).normalized(scale).to(device=self._device, dtype=torch.float32)

    def _fixed_shift(self) -> CovarianceOperator:
        return self.operator_

    def _shifts(self, estimator: Any, rng: np.random.Generator) -> Shifts:
        def draw() -> CovarianceOperator:
            operator = self._operator(estimator.sample(rng), self.operator_.scale)
            operator.fleeting = True
            return operator

        return Shifts(self.operator_, self.resample, draw, max(int(self.order) * len(self.hidden), 1))

    def _build(self, in_features: int, n_outputs: int) -> SVNN:
        return SVNN(
            in_features,
            n_outputs,
            hidden=[int(size) for size in self.hidden],
            order=int(self.order),
            activation=self.activation,
            dropout=float(self.dropout),
            batch_norm=bool(self.batch_norm),
            readout=self.readout,
            heads=int(self.heads) if self.readout == "weighted" else 1,
            n_nodes=self.n_features_in_,
            mlp=[int(size) for size in self.mlp],
            node_dropout=float(self.node_dropout),
        )

    def _as_trained(self, name: str) -> Any:
        """Return a parameter as it was in ``fit``, whatever ``set_params`` made of it since."""
        return self.__dict__.get("_trained_with", {}).get(name, getattr(self, name))

    def _shifted(self, batch: Batch) -> Batch:
        """Shift the signals of a batch once for all epochs, where the covariance is fixed and memory allows it."""
        if self.resample != "fixed" or not isinstance(batch.x, Tensor):
            return batch
        order = int(self.order)
        size = 4 * batch.x.numel() * (order + 1)
        if size > self.cache_bytes or batch.x.device != self.operator_.device or not fits(batch.x.device, 2 * size):
            return batch
        return Batch(ShiftedSignals.of(batch.x, self.operator_, order), batch.y, batch.weight)

    def embed(self, X: Any) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, hidden[-1])."""
        return self._output(X, embed=True)

    @plain_torch()
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
                other._standardizer = Standardizer.fit(X, np.ones(len(X)), active=self._as_trained("standardize"))
        covariance = fitted_covariance(covariance, None if X is None else other._standardizer(X))
        use = self._as_trained("use")
        matrix = shift_matrix(covariance, use) if hasattr(covariance, "covariance_") else covariance
        n = as_operator(matrix).shape[0]
        if X is not None and X.shape[1] != n:
            raise ValueError(f"the covariance has {n} features, X has {X.shape[1]}.")
        if n != self.n_features_in_:
            readout = self.module_.readout.kind
            if readout != "mean":
                raise ValueError(
                    f'the network was trained on {self.n_features_in_} features with readout="{readout}", '
                    f'which learns about each of them; it cannot run on {n}. Train with readout="mean" to transfer.'
                )
            if X is None:
                other._standardizer = Standardizer.identity()
            other.n_features_in_ = n
            other.__dict__.pop("feature_names_in_", None)
        other.operator_ = self._operator(matrix, self.operator_.scale if n == self.n_features_in_ else None)
        other.covariance_ = plain_matrix(getattr(covariance, "covariance_", covariance)).copy()
        return other

    def save(self, path: Any) -> None:
        """Write the fitted estimator to ``path``: one safetensors file, its header in JSON.

        :func:`svnn.load` reads it back. ``callbacks`` are not stored. A subclass of your own is stored too, with those
        of its parameters and attributes that are numbers, text, arrays, or lists and dicts of them; name it in
        ``svnn.load(path, classes=[...])``.

        The file is replaced in one step: a save that fails leaves the old one. A symbolic link stays, its target is
        written; permissions are those of the old file, or what the umask gives.
        """
        from svnn.estimators._storage import save

        save(self, path)
