"""Damaged, foreign and inconsistent data files: one line that names the file, what is wrong and the way out."""

from __future__ import annotations

import gzip
import io
import shutil
import warnings
import zipfile
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svnn.datasets import load_genes, load_meats, load_stocks
from svnn.datasets._csv import read_table
from svnn.paper import load_dsads, load_mhealth, load_released, load_thickness

MEATS = "x_001,x_002,water,fat,protein\n" + "".join(f"{i}.5,{i + 1}.25,6{i},2{i},17\n" for i in range(9))
PEOPLE = "subject_id,age,lh_insula_thickness,rh_insula_thickness\n" + "".join(
    f"s{i},{30 + i},2.{i}1,3.{i}2\n" for i in range(9)
)


@pytest.fixture(autouse=True)
def quiet():
    """No loader says anything but its one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def one_line(raised, *parts):
    text = str(raised.value)
    assert "\n" not in text.strip(), text
    for part in parts:
        assert str(part) in text
    return text


# -- tables -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "meats.csv.gz"
    path.write_bytes(gzip.compress(MEATS.encode(), mtime=0))
    return path, path.read_bytes(), load_meats(path)


@given(data=st.data())
def test_packed_tables_with_damaged_bytes(packed, data):
    path, good, expected = packed
    bad = bytearray(good)
    at = data.draw(st.integers(0, len(bad) - 1))
    if data.draw(st.booleans()):
        bad[at] ^= data.draw(st.integers(1, 255))
    else:
        del bad[at:]
    path.write_bytes(bad)
    try:
        found = load_meats(path)
    except ValueError as error:
        text = str(error)
    else:  # gzip's header holds a time and a system, which say nothing about the contents
        np.testing.assert_array_equal(found.X, expected.X)
        return
    assert str(path) in text and "\n" not in text


def test_every_byte_of_a_packed_table(packed):
    path, good, expected = packed
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            found = load_meats(path).X
        except ValueError as error:
            text = str(error)
        else:
            np.testing.assert_array_equal(found, expected.X)
            continue
        assert str(path) in text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_tables_in_another_encoding(tmp_path, encoding):
    path = tmp_path / "meats.csv"
    path.write_bytes(MEATS.replace("water", "wätér").encode(encoding))
    with pytest.raises(ValueError, match="UTF-8") as raised:
        load_meats(path)
    one_line(raised, path)


#: For every loader of tables: texts of its file, and what is said about them.
WRONG_TABLES = {
    load_meats: {
        "": "is empty",
        "\n\n\n": "is empty",
        "x_001,x_002,fat\n": "no rows",
        "x_001,x_001,fat\n1,2,3\n": "'x_001' .*twice",
        "x_001,fat,fat\n1,2,3\n": "'fat' .*twice",
        "x_001,fat\n1,many\n": "'fat' holds 'many', which is not a number",
        "x_001,fat\n1e999,2\n": "'x_001' holds '1e999', which is not a number",
        "x_001,fat\ninf,2\n": "'x_001' holds 'inf', which is not a number",
        "wave,weight\n1,2\n": "must have columns x_001",
        'x_001,fat\n1,"2\n': "line 2",
    },
    partial(load_released, "SparseCov"): {
        "0,1,2\n": "no rows",
        "0,1\n1,nan\n": "numbers only",
        "0,1\n1,\n": "numbers only",
        "0,1\n1,inf\n": "numbers only",
        "0\n1\n2\n": "at least two columns",
        ",0\n0,1\n1,2\n": "at least two columns",
    },
    load_thickness: {
        "subject_id,age,age,lh_insula_thickness\ns1,30,31,2.5\n": "'age' .*twice",
        "subject_id,subject_id,age,lh_insula_thickness\ns1,30,31,2.5\n": "'subject_id' .*twice",
        "subject_id,age,lh_insula_thickness,lh_insula_thickness\ns1,30,31,2.5\n": "lh_insula_thickness",
    },
}


@pytest.mark.parametrize(
    ("load", "text", "message"),
    [(load, text, message) for load, cases in WRONG_TABLES.items() for text, message in cases.items()],
)
def test_tables_that_cannot_be_right(tmp_path, load, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        load(path)
    one_line(raised, path)


@pytest.mark.parametrize("age", ["old", "inf", "-nan"])
def test_ages_that_are_no_numbers_name_their_table(tmp_path, age):
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE + f"s10,{age},2.5,2.5\n")
    with pytest.raises(ValueError, match="not a number") as raised:
        load_thickness(path)
    one_line(raised, path, repr(age))


def test_a_folder_in_place_of_a_table(tmp_path):
    (tmp_path / "meats.csv").mkdir()
    for load in (lambda: load_meats(tmp_path), lambda: load_thickness(tmp_path), lambda: read_table(tmp_path)):
        with pytest.raises((FileNotFoundError, ValueError), match=r"no meats|no such table|is a folder") as raised:
            load()
        one_line(raised, tmp_path)


def test_unused_columns_may_have_any_names(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("subject_id,note,note,age,lh_insula_thickness\ns1,a,b,30,2.5\n")
    assert load_thickness(path).y.tolist() == [30]


# -- numpy archives ---------------------------------------------------------------------------------------


def genes(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_every_byte_of_an_archive(tmp_path, compressed):
    path = tmp_path / "genes_golub.npz"
    x = np.arange(6.0).reshape(3, 2)
    (np.savez_compressed if compressed else np.savez)(path, x=x, y=["a", "b", "a"])
    good = path.read_bytes()
    for at in range(len(good)):
        for flip in (0xFF, 0x01):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            try:
                found = load_genes("golub", path)
            except ValueError as error:
                text = str(error)
            else:
                np.testing.assert_array_equal(found.X, x)
                assert found.y.tolist() == [0, 1, 0]
                continue
            assert str(path) in text and "\n" not in text
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match="numpy archive"):
            load_genes("golub", path)


def test_an_array_smaller_than_its_bytes_is_not_taken_for_whole(tmp_path):
    """A zip's checksum is compared only at the end of a file, which a reader of fewer rows never reaches."""
    path = tmp_path / "genes_golub.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6.0).reshape(3, 2))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", buffer.getvalue().replace(b"(3, 2)", b"(2, 2)"))
        buffer = io.BytesIO()
        np.save(buffer, np.array(["a", "b"]))
        archive.writestr("y.npy", buffer.getvalue())
    with pytest.raises(ValueError, match="numpy archive") as raised:
        load_genes("golub", path)
    one_line(raised, path)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((3, 5)), ["a", "b"], "3 rows of x and 2 of y"),
        (np.zeros((3, 5)), [["a"], ["b"], ["a"]], "y must be"),
        (np.zeros(3), ["a", "b", "a"], "x must be"),
        (np.zeros((0, 5)), np.zeros(0), "x must be"),
        (np.zeros((3, 0)), ["a", "b", "a"], "x must be"),
        (np.array([["1", "2"], ["3", "4"]]), ["a", "b"], "x must be"),
        (np.array([[1.0, np.nan], [3, 4]]), ["a", "b"], "x must be"),
        (np.array([[1.0, 1e300], [3, 4]]), ["a", "b"], "x must be"),
        (np.array([[1j, 2], [3, 4]]), ["a", "b"], "x must be"),
        (np.zeros((2, 2)), [1.0, np.nan], "y must be"),
    ],
)
def test_genes_that_cannot_be_right(tmp_path, x, y, message):
    path = genes(tmp_path / "genes_golub.npz", x=x, y=np.asarray(y))
    with pytest.raises(ValueError, match=message) as raised:
        load_genes("golub", path)
    one_line(raised, path)


