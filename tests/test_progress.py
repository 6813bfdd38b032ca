"""When a line is written about long work, and what it says."""

from __future__ import annotations

import sys
import types

import pytest

from svnn._progress import Pace, duration, progress, write_line


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_every_tenth_of_the_work_has_a_line():
    pace = Pace(95, Clock())
    due = [step for step in range(1, 96) if pace.due(step)]
    assert len(due) == 10 and due[-1] == 95


def test_slow_work_has_a_line_every_five_seconds():
    clock = Clock()
    pace, due = Pace(1000, clock), []
    for step in range(1, 100):
        clock.now += 2
        if pace.due(step):
            due.append(step)
    assert due[:3] == [3, 6, 9] and len(due) == 33


def test_the_time_left_follows_from_the_time_spent():
    clock = Clock()
    pace = Pace(10, clock)
    clock.now += 20
    assert pace.left(4) == "30.0 s left" and pace.left(10) == "done in 20.0 s"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"), (3599.4, "59 min 59 s"), (3600, "1 h 0 min")],
)
def test_times_in_words(seconds, words):
    assert duration(seconds) == words


def test_work_is_silent_unless_asked(capsys):
    for verbose in (False, True):
        with progress("sums", 3, verbose) as advance:
            for _ in range(3):
                advance()
        out, err = capsys.readouterr()
        assert out == "" and len(err.splitlines()) == (3 if verbose else 0)
    assert err.splitlines()[-1].startswith("sums: 3 of 3, done in")


def test_notebooks_get_lines_on_standard_output(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    write_line("hello")
    assert capsys.readouterr() == ("hello\n", "")
