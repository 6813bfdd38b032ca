"""Objects of other packages as tables. They are known by their classes, so that no package is imported to ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.sources._anndata import anndata_table, group_table, is_anndata_group
from svnn.sources._arrays import ArrayTable
from svnn.sources._parquet import ArrowTable
from svnn.sources._sparse import SparseTable
from svnn.sources._table import Table


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
    found = _as_table(X, layer)
    if layer is not None and (found is None or not _is_anndata(X)):
        raise ValueError(f"layer={layer!r} is for AnnData only; this is a {type(X).__name__}.")
    return found


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
