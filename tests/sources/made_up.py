"""One table in every form that a source may have."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

T, N = 50, 37
NAMES = [f"gene{i}" for i in range(N)]


def counts(seed=0, t=T, n=N, dtype=np.float32):
    """Counts of which most are zero; some features are related, one is constant."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(1.0, 0.5, n) * rng.gamma(2.0, 0.5, (t, 1))
    X = rng.poisson(rate)
    X[:, 1] = X[:, 0] + rng.poisson(0.2, t)
    X[:, 5] = 3
    return X.astype(dtype)


def in_h5(X, folder, chunks):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("some/X", data=X, chunks=chunks, compression="gzip" if chunks else None)
    return h5py.File(folder / "x.h5", "r")["some/X"]


def in_zarr(X, folder, chunks):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=str(folder / "x.zarr"), shape=X.shape, dtype=X.dtype, chunks=chunks)
    array[:] = X
    return zarr.open_array(str(folder / "x.zarr"), mode="r")


def annotated(X, layers=None):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(X=X, layers=layers)
    data.var_names = NAMES[: X.shape[1]]
    data.obs_names = [f"cell{i}" for i in range(X.shape[0])]
    return data


def backed(X, folder):
    anndata = pytest.importorskip("anndata")
    annotated(X).write_h5ad(folder / "x.h5ad")
    return anndata.read_h5ad(folder / "x.h5ad", backed="r")


def frame(X):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    return pd.DataFrame(X, columns=NAMES[: X.shape[1]])


def parquet(X, folder):
    frame(X).to_parquet(folder / "x.parquet", row_group_size=7)
    import pyarrow.parquet as pq

    return pq.ParquetFile(folder / "x.parquet")


def parquet_folder(X, folder):
    (folder / "parts").mkdir()
    for i in range(0, len(X), 20):
        frame(X[i : i + 20]).to_parquet(folder / "parts" / f"part-{i:03}.parquet")
    import pyarrow.dataset as ds

    return ds.dataset(sorted(map(str, (folder / "parts").iterdir())))


def mapped(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


#: Sources by name: a function of the table and of a folder, and whether it knows the names of features.
SOURCES = {
    "memmap": (mapped, False),
    "h5, rows": (lambda X, folder: in_h5(X, folder, (7, X.shape[1])), False),
    "h5, columns": (lambda X, folder: in_h5(X, folder, (X.shape[0], 1)), False),
    "h5, tiles": (lambda X, folder: in_h5(X, folder, (8, 5)), False),
    "h5, contiguous": (lambda X, folder: in_h5(X, folder, None), False),
    "zarr": (lambda X, folder: in_zarr(X, folder, (9, 10)), False),
    "csr": (lambda X, folder: sp.csr_array(X), False),
    "csc": (lambda X, folder: sp.csc_matrix(X), False),
    "coo": (lambda X, folder: sp.coo_array(X), False),
    "AnnData": (lambda X, folder: annotated(X), True),
    "AnnData, csr": (lambda X, folder: annotated(sp.csr_matrix(X)), True),
    "backed": (backed, True),
    "backed, csr": (lambda X, folder: backed(sp.csr_matrix(X), folder), True),
    "backed, csc": (lambda X, folder: backed(sp.csc_matrix(X), folder), True),
    "Parquet": (parquet, True),
    "folder of Parquet": (parquet_folder, True),
}
every_source = pytest.mark.parametrize("source", list(SOURCES))
