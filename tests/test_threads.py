"""Plain threads: torch's numbers of threads stay as they were, and nobody works on after a dismissal."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest
import torch

from svnn import HardThreshold
from svnn._threads import Crew, _start, in_threads, pool


def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def three_threads():
    yield from threads(3)


@pytest.fixture
def two_threads():
    yield from threads(2)


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


def test_results_come_in_order(two_threads):
    assert list(in_threads(lambda i: i * i, range(20))) == [i * i for i in range(20)]


def test_torch_keeps_its_threads_outside_of_the_pieces(two_threads):
    """Also for threads that begin meanwhile: they must not take over a number that is meant for the pieces."""
    results = in_threads(lambda i: torch.get_num_threads(), range(4))
    assert next(results) == 1
    with ThreadPoolExecutor(1) as another:
        assert another.submit(torch.get_num_threads).result() == 2
    assert torch.get_num_threads() == 2
    assert list(results) == [1, 1, 1]
    assert torch.get_num_threads() == 2


def test_a_thread_that_ends_the_work_of_another_changes_nothing(two_threads):
    results = in_threads(lambda i: i, range(4))
    next(results)
    with ThreadPoolExecutor(1) as another:
        another.submit(results.close).result()
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("how", ["closed", "interrupted"])
def test_no_piece_is_at_work_when_it_is_over(two_threads, how):
    begun, go, ended = threading.Semaphore(0), threading.Event(), []

    def piece(i):
        if i == 0:
            return
        begun.release()
        go.wait(60)
        ended.append(i)

    results = in_threads(piece, range(50))
    next(results)
    begun.acquire()
    begun.acquire()  # both threads are at it
    threading.Timer(0.2, go.set).start()
    if how == "closed":
        results.close()
    else:
        with pytest.raises(KeyboardInterrupt):
            results.throw(KeyboardInterrupt)
    assert sorted(ended) == [1, 2]


def test_fits_side_by_side_equal_fits_in_turn(two_threads):
    tables = [np.random.default_rng(seed).standard_normal((40, 700)) for seed in range(4)]

    def fit(X):
        return HardThreshold(density=0.02, dense_limit=0).fit(X).covariance_

    in_turn = [fit(X) for X in tables]
    with ThreadPoolExecutor(4) as callers:
        side_by_side = list(callers.map(fit, tables))
        numbers = list(callers.map(lambda _: torch.get_num_threads(), range(8)))
    for a, b in zip(in_turn, side_by_side, strict=True):
        np.testing.assert_array_equal(a.indices, b.indices)
        np.testing.assert_array_equal(a.data, b.data)
    assert set(numbers) == {2} and torch.get_num_threads() == 2


def test_results_that_are_used_slowly_do_not_pile_up(two_threads):
    begun = []
    results = in_threads(begun.append, range(100))
    for used in range(1, 20):
        next(results)
        assert len(begun) <= used + 8  # four items ahead for each of the two threads
    assert len(list(results)) == 81
