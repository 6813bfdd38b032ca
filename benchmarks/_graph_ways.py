"""The strongest correlations of a table as users of svnn, numpy, Dask, deepgraph and CorALS would find them.

A way takes X (t, N) in float32 and one of two questions: the given share of all pairs with the largest |r|
(``share``), or the pairs that are among the ``top_k`` largest of either feature. It returns an edge list:
``i < j`` and |r|. Only svnn imports torch, so that the memory of the others is their own; this file is the
program of a process that measures one of them, see ``graph.py``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]

THREADS = 2
#: Features in a block of Dask's matrix: 33 MB in float64, which is all that da.corrcoef knows.
BLOCK = 2048
#: Pairs in a piece of deepgraph's work, and in a step of it as in its tutorial.
PIECE, STEP = 2_000_000, 100_000


def number_of_pairs(n: int, share: float) -> int:
    return round(share * n * (n - 1) / 2)


def strongest(parts: Iterable[Edges], m: int) -> Edges:
    """Return the m largest of some edge lists."""
    i, j, r = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(r) > m:
        kept = np.argpartition(r, len(r) - m)[-m:]
        i, j, r = i[kept], j[kept], r[kept]
    return i, j, r


def either(neighbours: np.ndarray, r: np.ndarray) -> Edges:
    """Return the edges of features to their neighbours (N, k), each once."""
    n, k = neighbours.shape
    mine = np.repeat(np.arange(n), k)
    low, high = np.minimum(mine, neighbours.ravel()), np.maximum(mine, neighbours.ravel())
    keys, first = np.unique(low * n + high, return_index=True)
    return keys // n, keys % n, r.ravel()[first]


# -- svnn -----------------------------------------------------------------------------------------


def ours(X: np.ndarray, share: float | None = None, top_k: int | None = None) -> Edges:
    from svnn.graphs import correlation_graph, edge_list

    rows, columns, r = edge_list(correlation_graph(X, density=share, top_k=top_k, device="cpu"))
    return rows, columns, np.abs(r)


# -- numpy ----------------------------------------------------------------------------------------


def with_numpy(X: np.ndarray, share: float | None = None, top_k: int | None = None) -> Edges:
    """``np.corrcoef`` in float32, then ``np.argpartition``: over all pairs, or over 1000 rows at a time."""
    R = np.corrcoef(X, rowvar=False, dtype=np.float32)
    n = len(R)
    np.abs(R, out=R)
    if share is not None:
        R = np.triu(R, 1).ravel()
        kept = np.argpartition(R, R.size - number_of_pairs(n, share))[R.size - number_of_pairs(n, share) :]
        return kept // n, kept % n, R[kept]
    assert top_k is not None
    np.fill_diagonal(R, -1)
    neighbours = np.empty((n, top_k), dtype=np.int64)
    for start in range(0, n, 1000):
        rows = R[start : start + 1000]
        neighbours[start : start + 1000] = np.argpartition(rows, n - top_k, axis=1)[:, n - top_k :]
    return either(neighbours, np.take_along_axis(R, neighbours, 1))


# -- Dask -----------------------------------------------------------------------------------------


def with_dask(X: np.ndarray, share: float | None = None, top_k: int | None = None) -> Edges:
    """``da.corrcoef`` in blocks; of the blocks above the diagonal the largest, merged in a tree, or ``da.argtopk``."""
    import dask
    import dask.array as da

    n = X.shape[1]
    R = abs(da.corrcoef(da.from_array(X, chunks=(-1, BLOCK)), rowvar=False))
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        if top_k is not None:
            R = R - 2 * da.eye(n, chunks=BLOCK, dtype=np.float32)  # no feature is a neighbour of itself
            return either(*dask.compute(da.argtopk(R, top_k, axis=1), da.topk(R, top_k, axis=1)))
        assert share is not None
        m, blocks = number_of_pairs(n, share), R.to_delayed()
        task, merge = dask.delayed(largest_of_block), dask.delayed(strongest)
        parts = [task(blocks[a, b], a, b, m) for a in range(len(blocks)) for b in range(a, len(blocks))]
        while len(parts) > 1:
            parts = [merge(parts[at : at + 8], m) for at in range(0, len(parts), 8)]
        edges: Edges = parts[0].compute()
        return edges


def largest_of_block(block: np.ndarray, a: int, b: int, m: int) -> Edges:
    if a == b:
        block = np.triu(block, 1)
    flat = block.ravel()
    m = min(m, block.shape[0] * (block.shape[0] - 1) // 2 if a == b else flat.size)
    kept = np.argpartition(flat, flat.size - m)[flat.size - m :]
    return kept // block.shape[1] + a * BLOCK, kept % block.shape[1] + b * BLOCK, flat[kept].astype(np.float32)


# -- deepgraph ------------------------------------------------------------------------------------

_standardised: np.ndarray  # (N, t), which the processes of deepgraph inherit


def with_deepgraph(X: np.ndarray, share: float | None = None, top_k: int | None = None) -> Edges:
    """``DeepGraph.create_edges`` with a connector, pieces of the pairs in processes, as in deepgraph's tutorial.

    The tutorial writes all pairs to disk. Here each piece hands over its largest, which is less work.
    """
    from multiprocessing import get_context

    import deepgraph  # noqa: F401  the processes inherit it

    global _standardised
    assert share is not None and top_k is None
    _standardised = np.ascontiguousarray(((X - X.mean(0)) / X.std(0)).T)
    n = X.shape[1]
    m, ends = number_of_pairs(n, share), [*range(0, n * (n - 1) // 2, PIECE), n * (n - 1) // 2]
    pieces = [(start, stop, m) for start, stop in pairwise(ends)]
    best: Edges = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    with get_context("fork").Pool(THREADS) as workers:
        for found in workers.imap_unordered(_piece, pieces):
            best = strongest([best, found], m)
    return best


def correlation(index_s: np.ndarray, index_t: np.ndarray) -> np.ndarray:
    """Correlate pairs of features; deepgraph reads the names of arguments and result from the source."""
    r: np.ndarray = np.einsum("ij,ij->i", _standardised[index_s], _standardised[index_t])
    r /= _standardised.shape[1]
    return r


def _piece(piece: tuple[int, int, int]) -> Edges:
    import deepgraph
    import pandas as pd

    start, stop, m = piece
    graph = deepgraph.DeepGraph(pd.DataFrame({"index": range(len(_standardised))}))
    graph.create_edges(connectors=correlation, step_size=STEP, from_pos=start, to_pos=stop)
    i, j = (graph.e.index.get_level_values(level).to_numpy() for level in ("s", "t"))
    return strongest([(i, j, np.abs(graph.e["r"].to_numpy()))], m)


# -- CorALS ---------------------------------------------------------------------------------------


def with_corals(X: np.ndarray, share: float | None = None, top_k: int | None = None) -> Edges:
    """``cor_topk`` with its defaults, on two jobs: approximate, by a ball tree.

    It counts a pair twice and every feature with itself.
    """
    from corals.correlation.topk.default import cor_topk

    assert share is not None and top_k is None
    n = X.shape[1]
    r, (i, j) = cor_topk(X, k=2 * number_of_pairs(n, share) + n, n_jobs=THREADS)
    low, high, r = np.minimum(i, j)[i != j], np.maximum(i, j)[i != j], np.abs(r)[i != j]
    keys, first = np.unique(low.astype(np.int64) * n + high, return_index=True)
    return keys // n, keys % n, r[first]


WAYS: dict[str, Callable[..., Edges]] = {
    "ours": ours,
    "numpy": with_numpy,
    "Dask": with_dask,
    "deepgraph": with_deepgraph,
    "CorALS": with_corals,
}


# -- one measurement ------------------------------------------------------------------------------


def resident(key: str) -> float:
    """Return VmRSS, what is resident now, or VmHWM, its peak, in GB.

    Not ``ru_maxrss``, which starts from the memory of the process that started this one.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1e6


