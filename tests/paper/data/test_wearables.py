from __future__ import annotations

import numpy as np
import pytest

from svnn.paper import load_mhealth, load_realdisp
from svnn.paper.data._wearables import MHEALTH_ACTIVITIES, REALDISP_ACTIVITIES, REALDISP_PAPER


def read(path) -> np.ndarray:
    return np.loadtxt(path, dtype=np.float32)


@pytest.mark.parametrize(("ecg", "columns"), [(False, [0, 1, 2, *range(5, 23)]), (True, range(23))])
def test_mhealth_channels_are_the_official_columns(mhealth, ecg, columns):
    data = load_mhealth(mhealth, ecg=ecg)
    assert data.X.dtype == np.float32 and data.X.shape[1:] == (len(columns), 128)
    # Column c of the files is noise around 1000 c; the label, column 24, would be near 0.
    np.testing.assert_allclose(data.X.mean((0, 2)), 1000 * np.array(columns), atol=0.5)
    assert len(data.feature_names) == len(set(data.feature_names)) == len(columns)
    assert ("chest_ecg_1" in data.feature_names) == ecg


def test_mhealth_windows_labels_and_runs(mhealth):
    data = load_mhealth(mhealth)
    source = read(mhealth / "mHealth_subject1.log")
    mine = data.groups == 1
    # Runs of 300, 200, 256, 128 and 129 steps; the run of 100 is too short, and two runs of walking stay apart.
    starts = [30, 94, 158, 335, 399, 635, 699, 763, 931, 1059]
    assert mine.sum() == len(starts)
    for window, label, start in zip(data.X[mine], data.y[mine], starts, strict=True):
        np.testing.assert_array_equal(window[0], source[start : start + 128, 0])
        np.testing.assert_array_equal(window[3], source[start : start + 128, 5])
        assert MHEALTH_ACTIVITIES[label] == data.target_names[label]
        assert set(source[start : start + 128, 23]) == {label + 1}
    _, lengths = np.unique(data.runs[mine], return_counts=True)
    assert lengths.tolist() == [3, 2, 3, 1, 1]
    assert len(np.unique(data.runs)) == 50  # no number is used for two people
    assert len(data.target_names) == 12 and set(data.y) == {3, 8, 10, 11}


def test_mhealth_official_split(mhealth):
    data = load_mhealth(mhealth)
    people = {name: set(data.groups[data.split == name]) for name in ("train", "validation", "test")}
    assert people == {"train": {1, 3, 4, 5, 7, 8}, "validation": {6, 10}, "test": {2, 9}}


def test_realdisp_channels_split_and_activities(realdisp):
    data = load_realdisp(realdisp)
    assert data.X.shape[1:] == (117, 128) and data.X.dtype == np.float32
    np.testing.assert_allclose(data.X.mean((0, 2)), 1000 * np.arange(2, 119), rtol=1e-4)
    people = {name: set(data.groups[data.split == name]) for name in ("train", "validation", "test")}
    assert people == {"train": set(range(1, 10)), "validation": {10, 11, 12}, "test": {13, 14, 15, 16, 17}}
    # Each person: two windows of walking, one of each run of cycling, one of knees; jumping is not of the ten.
    assert [data.target_names[label] for label in data.y[data.groups == 1]] == [
        "walking",
        "walking",
        "cycling",
        "cycling",
        "knees (alternatively) bend forward",
    ]
    assert data.target_names == [
        "walking",
        "jogging",
        "running",
        "trunk twist (arms outstretched)",
        "trunk twist (elbows bended)",
        "waist bends forward",
        "knees (alternatively) bend forward",
        "rowing",
        "elliptic bike",
        "cycling",
    ]
    assert len(set(data.feature_names)) == 117 and data.feature_names[13] == "rua_acc_x"
    assert len(REALDISP_ACTIVITIES) == 33 and len(REALDISP_PAPER) == 10


def test_other_activities_windows_and_people(realdisp):
    data = load_realdisp(realdisp, activities=[5], window=64, overlap=0, subjects=[1, 2, 13])
    assert data.target_names == ["jump front & back"] and data.X.shape == (6, 117, 64)
    assert set(data.split[data.groups == 13]) == {"test"} and set(data.split[data.groups == 1]) == {"train"}
    assert set(load_realdisp(realdisp, subjects=[10, 14]).split) == {"validation", "test"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subjects": [11]}, "subjects must be some of 1 to 10"),
        ({"subjects": []}, "subjects must be some of 1 to 10"),
        ({"validation": [6, 2]}, r"share the subjects \[2\]"),
        ({"window": 0}, "window must be"),
        ({"overlap": 1}, "overlap must be"),
        ({"window": 5000}, "no run of the chosen activities of 5000 time steps"),
    ],
)
def test_mistakes_are_named(mhealth, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_mhealth(mhealth, **arguments)


def test_realdisp_activities_are_checked(realdisp):
    for activities in ([0, 1], [34], []):
        with pytest.raises(ValueError, match="activities must be numbers from 1 to 33"):
            load_realdisp(realdisp, activities=activities)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t2\t3\t4\n", "24 columns"),
        ("\t".join(["1"] * 24 + ["4"]) + "\n", "24 columns"),
        ("\t".join(["1"] * 23 + ["0.5"]) + "\n", "a whole number"),
        ("\t".join(["1"] * 23 + ["walking"]) + "\n", "24 numbers per line"),
        ("\t".join(["1"] * 22 + ["x", "4"]) + "\n", "24 numbers per line"),
    ],
)
def test_files_of_another_format_are_refused(tmp_path, line, message):
    (tmp_path / "mHealth_subject1.log").write_text(line * 200)
    with pytest.raises(ValueError, match=rf"mHealth_subject1.*{message}"):
        load_mhealth(tmp_path, subjects=[1])


def test_a_cut_file_is_refused(mhealth, tmp_path):
    text = (mhealth / "mHealth_subject1.log").read_text()
    (tmp_path / "mHealth_subject1.log").write_text(text[: len(text) // 2].rsplit("\t", 5)[0] + "\t4\n")
    with pytest.raises(ValueError, match="mHealth_subject1"):
        load_mhealth(tmp_path, subjects=[1])


def test_the_whole_of_a_real_mhealth(load_real):
    data = load_real(load_mhealth)
    assert set(data.y) == set(range(12)) and set(data.groups) == set(range(1, 11))
    assert data.X.shape[1:] == (21, 128) and np.isfinite(data.X).all()


def test_the_whole_of_a_real_realdisp(load_real):
    data = load_real(load_realdisp)
    assert set(data.y) == set(range(10)) and set(data.groups) == set(range(1, 18))
    assert data.X.shape[1:] == (117, 128)
