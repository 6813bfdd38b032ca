from __future__ import annotations

import gzip

import numpy as np
import pytest

from svnn.datasets import load_meats, load_released
from svnn.datasets._csv import read_table


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_released_draws_with_and_without_an_index_column(tmp_path, rng, index, packed):
    values = rng.standard_normal((6, 5))
    # One released header names the target 0, as it names the first feature.
    lines = [[""] * index + ["0", "1", "2", "3", "0"]]
    lines += [[str(i)] * index + [repr(float(v)) for v in row] for i, row in enumerate(values)]
    text = "\n".join(map(",".join, lines)).encode()
    path = tmp_path / ("SmallCov.csv.gz" if packed else "SmallCov.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    data = load_released("SmallCov", tmp_path)
    np.testing.assert_array_equal(data.X, values[:, :4])
    np.testing.assert_array_equal(data.y, values[:, 4])
    assert data.groups is None and data.split is None and data.feature_names == ["x0", "x1", "x2", "x3"]


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
    with pytest.raises(ValueError, match="name must be one of SparseCov, LargeCov, SmallCov"):
        load_released("HugeCov")
    with pytest.raises(ValueError, match="target must be one of fat, water, protein"):
        load_meats(tmp_path, target="x_001")
    with pytest.raises(FileNotFoundError, match=r"SparseCov.csv.gz or SparseCov.csv in .*SVNN_DATA"):
        load_released("SparseCov", tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        load_meats(tmp_path / "nowhere")
    (tmp_path / "SparseCov.csv").write_text("0,1\n1,b\n")
    with pytest.raises(ValueError, match="numbers only"):
        load_released("SparseCov", tmp_path)
    (tmp_path / "meats.csv").write_text("a,fat\n1,2\n")
    with pytest.raises(ValueError, match="must have columns x_001"):
        load_meats(tmp_path)


@pytest.mark.parametrize("name", ["SparseCov", "LargeCov", "SmallCov"])
def test_the_real_draws_have_noise_of_standard_deviation_three(load_real, name):
    data = load_real(load_released, name)
    assert data.X.shape == (1000, 100) and data.y.shape == (1000,)
    design = np.column_stack([data.X, np.ones(1000)])
    residual = data.y - design @ np.linalg.lstsq(design, data.y, rcond=None)[0]
    assert np.sqrt((residual**2).sum() / (1000 - 101)) == pytest.approx(3, rel=0.08)


def test_the_real_spectra(load_real):
    data = load_real(load_meats)
    assert data.X.shape == (215, 100) and data.y.min() > 0 and data.y.max() < 60
