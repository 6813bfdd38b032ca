from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svnn.datasets import sliding_windows, split_by_groups


@given(
    runs=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=8),
    window=st.integers(1, 12),
    overlap=st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.99]),
)
def test_windows_stay_in_their_run_and_none_is_missed(runs, window, overlap):
    labels = np.array([label for label, length in runs for _ in range(length)], dtype=int)
    signal = np.random.default_rng(0).standard_normal((len(labels), 3))
    windows, first = sliding_windows(signal, labels, window=window, overlap=overlap)
    step = max(1, round(window * (1 - overlap)))
    lengths = [len(list(run)) for _, run in groupby(labels.tolist())]
    assert len(windows) == len(first) == sum((n - window) // step + 1 for n in lengths if n >= window)
    for values, start in zip(windows, first, strict=True):
        np.testing.assert_array_equal(values, signal[start : start + window].T)
        assert len(set(labels[start : start + window])) == 1


def test_half_overlap_and_the_pause_between_two_runs():
    signal = np.arange(1000)[:, None]
    labels = np.repeat([4, 0, 4], [448, 4, 548])
    windows, first = sliding_windows(signal, labels)
    kept = labels[first] == 4
    assert first[kept].tolist() == [*range(0, 321, 64), *range(452, 837, 64)]
    assert windows.shape == (len(first), 1, 128)
    assert not ((windows[kept] >= 448) & (windows[kept] < 452)).any()


@pytest.mark.parametrize("window", [0, -3, 2.5, True, "128"])
def test_bad_windows_are_named(window):
    with pytest.raises(ValueError, match="window must be a number of time steps"):
        sliding_windows(np.zeros((5, 1)), np.zeros(5), window=window)


@pytest.mark.parametrize("overlap", [-0.1, 1.0, 2])
def test_bad_overlaps_are_named(overlap):
    with pytest.raises(ValueError, match="overlap must be"):
        sliding_windows(np.zeros((5, 1)), np.zeros(5), window=2, overlap=overlap)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"got \(5, 1\) and \(4,\)"):
        sliding_windows(np.zeros((5, 1)), np.zeros(4))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_no_group_is_in_two_splits(groups, validation, test):
    present = set(groups)
    validation, test = (validation & present) - test, test & present
    if not present - validation - test:
        with pytest.raises(ValueError, match="none is left for training"):
            split_by_groups(groups, validation=validation, test=test)
        return
    split = split_by_groups(groups, validation=validation, test=test)
    for name, members in (("validation", validation), ("test", test), ("train", present - validation - test)):
        assert set(np.array(groups)[split == name]) == members


def test_names_of_people_work_too():
    split = split_by_groups(np.array(["ann", "bo", "ann"]), test=["bo"])
    assert split.tolist() == ["train", "test", "train"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"validation": [1], "test": [1]}, r"share the groups \[1\]"), ({"test": [9]}, r"no rows: \[9\]")],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        split_by_groups([1, 2, 3], **arguments)
    with pytest.raises(ValueError, match="one label per row"):
        split_by_groups([[1], [2]])
