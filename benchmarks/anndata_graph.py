"""The ten largest correlations of every gene in an AnnData file of sparse counts: time and peak memory.

Counts of 75,000 genes are drawn from a Poisson distribution whose rates differ between genes and cells and share
programs of fifty genes; about one in twelve is not zero. The file is compressed, as such files are. A process of its
own makes the graph, by ``svnn.graphs.correlation_graph`` on the path, and its peak is that of the whole process. Random
genes are then compared with correlations in float64.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from _measure import fresh_process, markdown, number, resident, run_part

from svnn.graphs import correlation_graph

GENES, TOP, PROGRAM, CHECKED = 75_000, 10, 50, 100
#: The limit that the graph of 75,000 genes has to keep, in GB.
BAR = 4.0


def counts(cells: int, genes: int, seed: int = 0) -> sp.csr_array:
    """Return sparse counts in float32, made some cells at a time."""
    rng = np.random.default_rng(seed)
    rate = 0.12 * rng.gamma(0.4, 2.5, genes).astype(np.float32)
    programs = -(-genes // PROGRAM)
    parts = []
    for a in range(0, cells, 200):
        rows = min(200, cells - a)
        activity = rng.gamma(1.0, 1.0, (rows, programs)).astype(np.float32)
        depth = rng.gamma(4.0, 0.25, (rows, 1)).astype(np.float32)
        expected = depth * rate * np.repeat(activity, PROGRAM, axis=1)[:, :genes]
        parts.append(sp.csr_array(rng.poisson(expected).astype(np.float32)))
    return sp.csr_array(sp.vstack(parts, format="csr"))


def write(path: str, cells: int, genes: int) -> dict[str, Any]:
    """Write the file; for a fresh process."""
    import anndata

    data = anndata.AnnData(X=sp.csr_matrix(counts(cells, genes)))
    data.var_names = [f"gene{i}" for i in range(genes)]
    data.write_h5ad(path, compression="gzip")
    return {"density": data.X.nnz / (cells * genes), "file GB": os.path.getsize(path) / 1e9}


def graph(path: str, out: str, memory_limit: str | None = None) -> dict[str, Any]:
    """Make the graph of a file; for a fresh process."""
    correlation_graph(np.random.default_rng(0).standard_normal((50, 200)), top_k=2)  # loads and compiles
    before, start = resident(), time.perf_counter()
    found = correlation_graph(path, top_k=TOP, memory_limit=memory_limit)
    seconds, peak = time.perf_counter() - start, resident(peak=True)
    assert found.matrix is not None
    sp.save_npz(out, found.matrix)
    return {"seconds": seconds, "peak GB": peak, "GB before": before, "edges": found.n_edges}


def check(path: str, out: str, genes: list[int]) -> dict[str, Any]:
    """Compare rows of the graph with the ten largest correlations in float64; for a fresh process."""
    import h5py

    with h5py.File(path) as file:
        group = file["X"]
        X = sp.csr_array((group["data"][:], group["indices"][:], group["indptr"][:]), shape=group.attrs["shape"])
    X = X.astype(np.float64).tocsc()
    t, mean = X.shape[0], np.asarray(X.mean(0)).ravel()
    sd = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(0)).ravel() - mean**2, 0))
    found, wrong, error = sp.load_npz(out), 0, 0.0
    for i in genes:
        r = (X.T @ X[:, [i]].toarray()).ravel() / t - mean * mean[i]
        scale = sd * sd[i]
        r = np.divide(r, scale, out=np.zeros_like(r), where=scale > 1e-12)
        r[i] = 0
        cut = np.sort(np.abs(r))[-TOP]
        ours = np.zeros_like(r)
        row = slice(found.indptr[i], found.indptr[i + 1])
        ours[found.indices[row]] = found.data[row]
        must = np.abs(r) > cut + 1e-5  # the largest, ties and rounding aside
        wrong += int((must & (ours == 0)).sum())
        error = max(error, float(np.abs(ours - r)[ours != 0].max(initial=0)))
    return {"rows checked": len(genes), "missing": wrong, "largest error": error}


def measure(rates: dict[str, float], quick: bool = False, cells: tuple[int, ...] = (3000,)) -> list[dict[str, Any]]:
    genes, sizes, rows = (1000, (100,), []) if quick else (GENES, cells, [])
    rng = np.random.default_rng(1)
    for t in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path, out = str(Path(folder) / "cells.h5ad"), str(Path(folder) / "graph.npz")
            row: dict[str, Any] = {"genes": genes, "cells": t}
            row |= fresh_process("anndata_graph", "write", path=path, cells=t, genes=genes)
            row |= fresh_process("anndata_graph", "graph", path=path, out=out)
            chosen = rng.choice(genes, min(CHECKED, genes), replace=False).tolist()
            row |= fresh_process("anndata_graph", "check", path=path, out=out, genes=chosen)
        if row["missing"] or row["largest error"] > 1e-4:
            raise AssertionError(f"the graph differs from float64: {row}")
        row["under the bar"] = row["peak GB"] < BAR
        rows.append(row)
        print(f"  {t} cells: {number(row['seconds'])} s, {number(row['peak GB'])} GB", flush=True)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    headers = ["genes", "cells", "not zero", "file GB", "seconds", "peak GB", "GB before", "dense float32 GB"]
    headers += ["N×N float32 GB", "edges", "largest error"]
    table = []
    for row in rows:
        n, t = row["genes"], row["cells"]
        cells = [f"{n:,}", f"{t:,}", f"{row['density']:.1%}", number(row["file GB"]), number(row["seconds"])]
        cells += [number(row["peak GB"]), number(row["GB before"]), number(4e-9 * n * t), number(4e-9 * n**2)]
        table.append([*cells, f"{row['edges']:,}", f"{row['largest error']:.1e}"])
    return f"## Top {TOP} correlations of every gene in an AnnData file\n\n" + (
        f"Peak GB: of the whole process; the bar is {BAR:g} GB. Largest error: of {CHECKED} random genes, against "
        "float64.\n\n" + markdown(headers, table)
    )


if __name__ == "__main__":
    run_part(__doc__, "anndata_graph", measure, report)
