from __future__ import annotations

import gzip

import pytest

from svnn.datasets import load_meats
from svnn.datasets._csv import read_table


def test_meats_never_get_the_other_percentages(tmp_path):
    (tmp_path / "meats.csv").write_text("x_001,x_002,water,fat,protein\n1,2,60,20,17\n3,4,70,10,18\n")
    for target, y in (("fat", [20, 10]), ("water", [60, 70]), ("protein", [17, 18])):
        data = load_meats(tmp_path, target=target)
        assert data.X.tolist() == [[1, 2], [3, 4]] and data.y.tolist() == y


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "empty"),
        (b"a,b\n1,2\n3\n", "line 3 has 1 cells"),
        (b"\xff\xfe\x00", "not a readable table"),
    ],
)
def test_unreadable_tables_are_named(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read_table(path)


def test_cut_archives_are_named(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-20])
    with pytest.raises(ValueError, match="not a readable table"):
        read_table(path)


def test_delimiters_byte_order_marks_and_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffname;"a;b"\r\n"x, y";3\r\n'.encode())
    table = read_table(path)
    assert table.names == ["name", "a;b"] and table.rows == [["x, y", "3"]]
    with pytest.raises(ValueError, match=r"column 'name' holds 'x, y', which is not a number"):
        table.numbers(["name"])


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="target must be one of fat, water, protein"):
        load_meats(tmp_path, target="x_001")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        load_meats(tmp_path / "nowhere")
    (tmp_path / "meats.csv").write_text("a,fat\n1,2\n")
    with pytest.raises(ValueError, match="must have columns x_001"):
        load_meats(tmp_path)


def test_the_real_spectra(load_real):
    data = load_real(load_meats)
    assert data.X.shape == (215, 100) and data.y.min() > 0 and data.y.max() < 60
