"""From the entries above the diagonal to the symmetric sparse matrix."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from svnn.covariance._blocked import Upper, kernels


def symmetric_matrix(upper: Upper, diagonal: Tensor, unit: Tensor, dtype: torch.dtype, as_tensor: bool) -> Any:
    """Return the matrix of ``unit_i unit_j value_ij`` and of ``diagonal``, in CSR form with sorted columns.

    It is a ``csr_array`` or, with ``as_tensor``, a sparse CSR tensor on the device of its parts. Zeros
    on the diagonal are not stored.
    """
    n, nnz = len(diagonal), 2 * len(upper.columns) + int(torch.count_nonzero(diagonal))
    small = nnz < 2**31 and not as_tensor
    index = torch.int32 if small else torch.int64
    starts = torch.empty(n + 1, dtype=index, device=diagonal.device)
    indices = torch.empty(nnz, dtype=index, device=diagonal.device)
    data = torch.empty(nnz, dtype=dtype, device=diagonal.device)
    if diagonal.device.type == "cpu" and kernels() is not None:
        parts = (*upper[:3], diagonal, unit, starts, indices, data)
        kernels().symmetric(*(part.numpy() for part in parts))
    else:
        _fill(upper, diagonal, unit, starts, indices, data)
    if as_tensor:
        return csr_tensor(starts, indices, data)
    matrix = sp.csr_array((data.numpy(), indices.numpy(), starts.numpy()), shape=(n, n))
    matrix.has_canonical_format = True
    return matrix


def csr_tensor(starts: Any, indices: Any, data: Any) -> Tensor:
    """Return the square sparse CSR tensor of these parts."""
    n = len(starts) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, indices, data, size=(n, n), check_invariants=False)


def through_scipy(matrix: Any, repair: Any) -> Any:
    """Apply a function of scipy's sparse matrices to one of either kind."""
    if not isinstance(matrix, Tensor):
        return repair(matrix)
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    repaired = repair(sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=tuple(matrix.shape)))
    new = (np.asarray(part) for part in (repaired.indptr, repaired.indices, repaired.data))
    starts, indices, data = (torch.from_numpy(part).to(matrix.device) for part in new)
    return csr_tensor(starts.long(), indices.long(), data.to(matrix.dtype))


def _fill(upper: Upper, diagonal: Tensor, unit: Tensor, starts: Tensor, indices: Tensor, data: Tensor) -> None:
    """Write the CSR arrays: in each row the entries left of the diagonal, it, and those right of it."""
    n, size, device = len(diagonal), len(upper.columns), diagonal.device
    rows, columns = upper.rows().long(), upper.columns.long()
    values = (upper.values * unit[rows] * unit[columns]).to(data.dtype)
    on_diagonal = (diagonal != 0).long()
    left = torch.bincount(columns, minlength=n)
    starts[0] = 0
    starts[1:] = torch.cumsum(left + on_diagonal + upper.counts, 0)
    start = starts[:-1].long()
    # Sorted by column, and stable, the entries are the transposed matrix row by row.
    order = torch.argsort(columns, stable=True)
    within = torch.arange(size, device=device)
    at = (start - torch.cumsum(left, 0) + left)[columns[order]] + within
    indices[at], data[at] = rows[order].to(indices.dtype), values[order]
    at = start[diagonal != 0] + left[diagonal != 0]
    indices[at] = torch.nonzero(diagonal)[:, 0].to(indices.dtype)
    data[at] = diagonal[diagonal != 0].to(data.dtype)
    at = (start + left + on_diagonal - torch.cumsum(upper.counts, 0) + upper.counts)[rows] + within
    indices[at], data[at] = columns.to(indices.dtype), values
