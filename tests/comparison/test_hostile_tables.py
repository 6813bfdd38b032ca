"""Names that collide, text that could be something else, and files that are larger than they look."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from svnn.comparison import read_table
from svnn.sources import _frames

N = 12


def written(path, columns):
    """Write columns to a CSV file with a target and a number besides."""
    columns = {**columns, "b": np.arange(N) % 5, "y": np.linspace(0, 1, N) ** 2}
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path


#: Text whose columns of zeros and ones could have the name of another column, or of another value.
COLLIDING = {
    "a column of numbers": {"kind": ["u", "v", "w"] * 4, "kind=u": np.arange(N) % 7},
    "a column of text": {"kind": ["u", "v", "w"] * 4, "kind=u": ["x", "y"] * 6},
    "a column that is left out": {"kind": ["u", "v", "w"] * 4, "kind=u": [f"t{i}" for i in range(N)]},
    "quotes": {"kind": ["u", "v", "w"] * 4, "kind=u": np.arange(N) % 7, 'kind="u"': np.arange(N) % 4},
    "a value in quotes": {"kind": ['"u"', "u", "w"] * 4, "kind=u": np.arange(N) % 7},
    "equal signs": {"kind": ["a=b", "=", "c==d"] * 4, "kind=c": np.arange(N) % 7},
    "equal signs in both": {"k": ["a=b", "c", "d"] * 4, "k=a": ["b", "c", "e"] * 4},
    "equal signs around": {"=": ["=", "==", "x"] * 4, "==": ["=", "==", "x"] * 4, "": ["=", "a", "b"] * 4},
    "backslashes": {"k": ["\\", '\\"', 'a="b"'] * 4, 'k="': ["\\", '"', 'a="b"'] * 4},
    "other letters": {"é=😀": ["😀", "\u2028", "é=😀"] * 4, "é": ["😀=😀", "b", "c"] * 4},
}


@pytest.mark.parametrize("case", COLLIDING)
def test_no_column_vanishes_and_all_are_found_again(tmp_path, case):
    columns = COLLIDING[case]
    table = read_table(written(tmp_path / "t.csv", columns), "y")
    assert len(set(table.names)) == len(table.names) == table.X.shape[1]
    found = {tuple(column) for column in table.X.T}
    for values in columns.values():
        if isinstance(values, np.ndarray):
            assert tuple(values.astype(float)) in found
        elif len(set(values)) == 3:
            assert {tuple(np.equal(values, each).astype(float)) for each in set(values)} <= found
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv", names=table.names).X, table.X)


def test_the_target_is_not_taken_for_a_value(tmp_path):
    frame = pd.DataFrame({"kind": ["u", "v", "w"] * 4, "kind=u": np.linspace(0, 1, N) ** 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", "kind=u")
    np.testing.assert_array_equal(table.X[:, 0], frame["kind"] == "u")
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv", names=table.names).X, table.X)
    frame[["kind"]].to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "new.csv", names=table.names).X, table.X)


def test_plain_names_stay_plain(tmp_path):
    table = read_table(written(tmp_path / "t.csv", {"kind": ["a=b", "u", "v"] * 4}), "y")
    assert table.names == ["kind=a=b", "kind=u", "kind=v", "b"]


def test_rows_whose_text_looks_like_numbers(tmp_path):
    names = read_table(written(tmp_path / "t.csv", {"code": ["1", "2", "x"] * 4}), "y").names
    (tmp_path / "part.csv").write_text("code,b\n1,0\n,1\n2,2\n")  # a missing value makes them 1.0 and 2.0
    X = read_table(tmp_path / "part.csv", names=names).X
    np.testing.assert_array_equal(X[:, :3], [[1, 0, 0], [np.nan] * 3, [0, 1, 0]])


def test_names_that_already_have_a_number(tmp_path):
    (tmp_path / "t.csv").write_text("y,a,a,a (2),a (2),b,\n1.5,5,2,0,1,7,4\n2.5,4,4,3,2,1,0\n7.5,3,1,1,5,2,2\n")
    table = read_table(tmp_path / "t.csv", "y")
    assert table.names == ["a", "a (3)", "a (2)", "a (2) (2)", "b", ""]
    np.testing.assert_array_equal(table.X[0], [5, 2, 0, 1, 7, 4])
    assert "Columns with the same name got a number: a, a (2)." in table.notes
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv", names=table.names).X, table.X)
    index = pd.DataFrame({"a": [1, 2, 5], "y": [0.5, 1.5, 2.5]}, index=pd.Index([7, 9, 8], name="a"))
    index.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", "y").names == ["a", "a (2)"]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_every_line_end(tmp_path, end):
    lines = ["", "a,y", "1,2.5", "3,4.5", "4,8.5", ""]
    (tmp_path / "t.csv").write_bytes(end.join(lines).encode("utf-8-sig"))
    X, y, _, names = read_table(tmp_path / "t.csv", "y")
    assert names == ["a"] and X.tolist() == [[1], [3], [4]] and y.tolist() == [2.5, 4.5, 8.5]
    (tmp_path / "t.csv").write_bytes(end.join(lines[:2]).encode())
    with pytest.raises(ValueError, match=r"t\.csv has a header, but no rows below it"):
        read_table(tmp_path / "t.csv", "y")


@pytest.mark.parametrize("header", ["y," + "a" * 200_000, '"y,a', "y\0,a"], ids=["long", "open", "null"])
def test_strange_headers_are_one_line(tmp_path, header):
    (tmp_path / "t.csv").write_text(header + "\n1,2\n2,4\n3,1\n")
    with pytest.raises(ValueError, match=r"t\.csv (is not a table|is not a readable table|has no)") as raised:
        read_table(tmp_path / "t.csv", "y")
    assert "\n" not in str(raised.value)


def test_a_name_of_two_lines(tmp_path):
    (tmp_path / "t.csv").write_text('y,"a\nb",c\n1.5,2,7\n2.5,4,0\n3.5,1,1\n')
    assert read_table(tmp_path / "t.csv", "y").names == ["a\nb", "c"]


@pytest.mark.parametrize(("file", "name"), [(b"a$b$.csv", "a$b$"), (b"\xff.csv", "?"), (b".csv.csv", "table")])
def test_what_a_table_is_called(tmp_path, file, name):
    path = tmp_path / os.fsdecode(file)
    assert read_table(written(path, {}), "y").name == name


# -- files that are larger than they look -------------------------------------------------------------------


def bomb(path, cell, rows=1000):
    """Write 500 equal columns, which take hardly any place when they are packed."""
    with gzip.open(path, "wb") as file:
        file.write(",".join(f"x{i}" for i in range(500)).encode() + b"\n")
        file.write((",".join([cell] * 500) + "\n").encode() * rows)
    return path


@pytest.mark.parametrize("cell", ["0", "1.2345678"])
def test_packed_text_is_read_no_further_than_memory_goes(tmp_path, monkeypatch, cell):
    path = bomb(tmp_path / "t.csv.gz", cell)
    packed, free = path.stat().st_size, 2**22
    assert 100 * packed < free
    plain = tmp_path / "t.csv"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    monkeypatch.setattr(_frames, "available_memory", lambda: free)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain.read_bytes())))
    for file in (path, plain, "-"):
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=r"would take about .* GB of memory.* smaller file"):
                read_table(file)
            assert tracemalloc.get_traced_memory()[1] < free
        finally:
            tracemalloc.stop()


def test_packed_text_takes_no_more_memory_than_is_said(tmp_path):
    path = bomb(tmp_path / "t.csv.gz", "1.2345678", 200)
    size = len(gzip.decompress(path.read_bytes()))
    read_table(written(tmp_path / "warm.csv", {}))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="no column of numbers"):  # all are constant
            read_table(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * size + 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.npz"])
def test_other_packed_files_are_measured_before_they_are_read(tmp_path, monkeypatch, name):
    path, values = tmp_path / name, np.zeros((20_000, 20))
    if path.suffix == ".npz":
        np.savez_compressed(path, x=values)
    else:
        frame = pd.DataFrame(values, columns=[f"x{i}" for i in range(20)])
        frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_feather(path, compression="zstd")
    assert path.stat().st_size < 50_000
    monkeypatch.setattr(_frames, "available_memory", lambda: 2**21)
    monkeypatch.setattr(np, "load", None)
    monkeypatch.setattr(pd, "read_parquet", None)
    monkeypatch.setattr(pd, "read_feather", None)
    with pytest.raises(ValueError, match=r"would take about .* GB of memory or more, and .* smaller file"):
        read_table(path)
