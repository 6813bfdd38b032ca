"""Names of files as tables; ``tests/cli/test_graph_command.py`` has those that the command meets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sources.made_up import NAMES, annotated, counts
from svnn.covariance import HardThreshold
from svnn.sources import _paths, open_table


def test_a_name_may_hold_a_colon(tmp_path):
    np.save(tmp_path / "a:b.npy", counts())
    assert open_table(tmp_path / "a:b.npy").shape == counts().shape


def test_files_can_be_fitted(tmp_path):
    pytest.importorskip("h5py")
    annotated(sp.csr_matrix(counts()), layers={"raw": counts() + 1}).write_h5ad(tmp_path / "x.h5ad")
    fitted = HardThreshold().fit(open_table(tmp_path / "x.h5ad", layer="raw"))
    np.testing.assert_allclose(fitted.location_, counts().mean(0) + 1, rtol=1e-5)
    assert list(fitted.feature_names_in_) == NAMES


def test_the_other_layers_of_a_file_are_not_read(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    annotated(sp.csr_matrix(counts()), layers={"raw": counts()}).write_h5ad(tmp_path / "x.h5ad")
    read, plain = [], h5py.Dataset.__getitem__
    monkeypatch.setattr(h5py.Dataset, "__getitem__", lambda self, key: (read.append(self.name), plain(self, key))[1])
    open_table(tmp_path / "x.h5ad").stored(0)
    assert any(name.startswith("/X") for name in read) and not any("layers" in name for name in read)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_files_of_old_versions_of_anndata(kind, tmp_path):
    h5py = pytest.importorskip("h5py")
    X = sp.csr_matrix(counts()).asformat(kind)
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = kind, X.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(X, part)
        file["var"] = np.array([(name.encode(), 1.0) for name in NAMES], dtype=[("index", "S9"), ("mean", "f8")])
        file["obs"] = np.array([(b"a", 1.0)], dtype=[("index", "S9"), ("mean", "f8")])
    table = open_table(tmp_path / "old.h5ad")
    np.testing.assert_array_equal(table.stored(0), counts())
    assert table.names == NAMES


def test_sparse_matrices_of_other_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    anndata = pytest.importorskip("anndata")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        anndata.io.write_elem(file, "one", sp.csc_matrix(counts()))
        file["names"] = np.arange(37)
    np.testing.assert_array_equal(open_table(tmp_path / "x.h5").stored(0), counts())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: np.save(path, np.zeros((0, 3))), "which has no values"),
        (lambda path: np.save(path, np.zeros(3)), "must have two dimensions"),
        (lambda path: np.save(path, np.zeros((2, 3), dtype=complex)), "complex numbers"),
    ],
)
def test_bad_arrays_are_named(write, message, tmp_path):
    write(tmp_path / "x.npy")
    with pytest.raises(ValueError, match=rf"x\.npy.*{message}"):
        open_table(tmp_path / "x.npy")


def test_a_file_without_matrices(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["vector"] = np.arange(3)
    with pytest.raises(ValueError, match=r"must hold one matrix.*it holds: none"):
        open_table(tmp_path / "x.h5")
    with pytest.raises(ValueError, match="AnnData did not write it"):
        open_table(tmp_path / "x.h5", layer="raw")


def test_packed_arrays_are_measured_before_they_are_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1000, 1000)))
    assert (tmp_path / "x.npz").stat().st_size < 20_000 and open_table(tmp_path / "x.npz").shape == (1000, 1000)
    monkeypatch.setattr(_paths, "available_memory", lambda: 10**6)
    with pytest.raises(ValueError, match=r"x\.npz would take about .* GB of memory or more, and .* GB are free"):
        open_table(tmp_path / "x.npz")
