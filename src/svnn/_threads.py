"""The plain threads that a process keeps, work that can be called off, and threads in forked processes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from itertools import islice
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_forked = False


def pool(n_threads: int) -> ThreadPoolExecutor:
    """Return the process's pool of ``n_threads`` threads; in each of them torch computes on one thread."""
    with _lock:
        if n_threads not in _pools:
            with ThreadPoolExecutor(1) as starter:
                _pools[n_threads] = starter.submit(_start, n_threads).result()
        return _pools[n_threads]


def _start(n_threads: int) -> ThreadPoolExecutor:
    """Start the threads of a pool; to be called in a thread that ends afterwards.

    torch has a number of threads for every thread, and one that new threads start with. Whoever sets the first also
    sets the second, so it is set back here: the caller's threads never see a change.
    """
    default = torch.get_num_threads()  # a new thread's
    executor = ThreadPoolExecutor(n_threads, thread_name_prefix="svnn")
    ready = threading.Barrier(n_threads + 1)

    def begin() -> None:
        torch.get_num_threads()  # a thread's first call takes the number for new ones; then it can be changed
        torch.set_num_threads(1)
        ready.wait()

    try:
        for _ in range(n_threads):
            executor.submit(begin)  # each waits for all, so each has a thread of its own
        ready.wait()
    finally:
        ready.abort()
        torch.set_num_threads(default)
    return executor


class Crew:
    """Threads that work on something until they are dismissed.

    Examples
    --------
    >>> crew = Crew()
    >>> future = pool(2).submit(crew.work, sum, [1, 2])
    >>> future.result()
    3
    >>> crew.dismiss()
    >>> pool(2).submit(crew.work, sum, [1, 2]).exception()
    CancelledError()
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_work = 0
        self._dismissed = False

    def work(self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Call the function in a thread of the crew; raise CancelledError where it has been dismissed."""
        with self._changed:
            if self._dismissed:
                raise CancelledError
            self._at_work += 1
        try:
            return function(*args, **kwargs)
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def dismiss(self) -> None:
        """Let nobody begin any more and return when nobody is at work; an interrupt is raised only then."""
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                with self._changed:
                    self._dismissed = True
                    self._changed.wait_for(lambda: self._at_work == 0)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield ``function(item)`` in the order of the items, computed on as many threads as torch uses.

    Inside of them torch computes on one thread, so that no thread waits for the others after every product. When the
    iterator is closed, no thread works on an item any more. Results do not pile up where they are used slowly: the
    threads are at most four items each ahead.
    """
    crew, n_threads, left = Crew(), torch.get_num_threads(), iter(items)
    try:
        waiting = deque(pool(n_threads).submit(crew.work, function, item) for item in islice(left, 4 * n_threads))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool(n_threads).submit(crew.work, function, item) for item in islice(left, 1))
            yield result
    finally:
        crew.dismiss()


def forked() -> bool:
    """Return whether this process was forked: then GNU's OpenMP waits for ever for threads that were left behind."""
    return _forked


def _after_fork() -> None:
    """Forget the threads, which only the parent has, and keep torch to one, as its own data loaders do."""
    global _lock, _forked
    _lock, _forked = threading.Lock(), True
    _pools.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
