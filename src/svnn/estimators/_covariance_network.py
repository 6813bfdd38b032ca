"""What the S-VNN regressor and classifier share: the covariance of the data as a shift, and the network on it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import declared, fitted
from svnn._types import ColumnLike, CovarianceLike, DataLike, HasCovariance, HasFit, Matrix, MatrixLike
from svnn.covariance._resolve import fit_covariance, resolve, shift_matrix
from svnn.covariance._running_moments import decaying
from svnn.estimators._exports import Exports
from svnn.estimators._folds import Shift
from svnn.estimators._going_on import can_go_on
from svnn.estimators._going_on import networks_of as networks_of
from svnn.estimators._model_file import PathLike
from svnn.estimators._own_covariances import OwnCovariances
from svnn.estimators._summary import NetworkSummary
from svnn.estimators._training_data import Standardizer, check_signals, relative
from svnn.estimators.training import Shifts, plain_torch
from svnn.functional import log_covariance
from svnn.functional._matrix import numpy_matrix
from svnn.functional.low_rank import LowRankPlusSparse
from svnn.nn import SVNN, Members
from svnn.operators import CovarianceOperator, as_operator

#: Features up to which ``use="auto"`` decomposes the covariance.
_MOST_LOGARITHMS = 1000


@declared
class CovarianceNetwork(NetworkSummary, Exports, OwnCovariances):
    """Base of :class:`SVNNRegressor` and :class:`SVNNClassifier`: all that does not depend on what is predicted."""

    hidden: Sequence[int] = (8,)
    activation: str = "silu"
    batch_norm: bool = False
    schedule: str = "one_cycle"
    patience: int | None = 30

    module_: SVNN | Members = fitted(
        kind="svnn.nn.SVNN or svnn.nn.Members", doc="The trained network, or several of them that predict together."
    )

    # -- fitting ----------------------------------------------------------------------------------

    def _fit_structure(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray | None, seed: int, device: torch.device
    ) -> None:
        """Learn the covariance of standardised signals, and make it the shift."""
        use = self._resolved_use(Z.shape[1])
        self._trained_with = getattr(self, "_trained_with", {}) | {"use": use, "standardize": bool(self.standardize)}
        found = self._learn_shift(Z, weight, targets, seed, device)
        self.covariance_estimator_, self.covariance_, self.operator_, self._trained_with["scale"] = found
        self._trained_with["rows"] = self._counted(len(Z), weight)

    def _learn_shift(
        self, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray | None, seed: int, device: torch.device
    ) -> Shift:
        """Return the covariance of standardised signals as what filters are polynomials of."""
        use = self._resolved_use(Z.shape[1])
        estimator: HasCovariance | None = None
        if self.shift is None:
            # Small eigenvalues are lost in the rounding of single precision.
            signals = Z.astype(np.float64, copy=False) if use == "log" else Z
            unfitted = with_halflife(resolve(self.covariance, seed), self.halflife)
            estimator = fit_covariance(unfitted, signals, weight, targets)
            covariance = plain_covariance(estimator.covariance_)
            matrix = shift_matrix(estimator, use)
        else:
            matrix = self.shift
            covariance = plain_covariance(matrix, "shift").copy()  # the caller's may change later
        if self.resample != "fixed" and not hasattr(estimator, "sample"):
            raise ValueError(f'resample="{self.resample}" needs a stochastic covariance such as "acv" or "rcv".')
        shift = as_operator(matrix).normalized()
        assert shift.scale is not None
        operator = _operator(shift, shift.scale, use, device)
        n = operator.shape[0]
        if n != Z.shape[1]:
            raise ValueError(f"shift is {n}x{n}, but X has {Z.shape[1]} features.")
        return Shift(estimator, covariance, operator, shift.scale)

    @property
    def _present_shift(self) -> Shift:
        return Shift(self.covariance_estimator_, self.covariance_, self.operator_, self._scale)

    def _counted(self, n_rows: int, weight: np.ndarray | None) -> float:
        """Return what rows count together, the newest one as 1."""
        found: Any = decaying(weight, self.halflife, np.empty((n_rows, 1)))
        return float(n_rows if found is None else relative(np.asarray(found, dtype=np.float64)).sum())

    def _update_structure(self, Z: np.ndarray, weight: np.ndarray | None) -> None:
        use: str = self._as_trained("use")
        estimator: Any = self.covariance_estimator_
        if estimator is None:
            if self.shift is None:
                raise ValueError(
                    "this model was loaded without its covariance estimator, so partial_fit cannot go on; fit all rows "
                    "again."
                )
            return  # a precomputed shift stays as it is
        can_go_on(estimator)
        signals = Z.astype(np.float64, copy=False) if use == "log" else Z
        # A copy: the model goes on as it was where something fails later.
        going_on: Any = copy.copy(estimator).set_params(
            **({} if self.halflife is None else {"halflife": self.halflife})
        )
        going_on.partial_fit(signals[..., 0] if signals.shape[2] == 1 else signals, sample_weight=weight)
        self.covariance_estimator_, self.covariance_ = going_on, plain_covariance(going_on.covariance_)
        self.operator_ = _operator(shift_matrix(going_on, use), self._scale, use, self.operator_.device)

    def _resolved_use(self, n_features: int) -> str:
        """Return what ``use="auto"`` stands for."""
        if self.use != "auto":
            return str(self.use)
        plain = self.shift is not None or self.resample != "fixed" or n_features > _MOST_LOGARITHMS
        return "covariance" if plain else "log"

    @property
    def _shift(self) -> CovarianceOperator:
        return self.operator_

    def _shifts_of(self, shift: Shift, rng: np.random.Generator) -> Shifts:
        estimator: Any = shift.estimator

        def draw() -> CovarianceOperator:
            use = self._as_trained("use")
            operator = _operator(estimator.sample(rng), shift.scale, use, shift.operator.device)
            operator.fleeting = True
            return operator

        return Shifts(shift.operator, self.resample, draw, max(self._order * len(self.hidden), 1))

    # -- using the trained network ----------------------------------------------------------------

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
            standardised, and a warning says so).

        Returns
        -------
        A fitted estimator that shares the weights. With the same N it applies exactly the same
        filters, the matrix divided by the same number as in training, so that outputs can be
        compared. With another N (which needs ``readout="mean"``) the matrix is scaled to unit
        spectral norm as in training. A model whose rows have covariances of their own becomes one with this covariance
        for all rows.
        """
        other = self._on(covariance, X)
        if X is None and other.n_features_in_ != self.n_features_in_ and self._as_trained("standardize"):
            warnings.warn(
                f"the means and scales of {self.n_features_in_} features do not apply to {other.n_features_in_}: "
                "features have to come standardised. Give rows of them as X= to learn their means and scales.",
                stacklevel=3,  # beyond plain_torch
            )
        return other

    def _on(self, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Self:
        """Return what :meth:`on` does, for those who do not care about the units of features."""
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
        other._trained_with = {**self._trained_with, "scale": shift.scale, "per": "table"}
        other.operator_ = _operator(shift, shift.scale, self._as_trained("use"), self.operator_.device)
        other.covariance_estimator_, other.covariance_ = estimator, plain_covariance(found).copy()
        return other

    @property
    def _scale(self) -> float:
        """What the covariance was divided by."""
        found: Any = self._trained_with.get("scale")
        return float(found or self.operator_.scale or 1.0)

    def save(self, path: PathLike) -> None:
        """Write the fitted estimator to ``path``: one safetensors file, its header in JSON.

        :func:`svnn.load` reads it back. ``callbacks`` and ``checkpoint`` are not stored. A subclass of your own is
        stored too, with those of its parameters and attributes that are numbers, text, arrays, or lists and dicts of
        them; name it in ``svnn.load(path, classes=[...])``.

        The file is replaced in one step: a save that fails leaves the old one. A symbolic link stays, its target is
        written; permissions are those of the old file, or what the umask gives.
        """
        from svnn.estimators._storage import save

        save(self, path)

    def report(self, X: DataLike, y: ColumnLike | None, path: str | Path) -> Path:
        """Write one HTML file about the model and these rows: :func:`svnn.reporting.write_report`."""
        check_is_fitted(self)
        self._of_one_covariance("a report")
        from svnn.reporting import write_report

        return write_report(path, model=self, X=X, y=y)


def with_halflife(estimator: HasFit, halflife: float | None) -> HasFit:
    """Return a covariance estimator in which older rows count less, or say why it cannot be."""
    if halflife is None:
        return estimator
    parameters: dict[str, object] = getattr(estimator, "get_params", dict)()
    name = type(estimator).__name__
    if "halflife" not in parameters:
        raise ValueError(
            f'halflife={halflife!r} needs a covariance that has one, but {name} has none; use covariance="sample" or a '
            'sparsifier such as "hard", which may take another covariance as its base=, or halflife=None.'
        )
    if parameters["halflife"] not in (None, halflife):
        raise ValueError(
            f"halflife={halflife!r} here and halflife={parameters['halflife']!r} of {name} differ; give one of them."
        )
    cast(Any, estimator).set_params(halflife=halflife)
    return estimator


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
    """Return a matrix of any kind as an ndarray or a ``csr_array``; one of those comes back as it is.

    So does a matrix of factors and a sparse rest, which may be too large to be written out.
    """
    own = isinstance(matrix, (np.ndarray, sp.csr_array, LowRankPlusSparse))
    return matrix if own else numpy_matrix(matrix, name)


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
