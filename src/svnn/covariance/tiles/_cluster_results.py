"""Tasks on a Dask cluster: results as they come, sums by a tree, and what is said when all workers are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from svnn._progress import progress

#: Seconds between two looks at the results, and after which the workers are counted where nothing comes.
_LOOK, _COUNT = 0.005, 5.0
#: Seconds without any worker after which nobody waits any longer; a killed one may be started again before.
_PATIENCE = 60.0
#: Results that one task merges.
AT_ONCE = 4


def finished(client: Any, futures: list[Any], what: str = "") -> Iterator[tuple[int, Any]]:
    """Yield the number and the result of each future, as they finish; under a progress bar where it has a text.

    The list is emptied: each future is let go when its result is here. Where one fails, all others are called off.
    """
    numbers = {future.key: k for k, future in enumerate(futures)}
    with progress(what, len(numbers), True) if what else nullcontext() as advance:
        for future in _as_they_finish(client, futures):
            yield numbers[future.key], future.result()
            if advance is not None:
                advance()


def merged(client: Any, futures: list[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Return the future of what ``merge`` makes of all results, on the workers, four at a time."""
    while len(futures) > 1:
        groups = (futures[k : k + AT_ONCE] for k in range(0, len(futures), AT_ONCE))
        futures = [group[0] if len(group) == 1 else client.submit(merge, group, pure=False) for group in groups]
    return futures[0]


def wait(client: Any, futures: list[Any], what: str = "") -> None:
    """Wait for results that stay on the workers, under a progress bar where it has a text; the list is emptied."""
    with progress(what, len(futures), True) if what else nullcontext() as advance:
        for _ in _as_they_finish(client, futures):
            if advance is not None:
                advance()


def merging_tasks(count: int) -> int:
    """Return the number of tasks that merge so many results.

    Examples
    --------
    >>> merging_tasks(21)  # five of four, and one of the six that are left, which makes three, and one
    8
    """
    tasks = 0
    while count > 1:
        tasks += count // AT_ONCE + (count % AT_ONCE > 1)
        count = -(-count // AT_ONCE)
    return tasks


def _as_they_finish(client: Any, futures: list[Any]) -> Iterator[Any]:
    from distributed import KilledWorker, as_completed

    left = as_completed(futures, loop=client.loop)
    futures.clear()
    counted = seen = time.monotonic()
    try:
        while not left.is_empty():
            if left.has_ready():
                future = next(left)
                if future.status == "error":
                    future.result()
                yield future
                counted = seen = time.monotonic()
                continue
            time.sleep(_LOOK)
            now = time.monotonic()
            if now - counted > _COUNT:
                counted = now
                if client.nthreads():
                    seen = now
                elif now - seen > _PATIENCE:
                    raise RuntimeError(
                        f"all workers of the Dask cluster are gone, for {_PATIENCE:.0f} seconds; look at their logs "
                        "(memory?), start others, and fit again."
                    )
    except KilledWorker as error:
        raise MemoryError(
            "the workers of the Dask cluster die at the same task again and again, which is mostly a lack of memory; "
            f"use workers with more memory or fewer threads. {error}"
        ) from error
    finally:
        if not left.is_empty():
            client.cancel(list(left.futures))