def test_one_array_in_place_of_an_archive(tmp_path):
    path = tmp_path / "genes_golub.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros((3, 5)))
    with pytest.raises(ValueError, match="must be a numpy archive with x and y") as raised:
        load_genes("golub", path)
    one_line(raised, path)


def stocks(folder, prices, info=None):
    n = np.shape(prices)[-1] if np.ndim(prices) else 0
    names = [f"S{i}" for i in range(n)]
    np.savez(folder / "stockdata.npz", close=prices, info=[*names, *["Energy"] * n, *names] if info is None else info)
    return folder / "stockdata.npz"


def moving(rng, days=120, n=4):
    return 50 * np.exp(rng.normal(0, 0.01, (days, n)).cumsum(0))


@pytest.mark.parametrize("target", ["volatility", "return"])
def test_prices_that_never_change(tmp_path, target):
    path = stocks(tmp_path, np.full((120, 4), 50.0))
    with pytest.raises(ValueError, match="never change") as raised:
        load_stocks(tmp_path, target=target)
    one_line(raised, path)


def test_prices_that_stand_still_for_a_while(tmp_path, rng):
    prices = moving(rng)
    prices[60:70] = prices[60]
    path = stocks(tmp_path, prices)
    with pytest.raises(ValueError, match="5 days in a row from day 60 on") as raised:
        load_stocks(tmp_path)
    one_line(raised, path, 'target="return"')
    assert np.isfinite(load_stocks(tmp_path, target="return").y).all()
    assert np.isfinite(load_stocks(tmp_path, horizon=12, window=2).y).all()


