"""Files as tables: the ending of the name tells the format. Every error is one line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.sources._dataset import read_table
from svnn.sources._frames import TEXT, PathLike, column_names, read_arrays, titled
from svnn.sources._memory import available_memory, check_memory, unpacked_size
from svnn.sources._stored import ArrowTable, SparseTable, element_table, group_table, is_anndata_group
from svnn.sources._table import ArrayTable, Table, naming, need

HDF5 = (".h5", ".hdf5", ".hdf", ".he5")
PARQUET = (".parquet", ".pq")
#: Endings of files that are read as a whole.
WHOLE = (*TEXT, ".gz", ".feather")
#: The formats, for messages.
FORMATS = ".npy, .npz, .h5ad, .h5 or .hdf5, .zarr, .parquet or a folder of Parquet files, or CSV"


def open_table(
    path: PathLike, *, layer: str | None = None, dataset: str | None = None, drop: Sequence[str] = ()
) -> Table:
    """Open a file as a table that is read in pieces, or as a whole where it is text.

    Parameters
    ----------
    path : str or path
        ``.npy``, ``.npz`` (of numpy, or a sparse matrix of scipy), ``.h5ad``, ``.h5`` or ``.hdf5``, ``.zarr``,
        ``.parquet``, a folder of Parquet files, CSV (``.csv``, ``.tsv``, ``.txt``, also ``.gz``) or ``.feather``.
        ``"file.h5:name"`` names a dataset in a file, ``"-"`` is CSV from standard input.
    layer : str, optional
        The layer of an AnnData file; by default its ``X``.
    dataset : str, optional
        The array in an HDF5, Zarr or NPZ file; not needed where there is only one.
    drop : sequence of str, optional
        Columns of Parquet, CSV and Feather files that are not features.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from svnn.sources import open_table
    >>> folder = tempfile.mkdtemp()
    >>> np.save(folder + "/X.npy", np.zeros((4, 2)))
    >>> open_table(folder + "/X.npy")
    ArrayTable(4 samples, 2 features, float64)
    """
    if os.fspath(path) == "-" or Path(path).suffix.lower() in WHOLE:
        return _whole(path, layer, dataset, drop)
    where, dataset = _parted(path, dataset)
    if not where.exists():
        raise FileNotFoundError(f"{where}: there is no such file.")
    kind = where.suffix.lower()
    if layer is not None and kind not in (".h5ad", ".zarr", *HDF5):
        raise ValueError(f"layer={layer!r} is for AnnData files (.h5ad, .zarr); this is {where.name}.")
    if dataset is not None and kind not in (".npz", ".h5ad", ".zarr", *HDF5):
        raise ValueError(f"dataset={dataset!r} is for HDF5, Zarr and NPZ files; this is {where.name}.")
    parquet = kind in PARQUET or (where.is_dir() and kind != ".zarr")
    if len(drop) and not parquet:
        raise ValueError(f"drop={list(drop)!r} is for files with columns, such as Parquet; this is {where.name}.")
    if not parquet and kind not in (".npy", ".npz", ".zarr", ".h5ad", *HDF5):
        raise ValueError(f"{where} has the ending {where.suffix!r}, which is not known: save it as {FORMATS}.")
    table: Table
    with naming(where):
        if parquet:
            table = _parquet(where, drop)
        elif kind == ".npy":
            table = ArrayTable(np.load(where, mmap_mode="r", allow_pickle=False))
        elif kind == ".npz":
            table = _npz(where, dataset)
        elif kind == ".zarr":
            table = _group(_module("zarr", where).open(str(where), mode="r"), layer, dataset)
        else:
            table = _group(_module("h5py", where).File(where, "r"), layer, dataset)
    if 0 in table.shape:
        raise ValueError(f"{where} holds a table of shape {table.shape}, which has no values.")
    return table


def _whole(path: PathLike, layer: str | None, dataset: str | None, drop: Sequence[str]) -> Table:
    """Return the columns of a file of text; ``notes`` of the table says what was done to them."""
    if layer is not None or dataset is not None:
        raise ValueError(f"layers and datasets are in AnnData, HDF5, Zarr and NPZ files; this is {os.fspath(path)}.")
    data = read_table(path, drop=drop)
    lacking = [name for name, values in zip(data.names, data.X.T, strict=True) if np.isnan(values).any()]
    if lacking:
        raise ValueError(
            f"{titled(path)} has missing values in {len(lacking)} of {len(data.names)} columns, the first of them "
            f"{lacking[0]!r}; fill them in, or leave out these rows or columns."
        )
    table = ArrayTable(data.X, data.names)
    table.notes = data.notes
    return table


def _parted(path: PathLike, dataset: str | None) -> tuple[Path, str | None]:
    """Return the file and the dataset of ``file.h5:dataset``."""
    text = os.fspath(path)
    file, colon, name = text.rpartition(":")
    if colon and name and dataset is None and not Path(text).exists() and Path(file).expanduser().exists():
        return Path(file).expanduser(), name
    return Path(text).expanduser(), dataset


def _module(package: str, path: Path) -> Any:
    return need(package, f'Reading {path} needs {package.partition(".")[0]}: pip install "svnn[files]".')


def _parquet(path: Path, drop: Sequence[str]) -> Table:
    if path.is_file():
        return ArrowTable(_module("pyarrow.parquet", path).ParquetFile(path), drop)
    files = sorted(str(each) for each in path.iterdir() if each.suffix.lower() in PARQUET)
    if not files:
        raise ValueError(f"{path} is a folder without Parquet files; name a file: {FORMATS}.")
    return ArrowTable(_module("pyarrow.dataset", path).dataset(files, format="parquet"), drop)


def _npz(path: Path, dataset: str | None) -> Table:
    check_memory(path, unpacked_size(path), available_memory())
    arrays = read_arrays(path)
    if {"format", "shape", "data"} <= arrays.keys():  # of scipy, in any of its formats
        arrays.clear()
        return SparseTable(sp.load_npz(path))
    matrix = _chosen({name: array for name, array in arrays.items() if array.ndim == 2}, dataset)
    return ArrayTable(matrix, column_names(arrays, matrix))


def _group(group: Any, layer: str | None, dataset: str | None) -> Table:
    """Return the table of an AnnData file, a single array, or the one that ``dataset`` names."""
    if not hasattr(group, "keys"):
        if dataset is not None or layer is not None:
            raise ValueError("it is a single array; leave out the name of a dataset or layer.")
        return ArrayTable(group)
    if dataset is None and is_anndata_group(group):
        return group_table(group, layer)
    if layer is not None:
        raise ValueError(f"it has no layer {layer!r}, since AnnData did not write it.")
    return element_table(_chosen(_matrices(group), dataset))


def _matrices(group: Any, before: str = "") -> dict[str, Any]:
    """Return the arrays of two dimensions, and the sparse matrices, in a group and in those inside of it."""
    found: dict[str, Any] = {}
    for name in group:
        item = group[name]
        if not hasattr(item, "keys"):
            if len(getattr(item, "shape", ())) == 2:
                found[before + name] = item
        elif {"data", "indices", "indptr"} <= set(item):
            found[before + name] = item
        else:
            found.update(_matrices(item, f"{before}{name}/"))
    return found


def _chosen(matrices: dict[str, Any], dataset: str | None) -> Any:
    shown = ", ".join(list(matrices)[:8]) + (" …" if len(matrices) > 8 else "") or "none"
    if dataset is not None:
        if dataset.strip("/") not in matrices:
            raise ValueError(f"there is no matrix {dataset!r} in it; its matrices are: {shown}.")
        return matrices[dataset.strip("/")]
    if len(matrices) != 1:
        raise ValueError(f"it must hold one matrix, or the name of one must be given (dataset); it holds: {shown}.")
    return next(iter(matrices.values()))
