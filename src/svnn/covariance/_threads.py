"""Independent pieces of work, each on one thread: no thread waits for the others after every product."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from svnn._threads import Crew, pool

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield ``function(item)`` in the order of the items, computed on as many threads as torch uses.

    In them torch itself is kept to one thread a call. When the iterator is closed no piece is at work any more.
    """
    n_threads = torch.get_num_threads()
    if min(n_threads, len(items)) <= 1:
        yield from map(function, items)
        return
    crew = Crew()
    try:
        waiting = deque(pool(n_threads).submit(crew.work, function, item) for item in items)
        while waiting:
            yield waiting.popleft().result()
    finally:
        crew.dismiss()
