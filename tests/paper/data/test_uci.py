from __future__ import annotations

import shutil
import zipfile

import numpy as np
import pytest

from svnn.datasets._files import LARGEST_FILE
from svnn.paper import load_dsads, load_mhealth, load_realdisp


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("SVNN_DATA", raising=False)


@pytest.mark.parametrize(
    "place", ["", "MHEALTHDATASET", "mhealth", "mhealth/MHEALTHDATASET", "mhealth+dataset/MHEALTHDATASET"]
)
def test_folders_as_unpacked_from_the_official_zip(mhealth, tmp_path, place):
    if place:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(mhealth, tmp_path / place, dirs_exist_ok=True)
    np.testing.assert_array_equal(load_mhealth(tmp_path).X, load_mhealth(mhealth).X)


@pytest.mark.parametrize("inside", ["", "MHEALTHDATASET/", "some/where/"])
def test_zips_are_read_as_they_are(mhealth, zip_folder, tmp_path, inside):
    path = zip_folder(mhealth, "mhealth+dataset.zip", inside)
    expected = load_mhealth(mhealth).X
    np.testing.assert_array_equal(load_mhealth(tmp_path).X, expected)  # the folder it lies in
    np.testing.assert_array_equal(load_mhealth(path).X, expected)  # the zip itself
    assert [p.name for p in tmp_path.iterdir()] == ["mhealth+dataset.zip"]  # nothing was unpacked


def test_a_zip_in_a_zip(dsads, zip_folder, tmp_path):
    inner = zip_folder(dsads, "data.zip")
    with zipfile.ZipFile(tmp_path / "daily+and+sports+activities.zip", "w") as archive:
        archive.write(inner, "data.zip")
    inner.unlink()
    np.testing.assert_array_equal(load_dsads(tmp_path).X, load_dsads(dsads).X)


def test_the_fullest_archive_is_used_whatever_its_name(dsads, zip_folder, tmp_path):
    full = zip_folder(dsads, "z.zip")
    with zipfile.ZipFile(full) as source, zipfile.ZipFile(tmp_path / "a.zip", "w") as excerpt:
        name = "data/a01/p1/s01.txt"
        excerpt.writestr(name, source.read(name))
        excerpt.writestr("__MACOSX/data/a01/p1/._s02.txt", "junk")
    (tmp_path / "broken.zip").write_bytes(b"PK junk")
    assert str(full) in load_dsads(tmp_path).DESCR
    assert len(load_dsads(tmp_path / "a.zip", subjects=[1]).X) == 1


def test_the_environment_variable_names_the_folder(mhealth, monkeypatch):
    monkeypatch.setenv("SVNN_DATA", str(mhealth))
    assert len(load_mhealth(subjects=[1]).X) > 0


def test_without_a_folder_it_says_how_to_name_one():
    with pytest.raises(
        FileNotFoundError, match=r"root=, or name it in the environment variable SVNN_DATA .not set.*UCI data set 319"
    ):
        load_mhealth()


@pytest.mark.parametrize(
    ("loader", "parts"),
    [
        (load_mhealth, ("mHealth_subject<N>.log", "UCI data set 319", 'fetch("mhealth")')),
        (load_realdisp, ("subject<N>_ideal.log", "UCI data set 305", 'fetch("realdisp")')),
        (load_dsads, ("a<N>/p<N>/s<N>.txt", "UCI data set 256", 'fetch("dsads")')),
    ],
)
def test_missing_files_say_which_where_and_how_to_get_them(loader, parts, tmp_path):
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(FileNotFoundError) as raised:
        loader(tmp_path)
    for part in (*parts, str(tmp_path), "https://archive.ics.uci.edu/dataset/", "SVNN_DATA", "cut.zip"):
        assert part in str(raised.value)
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        loader(tmp_path / "nowhere")


def test_missing_subjects_are_named(mhealth, tmp_path):
    shutil.copytree(mhealth, tmp_path, dirs_exist_ok=True)
    for subject in (3, 7):
        (tmp_path / f"mHealth_subject{subject}.log").unlink()
    with pytest.raises(FileNotFoundError, match="for subjects 3, 7"):
        load_mhealth(tmp_path)
    assert set(load_mhealth(tmp_path, subjects=[1, 2]).groups) == {1, 2}


def test_a_damaged_member_is_not_silently_wrong(dsads, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(dsads / "data/a01/p1/s01.txt", "data/a01/p1/s01.txt")
    raw = bytearray(path.read_bytes())
    at = raw.index(b",")
    raw[at + 1] = ord("7") if raw[at + 1] != ord("7") else ord("8")
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"cannot be read .*download the zip again"):
        load_dsads(path, subjects=[1])


def test_any_damaged_byte_is_an_error_or_harmless(dsads, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(dsads / "data/a01/p1/s01.txt", "data/a01/p1/s01.txt")
    whole, expected = path.read_bytes(), load_dsads(path, subjects=[1]).X
    headers = [*range(60), *range(len(whole) - 100, len(whole))]
    for at in headers + list(range(60, len(whole) - 100, 199)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            found = load_dsads(tmp_path, subjects=[1]).X
        except (ValueError, FileNotFoundError):
            continue
        np.testing.assert_array_equal(found, expected)


def test_absurd_sizes_are_refused(dsads, tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(dsads / "data/a01/p1/s01.txt", "data/a01/p1/s01.txt")
    assert LARGEST_FILE > 2**30
    monkeypatch.setattr("svnn.datasets._files.LARGEST_FILE", 1000)
    with pytest.raises(ValueError, match="not an official archive"):
        load_dsads(path, subjects=[1])
