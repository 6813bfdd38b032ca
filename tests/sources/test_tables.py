"""Every source gives the values of its table, in pieces, each chunk once."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from sources.made_up import NAMES, SOURCES, annotated, counts, every_source, in_h5, in_zarr
from svnn.covariance import HardThreshold
from svnn.graphs import correlation_graph
from svnn.sources import Table, as_table, open_table
from svnn.sources import _table as tables
from svnn.sources._stored import StoredSparse
from svnn.sources._table import ArrayTable


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows or columns."""
    monkeypatch.setattr(tables, "_SMALLEST", 600)


@every_source
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("limit", [0, 10**9])
def test_all_values_come(source, dtype, limit, tmp_path, small_blocks):
    X = counts(dtype=dtype)
    make, named = SOURCES[source]
    table = as_table(make(X, tmp_path))
    assert isinstance(table, Table) and table.shape == X.shape
    assert table.dtype == (np.float64 if "Parquet" in source and dtype == np.int32 else dtype)
    assert table.names == (NAMES if named else None)
    np.testing.assert_array_equal(table.stored(limit), X)
    np.testing.assert_array_equal(np.concatenate(list(table.rows(limit))), X)
    columns = table.columns(limit)
    assert columns.shape == X.shape and columns.ndim == 2 and columns.dtype == table.dtype
    np.testing.assert_array_equal(columns[:, 3:9], X[:, 3:9])
    np.testing.assert_array_equal(columns[np.array([4, 2]), 3:9], X[[4, 2], 3:9])
    np.testing.assert_array_equal(columns[:, np.array([1, 8, 30])], X[:, [1, 8, 30]])
    np.testing.assert_array_equal(columns[:, 7], X[:, 7])
    np.testing.assert_array_equal(columns[:, 1:12:4], X[:, 1:12:4])
    np.testing.assert_array_equal(np.asarray(columns), X)


@every_source
def test_blocks_are_small_and_cover_the_table_once(source, tmp_path):
    X = counts()
    table = as_table(SOURCES[source][0](X, tmp_path))
    seen = np.zeros(X.shape, dtype=int)
    for block in table.blocks(600):
        assert block.values.nbytes <= 1600  # a block of whole chunks may be larger than what was asked for
        seen[block.rows, block.columns] += 1
        np.testing.assert_array_equal(block.values, X[block.rows, block.columns])
    assert (seen == 1).all()


