"""Files of every kind and condition, as arrays or as one clear line."""

from __future__ import annotations

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from svnn.comparison import read_table
from svnn.sources import _frames, _memory

HEADER = "id,age,sex,a,b\n"


@pytest.fixture
def frame(rng):
    return pd.DataFrame(
        {
            "person": [f"p{i // 4:02d}" for i in range(48)],
            "sex": ["f", "m", "m"] * 16,
            "site": ["x", "y", "z"] * 16,
            "a": rng.standard_normal(48),
            "b": rng.integers(0, 99, 48),
            "flag": [True, False] * 24,
            "age": rng.uniform(20, 80, 48),
        }
    )


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False, sep={".tsv": "\t", ".txt": ";"}.get(path.suffix, ","))
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.txt", "t.parquet", "t.feather"])
def test_every_format_gives_the_same(tmp_path, frame, name):
    X, y, groups, names = read_table(write(frame, tmp_path / name), "age", "person")
    assert names == ["sex=m", "site=x", "site=y", "site=z", "a", "b", "flag"]
    np.testing.assert_array_equal(X[:, 0], frame["sex"] == "m")
    np.testing.assert_allclose(X[:, 4], frame["a"], rtol=1e-14)  # older pandas round the last digit of text
    np.testing.assert_array_equal(X[:, 6], frame["flag"])
    np.testing.assert_allclose(y, frame["age"], rtol=1e-14)
    np.testing.assert_array_equal(groups, frame["person"])


