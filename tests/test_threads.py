"""Plain threads: torch's numbers of threads stay as they were, and nobody works on after a dismissal."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest
import torch

from svnn._threads import Crew, _start, pool


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def in_a_new_thread(function):
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()


def test_torch_computes_on_one_thread_in_the_pool_and_on_as_many_as_before_elsewhere(three_threads):
    executor = in_a_new_thread(lambda: _start(4))
    together = threading.Barrier(4)

    def number():
        together.wait(60)
        return torch.get_num_threads()

    assert [future.result() for future in [executor.submit(number) for _ in range(4)]] == [1, 1, 1, 1]
    assert torch.get_num_threads() == 3
    assert in_a_new_thread(torch.get_num_threads) == 3
    executor.shutdown()


def test_a_pool_is_made_once():
    with ThreadPoolExecutor(4) as callers:
        assert len(set(callers.map(pool, [2] * 8))) == 1


def test_a_dismissed_crew_has_finished_and_begins_nothing():
    crew, begun, go = Crew(), threading.Event(), threading.Event()
    done = []

    def piece():
        begun.set()
        go.wait(60)
        done.append(1)

    running = pool(2).submit(crew.work, piece)
    begun.wait(60)
    threading.Timer(0.1, go.set).start()
    crew.dismiss()
    assert done == [1]
    with pytest.raises(CancelledError):
        pool(2).submit(crew.work, piece).result()
    assert done == [1] and running.exception() is None


def test_an_interrupt_of_the_dismissal_is_raised_when_all_are_done(monkeypatch):
    crew, go, done = Crew(), threading.Event(), []
    running = pool(2).submit(crew.work, lambda: (go.wait(60), done.append(1)))
    while crew._at_work == 0:
        pass
    wait, interrupts = crew._changed.wait_for, [KeyboardInterrupt, KeyboardInterrupt]

    def interrupted(condition):
        if interrupts:
            raise interrupts.pop()
        go.set()
        return wait(condition)

    monkeypatch.setattr(crew._changed, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        crew.dismiss()
    assert done == [1] and running.result() is not None


def test_errors_of_a_piece_are_the_callers():
    def fails():
        raise ArithmeticError("a piece")

    crew = Crew()
    with pytest.raises(ArithmeticError, match="a piece"):
        pool(2).submit(crew.work, fails).result()
    crew.dismiss()
