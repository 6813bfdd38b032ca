"""Independent pieces of work, each on one thread: no thread waits for the others after every product."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield ``function(item)`` in the order of the items, computed on as many threads as torch uses.

    Meanwhile torch itself is kept to one thread a call.
    """
    n_threads = torch.get_num_threads()
    if min(n_threads, len(items)) <= 1:
        yield from map(function, items)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(n_threads) as pool:
            waiting = deque(pool.submit(function, item) for item in items)
            try:
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
    finally:
        torch.set_num_threads(n_threads)