def test_a_pipe(frame, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(frame.to_csv(index=False).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    table = read_table("-", "age")
    assert table.X.shape == (48, 7) and table.name == "table"


def test_npz_with_and_without_names(tmp_path, rng):
    x, y = rng.standard_normal((30, 3)), np.array(["AML", "ALL", "ALL"] * 10)
    np.savez(tmp_path / "t.npz", x=x, y=y, batch=np.repeat([1, 2, 3], 10))
    table = read_table(tmp_path / "t.npz", "y", "batch")
    assert table.task == "classification" and table.names == ["x0", "x1", "x2"] and set(table.groups) == {"1", "2", "3"}
    np.testing.assert_array_equal(table.X, x)
    np.savez(tmp_path / "n.npz", x=x, y=y, feature_names=np.array(["u", "v", "w"]))
    assert read_table(tmp_path / "n.npz", "y").names == ["u", "v", "w"]


def test_what_is_left_out_is_said(tmp_path, frame):
    frame["same"], frame["row"], frame["when"] = 3, range(48), pd.Timestamp("2020-01-01")
    table = read_table(write(frame, tmp_path / "t.parquet"), "age")
    said = "\n".join(table.notes)
    assert {"same", "row", "when", "person"} & set(table.names) == set()
    assert "1 column with one value only left out: same." in said
    assert "1 column of row numbers left out: row." in said
    assert "1 column of dates or other things that are not numbers left out: when." in said
    assert "1 column of text with many different values left out: person." in said
    assert "2 columns of text became columns of zeros and ones: sex, site." in said
    assert "The values of 'person' come in several rows each" in said and "group" in said


def test_missing_values_stay_missing_and_are_said(tmp_path, frame):
    frame.loc[[0, 5], "a"] = np.nan
    frame.loc[3, "sex"] = None
    frame.loc[[1, 2], "age"] = np.nan
    frame["b"] = frame["b"].astype(float)
    frame.loc[7, "b"] = np.inf
    table = read_table(write(frame, tmp_path / "t.csv"), "age")
    said = "\n".join(table.notes)
    assert len(table.y) == 46 and "2 rows without age left out." in said
    assert (
        np.isnan(table.X).sum() == 4
        and "4 missing values in 4 rows: medians of the training rows take their place." in said
    )
    assert "1 column with infinite values, which count as missing: b." in said


def test_cells_that_are_not_numbers(tmp_path):
    rows = "".join(f"{i % 7},{i / 3:.2f}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("a,age\n" + rows + "?,3\n")
    table = read_table(tmp_path / "t.csv", "age")
    assert table.names == ["a"] and np.isnan(table.X).sum() == 1
    assert "1 column with cells that are not numbers, which count as missing: a (?)." in table.notes


def test_decimal_commas_byte_order_marks_and_spaces(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf a ;age\n1,5;20\n2,5;30\n3,25;41,5\n")
    table = read_table(tmp_path / "t.csv", "age")
    assert table.names == ["a"] and table.X.tolist() == [[1.5], [2.5], [3.25]] and table.y.tolist() == [20, 30, 41.5]
    (tmp_path / "s.txt").write_text("a  b   age\n1 2   3\n4  5 6\n7 9 9\n")
    assert read_table(tmp_path / "s.txt", "age").X.tolist() == [[1, 2], [4, 5], [7, 9]]


def test_names_that_come_twice(tmp_path):
    (tmp_path / "t.csv").write_text("a,a,age\n1,5,20\n2,4,30\n7,3,41\n")
    table = read_table(tmp_path / "t.csv", "age")
    assert table.names == ["a", "a (2)"] and "Columns with the same name got a number: a." in table.notes
    with pytest.raises(ValueError, match="has the column 'a' of the target twice; rename one"):
        read_table(tmp_path / "t.csv", "a")


@pytest.mark.parametrize(
    ("column", "task", "expected"),
    [
        (["u", "v"] * 24, None, "classification"),
        ([True, False] * 24, None, "classification"),
        ([1, 2, 3] * 16, None, "classification"),
        ([1.0, 2.0, 3.0] * 16, None, "classification"),
        ([1, 2, 3] * 16, "regression", "regression"),
        (list(range(48)), None, "regression"),
        ([0.5, 1.5] * 24, None, "regression"),
        ([0.5, 1.5] * 24, "classification", "classification"),
    ],
    ids=str,
)
def test_the_task(tmp_path, frame, column, task, expected):
    table = read_table(write(frame.assign(age=column), tmp_path / "t.csv"), "age", task=task)
    assert table.task == expected
    assert any("taken for classes" in note for note in table.notes) == (set(column) == {1, 2, 3} and task is None)


def test_numbers_and_booleans_that_may_be_missing(tmp_path, frame):
    frame["count"] = pd.array([None, *range(2, 49)], dtype="Int64")
    frame["maybe"] = pd.array([None, True, False] * 16, dtype="boolean")
    frame["kind"] = pd.Categorical(["u", "v", None] * 16)
    frame["code"] = pd.Categorical([1, 2, 5] * 16)
    frame["list"] = [[1, 2]] * 48
    table = read_table(write(frame, tmp_path / "t.parquet"), "age", "person")
    columns = dict(zip(table.names, table.X.T, strict=True))
    assert np.isnan(columns["count"][0]) and columns["count"][5] == 6
    assert np.isnan(columns["maybe"][0]) and columns["maybe"][1:3].tolist() == [1, 0]
    assert columns["kind=v"][:2].tolist() == [0, 1] and np.isnan(columns["kind=v"][2])
    assert columns["code"][:3].tolist() == [1, 2, 5] and "list" not in columns


def test_a_feature_that_gives_the_target_away_is_named(tmp_path, frame):
    frame["months"] = 12 * frame["age"] + np.arange(48) % 5
    path = write(frame, tmp_path / "t.csv")
    assert any(note.startswith("months nearly is the target") for note in read_table(path, "age").notes)
    assert not any("nearly" in note for note in read_table(path, "age", drop=["months"]).notes)
    assert "months" not in read_table(path, "age", drop=["months"]).names


def test_columns_of_another_file(tmp_path, frame):
    table = read_table(write(frame, tmp_path / "t.csv"), "age", "person")
    other = frame.drop(columns=["age", "person"])[["b", "site", "flag", "a", "sex"]].iloc[:5]
    np.testing.assert_array_equal(read_table(write(other, tmp_path / "o.csv"), names=table.names).X, table.X[:5])
    with pytest.raises(ValueError, match="lacks columns that the model was fitted with: a"):
        read_table(write(other.drop(columns="a"), tmp_path / "o.csv"), names=table.names)
    with pytest.raises(ValueError, match="'a' must hold numbers"):
        read_table(write(other.assign(a="x"), tmp_path / "o.csv"), names=table.names)


GOOD = "".join(f"{i},{20 + i},{'fm'[i % 2]},{i * i % 7},{i % 5}\n" for i in range(30))
BAD = {
    "empty.csv": (b"", "age", "is empty"),
    "blank.csv": (b"\n\n", "age", "is empty"),
    "header.csv": (HEADER.encode(), "age", "no rows below"),
    "latin.csv": ((HEADER + GOOD).replace("f", "é").encode("latin-1"), "age", "not text in UTF-8"),
    "binary.csv": (bytes(range(128)) * 50, "age", "null characters"),
    "ragged.csv": ((HEADER + "1,2\n1,2,3,4,5,6,7,8\n").encode(), "age", "is not a table"),
    "cut.csv.gz": (gzip.compress((HEADER + GOOD).encode())[:-9], "age", "cannot be unpacked"),
    "noheader.csv": (GOOD.replace("f", "1").replace("m", "2").encode(), "age", "no header"),
    "absent.csv": ((HEADER + GOOD).encode(), "agee", "near names are age"),
    "nothing-near.csv": ((HEADER + GOOD).encode(), "zzz", "it has id, age, sex, a, b"),
    "constant.csv": ((HEADER + "1,5,f,1,2\n2,5,m,2,3\n").encode(), "age", "only one value, 5.0"),
    "missing.csv": ((HEADER + "1,,f,1,2\n2,,m,2,3\n").encode(), "age", "is empty"),
    "words.csv": ((HEADER + "".join(f"{i},w{i},f,{i % 7},2\n" for i in range(30))).encode(), "age", "too many"),
    "alone.csv": (("age\n" + "".join(f"{i}.5\n" for i in range(30))).encode(), "age", "no column of numbers besides"),
    "infinite.csv": ((HEADER + GOOD + "9,inf,f,1,2\n").encode(), "age", "infinite values"),
    "broken.parquet": (b"PAR1" + b"nonsense" * 20, "age", "not a readable Parquet file"),
    "broken.feather": (b"nonsense" * 20, "age", "not a readable Feather file"),
    "broken.npz": (b"nonsense" * 20, "age", "not a readable NPZ file"),
    "table.xlsx": (b"PK\x03\x04", "age", "save it as CSV"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_clear_line(tmp_path, name):
    content, target, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_table(tmp_path / name, target)
    assert "\n" not in str(raised.value) and (name in str(raised.value))


def test_other_things_that_are_no_tables(tmp_path, frame):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_table(tmp_path / "nowhere.csv", "age")
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path, "age")
    np.savez(tmp_path / "two.npz", a=np.zeros((3, 2)), b=np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"one matrix .* it holds a \(3, 2\), b \(3, 2\)"):
        read_table(tmp_path / "two.npz", "y")
    np.savez(tmp_path / "objects.npz", x=np.zeros((3, 2)), y=np.array([{}, {}, {}], dtype=object))
    with pytest.raises(ValueError, match="not a readable NPZ"):
        read_table(tmp_path / "objects.npz", "y")
    path = write(frame, tmp_path / "t.csv")
    with pytest.raises(ValueError, match="no column 'person_id' for the group; near names are person"):
        read_table(path, "age", "person_id")
    with pytest.raises(ValueError, match="cannot also be the group"):
        read_table(path, "age", "age")
    with pytest.raises(ValueError, match="holds text"):
        read_table(path, "sex", task="regression")
    with pytest.raises(ValueError, match="task must be"):
        read_table(path, "sex", task="magic")


def test_a_file_that_is_too_big_is_not_read(tmp_path, frame, monkeypatch):
    monkeypatch.setattr(_frames, "available_memory", lambda: 1000)
    np.savez(tmp_path / "t.npz", x=np.zeros((100, 9)), y=np.arange(100))
    for path in (write(frame, tmp_path / "t.csv"), tmp_path / "t.npz"):
        with pytest.raises(ValueError, match=r"would take about .* GB .* smaller file"):
            read_table(path, "age")
    monkeypatch.undo()
    assert _frames.available_memory() > 2**20
    monkeypatch.setattr(_memory, "process_memory", lambda: 1000)  # that of a container
    assert _frames.available_memory() == 1000


def test_pandas_is_named_where_it_is_missing(tmp_path, frame, monkeypatch):
    path = write(frame, tmp_path / "t.csv")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'needs pandas: pip install "svnn\[compare\]"'):
        read_table(path, "age")
