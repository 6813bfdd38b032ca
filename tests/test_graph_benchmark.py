"""The benchmark of correlation graphs: every way finds the same, and limits hold."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import _graph_plot
import _graph_ways
import graph
import numpy as np
import pytest


@pytest.mark.parametrize("question", [{"share": 0.02}, {"top_k": 4}])
@pytest.mark.parametrize("way", _graph_ways.WAYS)
def test_every_way_finds_the_strongest_correlations(way, question, monkeypatch):
    pytest.importorskip(graph.PACKAGES.get(way, "numpy"))
    if way in ("deepgraph", "CorALS") and "top_k" in question:
        pytest.skip("it has no neighbours of a feature")
    monkeypatch.setattr(_graph_ways, "BLOCK", 32)
    X, n = graph.data(90, 60), 90
    R = np.abs(np.corrcoef(X.astype(np.float64), rowvar=False))
    np.fill_diagonal(R, 0)
    if "share" in question:
        kept = np.sort(R[np.triu_indices(n, 1)])[-_graph_ways.number_of_pairs(n, 0.02)] <= R
    else:
        kept = np.sort(R, axis=1)[:, [-4]] <= R
    i, j = np.nonzero(np.triu(kept | kept.T, 1))
    found_i, found_j, r = _graph_ways.WAYS[way](X, **question)
    order = np.lexsort((found_j, found_i))
    assert np.array_equal(found_i[order], i) and np.array_equal(found_j[order], j)
    np.testing.assert_allclose(r[order], R[i, j], atol=1e-5)


@pytest.mark.slow
def test_a_run_of_graphs_compares_what_is_installed_and_says_what_is_not(monkeypatch, tmp_path):
    monkeypatch.setattr(graph, "find_spec", lambda name: name == "numpy")
    rows = json.loads(json.dumps(graph.measure(quick=True)))  # as in the file
    assert [row["way"] for row in rows] == ["ours", "numpy", "Dask", "deepgraph", "CorALS", "ours", "numpy"]
    timed = [row for row in rows if row["way"] == "numpy"]
    assert all(row["ratio"] > 0 and row["shared"] == 1 and row["peak GB"] > 0 for row in timed)
    assert not any("differs" in row for row in rows)
    text = graph.report(rows)
    assert "Not installed here, so left out: CorALS, Dask, deepgraph." in text and "cuML is left out" in text
    assert _graph_plot.draw(graph.summarise(rows), tmp_path / "graph.png").stat().st_size > 10_000


def test_a_different_graph_is_seen(tmp_path):
    keys, r = np.arange(10), np.linspace(0.5, 0.9, 10)
    np.savez(tmp_path / "ours.npz", keys=keys, r=r)
    np.savez(tmp_path / "theirs.npz", keys=keys + 2, r=r)
    found = graph.compare(tmp_path / "ours.npz", tmp_path / "theirs.npz")
    assert found["shared"] == 0.8 and found["apart"] == pytest.approx(2 * 0.4 / 9)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of processes from /proc")
@pytest.mark.parametrize(
    ("code", "seconds", "gb", "stopped"),
    [
        ("while True: pass", 0.5, 9, "> 0.5 s"),
        ("import time; x = b'1' * 2 * 10**8; time.sleep(60)", 60, 0.1, "> 0.1 GB"),
        ("raise MemoryError", 60, 9, "out of memory"),
        ("raise SystemExit(3)", 60, 9, "failed"),
    ],
)
def test_what_passes_a_limit_is_stopped(code, seconds, gb, stopped):
    found = graph.limited([sys.executable, "-c", code], dict(os.environ), seconds, gb)
    assert found["stopped"] == stopped and "seconds" not in found


def test_a_library_that_was_stopped_is_not_asked_again():
    done = {"way": "numpy", "N": 100, "seconds": 1.0, "processor seconds": 2.0, "peak GB": 3.1, "GB before": 0.1}
    assert graph.reason_not_to("numpy", 150, [done]) == "" and graph.reason_not_to("Dask", 300, [done]) == ""
    assert graph.reason_not_to("numpy", 300, [done]) == "memory"
    assert graph.reason_not_to("Dask", 1000, [done | {"way": "Dask"}]) == "time"
    assert graph.reason_not_to("numpy", 150, [{"way": "numpy", "N": 100, "stopped": "> 9 s"}]) == "stopped before"


def test_the_speed_page_has_the_tables_of_the_stored_graphs():
    rows = json.loads((graph.RESULTS / "graph.json").read_text())["graph"]
    page = (graph.RESULTS.parent / "speed.md").read_text()
    for title, table in graph.tables(rows).items():
        assert table in page, title
    assert not any("differs" in row for row in rows)


def test_the_page_of_files_has_what_was_stored_of_anndata():
    (row,) = json.loads((graph.RESULTS / "anndata_graph.json").read_text())["anndata_graph"]
    page = " ".join((graph.RESULTS.parent / "files.md").read_text().split())
    for text in (f"{row['genes']:,} genes and {row['cells']:,} cells", f"{row['edges']:,} edges"):
        assert text in page
    assert (
        f"a peak of {row['peak GB']:.2f} GB" in page
        and f"at most {row['largest error']:.1e}".replace("e-0", "e-") in page
    )
