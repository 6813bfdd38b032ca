"""Graphs from tables of Dask, and ``svnn graph --scheduler``."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from svnn.cli._commands import app
from svnn.covariance import tiles
from svnn.graphs import correlation_graph, read_edges

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")


def table():
    X = np.random.default_rng(0).standard_normal((40, 700)).astype(np.float32)
    X[:, 1::3] += X[:, ::3][:, : len(X[0, 1::3])]
    return X


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as found:
        yield found


@pytest.mark.parametrize("choice", [{"top_k": 3}, {"threshold": 0.5}, {"edges": 100}])
def test_workers_find_what_this_process_finds(cluster, choice):
    X = table()
    expected = correlation_graph(X, **choice)
    lazy = da.from_array(X, chunks=(13, 200))
    alone = correlation_graph(lazy, **choice)
    with distributed.Client(cluster) as client:
        before = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
        found = correlation_graph(lazy, **choice)
        assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter) > before + 10
    for graph in (alone, found):
        assert (graph.matrix != expected.matrix).nnz == 0 or abs(graph.matrix - expected.matrix).max() < 1e-6
        np.testing.assert_array_equal(graph.matrix.indices, expected.matrix.indices)


def test_the_command_asks_a_scheduler(cluster, tmp_path):
    pytest.importorskip("pyarrow")
    zarr, pd = pytest.importorskip("zarr"), pytest.importorskip("pandas")
    X = table()
    zarr.save(str(tmp_path / "X.zarr"), X)
    pd.DataFrame(X, columns=[f"g{i}" for i in range(700)]).to_parquet(tmp_path / "X.parquet")
    expected = correlation_graph(X, threshold=0.5)
    for name, more in (("X.zarr", []), ("X.parquet", ["--drop", "g699"])):
        out = tmp_path / f"{name}.edges.parquet"
        request = ["graph", str(tmp_path / name), "--threshold", "0.5", "--out", str(out), *more]
        done = CliRunner().invoke(app, [*request, "--scheduler", cluster.scheduler_address])
        assert done.exit_code == 0, done.output
        n_edges = expected.n_edges - (int(expected.degrees[699]) if more else 0)
        assert read_edges(out).n_edges == n_edges


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("X.csv", [], "workers read Zarr and Parquet files themselves"),
        ("X.zarr", ["--drop", "a"], "drop is for columns with names"),
        ("X.zarr", ["--layer", "a"], "layer is for AnnData files"),
    ],
)
def test_what_workers_cannot_read_is_one_line(cluster, tmp_path, name, more, message):
    request = ["graph", str(tmp_path / name), "--top-k", "3", "--out", str(tmp_path / "e.parquet"), *more]
    done = CliRunner().invoke(app, [*request, "--scheduler", cluster.scheduler_address])
    assert done.exit_code == 2 and message in " ".join(done.stderr.split())


def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match=r'device=.nowhere. cannot be used: .*Use "auto" or "cpu"'):
        correlation_graph(table(), top_k=2, device="nowhere")


def test_data_moves_to_a_device_with_all_its_parts():
    data = tiles.read(table(), None, correlations=True, limit=2**30, kind="pearson")
    moved = tiles.on_device(data, torch.device("meta"))
    assert tiles.on_device(data, torch.device("cpu")) is data
    assert {part.device.type for part in moved if isinstance(part, torch.Tensor)} == {"meta"}
    assert moved.Z.shape == (768, 40) and moved.n_features == 700