def test_a_single_stock_may_stand_still(tmp_path, rng):
    prices = moving(rng)
    prices[:, 1] = 7.0
    stocks(tmp_path, prices)
    data = load_stocks(tmp_path)
    assert not data.X[:, 1].any() and np.isfinite(data.y).all()


@pytest.mark.parametrize(
    ("prices", "info", "message"),
    [
        (np.full((120, 4), np.inf), None, "positive prices"),
        (np.full((120, 4), np.nan), None, "positive prices"),
        (np.full((120, 4), "dear"), None, "positive prices"),
        (np.full((120, 4), 1 + 1j), None, "positive prices"),
        (np.ones((120, 0)), None, "positive prices"),
        (np.ones(120), [], "positive prices"),
        (1 + np.arange(480.0).reshape(120, 4) % 7, ["A", "B"], "info"),
        (1 + np.arange(480.0).reshape(120, 4) % 7, 3, "info"),
    ],
)
def test_stocks_that_cannot_be_right(tmp_path, prices, info, message):
    path = stocks(tmp_path, prices, info)
    with pytest.raises(ValueError, match=message) as raised:
        load_stocks(tmp_path)
    one_line(raised, path)


@pytest.mark.parametrize("name", ["window", "horizon"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "5", None, True])
def test_days_are_whole_numbers(tmp_path, rng, name, value):
    stocks(tmp_path, moving(rng))
    with pytest.raises(ValueError, match=f"{name}.*at least one day"):
        load_stocks(tmp_path, **{name: value})


# -- recordings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"", b"\n\n", b"a b c\n", b"\xff\xfe1\x00", b"1 2 3\n", b"1,2,3\n" * 9])
def test_recordings_in_a_zip_are_named_with_their_archive(tmp_path, mhealth, zip_folder, text):
    shutil.copytree(mhealth, tmp_path / "folder")
    (tmp_path / "folder/mHealth_subject2.log").write_bytes(text)
    path = zip_folder(tmp_path / "folder", "some.zip")
    with pytest.raises(ValueError, match="mHealth_subject2") as raised:
        load_mhealth(path)
    one_line(raised, path)
    with pytest.raises(ValueError, match="mHealth_subject2") as raised:
        load_mhealth(tmp_path / "folder")
    one_line(raised, tmp_path / "folder")


@pytest.mark.parametrize("text", [b"", b"\n", b"a,b\n", b"\xff\xfe1\x00", b"1,2,3\n", "1,é\n".encode("latin-1")])
def test_segments_in_a_zip_are_named_with_their_archive(tmp_path, dsads, zip_folder, text):
    shutil.copytree(dsads, tmp_path / "folder")
    (tmp_path / "folder/data/a07/p1/s02.txt").write_bytes(text)
    path = zip_folder(tmp_path / "folder", "some.zip")
    with pytest.raises(ValueError, match=r"a07/p1/s02\.txt") as raised:
        load_dsads(path)
    one_line(raised, path)


# -- the real files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("SparseCov.csv.gz", lambda folder: load_released("SparseCov", folder)),
        ("meats.csv.gz", load_meats),
        ("ixi_dk_thickness_age.csv.gz", lambda folder: load_thickness("ixi", folder)),
        ("genes_golub.npz", lambda folder: load_genes("golub", folder)),
        ("stockdata.npz", load_stocks),
        ("dsads_s01-s12.zip", lambda folder: load_dsads(folder, subjects=[1], segments=[1])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_real_files_cut_short_or_with_a_damaged_middle(data_folder, tmp_path, name, load):
    if not (data_folder / name).exists():
        pytest.skip(f"no {name} in SVNN_DATA")
    good = (data_folder / name).read_bytes()
    middle = len(good) // 2
    damaged = [good[:middle], good[:-1], b""]
    if not name.startswith("dsads"):  # of which one file is read, not all
        damaged.append(good[:middle] + bytes(byte ^ 0x55 for byte in good[middle : middle + 64]) + good[middle + 64 :])
    for bad in damaged:
        (tmp_path / name).write_bytes(bad)
        with pytest.raises((ValueError, FileNotFoundError)) as raised:
            load(tmp_path)
        one_line(raised, tmp_path)
