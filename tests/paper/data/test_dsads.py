from __future__ import annotations

import numpy as np
import pytest

from svnn.paper import load_dsads


def test_segments_channels_and_labels(dsads):
    data = load_dsads(dsads)
    assert data.X.shape == (48, 45, 125) and data.X.dtype == np.float32
    assert data.split is None and len(data.target_names) == 19
    row = 7  # subjects, then activities, then segments: the second one of activity 1 of subject 2
    assert (data.groups[row], data.y[row], data.segments[row]) == (2, 0, 2)
    source = np.loadtxt(dsads / "data/a01/p2/s02.txt", delimiter=",", dtype=np.float32)
    np.testing.assert_array_equal(data.X[row], source.T)
    np.testing.assert_allclose(data.X.mean((0, 2)), 1000 * np.arange(45), atol=0.5)
    assert [data.target_names[label] for label in sorted(set(data.y))] == [
        "sitting",
        "standing in an elevator still",
        "playing basketball",
    ]
    assert data.feature_names[:4] == ["torso_acc_x", "torso_acc_y", "torso_acc_z", "torso_gyro_x"]
    assert data.feature_names[9] == "right_arm_acc_x" and data.feature_names[-1] == "left_leg_mag_z"


def test_a_split_when_asked_for(dsads):
    data = load_dsads(dsads, subjects=[1, 2, 3], segments=[2], validation=[2], test=[3, 8])
    assert len(data.X) == 9 and set(data.segments) == {2}
    people = {name: set(data.groups[data.split == name]) for name in ("train", "validation", "test")}
    assert people == {"train": {1}, "validation": {2}, "test": {3}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subjects": [9]}, "subjects must be some of 1 to 8"),
        ({"segments": [61]}, "segments must be some of 1 to 60"),
        ({"segments": [3]}, "none of the segments"),
        ({"validation": [1], "test": [1]}, r"share the subjects \[1\]"),
    ],
)
def test_mistakes_are_named(dsads, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_dsads(dsads, **arguments)


@pytest.mark.parametrize("text", ["1,2\n", "1,2,x\n", "1,2\n3\n"])
def test_files_of_another_format_are_refused(tmp_path, text):
    folder = tmp_path / "data/a01/p1"
    folder.mkdir(parents=True)
    (folder / "s01.txt").write_text(text)
    with pytest.raises(ValueError, match=r"s01.txt"):
        load_dsads(tmp_path, subjects=[1])


def test_the_real_segments(load_real):
    data = load_real(load_dsads)
    t = len(data.X)
    assert data.X.shape == (t, 45, 125) and np.isfinite(data.X).all()
    assert (np.bincount(data.y) == t / 19).all() and (np.bincount(data.groups)[1:] == t / 8).all()
    # Gravity: the torso's accelerometer, in m/s², measures about 9.8 while standing.
    standing = data.X[data.y == 1][:, :3].mean(2)
    assert np.linalg.norm(standing, axis=1).mean() == pytest.approx(9.8, abs=0.3)
