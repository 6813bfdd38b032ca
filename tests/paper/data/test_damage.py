"""Damaged, foreign and inconsistent data files: one line that names the file, what is wrong and the way out."""

from __future__ import annotations

import shutil
import warnings
from functools import partial

import pytest

from data_files import damaged, one_line
from svnn.paper import load_dsads, load_mhealth, load_released, load_thickness

PEOPLE = "subject_id,age,lh_insula_thickness,rh_insula_thickness\n" + "".join(
    f"s{i},{30 + i},2.{i}1,3.{i}2\n" for i in range(9)
)


@pytest.fixture(autouse=True)
def quiet():
    """No loader says anything but its one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# -- tables -----------------------------------------------------------------------------------------------


#: For every loader of tables: texts of its file, and what is said about them.
WRONG_TABLES = {
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
    with pytest.raises(FileNotFoundError, match="is a folder") as raised:
        load_thickness(tmp_path)
    one_line(raised, tmp_path)


def test_unused_columns_may_have_any_names(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("subject_id,note,note,age,lh_insula_thickness\ns1,a,b,30,2.5\n")
    assert load_thickness(path).y.tolist() == [30]


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
        ("ixi_dk_thickness_age.csv.gz", lambda folder: load_thickness("ixi", folder)),
        ("dsads_s01-s12.zip", lambda folder: load_dsads(folder, subjects=[1], segments=[1])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_real_files_cut_short_or_with_a_damaged_middle(data_folder, tmp_path, name, load):
    if not (data_folder / name).exists():
        pytest.skip(f"no {name} in SVNN_DATA")
    good = (data_folder / name).read_bytes()
    for bad in damaged(good, middle_too=not name.startswith("dsads")):  # of DSADS one file is read, not all
        (tmp_path / name).write_bytes(bad)
        with pytest.raises((ValueError, FileNotFoundError)) as raised:
            load(tmp_path)
        one_line(raised, tmp_path)
