"""Whether a sparse matrix is one: scipy believes what its arrays say."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def check_sparse(matrix: Any, name: str = "X") -> Any:
    """Return a sparse matrix of scipy; raise an error where it is damaged.

    Scipy trusts its indices: with one that is out of range it reads and writes memory that is not the matrix's.

    Examples
    --------
    >>> check_sparse(sp.csr_array(([1.0], [7], [0, 1]), shape=(1, 3)))
    Traceback (most recent call last):
        ...
    ValueError: X is a damaged sparse matrix: an index of its columns is 7, but there are 3 columns.
    """
    if matrix.ndim != 2 or matrix.format == "dia":
        return matrix
    if matrix.format not in ("csr", "csc", "bsr"):  # an index of the other formats that is out of range ends here
        try:
            matrix = sp.coo_array(matrix)
        except (ValueError, IndexError) as error:
            raise damaged(name, f"{error}.") from None
        values, ends = matrix.data, [("row", matrix.row, matrix.shape[0]), ("column", matrix.col, matrix.shape[1])]
    else:
        block = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        shape = [size // each for size, each in zip(matrix.shape, block, strict=True)]
        lines, width = shape[::-1] if matrix.format == "csc" else shape
        check_starts(matrix.indptr, len(matrix.indices), lines, name)
        across = "row" if matrix.format == "csc" else "column"
        values, ends = matrix.data, [(across, matrix.indices, width)]
    for what, indices, size in ends:
        if len(indices) != len(values):
            raise damaged(name, f"it has {len(values)} values, but {len(indices)} indices of {what}s.")
        wrong = [int(each) for each in (indices.min(), indices.max()) if not 0 <= each < size] if len(indices) else []
        if wrong:
            raise damaged(name, f"an index of its {what}s is {wrong[0]}, but there are {size} {what}s.")
    return matrix


def check_starts(starts: np.ndarray, n_values: int, lines: int, name: str = "X") -> None:
    """Raise an error where ``starts``, the ``indptr`` of a sparse matrix, cannot say where its lines begin."""
    if starts.dtype.kind not in "iu" or starts.shape != (lines + 1,):
        raise damaged(
            name,
            f"it does not have the shape that it says: its indptr must be {lines + 1} integers, got {starts.dtype} of "
            f"shape {starts.shape}.",
        )
    if starts[0] != 0 or starts[-1] != n_values or bool((starts[1:] < starts[:-1]).any()):
        raise damaged(name, f"its indptr must rise from 0 to the number of its values, {n_values}, and never fall.")


def damaged(name: str, why: str) -> ValueError:
    """Return the error about a sparse matrix that cannot be one."""
    return ValueError(f"{name} is a damaged sparse matrix: {why}")
