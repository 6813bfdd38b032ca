"""Objects of other packages as tables, and the layout of AnnData in HDF5 and Zarr files.

Packages are recognised by the classes of an object, so none is imported for that. A file of AnnData is read without the
package anndata, and nothing of it but the one matrix and the names of its variables: opening it with anndata would read
all layers into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.sources._stored import ArrowTable, SparseTable, StoredSparse
from svnn.sources._table import ArrayTable, Table

_SPARSE = {"csr_matrix": "csr", "csc_matrix": "csc"}


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
