from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from svnn.datasets import load_meats, load_tecator


def test_spectra_targets_and_the_official_split():
    data = load_tecator()
    assert data.X.shape == (215, 100) and data.y.shape == (215,) and np.isfinite(data.X).all()
    assert data.X[0, 0] == 2.61776 and data.y[0] == 22.5
    assert data.train.tolist() == list(range(172)) and data.test.tolist() == list(range(172, 215))
    assert (data.split[data.train] == "train").all() and (data.split[data.test] == "test").all()
    assert len(set(data.feature_names)) == 100 and data.wavelengths[[0, -1]].tolist() == [850, 1050]
    total = sum(load_tecator(target).y for target in ("fat", "water", "protein"))
    assert np.ptp(total) < 10 and 90 < total.mean() < 100  # they are percentages of the same samples


def test_it_is_the_table_of_the_data_folder(data_folder):
    for target in ("fat", "water", "protein"):
        ours, theirs = load_tecator(target), load_meats(data_folder, target=target)
        np.testing.assert_array_equal(ours.X, theirs.X)
        np.testing.assert_array_equal(ours.y, theirs.y)


def test_the_permission_note_stands_beside_the_file_and_in_the_description():
    note = (files("svnn.datasets") / "files" / "tecator.txt").read_text(encoding="utf-8")
    assert "redistributed as long as this permission note is attached" in " ".join(note.split())
    assert note in load_tecator().DESCR


def test_a_target_that_is_not_there():
    with pytest.raises(ValueError, match="target must be one of fat, water, protein, got 'salt'"):
        load_tecator("salt")


def test_meats_never_get_the_other_percentages(tmp_path):
    (tmp_path / "meats.csv").write_text("x_001,x_002,water,fat,protein\n1,2,60,20,17\n3,4,70,10,18\n")
    for target, y in (("fat", [20, 10]), ("water", [60, 70]), ("protein", [17, 18])):
        data = load_meats(tmp_path, target=target)
        assert data.X.tolist() == [[1, 2], [3, 4]] and data.y.tolist() == y


def test_mistakes_about_meats_are_named(tmp_path):
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
