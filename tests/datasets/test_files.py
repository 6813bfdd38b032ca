from __future__ import annotations

import gzip

import pytest

from svnn.datasets._files import read_table


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"", "empty"), (b"a,b\n1,2\n3\n", "line 3 has 1 cells"), (b"\xff\xfe\x00", "not a readable table")],
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
