"""Checks of the index arrays of sparse matrices, which scipy and torch do not make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from torch import Tensor


def check_sparse(matrix: Any, name: str = "X") -> Any:
    """Return a sparse matrix of scipy; raise an error where it is damaged.

    Scipy does not check indices: with one that is out of range it accesses memory outside of the matrix.

    Examples
    --------
    >>> check_sparse(sp.csr_array(([1.0], [7], [0, 1]), shape=(1, 3)))
    Traceback (most recent call last):
        ...
    ValueError: X is a damaged sparse matrix: an index of its columns is 7, but there are 3 columns.
    """
    if matrix.ndim != 2 or matrix.format == "dia":
        return matrix
    if matrix.format in ("csr", "csc", "bsr"):
        block = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        _check_lines(matrix.shape, matrix.indptr, matrix.indices, matrix.data, matrix.format != "csc", block, name)
        return matrix
    try:
        matrix = sp.coo_array(matrix)  # which checks the indices of the other formats
    except (ValueError, IndexError) as error:
        raise damaged(name, f"{error}.") from None
    for what, indices, size in zip(("row", "column"), (matrix.row, matrix.col), matrix.shape, strict=True):
        _check_indices(indices, len(matrix.data), size, what, name)
    return matrix


def check_sparse_tensor(matrix: Tensor, name: str = "X") -> None:
    """Raise an error where a sparse tensor is damaged; torch does not check indices either."""
    if matrix.ndim != 2:
        return
    layout = str(matrix.layout).removeprefix("torch.sparse_")
    if layout == "coo":
        values = matrix._values()
        for what, indices, size in zip(("row", "column"), matrix._indices(), matrix.shape, strict=False):
            _check_indices(indices.cpu().numpy(), len(values), size, what, name)
        return
    by_rows, values = layout in ("csr", "bsr"), matrix.values()
    starts = matrix.crow_indices() if by_rows else matrix.ccol_indices()
    indices = matrix.col_indices() if by_rows else matrix.row_indices()
    block = tuple(values.shape[1:3]) if layout in ("bsr", "bsc") else (1, 1)
    _check_lines(matrix.shape, starts.cpu().numpy(), indices.cpu().numpy(), values, by_rows, block, name)


def check_starts(starts: np.ndarray, n_values: int, lines: int, name: str = "X") -> None:
    """Raise an error where ``starts``, the ``indptr`` of a sparse matrix, is not valid."""
    if starts.dtype.kind not in "iu" or starts.shape != (lines + 1,):
        raise damaged(
            name,
            f"its shape and its indices disagree: its indptr must be {lines + 1} integers, got {starts.dtype} of "
            f"shape {starts.shape}.",
        )
    if starts[0] != 0 or starts[-1] != n_values or bool((starts[1:] < starts[:-1]).any()):
        raise damaged(name, f"its indptr must rise from 0 to the number of its values, {n_values}, and never fall.")


def damaged(name: str, why: str) -> ValueError:
    """Return the error about a damaged sparse matrix."""
    return ValueError(f"{name} is a damaged sparse matrix: {why}")


def _check_lines(
    shape: tuple[int, ...],
    starts: np.ndarray,
    indices: np.ndarray,
    values: Any,
    by_rows: bool,
    block: tuple[int, ...],
    name: str,
) -> None:
    """Raise an error where the compressed rows, or columns, of a sparse matrix are not valid."""
    rows, columns = (size // each for size, each in zip(shape, block, strict=True))
    lines, width, what = (rows, columns, "column") if by_rows else (columns, rows, "row")
    check_starts(starts, len(indices), lines, name)
    _check_indices(indices, len(values), width, what, name)


def _check_indices(indices: np.ndarray, n_values: int, size: int, what: str, name: str) -> None:
    if len(indices) != n_values:
        raise damaged(name, f"it has {n_values} values, but {len(indices)} indices of {what}s.")
    wrong = [int(each) for each in (indices.min(), indices.max()) if not 0 <= each < size] if len(indices) else []
    if wrong:
        raise damaged(name, f"an index of its {what}s is {wrong[0]}, but there are {size} {what}s.")
