"""Pieces of work in threads: in order, cut short cleanly, and without a trace in torch's settings."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from svnn import HardThreshold
from svnn._threads import in_threads


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


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
