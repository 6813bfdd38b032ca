"""The package stays small, and one job stays within few files: the counts are held below budgets."""

from __future__ import annotations

import os

import numpy as np
import pytest
import walk

import svnn
from svnn import HardThreshold


@pytest.fixture(scope="module")
def walks():
    return walk.walks()


@pytest.mark.skipif(os.environ.get("SVNN_NUMBA") == "0", reason="other functions are called without the kernels")
@pytest.mark.parametrize("job", list(walk.BUDGETS))
def test_a_job_stays_within_its_budget(walks, job):
    found, budget = walks[job], walk.BUDGETS[job]
    assert len(found.files) <= budget.files, found.files
    assert len(found.functions) <= budget.functions, list(found.functions)


def test_the_profiler_sees_what_is_called(rng):
    X = rng.standard_normal((30, 4))
    files = walk.walk(lambda: HardThreshold().fit(X)).files
    assert any(file.startswith("covariance/") for file in files) and "functional/thresholds.py" in files
    assert not any(file.startswith("estimators/") for file in files)
    assert walk.walk(lambda: np.mean(X)).files == []


def test_the_package_stays_within_its_size():
    sizes = walk.rooms().values()
    files, lines = (sum(column) for column in zip(*sizes, strict=True))
    assert 50 < files <= walk.MOST_FILES and 5000 < lines <= walk.MOST_LINES


def test_the_class_of_the_network_is_flat():
    ours = [each.__name__ for each in svnn.SVNNRegressor.__mro__ if each.__module__.startswith("svnn")]
    assert len(ours) <= walk.MOST_CLASSES[0], ours
    assert len(svnn.SVNNRegressor.__mro__) <= walk.MOST_CLASSES[1]


def test_comments_and_docstrings_are_no_code(tmp_path):
    file = tmp_path / "some.py"
    file.write_text('"""Say it."""\n\n# Said aloud.\nx = (\n    1,\n)  # here too\n\n\ndef f():\n    """Do."""\n')
    assert walk.code_lines(file) == 4


def test_the_architecture_page_has_the_sizes_of_the_rooms():
    assert walk.room_table() in walk.PAGE.read_text(encoding="utf-8")
