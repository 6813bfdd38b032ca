"""Objects of other packages as tables: sparse matrices, Arrow such as Parquet, HDF5, Zarr, and AnnData.

Packages are recognised by the classes of an object, so none is imported for that. A file of AnnData is read without the
package anndata, and nothing of it but the one matrix and the names of its variables: opening it with anndata would read
all layers into memory. A part of a sparse table is dense at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.functional._sparse import check_sparse, check_starts, damaged
from svnn.sources._table import ArrayTable, Block, Columns, Table, naming

_INDEX = "__index_level_"
_SPARSE = {"csr_matrix": "csr", "csc_matrix": "csc"}


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


class ArrowTable(Table):
    """A Parquet file, a dataset of several files, or a table of Arrow; all columns are features.

    Parameters
    ----------
    source : pyarrow.parquet.ParquetFile, pyarrow.dataset.Dataset or pyarrow.Table
        The index of a frame that pandas stored beside its columns is no feature.
    drop : sequence of str
        Columns that are no features either; they are not read.
    """

    def __init__(self, source: Any, drop: Sequence[str] = ()) -> None:
        self._source = source
        schema = source.schema_arrow if hasattr(source, "schema_arrow") else source.schema
        absent = [name for name in drop if name not in schema.names]
        if absent:
            raise ValueError(f"there is no column {absent[0]!r} to drop.")
        is_feature = [not field.name.startswith(_INDEX) and field.name not in drop for field in schema]
        self._places = np.flatnonzero(is_feature).tolist()
        fields = [schema.field(i) for i in self._places]
        names = [field.name for field in fields]
        text = [repr(field.name) for field in fields if not _is_number(field.type)]
        if text:
            shown = ", ".join(text[:5]) + (" …" if len(text) > 5 else "")
            raise ValueError(f"X has columns that are not numbers: {shown}. Drop them or encode them first.")
        single = bool(fields) and all(str(field.type) in ("float", "halffloat") for field in fields)
        super().__init__((_count(source), len(names)), np.float32 if single else np.float64, names)

    def blocks(self, size: int) -> Iterator[Block]:
        n, start = self.shape[1], 0
        height = max(size // max(n * self.dtype.itemsize, 1), 1)
        for batch in self._batches(height):
            for a in range(0, batch.num_rows, height):  # some versions of pyarrow do not keep to the size
                part = batch.slice(a, height)
                values = np.empty((part.num_rows, n), dtype=self.dtype, order="F")
                for i, column in enumerate(part.columns):
                    values[:, i] = _numbers(column)
                yield Block(slice(start, start + len(values)), slice(0, n), values)
                start += len(values)

    def _batches(self, height: int) -> Iterator[Any]:
        if hasattr(self._source, "iter_batches"):
            if len(set(self.names or ())) == len(self._places):
                return self._source.iter_batches(batch_size=height, columns=self.names)
            batches = self._source.iter_batches(batch_size=height)  # by name, they would come in another order
            return (batch.select(self._places) for batch in batches)
        if hasattr(self._source, "to_reader"):
            return iter(self._source.select(self._places).to_batches(max_chunksize=height))
        options = {"batch_size": height, "batch_readahead": 0, "fragment_readahead": 0}
        return self._source.to_batches(columns=self.names, **options)


def _count(source: Any) -> int:
    if hasattr(source, "metadata") and hasattr(source, "iter_batches"):
        return int(source.metadata.num_rows)
    return int(source.num_rows if hasattr(source, "to_reader") else source.count_rows())


def _is_number(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _numbers(column: Any) -> np.ndarray:
    """Return a column as an array; what is missing is NaN."""
    pa = import_module("pyarrow")
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(column.type):
        column = (column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column).cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


# -- objects of other packages ----------------------------------------------------------------------


def as_table(X: object, layer: str | None = None) -> Table | None:
    """Return data that is not a plain array as a table to be read in pieces.

    Parameters
    ----------
    X : object
        An AnnData object (in memory or backed), a dataset of h5py, an array of zarr, a group of either that AnnData
        wrote, a sparse matrix of scipy, a ``ParquetFile`` or a dataset of pyarrow, a ``numpy.memmap``, or a Table.
    layer : str, optional
        The layer of an AnnData; by default its ``X``.

    Returns
    -------
    Table, or None for everything else, such as arrays, frames and tensors

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from svnn.sources import as_table
    >>> as_table(sp.eye_array(3, 4))
    SparseTable(3 samples, 4 features, float64)
    >>> as_table(np.eye(3)) is None
    True
    """
    table = _as_table(X, layer)
    if layer is not None and (table is None or not _is_anndata(X)):
        raise ValueError(f"layer={layer!r} is for AnnData only; this is a {type(X).__name__}.")
    return table


def _as_table(X: Any, layer: str | None) -> Table | None:
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        return ArrayTable(X) if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub" else None
    if sp.issparse(X):
        return SparseTable(X) if X.ndim == 2 else None
    packages = _packages(X)
    if "anndata" in packages and hasattr(X, "var_names"):
        return anndata_table(X, layer)
    if packages & {"h5py", "zarr"}:
        if hasattr(X, "keys"):
            return group_table(X, layer) if is_anndata_group(X) else None
        return ArrayTable(X) if len(X.shape) == 2 else None
    if "pyarrow" in packages and any(hasattr(X, name) for name in ("iter_batches", "to_batches")):
        return ArrowTable(X)
    return None


def _packages(X: object) -> set[str]:
    """Return the packages of the classes of an object."""
    return {each.__module__.partition(".")[0] for each in type(X).__mro__}


def _is_anndata(X: Any) -> bool:
    return "anndata" in _packages(X) or (hasattr(X, "keys") and not sp.issparse(X) and is_anndata_group(X))


def anndata_table(data: Any, layer: str | None = None) -> Table:
    """Return ``X``, or a layer, of an AnnData object."""
    if layer is not None and layer not in data.layers:
        raise _no_layer(layer, list(data.layers))
    matrix = data.X if layer is None else data.layers[layer]
    names = list(data.var_names)
    if matrix is None:
        raise _no_matrix(list(data.layers))
    if sp.issparse(matrix):
        return SparseTable(matrix, names)
    group = getattr(matrix, "group", None)  # a sparse matrix that stays in its file
    if group is not None and hasattr(matrix, "format"):
        return StoredSparse(group, matrix.format, matrix.shape, names)
    return ArrayTable(matrix, names)


def is_anndata_group(group: Any) -> bool:
    """Return whether a file of h5py or zarr has the layout of AnnData."""
    return "var" in group and "obs" in group and ("X" in group or "layers" in group)


def group_table(group: Any, layer: str | None = None) -> Table:
    """Return the matrix ``X``, or a layer, of a file that AnnData wrote."""
    layers = list(group["layers"]) if "layers" in group else []
    if layer is not None and layer not in layers:
        raise _no_layer(layer, layers)
    if layer is None and "X" not in group:
        raise _no_matrix(layers)
    matrix = group["X"] if layer is None else group["layers"][layer]
    return element_table(matrix, _names(group["var"]))


def element_table(matrix: Any, names: Sequence[object] | None = None) -> Table:
    """Return a dense array, or a group that holds a sparse matrix, of a file."""
    if hasattr(matrix, "dtype") and hasattr(matrix, "shape"):
        return ArrayTable(matrix, names)
    kind = matrix.attrs.get("encoding-type", matrix.attrs.get("h5sparse_format", ""))
    kind = _SPARSE.get(kind, kind)
    shape = matrix.attrs.get("shape", matrix.attrs.get("h5sparse_shape"))
    if kind not in ("csr", "csc") or shape is None:
        raise ValueError("it is neither an array nor a sparse matrix in the layout of AnnData.")
    return StoredSparse(matrix, kind, [int(each) for each in shape], names)


def _names(var: Any) -> list[str]:
    """Return the index of the frame of variables."""
    if not hasattr(var, "keys"):  # one array of records, as files before 2020 have it
        field = "index" if "index" in var.dtype.names else var.dtype.names[0]
        values = var[field]
    else:
        index = var[var.attrs.get("_index", "_index")]
        index = index["values"] if hasattr(index, "keys") else index
        values = index[:]
    return [each.decode() if isinstance(each, bytes) else str(each) for each in values]


def _no_layer(layer: str, layers: list[str]) -> ValueError:
    return ValueError(f"there is no layer {layer!r}; the layers are: {', '.join(map(str, layers)) or 'none'}.")


def _no_matrix(layers: list[str]) -> ValueError:
    return ValueError(f"the AnnData has no X; name one of its layers: {', '.join(map(str, layers)) or 'none'}.")
