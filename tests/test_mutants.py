"""The list of planted bugs fits the code, and the runner says what became of them. ``make mutants`` plants them."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import pytest

import mutants
from mutants import ROOT, Copy, Mutant, Run, chosen, problems, read

LISTED = read()


def test_every_entry_still_applies_and_names_tests_that_exist():
    assert problems(LISTED) == []


def test_every_room_has_planted_bugs():
    rooms = {path.parent.name for path in ROOT.glob("src/svnn/*/__init__.py")}
    rooms |= {"covariance/tiles", "estimators/training", "storage"}
    assert rooms <= {mutant.room for mutant in LISTED}
    assert len(LISTED) >= 40


@pytest.fixture
def tree(tmp_path):
    """A tree of one file and one test."""
    (tmp_path / "src/svnn").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/svnn/a.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "tests/test_a.py").write_text("def test_x():\n    pass\n")
    return tmp_path


def planted(**changes) -> Mutant:
    entry = {"room": "nn", "name": "a bug", "file": "a.py", "old": "x = 1", "new": "x = 2", "tests": ("test_a.py",)}
    return Mutant(**entry | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"old": "= 1"}, "occurs 2 times"),
        ({"old": "z = 1"}, "occurs 0 times"),
        ({"file": "b.py"}, "occurs 0 times in b.py"),
        ({"new": "x = 1"}, "changes nothing"),
        ({"tests": ()}, "names no tests"),
        ({"tests": ("test_b.py",)}, "no test test_b.py"),
        ({"tests": ("test_a.py::test_y",)}, "no test test_a.py::test_y"),
    ],
)
def test_an_entry_that_no_longer_applies_is_named(tree, changes, said):
    (problem,) = problems([planted(**changes)], tree)
    assert problem.startswith("a bug: ") and said in problem


def test_names_are_unique_and_a_good_entry_is_no_problem(tree):
    assert problems([planted(tests=("test_a.py::test_x",))], tree) == []
    assert problems([planted(), planted(new="x = 3")], tree) == ["a bug: two entries have this name"]


def test_entries_are_chosen_by_room_or_by_a_part_of_the_name():
    some = [planted(), planted(room="cli", name="another bug"), planted(name="a slip")]
    assert chosen(some, []) == some
    assert chosen(some, ["cli", "slip"]) == some[1:]
    with pytest.raises(ValueError, match="'plots' is neither a room nor part of a name; the rooms are nn, cli"):
        chosen(some, ["plots"])


@pytest.mark.parametrize(
    ("code", "verdict", "reason"),
    [
        (0, "SURVIVED", ""),
        (1, "caught", "tests/test_a.py::test_x"),
        (2, "ERROR", "1 error in 0.1s"),
        (5, "ERROR", "1 error in 0.1s"),
        (None, "caught", "stopped after the time limit"),
        (-11, "caught", "the process died of signal 11"),
    ],
)
def test_the_verdict_follows_from_how_pytest_ended(code, verdict, reason):
    text = "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 error in 0.1s\n" if code else "1 passed in 0.1s\n"
    run = Run(code, 1.0, text)
    assert (run.verdict, run.reason) == (verdict, reason)


def test_a_bug_is_planted_in_a_copy_for_a_while_only(tree, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(mutants, "_COPIED", ("src", "tests"))
    copy = Copy(tmp_path_factory.mktemp("copies") / "0", tree)
    path = copy.folder / "src/svnn/a.py"
    before = path.stat().st_mtime_ns
    with suppress(KeyboardInterrupt), copy.planted(planted()):
        assert path.read_text() == "x = 2\ny = 1\n"
        raise KeyboardInterrupt
    assert path.read_text() == (tree / "src/svnn/a.py").read_text() == "x = 1\ny = 1\n"
    assert path.stat().st_mtime_ns == before


def test_tests_run_on_the_code_of_the_copy_and_are_stopped_in_time(tree, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(mutants, "_COPIED", ("src", "tests"))
    copy, seen = Copy(tmp_path_factory.mktemp("copies") / "0", tree), {}

    def ran(command, *, timeout, **options):
        seen.update(options, command=command)
        if timeout == 1:
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", ran)
    assert copy.run(["test_a.py"], "-x").code == 1
    assert seen["command"][-2:] == ["-x", "tests/test_a.py"] and seen["cwd"] == copy.folder
    assert seen["env"]["PYTHONPATH"] == str(copy.folder / "src") and "SVNN_DATA" not in seen["env"]
    assert copy.run(["test_a.py"], limit=1).code is None
