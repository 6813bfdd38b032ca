"""A covariance for each row, or for each group of rows, in place of one for the whole table."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from svnn._types import ColumnLike, CovarianceLike
from svnn._validation import check_groups
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.operators import BatchedOperator, CovarianceOperator
from svnn.operators._batched import checked_batch

#: The fewest observations of a covariance.
_FEWEST = 2


@dataclass(frozen=True)
class PerSample:
    """The source of the covariance of each row.

    Attributes
    ----------
    per : {"sample", "group", "given"}
        The values of the row itself, those of all rows of its group, or a matrix that comes with the row.
    covariance : name or estimator
        What estimates the covariances, as it was in ``fit``.
    seed : int
        Of random estimators.
    """

    per: str
    covariance: CovarianceLike
    seed: int

    @classmethod
    def of(cls, model: Any, shift: object, seed: int) -> PerSample | None:
        """Return what the parameters of a model and ``shift``, given to ``fit``, ask for; None for one covariance."""
        per = model.covariance_per if shift is None else "given"
        if per == "table":
            return None
        name = f'covariance_per="{per}"' if shift is None else "shift="
        if shift is None and given_matrix(model.covariance) is not None:
            raise ValueError(
                f"{name} estimates covariances from the rows, but covariance= is a matrix; use an estimator, or "
                'covariance_per="table".'
            )
        if model.use not in ("auto", "covariance"):
            raise ValueError(
                f'{name} uses the covariances themselves, not use="{model.use}"; give other matrices of the rows to '
                "fit and predict as shift=."
            )
        if model.resample != "fixed":
            raise ValueError(f'{name} has one covariance for each row, resample="{model.resample}" draws others.')
        return cls(per, copy.deepcopy(model.covariance), seed)  # set_params may change the model's own later

    @property
    def needs(self) -> str | None:
        """The argument that has to come with rows: "shift", "groups" or None."""
        return {"given": "shift", "group": "groups"}.get(self.per)

    def matrices(self, Z: np.ndarray, shift: object = None, groups: ColumnLike | None = None) -> RowMatrices:
        """Return the matrices of standardised signals (t, N, F)."""
        if self.per == "given":
            if shift is None:
                raise ValueError("the model was fitted with a matrix for each row; give those of X as shift=.")
            return RowMatrices.given(shift, *Z.shape[:2])
        check_no_shift(shift)
        if self.per == "sample":
            return RowMatrices.of_samples(self.covariance, Z, self.seed)
        return RowMatrices.of_groups(self.covariance, Z, groups, self.seed)


def check_no_shift(shift: object) -> None:
    """Raise an error where rows come with matrices that the model was not fitted with."""
    if shift is not None:
        raise ValueError("shift= is for models that were fitted with a matrix for each row; leave it out.")


def given_matrix(covariance: Any) -> Any:
    """Return ``covariance`` where it is a matrix or an operator; None for names and estimators."""
    is_matrix = any(hasattr(covariance, name) for name in ("shape", "to_dense", "covariance_"))
    plain = isinstance(covariance, (list, tuple)) or (is_matrix and not hasattr(covariance, "fit"))
    return covariance if plain else None


@dataclass(frozen=True)
class RowMatrices:
    """Matrices (G, N, N), and which of them each of t rows has."""

    matrices: np.ndarray
    index: np.ndarray

    def __getitem__(self, rows: np.ndarray | slice) -> RowMatrices:
        """Return those of some rows."""
        return RowMatrices(self.matrices, self.index[rows])

    def norm(self) -> float:
        """Return the mean of the spectral norms over the rows, 1 where all matrices are zero."""
        norms = BatchedOperator(torch.from_numpy(self.matrices)).norms().numpy()
        return float(norms[self.index].mean()) or 1.0

    def mean(self) -> np.ndarray:
        """Return the mean matrix over the rows."""
        counts = np.bincount(self.index, minlength=len(self.matrices))
        found: np.ndarray = np.tensordot(counts / counts.sum(), self.matrices, 1)
        return found

    def operator(self, scale: float, dtype: torch.dtype, device: torch.device) -> CovarianceOperator:
        """Return the operator that shifts every row by its own matrix, divided by ``scale``."""
        used, index = np.unique(self.index, return_inverse=True)
        matrices = torch.from_numpy(self.matrices[used] / scale).to(device, dtype)
        operator: CovarianceOperator = BatchedOperator(matrices).normalized(1.0)
        if len(used) < len(index) or not np.array_equal(index, np.arange(len(index))):
            operator = operator[torch.from_numpy(index)]  # type: ignore[index]
        return operator

    @classmethod
    def given(cls, shift: Any, n_rows: int, n_nodes: int) -> RowMatrices:
        """Return the matrices that a caller gave, one for each row."""
        values = to_numpy(shift.detach()) if is_torch(shift) else np.asarray(shift)
        if values.shape != (n_rows, n_nodes, n_nodes):
            raise ValueError(
                f"shift must hold a matrix for each row of X, of shape {(n_rows, n_nodes, n_nodes)}, "
                f"got {values.shape}; pass one matrix of all rows as covariance=."
            )
        return cls(checked_batch(values, "shift").double().numpy(), np.arange(n_rows))

    @classmethod
    def of_samples(cls, covariance: CovarianceLike, Z: np.ndarray, seed: int | None) -> RowMatrices:
        """Return the covariance of each of the signals (t, N, F), whose F values are the observations."""
        if Z.shape[2] < _FEWEST:
            raise ValueError(
                'covariance_per="sample" needs X of shape (t, N, F): the F values of a row, two or more, are the '
                f"observations of its covariance; got F = {Z.shape[2]}."
            )
        matrices = [_covariance(covariance, Z[i : i + 1], seed, f"row {i}") for i in range(len(Z))]
        return cls(np.stack(matrices), np.arange(len(Z)))

    @classmethod
    def of_groups(
        cls, covariance: CovarianceLike, Z: np.ndarray, groups: ColumnLike | None, seed: int | None
    ) -> RowMatrices:
        """Return the covariance of each group of the signals (t, N, F), whose rows and values are the observations."""
        if groups is None:
            raise ValueError('covariance_per="group" needs groups=, the group of every row of X.')
        names, index = np.unique(check_groups(groups, len(Z)), return_inverse=True)
        matrices = []
        for k, name in enumerate(names):
            own = Z[index == k]
            if len(own) * Z.shape[2] < _FEWEST:
                raise ValueError(f"group {name} has a single observation, which has no covariance; give it more rows.")
            matrices.append(_covariance(covariance, own, seed, f"group {name}"))
        return cls(np.stack(matrices), index)


def _covariance(covariance: CovarianceLike, Z: np.ndarray, seed: int | None, name: str) -> np.ndarray:
    # As rows of a table: the estimators of all packages take that.
    table = Z.swapaxes(1, 2).reshape(-1, Z.shape[1])
    try:
        found = fit_covariance(resolve(covariance, seed), np.ascontiguousarray(table, dtype=np.float64))
    except ValueError as error:
        raise ValueError(f"the covariance of {name} could not be estimated: {error}") from error
    matrix = numpy_matrix(found.covariance_, "covariance")
    dense: np.ndarray = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    return dense
