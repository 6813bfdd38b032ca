"""What the S-VNN regressor and classifier share: the covariance of the data as a shift, and the network on it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from svnn._parameters import (
    anything,
    check_parameters,
    declared,
    either,
    fitted,
    integer,
    number,
    one_of,
    parameter,
)
from svnn._types import ColumnLike, CovarianceLike, DataLike, HasCovariance, Matrix, MatrixLike
from svnn.covariance._resolve import fit_covariance, resolve, shift_matrix
from svnn.estimators._model_file import PathLike
from svnn.estimators._network_estimator import NetworkEstimator, noise_generators
from svnn.estimators._shared_parameters import PooledNodes
from svnn.estimators._training_data import Rows, Standardizer, TrainingData, check_signals
from svnn.estimators.training import (
    Batch,
    CompiledTrainer,
    GraphTrainer,
    ModuleTrainer,
    Plan,
    Shifts,
    StackedTrainer,
    Trainer,
    fits,
    has_kernel,
    plain_torch,
)
from svnn.functional import log_covariance
from svnn.functional._matrix import numpy_matrix
from svnn.nn import SVNN, CovarianceFilter, Members, ShiftedSignals
from svnn.nn._shifted import PowerSignals
from svnn.operators import CovarianceOperator, as_operator

#: Features up to which ``use="auto"`` decomposes the covariance.
_MOST_LOGARITHMS = 1000
#: Values per node, after shifting, up to which they are made uncorrelated.
_MOST_WHITENED = 64
#: Shifted values of a sample up to which the compiled training is faster than modules on signals in the eigenbasis.
#: With 8 members, 640 samples and 6 values per input, an epoch of modules takes 1.3 times as long for 23 nodes of 128
#: values, 3 times for 45 nodes of 32 and 4 times for 68 nodes of 20; as long for 45 nodes of 125 (one core of an x86
#: server).
_MOST_COMPILED = 2**15


@declared
class GivenCovariance:
    """The parameters that name a covariance, and what comes of them."""

    covariance: CovarianceLike = parameter(
        default="hard",
        rule=anything("str or estimator"),
        doc="""The covariance whose polynomials filter the data: "sample" (the dense VNN), "hard", "soft", "adaptive",
        "acv", "rcv", "ledoit_wolf", "oas", "graphical_lasso", any estimator with ``fit`` and ``covariance_`` from svnn
        or elsewhere, or "precomputed" with ``shift=``. It is fitted on the training rows only, after standardisation.
        """,
    )
    shift: MatrixLike | None = parameter(
        default=None,
        rule=anything("matrix of shape (N, N)"),
        doc="""The symmetric matrix for ``covariance="precomputed"``, on the scale of the standardised features. It need
        not be positive semidefinite: sparsified covariances often are not.""",
    )

    covariance_estimator_: HasCovariance | None = fitted(
        kind="estimator or None",
        doc="""The fitted estimator of the covariance; None with ``covariance="precomputed"``, and after ``load`` for
        classes that are neither svnn's nor scikit-learn's.""",
    )
    covariance_: Matrix = fitted(
        kind="csr_array or ndarray of shape (N, N)", doc="The covariance of the standardised features."
    )
    operator_: CovarianceOperator = fitted(
        kind="CovarianceOperator",
        doc="""The shift: the covariance divided by its spectral norm, ``operator_.scale``; with ``use="log"`` the
        logarithm of that, and ``operator_.scale`` is 1.""",
    )

    def _check_parameters(self) -> None:
        check_parameters(self)
        precomputed = isinstance(self.covariance, str) and self.covariance == "precomputed"
        if precomputed and self.shift is None:
            raise ValueError('covariance="precomputed" needs the matrix as shift=.')
        if not precomputed and self.shift is not None:
            raise ValueError('shift= is used with covariance="precomputed" only; drop it or set covariance.')


@declared
class FilterParameters:
    """The parameters of covariance filters, and of the networks of them."""

    use: str = parameter(
        default="auto",
        rule=one_of("auto", "covariance", "log", "precision"),
        doc="""What the filters are polynomials of: the estimator's ``covariance_``; its logarithm
        (:func:`svnn.functional.log_covariance`), in which directions of small variance count as much as those of large
        variance; or its ``precision_``, which is what graphical lasso makes sparse. "auto" is the logarithm up to 1000
        features, and the covariance beyond, for a ``shift=`` of your own and where realisations are drawn in training.
        """,
    )
    order: int | str = parameter(
        default="auto",
        rule=either(integer(0), "auto"),
        doc="""K, the number of shifts of every filter; 0 ignores the covariance. "auto" is 5 for the logarithm of the
        covariance, otherwise 2.""",
    )
    members: int = parameter(
        default=8,
        rule=integer(1),
        doc="""Number of networks that are trained at once, each with its own weights, dropout, held-out rows and best
        epoch. Predictions are averaged; how far they differ says how sure they are.""",
    )
    basis: str = parameter(
        default="orthonormal",
        rule=one_of("orthonormal", "powers"),
        doc="""How the first layer's filters are parametrised in training. "orthonormal" replaces the shifted signals
        by combinations of them that are uncorrelated in the training data: the same filters, found faster. Fitted
        filters are always stored by their powers of the covariance.""",
    )
    resample: str = parameter(
        default="fixed",
        rule=one_of("fixed", "epoch", "forward", "shift"),
        doc="""For a stochastic covariance (ACV, RCV): train on one realisation, or draw a fresh one every epoch, every
        forward pass, or every shift of every layer. Prediction always uses ``covariance_``.""",
    )
    cache_bytes: int = parameter(
        default=2**30,
        rule=number(),
        kind="int",
        doc="""Memory for the first layer's shifted signals, which are computed once and used in every epoch while they
        fit; 0 computes them anew in every step.""",
    )
    node_dropout: float = parameter(
        default=0.1,
        rule=number(0, 1),
        doc="Share of the nodes left out of a sample's readout at random during training.",
    )


@declared
class CovarianceNetwork(GivenCovariance, FilterParameters, PooledNodes, NetworkEstimator):
    """Base of :class:`SVNNRegressor` and :class:`SVNNClassifier`: all that does not depend on what is predicted."""

    hidden: Sequence[int] = (8,)
    activation: str = "silu"
    batch_norm: bool = False
    schedule: str = "one_cycle"
    patience: int | None = None

    module_: SVNN | Members = fitted(
        kind="svnn.nn.SVNN or svnn.nn.Members", doc="The trained network, or several of them that predict together."
    )

    # -- fitting ----------------------------------------------------------------------------------

    def _fit_structure(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray | None, seed: int, device: torch.device
    ) -> None:
        """Learn the covariance of standardised signals, and make it the shift."""
        use = self._resolved_use(Z.shape[1])
        self._trained_with = {"use": use, "standardize": bool(self.standardize)}
        if self.shift is None:
            # Small eigenvalues are lost in the rounding of single precision.
            signals = Z.astype(np.float64, copy=False) if use == "log" else Z
            estimator = fit_covariance(resolve(self.covariance, seed), signals, weight, targets)
            self.covariance_estimator_, self.covariance_ = estimator, plain_covariance(estimator.covariance_)
            matrix = shift_matrix(estimator, use)
        else:
            self.covariance_estimator_, matrix = None, self.shift
            self.covariance_ = plain_covariance(matrix, "shift").copy()  # the caller's may change later
        if self.resample != "fixed" and not hasattr(self.covariance_estimator_, "sample"):
            raise ValueError(f'resample="{self.resample}" needs a stochastic covariance such as "acv" or "rcv".')
        shift = as_operator(matrix).normalized()
        self._trained_with["scale"] = shift.scale
        self.operator_ = _operator(shift, shift.scale, use, device)
        n = self.operator_.shape[0]
        if n != Z.shape[1]:
            raise ValueError(f"shift is {n}x{n}, but X has {Z.shape[1]} features.")

    def _resolved_use(self, n_features: int) -> str:
        """Return what ``use="auto"`` stands for."""
        if self.use != "auto":
            return str(self.use)
        plain = self.shift is not None or self.resample != "fixed" or n_features > _MOST_LOGARITHMS
        return "covariance" if plain else "log"

    @property
    def _n_members(self) -> int:
        return int(self.members)

    @property
    def _order(self) -> int:
        """K, also where ``order="auto"``."""
        if self.order != "auto":
            return int(self.order)
        return 5 if self._as_trained("use") == "log" else 2

    @property
    def _shift(self) -> CovarianceOperator:
        return self.operator_

    def _shifts(self, rng: np.random.Generator) -> Shifts:
        estimator: Any = self.covariance_estimator_

        def draw() -> CovarianceOperator:
            use = self._as_trained("use")
            operator = _operator(estimator.sample(rng), self._scale, use, self.operator_.device)
            operator.fleeting = True
            return operator

        return Shifts(self.operator_, self.resample, draw, max(self._order * len(self.hidden), 1))

    def _build(self, in_features: int, n_outputs: int) -> SVNN:
        return SVNN(
            in_features,
            n_outputs,
            hidden=[int(size) for size in self.hidden],
            order=self._order,
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
        """Return what trains the networks: for those of one layer on known signals, a faster way than by modules."""
        device = next(networks[0].parameters()).device
        possible = Plan.of(cast(SVNN, networks[0]), self.n_features_in_)
        self._by_kernel = (
            possible is not None
            and possible.n_nodes * possible.n_inputs <= _MOST_COMPILED
            and has_kernel(possible, device)
        )
        batch, validation = self._batches(data, device)
        del self._by_kernel
        self._whitening: Tensor | None = None
        whitened = self.basis == "orthonormal" and (self._order + 1) * self._n_values <= _MOST_WHITENED
        if whitened and isinstance(batch.x, PowerSignals):
            T = self._whitening = batch.x[batch.weight.amax(0) > 0].whitening()  # of the rows that count
            same = validation is not None and validation.data.x is batch.x
            batch.x = batch.x.transformed(T)
            if validation is not None:
                validation.data.x = batch.x if same else cast(PowerSignals, validation.data.x).transformed(T)
        plan = possible if isinstance(batch.x, PowerSignals) else None
        if plan is None:
            shifts, noise = self._shifts(rng), noise_generators(len(networks), draws, device)
            return ModuleTrainer(networks, self._loss, batch, validation, shifts, self._optimiser, noise)
        noise = noise_generators(len(networks), draws, torch.device("cpu"))
        kind = (
            GraphTrainer if device.type == "cuda" else CompiledTrainer if has_kernel(plan, device) else StackedTrainer
        )
        trainer = kind(cast("list[SVNN]", networks), plan, self._loss, batch, validation, self._optimiser, noise)
        if isinstance(trainer, CompiledTrainer):
            trainer.prepare(getattr(self, "loss", "cross_entropy"))
        return trainer

    @torch.no_grad()
    def _finish(self, networks: list[nn.Module], trainer: Trainer, data: TrainingData) -> None:
        """Take over the trained networks, with filters of powers of the covariance."""
        members = cast("list[SVNN]", networks)
        T = self._whitening
        for network in members if T is not None else ():
            assert T is not None
            weight = cast(CovarianceFilter, network.filters[0]).weight
            flat = T.to(weight.device).T @ weight.flatten(0, 1).double()
            weight.copy_(flat.view(weight.shape))
        del self._whitening
        self.module_ = members[0] if len(members) == 1 else Members(members).eval()

    def _batch(self, rows: Rows, device: torch.device) -> Batch:
        """Return rows for training, shifted once for all epochs where the covariance is fixed and memory allows it."""
        batch = super()._batch(rows, device)
        order = self._order
        size = 4 * rows.signals.size * (order + 1)
        if self.resample != "fixed" or size > self.cache_bytes or batch.y.device != self.operator_.device:
            return batch
        if not isinstance(batch.x, Tensor) or not fits(device, 2 * size):
            return batch
        plain = self.basis == "powers" or (order + 1) * batch.x.shape[2] > _MOST_WHITENED
        if plain and not self._by_kernel:
            return Batch(ShiftedSignals.of(batch.x, self.operator_, order), batch.y, batch.weight)
        signals = PowerSignals.from_shift(batch.x, self.operator_ if order else None, order)
        signals.scale = self.operator_.scale if order else None
        return Batch(signals, batch.y, batch.weight)

    # -- using the trained network ----------------------------------------------------------------

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, members * hidden[-1])."""
        return self._output(X, embed=True)

    @plain_torch()
    def on(self, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Self:
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
        other, signals = copy.copy(self), None
        if X is not None:
            signals = check_signals(copy.copy(self), X)
            if signals.shape[2] != self._n_values:
                raise ValueError(
                    f"X has {signals.shape[2]} values per node, the network was trained with {self._n_values}."
                )
            if signals.shape[1] != self.n_features_in_:
                active = self._as_trained("standardize")
                other._standardizer = Standardizer.fit(signals, np.ones(len(signals)), active=active)
        Z = None if signals is None else other._standardizer(signals)
        estimator, found = known_covariance(covariance, Z)
        matrix = found if estimator is None else shift_matrix(estimator, self._as_trained("use"))
        n = as_operator(matrix).shape[0]
        if signals is not None and signals.shape[1] != n:
            raise ValueError(f"the covariance has {n} features, X has {signals.shape[1]}.")
        if n != self.n_features_in_:
            readout = networks_of(self.module_)[0].readout.kind
            if readout != "mean":
                raise ValueError(
                    f'the network was trained on {self.n_features_in_} features with readout="{readout}", '
                    f'which learns about each of them; it cannot run on {n}. Train with readout="mean" to transfer.'
                )
            if X is None:
                other._standardizer = Standardizer.identity()
            other.n_features_in_ = n
            if hasattr(other, "feature_names_in_"):
                del other.feature_names_in_
        scale = self._scale if n == self.n_features_in_ else None
        shift = as_operator(matrix).normalized(scale)
        other._trained_with = {**self._trained_with, "scale": shift.scale}
        other.operator_ = _operator(shift, shift.scale, self._as_trained("use"), self.operator_.device)
        other.covariance_estimator_, other.covariance_ = estimator, plain_covariance(found).copy()
        return other

    def _as_trained(self, name: str) -> Any:
        """Return a parameter as it was in ``fit``, whatever ``set_params`` made of it since."""
        return getattr(self, "_trained_with", {}).get(name, getattr(self, name))

    @property
    def _scale(self) -> float:
        """What the covariance was divided by."""
        found: Any = self._trained_with.get("scale")
        return float(found or self.operator_.scale or 1.0)

    def save(self, path: PathLike) -> None:
        """Write the fitted estimator to ``path``: one safetensors file, its header in JSON.

        :func:`svnn.load` reads it back. ``callbacks`` are not stored. A subclass of your own is stored too, with those
        of its parameters and attributes that are numbers, text, arrays, or lists and dicts of them; name it in
        ``svnn.load(path, classes=[...])``.

        The file is replaced in one step: a save that fails leaves the old one. A symbolic link stays, its target is
        written; permissions are those of the old file, or what the umask gives.
        """
        from svnn.estimators._storage import save

        save(self, path)

    def report(self, X: DataLike, y: ColumnLike | None, path: str | Path) -> Path:
        """Write one HTML file about the model and these rows: :func:`svnn.reporting.write_report`."""
        from svnn.reporting import write_report

        return write_report(path, model=self, X=X, y=y)


def known_covariance(
    covariance: CovarianceLike | MatrixLike, Z: np.ndarray | None
) -> tuple[HasCovariance | None, MatrixLike]:
    """Return a fitted estimator and its covariance; a matrix, which has no estimator, comes with None.

    What is not fitted yet is fitted on signals (t, N, F).
    """
    given: Any = covariance
    if isinstance(given, str) or (hasattr(given, "fit") and not hasattr(given, "covariance_")):
        if Z is None:
            raise ValueError("a covariance that is not fitted yet needs data to fit it on: pass X=.")
        given = fit_covariance(resolve(given), Z)
    return (given, given.covariance_) if hasattr(given, "covariance_") else (None, given)


def plain_covariance(matrix: MatrixLike, name: str = "covariance") -> Matrix:
    """Return a matrix of any kind as an ndarray or a ``csr_array``; one of those comes back as it is."""
    return matrix if isinstance(matrix, (np.ndarray, sp.csr_array)) else numpy_matrix(matrix, name)


def networks_of(module: nn.Module) -> list[SVNN]:
    """Return the networks that a module holds: its members, or itself."""
    return module.networks if isinstance(module, Members) else [cast(SVNN, module)]


def scaled(matrix: Matrix, scale: float, use: str) -> Matrix:
    """Return what the filters are polynomials of: a matrix divided by ``scale``, or the logarithm of that."""
    divided: Matrix = matrix * (1 / scale)
    if use != "log":
        return divided
    return log_covariance(divided if isinstance(divided, np.ndarray) else divided.toarray())


def _operator(matrix: MatrixLike, scale: float | None, use: str, device: torch.device) -> CovarianceOperator:
    """Return a matrix as a normalised operator: scaled first, so that no unit overflows single precision."""
    operator = as_operator(matrix).normalized(scale)
    if use == "log":
        assert operator.scale is not None
        operator = as_operator(scaled(numpy_matrix(operator), operator.scale, use)).normalized(1.0)
    return operator.to(device=device, dtype=torch.float32)
