"""``svnn graph``: the graph of a file, and what is said where there is none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from cli.helpers import inside, people
from sources.made_up import NAMES, annotated, counts, frame, in_h5, in_zarr
from svnn.graphs import correlation_graph, read_edges


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    """A folder with one table in many files."""
    pytest.importorskip("h5py")
    tmp_path, X = tmp_path_factory.mktemp("files"), counts(t=80)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        write_files(tmp_path, X)
    return tmp_path


@pytest.fixture
def here(many_files, tmp_path, monkeypatch):
    """A copy of that folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(many_files, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write_files(tmp_path, X):
    annotated(sp.csr_matrix(X), layers={"twice": 2 * X, "other": X**2}).write_h5ad("cells.h5ad")
    annotated(sp.csr_matrix(X)).write_zarr("cells.zarr")
    in_h5(X, tmp_path, None).file.close()
    in_zarr(X, tmp_path, (9, 10))
    frame(X).to_parquet("x.parquet")
    frame(X).assign(city="here").to_parquet("text.parquet")
    (tmp_path / "parts").mkdir()
    for i in range(0, 80, 20):
        frame(X[i : i + 20]).to_parquet(tmp_path / "parts" / f"{i}.parquet")
    np.save("x.npy", X)
    np.savez("x.npz", X=X, names=NAMES)
    sp.save_npz("sparse.npz", sp.csr_array(X))
    np.savez("two.npz", a=X, b=X)
    frame(X).to_csv("x.csv", index=False)
    np.save("nan.npy", np.where(X[3, 4] == X, np.nan, X))
    np.save("one.npy", X[:, :1])
    np.save("row.npy", X[:1])
    np.save("text.npy", np.full((4, 3), "a"))
    np.save("objects.npy", np.array([[{}, {}]]), allow_pickle=True)
    people().to_csv("people.csv", index=False)
    for name in ("broken.h5ad", "broken.parquet", "broken.npz", "broken.npy", "table.xyz"):
        (tmp_path / name).write_text("nothing")
    parts = {"data": [1.0] * 4, "indices": [0, 1, 0, 10**7], "indptr": [0, 2, 4], "shape": [2, 2]}
    np.savez("damaged.npz", **parts, format=b"csr")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()


FILES = {
    "cells.h5ad": True,
    "cells.zarr": True,
    "x.h5": False,
    "x.h5:some/X": False,
    "x.zarr": False,
    "x.parquet": True,
    "parts": True,
    "x.npy": False,
    "x.npz": True,
    "sparse.npz": False,
}


@pytest.mark.parametrize("file", FILES)
def test_every_file_gives_the_same_edges(file, here, capsys):
    code, out, err = inside(capsys, "graph", file, "--top-k", 3, "--out", "edges.parquet", "--json")
    assert (code, err) == (0, "")
    expected = correlation_graph(counts(t=80), top_k=3)
    found = read_edges("edges.parquet")
    np.testing.assert_array_equal(found.matrix.toarray(), expected.matrix.toarray())
    assert (None if found.names is None else found.names.tolist()) == (NAMES if FILES[file] else None)
    said = json.loads(out)
    assert (said["rows"], said["features"], said["edges"]) == (80, 37, expected.n_edges)
    assert said["constant"] == len(expected.constant) and said["degree"]["max"] == expected.degrees.max()
    assert said["out"] == "edges.parquet" and said["file"] == file


@pytest.mark.parametrize("out", ["edges.parquet", "edges.csv", "edges.npz", "new"])
@pytest.mark.parametrize("choice", [("--top-k", 2), ("--density", 0.1), ("--threshold", 0.2), ("--edges", 9)])
def test_every_choice_and_ending(out, choice, here, capsys):
    code, said, err = inside(capsys, "graph", "cells.h5ad", *choice, "--out", out)
    expected = correlation_graph(annotated(counts(t=80)), **{choice[0][2:].replace("-", "_"): choice[1]})
    assert code == 0 and f"{expected.n_edges:,} edges" in said and f"Wrote {out} in " in said and "done in" in err
    assert f"80 rows, 37 features ({len(expected.constant)} constant)." in said
    assert read_edges(out).n_edges == expected.n_edges
    assert not list(here.glob(".*"))


def test_options(here, capsys):
    arguments = ("graph", "cells.h5ad", "--top-k", 3, "--out", "e.npz", "--json", "--memory-limit", "1GB")
    assert inside(capsys, *arguments, "--layer", "other", "--correlation", "spearman")[0] == 0
    expected = correlation_graph(counts(t=80) ** 2, top_k=3, correlation="spearman")
    np.testing.assert_array_equal(read_edges("e.npz").matrix.toarray(), expected.matrix.toarray())
    assert inside(capsys, "graph", "two.npz", "--dataset", "a", "--edges", 5, "--out", "e.csv")[0] == 0
    assert inside(capsys, "graph", "text.parquet", "--drop", "city", "--edges", 5, "--out", "e.csv")[0] == 0


def test_a_table_of_text_is_read_as_by_the_other_commands(here, capsys):
    code, out, _ = inside(capsys, "graph", "x.csv", "--top-k", 3, "--out", "edges.csv")
    assert code == 0 and "gene5" in out  # a column of one value is left out, and that is said
    code, _, _ = inside(capsys, "graph", "people.csv", "--drop", "noise", "--edges", 2, "--out", "edges.csv")
    edges = pd.read_csv("edges.csv")
    assert code == 0 and {"a", "age"} == set(edges.iloc[0, :2])


def test_missing_values_of_a_table_of_text_are_one_line(here, capsys, monkeypatch):
    (here / "gaps.csv").write_text(
        "kind,age,height\n" + "".join(f"{i % 2},{i**2},{i % 7}\n" for i in range(9)) + "1,,3\n"
    )
    code, out, err = inside(capsys, "graph", "gaps.csv", "--top-k", 1, "--out", "edges.csv")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "gaps.csv has missing values in 1 of 3 columns, the first of them 'age'; fill them in" in err
    with pytest.raises(ValueError, match="has missing values"):
        correlation_graph("gaps.csv", top_k=1)
    with open("gaps.csv", encoding="utf-8") as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        assert "svnn: standard input has missing" in inside(capsys, "graph", "-", "--top-k", 1, "--out", "e.csv")[2]
    assert inside(capsys, "graph", "gaps.csv", "--top-k", 1, "--drop", "age", "--out", "edges.csv")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.npy"], "give one of --top-k, --density, --threshold, --edges; got none"),
        (["x.npy", "--top-k", 2, "--edges", 2], "got top_k and edges"),
        (["x.npy", "--top-k", 0], "--top-k must be a positive integer, got 0"),
        (["x.npy", "--density", 2], "--density must be"),
        (["x.npy", "--threshold", -1], "--threshold must be"),
        (["x.npy", "--edges", 10**9], "only 666 pairs"),
        (["x.npy", "--top-k", 1, "--correlation", "kendall"], "--correlation must be one of"),
        (["x.npy", "--top-k", 1, "--memory-limit", "much"], "--memory-limit must be"),
        (["x.npy", "--top-k", 1, "--layer", "a"], "--layer='a' is for AnnData"),
        (["x.npy", "--top-k", 1, "--dataset", "a"], "--dataset='a' is for HDF5"),
        (["x.npy", "--top-k", 1, "--drop", "a"], "--drop=['a'] is for files with columns"),
        (["x.parquet", "--top-k", 1, "--drop", "a"], "no column 'a' to drop"),
        (["x.csv", "--top-k", 1, "--layer", "a"], "layers and datasets are in AnnData"),
        (["x.npy", "--top-k", 1, "--out", "no/such/edges.parquet"], "there is no folder no/such"),
        (["x.npy", "--top-k", 1, "--out", "edges.xlsx"], "the ending '.xlsx'"),
        (["x.npy", "--top-k", 1, "--out", "full"], "not empty"),
        (["nowhere.h5ad", "--top-k", 1], "there is no such file"),
        (["nowhere.csv", "--top-k", 1], "there is no such file"),
        (["table.xyz", "--top-k", 1], "has the ending '.xyz', which is not known: save it as"),
        (["folder", "--top-k", 1], "folder without Parquet files"),
        (["broken.h5ad", "--top-k", 1], "broken.h5ad: "),
        (["broken.parquet", "--top-k", 1], "broken.parquet: "),
        (["broken.npz", "--top-k", 1], "broken.npz is not a readable NPZ file: "),
        (["broken.npy", "--top-k", 1], "broken.npy: "),
        (
            ["damaged.npz", "--top-k", 1],
            "damaged.npz: X is a damaged sparse matrix: an index of its columns is 10000000",
        ),
        (["empty.csv", "--top-k", 1], "empty"),
        (["cells.h5ad", "--top-k", 1, "--layer", "raw"], "no layer 'raw'; the layers are: other, twice"),
        (["x.h5", "--top-k", 1, "--dataset", "Y"], "no matrix 'Y' in it; its matrices are: some/X"),
        (["x.h5:Y", "--top-k", 1], "no matrix 'Y' in it"),
        (["two.npz", "--top-k", 1], "must hold one matrix"),
        (["text.parquet", "--top-k", 1], "columns that are not numbers: 'city'"),
        (["text.npy", "--top-k", 1], "real numbers only"),
        (["objects.npy", "--top-k", 1], "objects.npy: "),
        (["nan.npy", "--top-k", 1], "X contains NaN (feature "),
        (["one.npy", "--top-k", 1], "1 feature(s)"),
        (["row.npy", "--top-k", 1], "1 sample(s)"),
        (["x.npy", "--threshold", 0.0, "--memory-limit", "10KB", "--out", "e.npz"], "use a larger threshold"),
    ],
    ids=str,
)
def test_what_cannot_be(here, capsys, arguments, message):
    before = sorted(here.iterdir())
    rest = [] if "--out" in arguments else ["--out", "edges.parquet"]
    code, out, err = inside(capsys, "graph", *arguments, *rest, "--json")
    assert code == 2 and out == "", err
    assert err.startswith("svnn: ") and err.count("\n") == 1 and message in err, err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    ("package", "file"), [("h5py", "cells.h5ad"), ("zarr", "cells.zarr"), ("pyarrow.parquet", "x.parquet")]
)
def test_a_missing_package_is_named(package, file, here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = inside(capsys, "graph", file, "--top-k", 1, "--out", "edges.csv")
    assert code == 2 and f'needs {package.split(".")[0]}: pip install "svnn[files]"' in err


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_no_file(number, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((100, 20_000), dtype=np.float32))
    command = [sys.executable, "-m", "svnn.cli", "graph", "x.npy", "--threshold", "0.1", "--out", "edges.csv"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    end = time.monotonic() + 120
    while not list(tmp_path.glob(".edges.csv.*.part")):  # it writes
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and err.splitlines()[-1] == "svnn: stopped."
    assert "Traceback" not in err and [path.name for path in tmp_path.iterdir()] == ["x.npy"]
