"""The data on the workers of a Dask cluster: panels of features, each standardised by the worker that holds it.

Panels are computed from the source by tasks that can run again: when a worker dies, another one computes its panels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from svnn._progress import progress
from svnn._types import ColumnLike
from svnn.covariance.tiles._dask_table import DaskTable
from svnn.covariance.tiles._observations import CHUNK, Observations, common_unit, read
from svnn.functional.moments import check_weight

#: Share of a worker's memory for one panel, per thread. A task on two panels holds six times that: the source of one,
#: or the two, a copy of both side by side, and tiles. The rest is for the panels that stay with the worker.
_MEMORY_SHARE = 1 / 16
#: Pairs of panels for each thread of the cluster, at least, so that all have work until the end.
_PAIRS_PER_THREAD = 8
#: Features of a panel, at most: a pair of such panels is some seconds of work on a core for each hundred samples.
_WIDEST = 2**16
#: Taken for the memory of a worker that has no limit.
_UNKNOWN_MEMORY = 2**32
#: Seconds between two looks at the results, and after which the workers are counted where nothing comes.
_LOOK, _COUNT = 0.005, 5.0
#: Seconds without any worker after which the fit gives up; a killed one may be started again before.
_PATIENCE = 60.0


class Panel(NamedTuple):
    """Some features from ``start`` on: their rows ``Z``, as an array that Dask moves without a copy, and the rest.

    ``unit`` is the power of two by which they were divided on the scale of covariances.
    """

    start: int
    Z: np.ndarray
    rest: Observations
    unit: float


@dataclass
class Panels:
    """The panels of a table on the workers.

    Attributes
    ----------
    client : distributed.Client
    futures : list of Future
        The panels.
    starts : list of int
        The first feature of each panel, and the end of the last one (padded to a whole chunk).
    factors : list of float
        What to multiply each panel by, so that all have the same unit; powers of two, mostly 1.
    limit : int
        Bytes that a task may use beside its panels.
    token : tuple
        What the panels depend on.
    """

    client: Any
    futures: list[Any]
    starts: list[int]
    factors: list[float]
    limit: int
    token: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.futures)

    def __reduce__(self) -> Any:
        raise TypeError(
            "the standardised data of this estimator is on the workers of a Dask cluster and cannot be stored; fit "
            "again without a Client, or keep covariance_."
        )


def panel_width(n_features: int, n_rows: int, threads: int, bytes_per_thread: float) -> int:
    """Return the number of features of a panel, a multiple of 128.

    Examples
    --------
    Two workers of one thread and 3 GB each: six panels, so 21 pairs.

    >>> panel_width(50_000, 2000, threads=2, bytes_per_thread=3e9)
    8448
    """
    fits = bytes_per_thread * _MEMORY_SHARE / (4 * n_rows)
    spread = n_features / math.ceil(math.sqrt(2 * _PAIRS_PER_THREAD * threads))
    return max(math.ceil(min(fits // CHUNK, spread / CHUNK, _WIDEST // CHUNK)), 1) * CHUNK


def cluster_memory(client: Any) -> tuple[int, float]:
    """Return the threads of all workers, and the least memory that one of them has."""
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    except TypeError:  # before distributed 2025.4 it always told of all
        workers = client.scheduler_info()["workers"].values()
    least = min((worker["memory_limit"] or _UNKNOWN_MEMORY) / worker["nthreads"] for worker in workers)
    return sum(worker["nthreads"] for worker in workers), least


def read_panels(
    X: DaskTable, sample_weight: ColumnLike | None, *, correlations: bool, limit: int, kind: str
) -> Observations:
    """Let the workers standardise ``X``, a panel of features each; see :func:`read`.

    The rows stay there. Means, variances and units of all features come here.
    """
    client, n = X.client, X.shape[1]
    if sample_weight is not None:
        check_weight(sample_weight, np.empty((len(X), 1)))
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
    threads, memory = cluster_memory(client)
    width = panel_width(n, math.prod(X.shape) // n, threads, memory)
    # Task by task, not by a shuffle: then a lost panel is computed again, and not all of them.
    table = X.array.rechunk({0: -1, 1: width, **({2: -1} if X.ndim == 3 else {})}, method="tasks")
    blocks = client.compute(list(table.to_delayed().ravel()), sync=False)
    starts = [*range(0, n, width), -(-n // CHUNK) * CHUNK]
    options = {"correlations": correlations, "kind": kind, "total": n}
    futures = [
        client.submit(_standardised, block, sample_weight, start, options, pure=False)
        for block, start in zip(blocks, starts[:-1], strict=True)
    ]
    del blocks  # the workers may forget each when its panel is done
    small = [client.submit(_small, future, pure=False) for future in futures]
    parts = [part for _, part in sorted(finished(client, small), key=lambda each: each[0])]
    rests = [rest for rest, _ in parts]
    location, variance, unit = (torch.cat([rest[k] for rest in rests]) for k in (2, 3, 4))
    first, factors = rests[0], [1.0] * len(futures)
    scale = first.scale
    if not correlations:
        power, n_rows = common_unit(variance.sqrt()), len(first.weight) * first.n_values
        factors = [unit_of_panel / power for _, unit_of_panel in parts]
        unit, scale = torch.full_like(variance, power / math.sqrt(n_rows)), power**2 / n_rows
    token = (X.array.name, sample_weight, width, correlations, kind)
    panels = Panels(client, futures, starts, factors, min(limit, int(memory / 4)), token)
    return first._replace(
        Z=torch.empty((starts[-1], 0)),
        n_features=n,
        location=location,
        variance=variance,
        unit=unit,
        scale=scale,
        panels=panels,
    )


def _standardised(table: np.ndarray, weight: np.ndarray | None, start: int, options: dict[str, Any]) -> Panel:
    """Return some features of a table, from ``start`` on, as a panel; on a worker."""
    data = read(table, weight, limit=2**62, first=start, **options)
    power = float(data.unit[0]) * math.sqrt(len(data.weight) * data.n_values)
    unit = 1.0 if data.correlations else 2.0 ** round(math.log2(power))
    return Panel(start, data.Z.numpy(), data._replace(Z=torch.empty((len(data.Z), 0))), unit)


def _small(panel: Panel) -> tuple[Observations, float]:
    return panel.rest, panel.unit


# -- tasks ----------------------------------------------------------------------------------------


def finished(client: Any, futures: list[Any], what: str = "", *, fetch: bool = True) -> Iterator[tuple[int, Any]]:
    """Yield the number and the result of each future, as they finish; under a progress bar where it has a text.

    The list is emptied: each future is released when its result is here. Where one fails, all others are cancelled.
    Without ``fetch`` results stay on the workers, and None comes instead.
    """
    numbers = {future.key: k for k, future in enumerate(futures)}
    with progress(what, len(numbers), bool(what)) as advance:
        for future in _as_they_finish(client, futures):
            yield numbers[future.key], future.result() if fetch else None
            advance()


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