class Watched:
    """An array in chunks that counts how often each is read."""

    def __init__(self, X, chunks):
        self.X, self.chunks, self.shape, self.dtype = X, chunks, X.shape, X.dtype
        self.reads = np.zeros([-(-size // chunk) for size, chunk in zip(X.shape, chunks, strict=True)], dtype=int)

    def __getitem__(self, key):
        (a, b), (c, d) = ((part.start, part.stop) for part in key)
        height, width = self.chunks
        self.reads[a // height : -(-b // height), c // width : -(-d // width)] += 1
        return self.X[key]


@pytest.mark.parametrize("chunks", [(7, 37), (7, 5), (50, 1), (50, 37), (1, 1), (3, 20)])
@pytest.mark.parametrize("limit", [0, 10**5, 10**9])
def test_each_chunk_is_read_once(chunks, limit, small_blocks):
    watched = Watched(counts(), chunks)
    np.testing.assert_array_equal(ArrayTable(watched).stored(limit), watched.X)
    assert (watched.reads == 1).all()


def test_a_table_beyond_the_limit_is_in_a_file(tmp_path):
    table = as_table(sp.csr_array(counts()))
    assert isinstance(table.stored(100).base, np.memmap) and not isinstance(table.stored(10**6).base, np.memmap)


def test_a_sparse_file_stays_sparse_where_it_fits(tmp_path, monkeypatch):
    table = as_table(SOURCES["backed, csr"][0](counts(), tmp_path))
    assert isinstance(table, StoredSparse)
    monkeypatch.setattr(StoredSparse, "stored", None)  # it must not be made dense
    assert isinstance(table.columns(10**6), tables.Columns)
    (tmp_path / "columns").mkdir()
    by_columns = as_table(SOURCES["backed, csc"][0](counts(), tmp_path / "columns"))
    assert isinstance(by_columns.columns(0), tables.Columns)


def test_layers():
    X = counts()
    data = annotated(X, layers={"twice": sp.csc_matrix(2 * X)})
    np.testing.assert_array_equal(as_table(data, layer="twice").stored(0), 2 * X)
    with pytest.raises(ValueError, match="no layer 'thrice'; the layers are: twice"):
        as_table(data, layer="thrice")
    data.X = None
    with pytest.raises(ValueError, match="has no X; name one of its layers: twice"):
        as_table(data)
    with pytest.raises(ValueError, match="layer='a' is for AnnData only; this is a csr_array"):
        as_table(sp.csr_array(X), layer="a")


def test_a_part_of_an_anndata():
    X = counts()
    table = as_table(annotated(sp.csr_matrix(X))[:, 3:9])
    np.testing.assert_array_equal(table.stored(0), X[:, 3:9])
    assert table.names == NAMES[3:9]


@pytest.mark.parametrize("X", [np.eye(3), [[1.0, 2.0]], "text", None, np.ma.array([1.0])], ids=str)
def test_other_things_are_no_tables(X):
    assert as_table(X) is None


def test_three_dimensions_are_left_to_numpy(tmp_path):
    assert as_table(in_h5(np.zeros((2, 3, 4)), tmp_path, None)) is None


@pytest.mark.parametrize("value", ["text", 1j])
def test_what_is_not_a_number_is_named(value, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dtype = h5py.string_dtype() if isinstance(value, str) else complex
        file.create_dataset("X", data=np.full((3, 2), value, dtype=dtype), dtype=dtype)
        with pytest.raises(ValueError, match=r"real numbers only|complex numbers"):
            as_table(file["X"])


def test_text_in_parquet_is_named():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="columns that are not numbers: 'city', 'day'"):
        as_table(pa.table({"a": [1.0], "city": ["x"], "day": pa.array([0], pa.date32())}))


def test_missing_values_in_parquet_are_nan():
    pa = pytest.importorskip("pyarrow")
    table = as_table(pa.table({"a": [1, None, 3], "b": [True, False, None], "c": [0.5, None, 1.5]}))
    np.testing.assert_array_equal(table.stored(0), [[1, 1, 0.5], [np.nan, 0, np.nan], [3, np.nan, 1.5]])


def test_a_damaged_sparse_matrix_is_named(tmp_path):
    h5py = pytest.importorskip("h5py")
    annotated(sp.csr_matrix(counts())).write_h5ad(tmp_path / "x.h5ad")
    with h5py.File(tmp_path / "x.h5ad", "r+") as file:
        file["X"].attrs["shape"] = [3, 37]
        with pytest.raises(ValueError, match="its shape and its indices disagree"):
            as_table(file)


DAMAGES = {
    "far index": lambda parts: parts["indices"].__setitem__(5, 10**6),
    "negative index": lambda parts: parts["indices"].__setitem__(5, -(10**6)),
    "far start": lambda parts: parts["indptr"].__setitem__(3, 10**6),
    "falling starts": lambda parts: parts["indptr"].__setitem__(3, 0),
    "first start": lambda parts: parts["indptr"].__setitem__(0, 3),
    "last start": lambda parts: parts["indptr"].__setitem__(-1, len(parts["data"]) + 5),
    "few values": lambda parts: parts.update(data=parts["data"][:-3]),
    "few indices": lambda parts: parts.update(indices=parts["indices"][:-3]),
    "few starts": lambda parts: parts.update(indptr=parts["indptr"][:-3]),
    "nothing": lambda parts: parts.update(indptr=parts["indptr"][:0]),
    "square": lambda parts: parts.update(data=parts["data"][:4].reshape(2, 2), indices=parts["indices"][:4]),
}


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("ending", ["npz", "h5ad", "zarr"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sparse_files(kind, ending, damage, tmp_path):
    matrix, path = sp.csr_array(counts()).asformat(kind), tmp_path / f"x.{ending}"
    parts = {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}
    DAMAGES[damage](parts)
    if ending == "npz":
        np.savez(path, **parts, shape=matrix.shape, format=kind.encode(), _is_array=True)
    else:
        package = pytest.importorskip("h5py" if ending == "h5ad" else "zarr")
        file = package.File(path, "w") if ending == "h5ad" else package.open_group(str(path), mode="w")
        group = file.create_group("X")
        group.attrs.update({"encoding-type": f"{kind}_matrix", "shape": list(matrix.shape)})
        for name, values in parts.items():
            group[name] = values
        if ending == "h5ad":
            file.close()

    for use in (
        lambda table: HardThreshold(dense_limit=0, memory_limit=0).fit(table),
        lambda table: HardThreshold().fit(table),
        lambda table: correlation_graph(table, top_k=1),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - scipy has words of its own
            use(open_table(path))
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError):  # noqa: PT011
        correlation_graph(path, top_k=1)


def test_every_sparse_format_of_scipy_is_read(tmp_path):
    for form in ("csr", "csc", "bsr", "coo", "dia"):
        sp.save_npz(tmp_path / "x.npz", sp.csr_array(counts()).asformat(form))
        np.testing.assert_array_equal(open_table(tmp_path / "x.npz").stored(0), counts())


def test_a_damaged_chunk_is_one_line(tmp_path):
    in_zarr(counts(), tmp_path, (50, 37))
    (chunk,) = (file for file in (tmp_path / "x.zarr").rglob("*") if file.is_file() and "json" not in file.name)
    chunk.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^X: "):
        correlation_graph(tmp_path / "x.zarr", top_k=1)


def test_asking_imports_nothing():
    import subprocess

    code = """
import sys, numpy as np
from svnn.covariance import HardThreshold
HardThreshold().fit(np.random.default_rng(0).standard_normal((9, 3)))
print([name for name in ("h5py", "zarr", "anndata", "dask") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
