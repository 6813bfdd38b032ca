"""Graphs from tiles are those of the whole matrix of correlations."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import rankdata

from sources.made_up import NAMES, SOURCES, annotated, counts, every_source
from svnn.covariance import HardThreshold
from svnn.covariance.tiles import _tiles as products
from svnn.functional import largest_pairs, top_k_pairs
from svnn.graphs import _files as files
from svnn.graphs import correlation_graph, edge_list, read_edges

CHOICES = [{"top_k": 3}, {"density": 0.1}, {"threshold": 0.3}, {"edges": 20}]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids=str)


def data(t=60, n=300, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((t, 5)) @ rng.standard_normal((5, n)) / 2
    X = (common + rng.standard_normal((t, n))) * rng.uniform(0.1, 10, n) + rng.uniform(-5, 5, n)
    X[:, 7:8] = 2.5
    return X.astype(dtype)


def correlations(X, weight=None):
    """In float64; constant features have none."""
    X = np.asarray(X, dtype=np.float64)
    centred = X - np.average(X, axis=0, weights=weight)
    C = (centred * (np.ones(len(X)) if weight is None else weight)[:, None]).T @ centred
    C[X.std(0) == 0] = 0
    C[:, X.std(0) == 0] = 0
    sd = np.sqrt(C.diagonal())
    R = C / np.where(sd > 0, sd, 1)[:, None] / np.where(sd > 0, sd, 1)
    np.fill_diagonal(R, 0)
    return R


def kept(R, top_k=None, density=None, threshold=None, edges=None):
    """The same choice, made with the whole matrix."""
    n = len(R)
    if top_k is not None:
        return np.where(top_k_pairs(R, top_k), R, 0)
    if threshold is not None:
        return np.where(abs(R) >= threshold, R, 0)
    return np.where(largest_pairs(R, density if edges is None else edges / (n * (n - 1) / 2)), R, 0)


def check(graph, expected):
    R = graph.matrix
    assert isinstance(R, sp.csr_array) and R.has_sorted_indices and (R.diagonal() == 0).all()
    np.testing.assert_array_equal(R.toarray() != 0, (expected != 0) & ~np.eye(len(expected), dtype=bool))
    np.testing.assert_array_equal(R.toarray(), R.toarray().T)
    np.testing.assert_allclose(R.toarray(), np.where(np.eye(len(expected)), 0, expected), atol=3e-6)
    assert R.nnz == np.count_nonzero(R.toarray())  # nothing is stored on the diagonal
    assert graph.n_edges == R.nnz // 2 and graph.n_features == len(expected)
    np.testing.assert_array_equal(graph.degrees, (R.toarray() != 0).sum(1))


@pytest.fixture
def engine(kernels, monkeypatch):
    """The kernels of the tiles or torch alone; with two threads also tiles enough for both."""
    monkeypatch.setattr(products, "_CPU_TILE", (128, 256))
    return kernels


@every_choice
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_same_as_the_whole_matrix(choice, dtype, engine):
    X = data(dtype=np.float64)
    X = (10 * X).astype(dtype) if dtype is np.int64 else X.astype(dtype)
    graph = correlation_graph(X, **choice)
    check(graph, kept(correlations(X), **choice))
    assert graph.matrix.dtype == (np.float32 if dtype is np.float32 else np.float64)
    assert graph.constant.tolist() == [7] and graph.n_samples == 60 and graph.names is None
    engine.must_have_run("compress", "symmetric")


@every_choice
def test_ranks_and_weights(choice, engine):
    X = data()
    ranked = kept(correlations(rankdata(X, axis=0)), **choice)
    found = correlation_graph(X, correlation="spearman", **choice).matrix.toarray()
    # Ranks have many equal correlations, of which rounding decides which ones are kept.
    np.testing.assert_allclose(np.sort(abs(found[found != 0])), np.sort(abs(ranked[ranked != 0])), atol=3e-6)
    weight = np.random.default_rng(1).uniform(0, 1, len(X)).round(1)
    check(correlation_graph(X, sample_weight=weight, **choice), kept(correlations(X, weight), **choice))
    whole = HardThreshold(correlation="biweight", tau=0.0).fit(X).covariance_
    sd = np.sqrt(np.where(whole.diagonal() > 0, whole.diagonal(), 1))
    R = whole / sd[:, None] / sd
    np.fill_diagonal(R, 0)
    check(correlation_graph(X, correlation="biweight", **choice), kept(R, **choice))


@every_choice
@every_source
def test_every_source(choice, source, tmp_path):
    make, named = SOURCES[source]
    X = counts(t=200)
    graph = correlation_graph(make(X, tmp_path), memory_limit=10**6, **choice)
    expected = correlation_graph(X, **choice)
    np.testing.assert_array_equal(graph.matrix.toarray(), expected.matrix.toarray())
    assert (None if graph.names is None else graph.names.tolist()) == (NAMES if named else None)
    if "threshold" in choice:
        check(graph, kept(correlations(X), **choice))


@every_choice
def test_kinds_of_data(choice):
    X = data(n=40)
    expected = correlation_graph(X, **choice).matrix.toarray()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(40)])
    found = correlation_graph(frame, **choice)
    assert found.names.tolist() == list(frame.columns)
    for graph in (
        found,
        correlation_graph(torch.tensor(X), **choice),
        correlation_graph(iter([X[:20], X[20:]]), **choice),
        correlation_graph(X.tolist(), **choice),
    ):
        assert isinstance(graph.matrix, sp.csr_array)
        np.testing.assert_array_equal(graph.matrix.toarray(), expected)


def test_a_perfect_correlation_is_one_and_ties_are_broken_as_by_the_estimator():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6)).astype(np.float32)
    X = np.concatenate([X, X, -2 * X], axis=1)  # correlations of 1 and -1, many of them
    graph = correlation_graph(X, edges=5)
    assert set(np.unique(abs(graph.matrix.data))) <= {1.0, np.float32(1 - 2**-24), np.float32(1 - 2**-23)}
    standardised = (X - X.mean(0)) / X.std(0)
    same = HardThreshold(density=5 / (18 * 17 / 2), dense_limit=0).fit(standardised).covariance_.toarray()
    np.fill_diagonal(same, 0)
    assert graph.n_edges == 5 and np.count_nonzero(same) == 10


@pytest.mark.parametrize("out", ["edges.parquet", "edges.csv", "edges", "edges.npz"])
@pytest.mark.parametrize("named", [False, True])
@every_choice
def test_edges_go_to_a_file(out, named, choice, engine, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(files, "GROUP", 50)
    monkeypatch.setattr(files, "GROUP", 50)
    monkeypatch.setattr(files, "_PART", 200)
    X = data(n=130)
    X = pd.DataFrame(X, columns=[f"c{i}" for i in range(130)]) if named else X
    expected = correlation_graph(X, **choice)
    written = correlation_graph(X, out=tmp_path / out, **choice)
    assert written.matrix is None and written.path == tmp_path / out
    np.testing.assert_array_equal(written.degrees, expected.degrees)
    found = read_edges(tmp_path / out)
    if not out.endswith(".csv"):  # which does not know features without edges
        np.testing.assert_array_equal(found.matrix.toarray(), expected.matrix.toarray())
        assert (found.names is None) == (not named) and (not named or found.names.tolist() == list(X.columns))
    got, right = edge_list(found).to_frame(), edge_list(expected).to_frame()
    ends = ["source", "target"]
    if named:
        got[ends], right[ends] = np.sort(got[ends], axis=1), np.sort(right[ends], axis=1)
    got, right = (each.sort_values(ends, ignore_index=True) for each in (got, right))
    pd.testing.assert_frame_equal(got, right, check_dtype=False)
    assert [path.name for path in tmp_path.iterdir()] == [out]
    if out == "edges":
        parts = len(list((tmp_path / out).iterdir()))
        assert parts > 1 if expected.n_edges > 500 else parts >= 1


def test_edges_beyond_memory_are_written_while_they_are_found(tmp_path, engine):
    pytest.importorskip("pyarrow")
    X, limit = data(), 10**5
    with pytest.raises(MemoryError, match="larger threshold"):
        correlation_graph(X, threshold=0.05, memory_limit=limit)
    graph = correlation_graph(X, threshold=0.05, memory_limit=limit, out=tmp_path / "edges.parquet")
    assert 32 * graph.n_edges > limit
    expected = kept(correlations(X), threshold=0.05)
    np.testing.assert_allclose(read_edges(tmp_path / "edges.parquet").matrix.toarray(), expected, atol=3e-6)


def test_a_failure_leaves_no_file(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.EdgeWriter, "_write", stop)
    for out in ("edges.parquet", "edges.csv", "edges"):
        with pytest.raises(KeyboardInterrupt):
            correlation_graph(data(n=20), threshold=0.1, out=tmp_path / out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "give one of top_k, density, threshold, edges.*got none"),
        ({"top_k": 2, "edges": 3}, ValueError, "got top_k=2 and edges=3"),
        ({"top_k": 0}, ValueError, "top_k must be a positive integer"),
        ({"top_k": 1.5}, ValueError, "top_k must be a positive integer"),
        ({"density": 1.5}, ValueError, "density must be"),
        ({"threshold": -0.1}, ValueError, "threshold must be"),
        ({"threshold": "0.1"}, ValueError, "threshold must be"),
        ({"edges": 10**6}, ValueError, "only 190 pairs"),
        ({"top_k": 1, "correlation": "kendall"}, ValueError, "correlation must be one of"),
        ({"top_k": 1, "memory_limit": "much"}, ValueError, "memory_limit must be"),
        ({"top_k": 1, "sample_weight": [1.0]}, ValueError, "one per row"),
        ({"top_k": 1, "layer": "raw"}, ValueError, "layer='raw' is for AnnData"),
        ({"top_k": 1, "dataset": "X"}, ValueError, "dataset='X' is for files"),
        ({"top_k": 1, "out": "nowhere/edges.parquet"}, NotADirectoryError, "there is no folder"),
        ({"top_k": 1, "out": "edges.xlsx"}, ValueError, "has the ending '.xlsx'"),
        ({"top_k": 1, "out": "."}, FileExistsError, "not empty"),
    ],
    ids=str,
)
def test_what_cannot_be(options, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    with pytest.raises(error, match=message):
        correlation_graph(data(n=20), **options)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X[:1], r"1 sample\(s\)"),
        (lambda X: X[:, :1], r"1 feature\(s\)"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: sp.csr_array(X[:, :0]), r"0 feature\(s\)"),
        (lambda X: X[0], "2D"),
        (lambda X: np.where(X[3, 4] == X, np.nan, X), r"NaN \(feature 4\); fill in"),
        (lambda X: sp.csr_array(np.where(X[3, 4] == X, np.inf, X)), r"inf \(feature 4\)"),
        (lambda X: pd.DataFrame(X).assign(city="x").rename(columns=str), "'city'"),
        (lambda X: annotated(np.where(X[3, 4] == X, np.nan, X)), r"NaN \(feature 'gene4'\)"),
        (lambda X: np.full((9, 3), "a"), "text"),
        (lambda X: None, "."),
    ],
)
def test_what_is_no_table(spoil, message):
    with pytest.raises((ValueError, TypeError), match=message):
        correlation_graph(spoil(data(n=20)), top_k=1)


def test_only_constant_features_have_no_edges():
    for choice in CHOICES:
        graph = correlation_graph(np.ones((5, 9)), **choice)
        assert graph.n_edges == 0 and graph.constant.tolist() == list(range(9))


def test_two_features():
    X = data(n=2)
    for choice in ({"top_k": 1}, {"density": 1.0}, {"threshold": 0.0}, {"edges": 1}):
        assert correlation_graph(X, **choice).n_edges == 1


def test_names_that_come_twice_get_numbers():
    table = annotated(data(n=3))
    table.var_names = ["a", "b", "a"]
    graph = correlation_graph(table, top_k=1)
    assert graph.names.tolist() == ["a", "b", "a-1"]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["a", "b", "a", "a-1"], ["a", "b", "a-2", "a-1"]),
        ([1990, 1991, 1990, 7], ["1990", "1991", "1990-1", "7"]),
        (["a", 2, None, 1.5], ["a", "2", "None", "1.5"]),
        ([0, 1, 2, 3], None),
    ],
    ids=str,
)
def test_labels_of_a_frame_are_its_names(labels, names):
    frame = pd.DataFrame(data(n=4), columns=labels)
    found = correlation_graph(frame, top_k=1)
    assert (None if found.names is None else found.names.tolist()) == names
    np.testing.assert_array_equal(found.matrix.toarray(), correlation_graph(data(n=4), top_k=1).matrix.toarray())


@pytest.mark.parametrize("make", [lambda table, path: table, lambda table, path: path], ids=["table", "file"])
def test_arrow_tables_may_have_a_name_twice(make, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_arrays([pa.array(column) for column in data(n=3).T], names=["a", "b", "a"])
    pq.write_table(table, tmp_path / "x.parquet")
    found = correlation_graph(make(table, tmp_path / "x.parquet"), top_k=1)
    assert found.names.tolist() == ["a", "b", "a-1"]
    np.testing.assert_array_equal(found.matrix.toarray(), correlation_graph(data(n=3), top_k=1).matrix.toarray())


def test_elsewhere_a_name_that_comes_twice_is_an_error():
    with pytest.raises(ValueError, match="HardThreshold: X has several columns named 'a'; rename them"):
        HardThreshold().fit(pd.DataFrame(data(n=3), columns=["a", "b", "a"]))


@pytest.mark.parametrize("t", [30, 1000])
def test_columns_that_are_the_same_have_a_correlation_of_one(t, engine, tmp_path):
    rng = np.random.default_rng(t)
    X = np.tile(rng.standard_normal((t, 30)), 5) * rng.uniform(-9, 9, 150) + rng.uniform(-5, 5, 150)
    for out in (None, tmp_path / "edges.csv", tmp_path / "edges.npz"):
        found = correlation_graph(X, threshold=1.0, out=out)
        assert found.n_edges == 300 and (found.degrees == 4).all() and found.threshold == 1.0


@pytest.mark.parametrize("threshold", [0.2, 0.6])
def test_a_correlation_equal_to_the_threshold_is_an_edge(threshold, engine):
    start = np.random.default_rng(0).standard_normal((40, 31))
    basis = np.linalg.qr(np.column_stack([np.ones(40), start]))[0][:, 1:]  # orthogonal, of mean zero
    X = basis[:, :1] * threshold + basis[:, 1:] * np.sqrt(1 - threshold**2)
    X = np.column_stack([basis[:, 0], X])  # feature 0 has that correlation with all others
    assert correlation_graph(X, threshold=threshold).degrees[0] == 30
    assert correlation_graph(X, threshold=threshold + 1e-5).degrees[0] == 0


@pytest.mark.parametrize("choice", [{"density": 1.0}, {"edges": 45}, {"top_k": 9}, {"top_k": 3}, {"threshold": 0.0}])
def test_only_edges_that_are_there(choice, engine, tmp_path):
    k = np.arange(600)
    X = np.column_stack([wave(2 * np.pi * j * k / 600) for j in range(1, 5) for wave in (np.cos, np.sin)])
    X = np.column_stack([X * np.pi + 0.3, X[:, :1] + X[:, 1:2], X[:, 2]])  # all others are uncorrelated
    for out in (None, tmp_path / "edges.csv", tmp_path / "edges.npz"):
        found = correlation_graph(X, out=out, **choice)
        assert found.n_edges == 3 and found.degrees.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 2, 1]


LIMITED = """
import sys
from pathlib import Path
import numpy as np, scipy.sparse as sp
from svnn.graphs import correlation_graph
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
correlation_graph(sp.csr_array(np.random.default_rng(0).poisson(0.3, (30, 300))), threshold=0.9)
before = peak()
correlation_graph(sys.argv[1], threshold=0.9, memory_limit="400MB")
print(peak() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from Linux")
def test_sparse_counts_are_never_dense_as_a_whole(tmp_path):
    """Dense the table takes 160 MB, as float32 that the tiles read; a dense copy beside it would show."""
    anndata = pytest.importorskip("anndata")
    X = sp.random_array((16_000, 2500), density=0.02, random_state=0, dtype=np.float32, format="csr")
    anndata.AnnData(X=X).write_h5ad(tmp_path / "x.h5ad")
    command = [sys.executable, "-c", LIMITED, tmp_path / "x.h5ad"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # every thread has a tile of its own
    run = subprocess.run(command, capture_output=True, text=True, env=one_thread)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 160 + 80  # MB, with room for tiles; a dense copy would add 160
