"""Damaged, foreign and inconsistent data files: one line that names the file, what is wrong and the way out."""

from __future__ import annotations

import gzip
import io
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import damaged, one_line
from svnn.datasets import load_genes, load_meats, load_stocks
from svnn.datasets._files import read_table

MEATS = "x_001,x_002,water,fat,protein\n" + "".join(f"{i}.5,{i + 1}.25,6{i},2{i},17\n" for i in range(9))


@pytest.fixture(autouse=True)
def quiet():
    """No loader says anything but its one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


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


#: Texts of a file of spectra, and what is said about them.
WRONG_TABLES = {
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
}


@pytest.mark.parametrize(("text", "message"), WRONG_TABLES.items())
def test_tables_that_cannot_be_right(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        load_meats(path)
    one_line(raised, path)


def test_a_folder_in_place_of_a_table(tmp_path):
    (tmp_path / "meats.csv").mkdir()
    for load in (load_meats, read_table):
        with pytest.raises((FileNotFoundError, ValueError), match=r"no meats|is a folder") as raised:
            load(tmp_path)
        one_line(raised, tmp_path)


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


# -- the real files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("meats.csv.gz", load_meats),
        ("genes_golub.npz", lambda folder: load_genes("golub", folder)),
        ("stockdata.npz", load_stocks),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_real_files_cut_short_or_with_a_damaged_middle(data_folder, tmp_path, name, load):
    if not (data_folder / name).exists():
        pytest.skip(f"no {name} in SVNN_DATA")
    for bad in damaged((data_folder / name).read_bytes()):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - what is wrong differs
            load(tmp_path)
        one_line(raised, tmp_path)
