"""Edges of any matrix, in files and for other packages."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import HardThreshold, as_operator
from svnn.graphs import correlation_graph, edge_list, read_edges, to_igraph, to_networkx, write_edges
from svnn.graphs._graph import unique_names
from svnn.operators import to_pyg

C = np.array([[2.0, 0.5, 0.0, 0.0], [0.5, 1.0, -0.25, 0.0], [0.0, -0.25, 1.0, 0.0], [0.0, 0.0, 0.0, 3.0]])
NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "form", [lambda C: C, sp.csr_array, sp.coo_matrix, torch.tensor, as_operator, lambda C: C.tolist()]
)
def test_every_matrix_has_edges(form):
    source, target, weight = edge_list(form(C))
    assert source.tolist() == [0, 1] and target.tolist() == [1, 2] and weight.tolist() == [0.5, -0.25]
    named = edge_list(form(C), names=NAMES)
    assert named.source.tolist() == ["a", "b"] and list(named.to_frame()) == ["source", "target", "weight"]


def test_a_fitted_covariance_knows_its_names():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((50, 4)), columns=NAMES)
    X["b"] += X["a"]
    assert edge_list(HardThreshold().fit(X)).target.tolist() == ["b"]


def test_what_is_no_graph():
    with pytest.raises(ValueError, match="symmetric"):
        edge_list([[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="names has 3 entries, but the graph has 4 nodes"):
        edge_list(C, names=["a", "b", "c"])


def test_a_graph_in_a_file_says_where_it_is(tmp_path):
    graph = write_edges(C, tmp_path / "edges.csv")
    with pytest.raises(ValueError, match=r"went to .*edges\.csv; svnn\.graphs\.read_edges"):
        edge_list(graph)
    assert "2 edges, in" in repr(graph)


@pytest.mark.parametrize("name", ["edges.parquet", "edges", "edges.npz", "edges.csv"])
@pytest.mark.parametrize("names", [None, NAMES])
def test_files_come_back(name, names, tmp_path):
    pytest.importorskip("pyarrow")
    written = write_edges(C, tmp_path / name, names)
    found = read_edges(written.path)
    n = 3 if name.endswith(".csv") else 4  # text does not know nodes without edges
    np.testing.assert_array_equal(found.matrix.toarray(), (C - np.diag(C.diagonal()))[:n, :n])
    assert found.names is None if names is None else found.names.tolist() == names[:n]
    if name.endswith(".npz"):
        assert isinstance(sp.load_npz(tmp_path / name), sp.csr_array)


@pytest.mark.parametrize("name", ["edges.parquet", "edges", "edges.npz"])
def test_a_graph_without_edges(name, tmp_path):
    pytest.importorskip("pyarrow")
    write_edges(np.eye(3), tmp_path / name)
    assert read_edges(tmp_path / name).matrix.shape == (3, 3)


def test_edges_of_others_are_read(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"source": ["x", "y"], "target": ["y", "z"], "weight": [1.0, 2.0]}).to_parquet(tmp_path / "e.parquet")
    graph = read_edges(tmp_path / "e.parquet")
    assert graph.names.tolist() == ["x", "y", "z"] and graph.matrix[1, 2] == 2 == graph.matrix[2, 1]
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="source, target and weight"):
        read_edges(tmp_path / "other.parquet")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="source, target and weight"):
        read_edges(tmp_path / "other.csv")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_edges(tmp_path / "nothing.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="without Parquet files"):
        read_edges(tmp_path / "empty")


def listed(path, *rows):
    path.write_text("\n".join(["source,target,weight", *rows]) + "\n")
    return read_edges(path)


def test_each_edge_counts_once(tmp_path):
    graph = listed(tmp_path / "e.csv", "a,b,0.5", "b,a,0.5", "a,b,0.5000001", "b,c,-1", "", "c,c,7")
    assert graph.names.tolist() == ["a", "b", "c"] and graph.n_edges == 2
    np.testing.assert_array_equal(graph.matrix.toarray(), [[0, 0.5, 0], [0.5, 0, -1], [0, -1, 0]])
    assert listed(tmp_path / "e.csv", "0,1,0.5", "1,0,0.5", "3,3,1").matrix.shape == (4, 4)
    assert listed(tmp_path / "e.csv").matrix.shape == (0, 0)
    assert listed(tmp_path / "e.csv", "a,b,1\rb,c,2\r\nc,d,3").n_edges == 3


def test_numbers_of_nodes_and_names_of_digits(tmp_path):
    assert listed(tmp_path / "e.csv", "0,2,0.5").names is None
    (tmp_path / "old.csv").write_bytes(b'source,target,weight\r"1990","1991",0.5\r')
    assert read_edges(tmp_path / "old.csv").names.tolist() == ["1990", "1991"]
    for a, b in (("01", "1"), ('"1"', '"2"'), ("9999999999999", "1"), ("-1", "1"), ("1", "gene"), ("1.0", "2")):
        graph = listed(tmp_path / "e.csv", f"{a},{b},0.5")
        assert graph.names.tolist() == sorted(each.strip('"') for each in (a, b)) and graph.n_edges == 1


@pytest.mark.parametrize("ends", [[10**13, 5], [-1, 5]])
def test_numbers_of_other_tables_that_are_names(ends, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"source": ends[:1], "target": ends[1:], "weight": [1]})
    frame.to_parquet(tmp_path / "e.parquet")
    graph = read_edges(tmp_path / "e.parquet")
    assert graph.names.tolist() == sorted(map(str, ends)) and graph.matrix.toarray().tolist() == [[0, 1], [1, 0]]


STRANGE = [
    "1990",
    "1991",
    "1234567890123",
    "01",
    "1",
    "",
    "None",
    "nan",
    " a",
    "a,b",
    'a"b',
    "a\nb",
    "a\rb",
    "é",
    "-1",
    "²",
]


@pytest.mark.parametrize("name", ["e.parquet", "e", "e.npz", "e.csv"])
@pytest.mark.parametrize(
    "names", [STRANGE, ["1990", "1991", "1992", "1993"], ["0", "1", "2"], ["3", "x", "y"]], ids=len
)
def test_names_come_back(name, names, tmp_path):
    pytest.importorskip("pyarrow")
    weights = np.triu(np.arange(1.0, len(names) ** 2 + 1).reshape(len(names), -1), 1)
    written = write_edges(weights + weights.T, tmp_path / name, names)
    found = read_edges(written.path)
    order = [found.names.tolist().index(each) for each in names]
    np.testing.assert_array_equal(found.matrix.toarray()[order][:, order], weights + weights.T)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a,b"], r"e\.csv: line 2 has 2 values; it needs source, target and weight"),
        (["a,b,1", "a,b,1,2"], "line 3 has 4 values"),
        (["a,b,strong"], "line 2: the weight 'strong' is not a number"),
        (["a,b,nan"], "NaN or infinite"),
        (["a,b,1", "b,a,2"], "edge between 'a' and 'b' has two weights, 1.0 and 2.0; keep one"),
        (["0,1,1", "1,0,2"], "edge between 0 and 1 has two weights"),
        (["a,\0b," + "1" * 200_000], r"e\.csv: "),
    ],
)
def test_what_is_no_list_of_edges(rows, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        listed(tmp_path / "e.csv", *rows)
    assert "\n" not in str(caught.value)
    (tmp_path / "e.csv").write_bytes(b"source,target,weight\na,\xff,1\n")
    with pytest.raises(ValueError, match=r"e\.csv: .*utf-8"):
        read_edges(tmp_path / "e.csv")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda columns, about: about.update(n_features=2), "numbers from 0 to 2, but there are 2 nodes"),
        (lambda columns, about: about.update(n_features=10**13), "not what svnn writes"),
        (lambda columns, about: about.update(names=["a"]), "not what svnn writes"),
        (lambda columns, about: columns.update(source=[0, None]), "1 of its edges have no source"),
        (lambda columns, about: columns.update(weight=[0.5, None]), "missing"),
        (lambda columns, about: columns.update(source=["a", "z"]) or about.update(names=["a", "b", "c"]), "'z' is not"),
    ],
)
def test_damaged_parquet(spoil, message, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns, about = {"source": [0, 1], "target": [1, 2], "weight": [0.5, 1.0]}, {"n_features": 3}
    spoil(columns, about)
    table = pa.table(columns).replace_schema_metadata({b"svnn": json.dumps(about).encode()})
    pq.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(ValueError, match=message):
        read_edges(tmp_path / "e.parquet")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": [1, 10**6, 1, 0]}, "an index of its columns is 1000000, but there are 3 columns"),
        ({"indices": [1, 0, -(10**6), 0]}, "an index of its columns is -1000000"),
        ({"indptr": [0, 10**6, 3, 4]}, "never fall"),
        ({"data": [1.0, 2.0, 2.0, 1.0]}, "not symmetric"),
        ({"shape": [3, 4]}, "square"),
        ({"names": ["a"]}, "names has 1 entries"),
    ],
    ids=str,
)
def test_damaged_matrices(change, message, tmp_path):
    parts = {"data": [1.0, 1.0, 2.0, 2.0], "indices": [1, 0, 2, 1], "indptr": [0, 1, 3, 4], "shape": [3, 3]}
    np.savez(tmp_path / "e.npz", **{**parts, **change}, format=b"csr")
    with pytest.raises(ValueError, match=rf"e\.npz: .*{message}"):
        read_edges(tmp_path / "e.npz")


def test_networkx():
    pytest.importorskip("networkx")
    graph = to_networkx(C, NAMES)
    assert list(graph.nodes) == NAMES and graph.edges["b", "c"]["weight"] == -0.25
    assert list(to_networkx(C).edges) == [(0, 1), (1, 2)]


def test_igraph():
    pytest.importorskip("igraph")
    graph = to_igraph(C, NAMES)
    assert graph.vcount() == 4 and graph.get_edgelist() == [(0, 1), (1, 2)] and graph.es["weight"] == [0.5, -0.25]
    assert "name" not in to_igraph(C).vs.attributes()


def test_pyg():
    pytest.importorskip("torch_geometric")
    X = np.random.default_rng(0).standard_normal((30, 10))
    graph = correlation_graph(X, top_k=2)
    data = to_pyg(as_operator(graph.matrix))
    assert data.num_nodes == 10 and data.edge_index.shape[1] == graph.matrix.nnz


@pytest.mark.parametrize(("package", "call"), [("networkx", to_networkx), ("igraph", to_igraph)])
def test_missing_packages_are_named(package, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        call(C)


def test_parquet_without_pyarrow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "svnn\[files\]", or use \.csv'):
        correlation_graph(np.random.default_rng(0).standard_normal((9, 3)), top_k=1, out=tmp_path / "e.parquet")


def test_names_are_made_unique():
    assert unique_names(["a", "a", "a-1", "a"]).tolist() == ["a", "a-2", "a-1", "a-3"]
