"""AnnData: an object in memory or backed by a file, and its layout inside of HDF5 and Zarr files.

A file is read without the package anndata, and without anything of it but the one matrix and the names of its
variables: opening it with anndata would read all layers into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import scipy.sparse as sp

from svnn.sources._arrays import ArrayTable
from svnn.sources._sparse import SparseTable, StoredSparse
from svnn.sources._table import Table

_SPARSE = {"csr_matrix": "csr", "csc_matrix": "csc"}


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
    """Tell whether a file of h5py or zarr has the layout of AnnData."""
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
