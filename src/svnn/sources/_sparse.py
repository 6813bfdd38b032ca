"""Sparse tables, in memory and in files: some of them is made dense at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.functional._sparse import check_sparse, check_starts, damaged
from svnn.sources._table import Block, Columns, Table, naming


class SparseTable(Table):
    """A sparse matrix of scipy as a table: values that are not stored are zeros, as counts have them.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> table = SparseTable(sp.csr_array([[0, 2], [1, 0], [0, 3]]))
    >>> table.columns(limit=10**6)[:, 1:2].T
    array([[2, 0, 3]])
    """

    def __init__(self, matrix: Any, names: Sequence[object] | None = None) -> None:
        super().__init__(matrix.shape, matrix.dtype, names)
        self._matrix = check_sparse(matrix)

    def blocks(self, size: int) -> Iterator[Block]:
        t, n = self.shape
        matrix = sp.csr_array(self._matrix)
        height = max(size // max(n * self.dtype.itemsize, 1), 1)
        for a in range(0, t, height):
            rows = slice(a, min(a + height, t))
            yield Block(rows, slice(0, n), matrix[rows].toarray())

    def columns(self, limit: int) -> Columns:
        """Return the columns, which are stored as sparsely as the matrix."""
        matrix = sp.csc_array(self._matrix)
        return Columns(self.shape, self.dtype, lambda a, b: matrix[:, a:b].toarray())


class StoredSparse(Table):
    """A sparse matrix in a file, as AnnData writes it: a group with ``data``, ``indices`` and ``indptr``.

    Parameters
    ----------
    group : group of h5py or zarr
    kind : {"csr", "csc"}
        Whether rows or columns are stored one after the other.
    shape : (t, N)
    names : list of str, optional
    """

    def __init__(self, group: Any, kind: str, shape: Sequence[int], names: Sequence[object] | None = None) -> None:
        super().__init__(shape, group["data"].dtype, names)
        self._by_rows = kind == "csr"
        self._values, self._places = group["data"], group["indices"]
        n_values, n_places = (part.shape for part in (self._values, self._places))
        if len(n_values) != 1 or n_values != n_places or np.dtype(self._places.dtype).kind not in "iu":
            raise damaged("X", f"its data and indices must be lists of one length, got {n_values} and {n_places}.")
        starts = np.asarray(group["indptr"][:])
        check_starts(starts, n_values[0], self.shape[0] if self._by_rows else self.shape[1])
        self._starts = starts.astype(np.int64)

    def blocks(self, size: int) -> Iterator[Block]:
        t, n = self.shape
        lines, length = (t, n) if self._by_rows else (n, t)
        step = max(size // max(length * self.dtype.itemsize, 1), 1)
        for a in range(0, lines, step):
            some = slice(a, min(a + step, lines))
            dense = self._part(some.start, some.stop).toarray()
            yield Block(some, slice(0, n), dense) if self._by_rows else Block(slice(0, t), some, dense)

    def columns(self, limit: int) -> Any:
        """Return the columns: of the matrix in memory, where it takes at most a quarter of ``limit``.

        A larger one is read from the file, where its columns are one after the other there, or made dense.
        """
        size = self._values.shape[0] * (self._values.dtype.itemsize + self._places.dtype.itemsize)
        if size <= limit // 4:
            return SparseTable(self._part(0, len(self._starts) - 1)).columns(limit)
        if not self._by_rows:
            return Columns(self.shape, self.dtype, lambda a, b: self._part(a, b).toarray())
        return self.stored(limit)

    def _part(self, a: int, b: int) -> Any:
        """Return some of the rows, or of the columns, as a matrix of scipy."""
        first, last = int(self._starts[a]), int(self._starts[b])
        with naming("X"):
            values, places = self._values[first:last], self._places[first:last]
            parts = (np.asarray(values, dtype=self.dtype), np.asarray(places), self._starts[a : b + 1] - first)
            if self._by_rows:
                return check_sparse(sp.csr_array(parts, shape=(b - a, self.shape[1])))
            return check_sparse(sp.csc_array(parts, shape=(self.shape[0], b - a)))