def processor_seconds(group: int) -> float:
    """Return the processor time of a group of processes, with that of those which have ended and were waited for."""
    ticks, precise = 0, 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) != group:
            continue
        own = int(folder.name) == os.getpid()  # of which more is known than ticks of a hundredth
        precise += time.process_time() if own else 0
        ticks += sum(map(int, fields[13 if own else 11 : 15]))
    return precise + ticks / os.sysconf("SC_CLK_TCK")


def main(way: str, question: dict[str, Any], table: str, out: str, enough: float) -> dict[str, float]:
    """Time a way on a stored table, after a small one that loads and compiles; write the edges to ``out``."""
    call, small = WAYS[way], np.random.default_rng(0).standard_normal((30, 200), dtype=np.float32)
    call(small, **question)
    X = np.load(table)
    before, times, peak = resident("VmRSS:"), [], 0.0
    processors = processor_seconds(os.getpgrp())
    while not times or (sum(times) < enough and len(times) < 20):
        started = time.perf_counter()
        i, j, r = call(X, **question)
        times.append(time.perf_counter() - started)
        peak = peak or resident("VmHWM:")
    processors = (processor_seconds(os.getpgrp()) - processors) / len(times)
    keys = i.astype(np.int64) * X.shape[1] + j
    order = np.argsort(keys)
    np.savez(out, keys=keys[order], r=np.asarray(r, dtype=np.float32)[order])
    found = {"seconds": statistics.median(times), "processor seconds": processors, "edges": len(keys)}
    return found | {"GB before": before, "peak GB": peak}


if __name__ == "__main__":
    result = main(**json.loads(sys.argv[1]))
    sys.stdout.flush()
    print("\n" + json.dumps(result), flush=True)
    os._exit(0)  # at once: pools of processes take their time to end
