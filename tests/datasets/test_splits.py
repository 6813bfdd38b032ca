from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svnn.datasets import split_by_groups


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
    [
        ({"validation": [1], "test": [1]}, r"share the groups \[1\]"),
        ({"test": [9]}, r"no rows: \[9\]"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        split_by_groups([1, 2, 3], **arguments)
    with pytest.raises(ValueError, match="one label per row"):
        split_by_groups([[1], [2]])
