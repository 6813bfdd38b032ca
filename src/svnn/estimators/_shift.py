"""The covariance of the training rows as a shift: what the filters of a network are polynomials of."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from svnn._types import CovarianceLike, HasCovariance, HasFit, Matrix, MatrixLike
from svnn.covariance._resolve import fit_covariance, resolve, shift_matrix
from svnn.estimators._data import Data
from svnn.estimators._per_sample import PerSample, given_matrix
from svnn.functional import LowRankPlusSparse, log_covariance
from svnn.functional._matrix import numpy_matrix
from svnn.operators import CovarianceOperator, as_operator

#: Features up to which ``use="auto"`` decomposes the covariance.
_MOST_LOGARITHMS = 1000


@dataclass(frozen=True)
class Shift:
    """The matrix that filters are polynomials of.

    Attributes
    ----------
    operator : CovarianceOperator
        In single precision, on the device of the network.
    covariance : matrix of shape (N, N)
        The covariance of the standardised features; where rows have covariances of their own, the mean of them.
    scale : float
        The number by which the covariance is divided.
    use : {"covariance", "log", "precision"}
    estimator : fitted estimator or None
    per_sample : PerSample or None
        Where the covariances of rows come from; None where all rows share one.
    is_given : bool
        Whether the caller gave the matrix, so that nothing updates it.
    """

    operator: CovarianceOperator
    covariance: Matrix
    scale: float
    use: str
    estimator: HasCovariance | None = None
    per_sample: PerSample | None = None
    is_given: bool = False


def learn_shift(model: Any, data: Data, per_sample: PerSample | None, seed: int, device: torch.device) -> Shift:
    """Return the covariance of the training rows as a shift; ``model`` has ``covariance``, ``use`` and ``resample``."""
    rows = data.training
    if per_sample is None:
        return _learned(model, rows.signals, data.given_weight, data.given_targets, seed, device)
    assert rows.matrices is not None
    scale, mean = rows.matrices.norm(), rows.matrices.mean()
    operator = as_operator(mean).normalized(scale).to(device=device, dtype=torch.float32)
    return Shift(operator, mean, scale, "covariance", None, per_sample)


def learn_shift_without(model: Any, data: Data, shift: Shift, seed: int, device: torch.device) -> Shift:
    """Return the shift of the rows that a fold trains on; it is ``shift`` itself where that has no estimator."""
    if shift.estimator is None:
        return shift
    (left_out,) = data.folds
    kept = np.setdiff1d(np.arange(len(data.given_targets)), left_out)
    weight = None if data.given_weight is None else data.given_weight[kept]
    return _learned(model, data.training.signals[kept], weight, data.given_targets[kept], seed, device)


def _learned(
    model: Any, Z: np.ndarray, weight: np.ndarray | None, targets: np.ndarray, seed: int, device: torch.device
) -> Shift:
    matrix = given_matrix(model.covariance)
    use = _resolved_use(model, Z.shape[1], matrix is not None)
    estimator: HasCovariance | None = None
    if matrix is None:
        # Small eigenvalues are lost in the rounding of single precision.
        signals = Z.astype(np.float64, copy=False) if use == "log" else Z
        estimator = fit_covariance(resolve(model.covariance, seed), signals, weight, targets)
        covariance, matrix = plain_covariance(estimator.covariance_), shift_matrix(estimator, use)
    else:
        covariance = plain_covariance(matrix).copy()  # the caller's may change later
        if len(covariance.shape) == 3:
            raise ValueError(
                "covariance= is one matrix for all rows; give a matrix for each to fit and predict as shift=."
            )
    if model.resample != "fixed" and not hasattr(estimator, "sample"):
        raise ValueError(f'resample="{model.resample}" needs a stochastic covariance such as "acv" or "rcv".')
    divided = as_operator(matrix).normalized()
    assert divided.scale is not None
    n = divided.shape[0]
    if n != Z.shape[1]:
        raise ValueError(f"covariance is a matrix of {n}x{n}, but X has {Z.shape[1]} features.")
    operator = _operator(divided, divided.scale, use, device)
    return Shift(operator, covariance, divided.scale, use, estimator, is_given=estimator is None)


def updated_shift(shift: Shift, Z: np.ndarray, weight: np.ndarray | None) -> Shift:
    """Return a shift with standardised signals added to its covariance, divided by the number of ``fit``."""
    if shift.is_given:
        return shift
    if shift.estimator is None:
        raise ValueError(
            "this model was loaded without its covariance estimator, so partial_fit cannot update it; fit all rows "
            "again."
        )
    check_partial_fit(shift.estimator)
    signals = Z.astype(np.float64, copy=False) if shift.use == "log" else Z
    estimator: Any = copy.copy(shift.estimator)  # the model stays as it was where something fails later
    estimator.partial_fit(signals[..., 0] if signals.shape[2] == 1 else signals, sample_weight=weight)
    operator = _operator(shift_matrix(estimator, shift.use), shift.scale, shift.use, shift.operator.device)
    return replace(shift, operator=operator, covariance=plain_covariance(estimator.covariance_), estimator=estimator)


def check_partial_fit(estimator: HasFit | HasCovariance) -> None:
    """Raise an error where a covariance estimator has no ``partial_fit``."""
    try:
        estimator.partial_fit  # type: ignore[union-attr]  # noqa: B018
    except AttributeError as error:
        why = f" ({error})" if "here:" in str(error) else ""
        raise ValueError(
            f"partial_fit needs a covariance estimator with partial_fit, but {type(estimator).__name__} has "
            f'none{why}. Use covariance="sample", "hard", "soft", "acv" or "rcv", or fit all rows again.'
        ) from error


def sampled_operator(shift: Shift, rng: np.random.Generator) -> CovarianceOperator:
    """Return a fresh realisation of a stochastic covariance."""
    estimator: Any = shift.estimator
    operator = _operator(estimator.sample(rng), shift.scale, shift.use, shift.operator.device)
    operator.fleeting = True
    return operator


def shift_on(shift: Shift, covariance: CovarianceLike | MatrixLike, Z: np.ndarray | None) -> Shift:
    """Return the shift by another covariance: of the same size divided by the same number, of another by its norm.

    What is not fitted yet is fitted on standardised signals Z (t, N, F).
    """
    estimator, found = known_covariance(covariance, Z)
    matrix = as_operator(found if estimator is None else shift_matrix(estimator, shift.use))
    divided = matrix.normalized(shift.scale if matrix.shape == shift.operator.shape else None)
    assert divided.scale is not None
    operator = _operator(divided, divided.scale, shift.use, shift.operator.device)
    own = plain_covariance(found).copy()
    return Shift(operator, own, divided.scale, shift.use, estimator, is_given=estimator is None)


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


def plain_covariance(matrix: MatrixLike) -> Matrix:
    """Return any matrix as an ndarray or a ``csr_array``; one of those comes back as it is.

    So does a matrix of factors and a sparse rest, which may be too large to be written out.
    """
    own = isinstance(matrix, (np.ndarray, sp.csr_array, LowRankPlusSparse))
    return matrix if own else numpy_matrix(matrix, "covariance")


def scaled(matrix: Matrix, scale: float, use: str) -> Matrix:
    """Return what the filters are polynomials of: a matrix divided by ``scale``, or the logarithm of that."""
    divided: Matrix = matrix * (1 / scale)
    if use != "log":
        return divided
    return log_covariance(divided if isinstance(divided, np.ndarray) else divided.toarray())


def _operator(matrix: MatrixLike, scale: float, use: str, device: torch.device) -> CovarianceOperator:
    """Return a matrix as a normalised operator: scaled first, so that no unit overflows single precision."""
    operator = as_operator(matrix).normalized(scale)
    if use == "log":
        operator = as_operator(scaled(numpy_matrix(operator), scale, use)).normalized(1.0)
    return operator.to(device=device, dtype=torch.float32)


def _resolved_use(model: Any, n_features: int, is_given: bool) -> str:
    """Return what the parameter ``use`` stands for."""
    if model.use != "auto":
        return str(model.use)
    plain = is_given or model.resample != "fixed" or n_features > _MOST_LOGARITHMS
    return "covariance" if plain else "log"
