"""Tables of Dask, checked but not computed, and their data on the workers of a cluster.

The data are panels of features, each standardised by the worker that holds it.

They are computed from the source by tasks that can run again: when a worker dies, another one computes its panels.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from svnn._progress import progress
from svnn._types import ColumnLike
from svnn._validation import reject_text_columns
from svnn.covariance.tiles._observations import CHUNK, Observations, common_unit, gather, read
from svnn.functional._array import as_floating, check_dense_real
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


class DaskTable:
    """An array or a data frame of Dask that is not computed yet, of shape (t, N) or (t, N, F).

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Chunked in any way. The numbers of rows of a data frame are counted, which reads it once.

    Attributes
    ----------
    array : dask.array.Array
    names : pandas.DataFrame or None
        An empty frame with the columns of ``X``, where it is a frame.
    client : distributed.Client or None
        The client of the cluster that computes; None means the threads of this process.
    """

    def __init__(self, X: Any) -> None:
        self.names = None
        if hasattr(X, "to_dask_array") and X.ndim == 2:
            self.names = X._meta
            reject_text_columns(self.names)
            kinds = {str(dtype) for dtype in X._meta.dtypes}
            X = (X if kinds in ({"float32"}, {"float64"}) else X.astype("float64")).to_dask_array(lengths=True)
        _check(X)
        self.array, self.client = X, running_client()
        self.shape: tuple[int, ...] = X.shape
        self.ndim: int = X.ndim
        single = X.dtype == np.float32
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Return some of the values, computed."""
        values: Any = as_floating(self.array[key].compute())
        return np.asarray(values, dtype=self.dtype)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the rows, chunk by chunk, all columns of them."""
        end = 0
        for rows in self.array.chunks[0]:
            start, end = end, end + rows
            yield self[start:end]

    def gathered(self, limit: int) -> np.ndarray:
        """Return all values as an array here, in a file where they take more than a quarter of ``limit``."""
        return gather(self.chunks(), limit)


def _check(X: Any) -> None:
    """Raise where an array of Dask has a wrong shape or type."""
    if X.ndim not in (2, 3):
        raise ValueError(f"X must have shape (t, N) or (t, N, F), got a dask array of {X.ndim} dimension(s).")
    if any(np.isnan(size) for size in X.shape):
        raise ValueError("X is a dask array with chunks of unknown sizes; call X.compute_chunk_sizes() first.")
    if not isinstance(X._meta, np.ndarray):
        kind = f"{type(X._meta).__module__}.{type(X._meta).__name__}"
        raise ValueError(
            f"X has chunks of type {kind}, but numpy arrays are needed; convert them by X.map_blocks(...)."
        )
    check_dense_real(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}; convert it first, e.g. X.astype(float).")
    if 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}, which holds no values; none of its sizes may be 0.")
    if X.shape[0] < 2:
        raise ValueError(f"X has {X.shape[0]} sample(s); a minimum of 2 is required.")


def running_client() -> Any:
    """Return the client of Dask's cluster that is in use, or None."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise ValueError(
            "The Client of Dask is asynchronous, but fit waits for results; use Client(asynchronous=False)."
        )
    if not client.nthreads():
        raise RuntimeError("The cluster of the Dask Client has no workers; start some, or close the Client.")
    return client


# -- panels ---------------------------------------------------------------------------------------


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
