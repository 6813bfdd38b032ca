"""A covariance for each row, or for each group of rows, in place of one for the whole table."""

from __future__ import annotations

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

#: Observations of a covariance at least.
_FEWEST = 2


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
                f'got {values.shape}; for one matrix of all rows set covariance="precomputed" and shift=matrix.'
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
