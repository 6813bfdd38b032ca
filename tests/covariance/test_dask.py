"""Tables of Dask: the workers of a cluster find what one process finds."""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from svnn import HardThreshold, SVNNRegressor
from svnn import covariance as cov
from svnn.covariance import _tables, tiles
from svnn.covariance.tiles import DaskTable, _dask, _dask_panels

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

_OPTIONS = {"correlations": True, "kind": "pearson", "total": 700}
T, N, PANEL = 40, 700, 256  # three panels, the last one of 188 features


def table(dtype=np.float64, n=N):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((T, n)) * np.exp(rng.standard_normal(n)) + rng.standard_normal(n)
    X[:, 1::2] += X[:, ::2]
    X[:, 5] = 3.3  # a constant
    X[:, 300] = X[:, 40]  # ties
    return X.astype(dtype)


def chunked(X, *chunks):
    return da.from_array(X, chunks=chunks or (17, 130))


@pytest.fixture(scope="module")
def cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as made:
        yield made


@pytest.fixture
def client(cluster, monkeypatch):
    monkeypatch.setattr(_dask_panels, "panel_width", lambda *args: PANEL)
    with distributed.Client(cluster) as made:
        yield made


@pytest.fixture
def asked(monkeypatch):
    """The questions that the workers are asked, with the number of tasks of each."""
    found, ask = [], _dask.ClusterTiles.ask

    def spy(self, *args, **kwargs):
        futures = ask(self, *args, **kwargs)
        found.append(len(futures))
        return futures

    monkeypatch.setattr(_dask.ClusterTiles, "ask", spy)
    return found


def dense(C):
    return C.toarray() if hasattr(C, "toarray") else np.asarray(C)


def assert_same(found, expected):
    assert type(found.covariance_) is type(expected.covariance_)
    assert found.covariance_.dtype == expected.covariance_.dtype
    a, b = dense(found.covariance_), dense(expected.covariance_)
    assert_array_equal(a != 0, b != 0)
    assert_allclose(a, b, rtol=1e-6, atol=1e-6 * abs(b).max())
    assert_allclose(found.location_, expected.location_, rtol=1e-6, atol=1e-9)
    if hasattr(expected, "threshold_"):
        assert_allclose(found.threshold_, expected.threshold_, rtol=1e-6)


TILED = {
    "universal": HardThreshold(dense_limit=0),
    "a number": HardThreshold(tau=2.5, dense_limit=0),
    "thresholded variances": HardThreshold(tau=2.5, keep_diagonal=False, dense_limit=0),
    "density": HardThreshold(density=0.01, dense_limit=0),
    "most pairs": HardThreshold(density=0.9, dense_limit=0),
    "top k": HardThreshold(top_k=3, dense_limit=0),
    "cross-validation": HardThreshold(tau="cv", n_splits=2, random_state=0, dense_limit=0),
    "soft": cov.SoftThreshold(dense_limit=0),
    "soft top k": cov.SoftThreshold(top_k=2, dense_limit=0),
    "adaptive": cov.AdaptiveThreshold(rule="soft", dense_limit=0),
    "adaptive variances": cov.AdaptiveThreshold(keep_diagonal=False, dense_limit=0),
    "ACV": cov.ACV(density=0.1, random_state=0, dense_limit=0),
    "ACV of the largest": cov.ACV(max_over="offdiagonal", unbiased=True, random_state=3, dense_limit=0),
    "significant": cov.SignificantEdges(dense_limit=0),
    "bonferroni": cov.SignificantEdges(method="bonferroni", dense_limit=0),
    "spearman": HardThreshold(correlation="spearman", dense_limit=0),
    "biweight": cov.SoftThreshold(correlation="biweight", tau=2.5, dense_limit=0),
    "half-life": HardThreshold(halflife=10, dense_limit=0),
}


@pytest.mark.parametrize("name", TILED)
def test_the_workers_find_what_one_process_finds(name, client, asked):
    X, model = table(), TILED[name]
    found = pickle.loads(pickle.dumps(model)).fit(chunked(X))
    assert asked and set(asked) == {6}  # three panels have six pairs, and each is one task
    expected = model.fit(X)
    assert len(asked) > 0 and not hasattr(found, "feature_names_in_") and found.n_features_in_ == N
    assert_same(found, expected)
    if name in ("significant", "bonferroni"):
        assert_allclose(dense(found.p_values_), dense(expected.p_values_), rtol=1e-4, atol=1e-300)


@pytest.mark.parametrize("chunks", [(T, 64), (7, N), (1, 300)])
def test_chunks_do_not_change_the_result(chunks, client):
    X = table(np.float32)
    assert_same(HardThreshold(dense_limit=0).fit(chunked(X, *chunks)), HardThreshold(dense_limit=0).fit(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_single_precision_and_values_of_nodes(weighted, client, asked):
    rng = np.random.default_rng(1)
    X = table(np.float32).reshape(T, 350, 2)
    weight = rng.integers(0, 3, size=T) if weighted else None
    model = cov.AdaptiveThreshold(dense_limit=0)
    found = pickle.loads(pickle.dumps(model)).fit(chunked(X, 15, 100, 1), sample_weight=weight)
    assert asked == [3]
    assert_same(found, model.fit(X, sample_weight=weight))


def test_integers(client):
    X = np.random.default_rng(0).integers(0, 9, size=(T, 300))
    assert_same(HardThreshold(dense_limit=0).fit(chunked(X)), HardThreshold(dense_limit=0).fit(X.astype(float)))


def test_panels_of_different_units_have_one(client):
    X = table()
    X[:, :PANEL] *= 2.0**70
    X[:, PANEL:] *= 2.0**30
    model = HardThreshold(density=0.02, dense_limit=0)
    assert_same(HardThreshold(density=0.02, dense_limit=0).fit(chunked(X)), model.fit(X))
    X[:, :PANEL] *= 2.0**60
    with pytest.raises(ValueError, match="too different for products in single precision"):
        model.fit(chunked(X))


def test_draws_of_a_fitted_model_come_from_the_workers(client, asked):
    X = table()
    found, expected = (cov.ACV(random_state=0, dense_limit=0).fit(Y) for Y in (chunked(X), X))
    asked.clear()
    assert_allclose(dense(found.sample(7)), dense(expected.sample(7)), rtol=1e-6)
    assert asked == [6]
    with pytest.raises(TypeError, match="on the workers of a Dask cluster and cannot be stored"):
        pickle.dumps(found)


def test_the_table_never_comes_here(client, monkeypatch):
    monkeypatch.setattr(DaskTable, "__getitem__", lambda *args: pytest.fail("the table is read here"))
    model = HardThreshold(dense_limit=0).fit(chunked(table()))
    assert model.density_ > 0
    data = tiles.read(DaskTable(chunked(table())), None, correlations=True, limit=2**30, kind="pearson")
    assert data.Z.shape == (768, 0) and len(data.panels) == 3
    sizes = client.submit(lambda panels: [panel.Z.shape for panel in panels], data.panels.futures).result()
    assert sizes == [(256, T), (256, T), (256, T)]  # the last one is padded


@pytest.mark.parametrize(
    "model", [cov.Banding(width=3, dense_limit=0), cov.FactorThreshold(n_factors=2, dense_limit=0)]
)
def test_what_needs_all_features_brings_the_table_here(model, client, asked):
    X = table()
    found = pickle.loads(pickle.dumps(model)).fit(chunked(X))
    assert not asked
    assert_allclose(dense(found.covariance_), dense(model.fit(X).covariance_), rtol=1e-6, atol=1e-9)


def test_without_a_client_the_rows_are_computed_here(asked, monkeypatch):
    read = []
    chunks = DaskTable.chunks
    monkeypatch.setattr(DaskTable, "chunks", lambda self: (read.append(len(part)) or part for part in chunks(self)))
    X = table()
    assert_same(HardThreshold(dense_limit=0).fit(chunked(X)), HardThreshold(dense_limit=0).fit(X))
    assert read == [17, 17, 6] and not asked


# -- few features: moments ------------------------------------------------------------------------


@pytest.mark.parametrize("with_client", [True, False])
@pytest.mark.parametrize(
    "model",
    [
        HardThreshold(),
        HardThreshold(density=0.1),
        cov.ACV(random_state=0),
        cov.RCV(random_state=0),
        cov.SampleCovariance(ddof=1),
        cov.SampleCovariance(halflife=5),
        HardThreshold(halflife=5),
    ],
)
def test_moments_of_few_features_are_merged_in_a_tree(model, with_client, monkeypatch, request):
    if with_client:
        request.getfixturevalue("client")
    monkeypatch.setattr(_tables, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(DaskTable, "__getitem__", lambda *args: pytest.fail("the table is read here"))
    X = table(n=302)[:, [0, 1, 2, 3, 4, 5, 40, 300]]
    weight = np.r_[np.zeros(10), np.arange(1.0, T - 9)]  # the first chunk has no weight at all
    found = pickle.loads(pickle.dumps(model)).fit(chunked(X, 9, 3), sample_weight=weight)
    expected = model.fit(X, sample_weight=weight)
    assert_array_equal(found.covariance_ != 0, expected.covariance_ != 0)
    assert_allclose(found.covariance_, expected.covariance_, rtol=1e-9)
    assert_allclose(found.location_, expected.location_, rtol=1e-9)
    if not hasattr(model, "halflife") or model.halflife is None:
        more = X[:4] + 1
        assert_allclose(found.partial_fit(more).covariance_, expected.partial_fit(more).covariance_, rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        HardThreshold(tau="cv", n_splits=2, random_state=0),
        cov.AdaptiveThreshold(),
        HardThreshold(correlation="kendall"),
        HardThreshold(missing="pairwise"),
        cov.SampleCovariance(correlation="spearman"),
        cov.GraphicalLasso(alpha=0.5),
        cov.TylerCovariance(),
    ],
)
def test_estimators_that_need_the_rows_get_them(model):
    X = table(n=302)[:, :8] + np.random.default_rng(0).standard_normal((T, 8))
    found = pickle.loads(pickle.dumps(model)).fit(chunked(X, 9, 3))
    assert_allclose(found.covariance_, model.fit(X).covariance_, rtol=1e-9)


def test_models_take_tables_of_dask_and_scores_too():
    X = table(n=302)[:, :8]
    model = SVNNRegressor(max_epochs=1, members=1, shrink=False, random_state=0)
    y = X[:, 0].copy()
    expected = model.fit(X, y).predict(X)
    assert_allclose(model.fit(chunked(X, 9, 3), y).predict(chunked(X, 9, 3)), expected)
    fitted = cov.SampleCovariance().fit(chunked(X[:, :4], 9, 3))
    assert fitted.score(chunked(X[:, :4], 9, 3)) == pytest.approx(fitted.score(X[:, :4]))


def test_values_of_nodes_are_merged_too(monkeypatch):
    monkeypatch.setattr(_tables, "_CHUNK_BYTES", 1)
    X = table(n=302)[:, :8].reshape(T, 4, 2)
    assert_allclose(
        cov.SampleCovariance().fit(chunked(X, 7, 3, 1)).covariance_, cov.SampleCovariance().fit(X).covariance_
    )


# -- frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "dense_limit"), [(HardThreshold, 0), (cov.AdaptiveThreshold, 4096), (cov.SampleCovariance, 4096)]
)
def test_columns_of_frames_have_names(model, dense_limit, client):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X = table(np.float32, n=302)[:, :290]
    names = [f"gene {k}" for k in range(X.shape[1])]
    frame = dd.from_pandas(pandas.DataFrame(X, columns=names), npartitions=3)
    estimator = model() if model is cov.SampleCovariance else model(dense_limit=dense_limit)
    found = pickle.loads(pickle.dumps(estimator)).fit(frame)
    assert list(found.feature_names_in_) == names
    expected = estimator.fit(pandas.DataFrame(X, columns=names))
    assert_allclose(dense(found.covariance_), dense(expected.covariance_), rtol=1e-4, atol=1e-5)
    found.fit(chunked(X))
    assert not hasattr(found, "feature_names_in_")


def test_text_columns_are_named():
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    with pytest.raises(ValueError, match="columns that are not numbers: 'b'"):
        HardThreshold().fit(frame)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_a_value_that_is_not_finite_is_named(value, said, client):
    X = table()
    X[3, 600] = value
    with pytest.raises(ValueError, match=rf"X contains {said} \(feature 600\)"):
        HardThreshold(dense_limit=0).fit(chunked(X))
    with pytest.raises(ValueError, match=rf"X contains {said}"):
        HardThreshold().fit(chunked(X))


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (lambda: da.zeros(5), "1 dimension"),
        (lambda: da.zeros((5, 5), dtype=complex), "complex numbers"),
        (lambda: da.zeros((5, 5), dtype="datetime64[s]"), "must hold real numbers"),
        (lambda: da.zeros((1, 5)), "minimum of 2"),
        (lambda: pytest.importorskip("dask.dataframe").from_dask_array(da.zeros(5)), "1 dimension"),
        (lambda: da.zeros((5, 0)), "holds no values"),
        (lambda: (lambda x: x[x[:, 0] > 0])(da.ones((5, 5))), "unknown sizes; call X.compute_chunk_sizes"),
    ],
    ids=["1-D", "complex", "dates", "one row", "series", "empty", "unknown"],
)
def test_bad_tables(X, said):
    with pytest.raises(ValueError, match=said):
        HardThreshold().fit(X())


def test_bad_weights_are_said_here(client):
    with pytest.raises(ValueError, match="sample_weight"):
        HardThreshold(dense_limit=0).fit(chunked(table()), sample_weight=np.ones(3))


def test_too_many_pairs_are_a_memory_error(client):
    with pytest.raises(MemoryError, match="survive, which take more than memory_limit"):
        HardThreshold(tau=0, dense_limit=0, memory_limit=2**20).fit(chunked(table()))


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    settings = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        with pytest.raises(RuntimeError, match="has no workers; start some, or close the Client"):
            HardThreshold(dense_limit=0).fit(chunked(table()))
        monkeypatch.setattr(_dask_panels, "_COUNT", 0.01)
        monkeypatch.setattr(_dask_panels, "_PATIENCE", 0.05)
        with pytest.raises(RuntimeError, match="all workers of the Dask cluster are gone"):
            list(_dask_panels.finished(client, [client.submit(int, 1)]))


# -- a folder -------------------------------------------------------------------------------------


def test_pairs_in_a_folder_are_not_computed_again(client, asked, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    X = table()
    with dask.config.set({"svnn.parts": str(tmp_path)}):
        first = HardThreshold(tau=2.5, dense_limit=0).fit(chunked(X))
        (folder,) = tmp_path.iterdir()
        assert {path.name for path in folder.iterdir()} == {
            f"{i}-{j}.parquet" for i in (0, 256, 512) for j in (0, 256, 512) if i <= j
        }
        (folder / "0-256.parquet").unlink()
        second = HardThreshold(tau=2.5, dense_limit=0).fit(chunked(X))
        assert asked == [6, 1]
        cov.SoftThreshold(tau=2.4, dense_limit=0).fit(chunked(X))
        HardThreshold(tau=2.5, dense_limit=0).fit(chunked(X + 1e-3 * X**2))
        assert asked == [6, 1, 6, 6] and len(list(tmp_path.iterdir())) == 3
    expected = HardThreshold(tau=2.5, dense_limit=0).fit(X)
    assert_same(first, expected)
    assert_same(second, expected)
    edges = parquet.read_table(folder).to_pandas()
    found = np.zeros((N, N))
    found[edges.i, edges.j] = edges.value
    assert_allclose(found, np.triu(dense(expected.covariance_), 1), rtol=1e-6)


@pytest.mark.parametrize("name", ["adaptive", "ACV", "top k"])
def test_selections_have_folders_of_their_own(name, client, asked, tmp_path):
    pytest.importorskip("pyarrow")
    X, model = table(), TILED[name]
    with dask.config.set({"svnn.parts": str(tmp_path)}):
        first, second = (pickle.loads(pickle.dumps(model)).fit(chunked(X)) for _ in range(2))
    assert 0 in asked
    for found in (first, second):
        assert_same(found, model.fit(X))


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "threads", "memory", "width"), [(2000, 2, 3e9, 8448), (300, 64, 4e9, 65_536)])
def test_the_width_of_panels(n_rows, threads, memory, width):
    n = 50_000 if threads == 2 else 10_000_000
    assert _dask_panels.panel_width(n, n_rows, threads, memory) == width
    assert 4 * width * n_rows <= memory / 16
    assert math.ceil(n / width) * (math.ceil(n / width) + 1) / 2 >= 8 * threads
    assert _dask_panels.panel_width(5, 10**9, 1, 1e6) == 128


def test_progress_counts_tasks(client, capsys):
    HardThreshold(density=0.1, dense_limit=0, verbose=True).fit(chunked(table()))
    lines = capsys.readouterr().err
    assert "histogram: 6 of 6" in lines and "pairs: 6 of 6" in lines


def merging(count):
    """The number of tasks that merge results, four at a time."""
    tasks = 0
    while count > 1:
        tasks += count // 4 + (count % 4 > 1)
        count = -(-count // 4)
    return tasks


@pytest.mark.parametrize(
    ("question", "model"),
    [
        ("threshold", HardThreshold(dense_limit=0)),
        ("density", HardThreshold(density=0.01, dense_limit=0)),
        ("top_k", HardThreshold(top_k=3, dense_limit=0)),
    ],
)
def test_the_arithmetic_of_the_page_is_what_happens(question, model, cluster, client, monkeypatch):
    benchmark = pytest.importorskip("cluster")  # of the benchmarks
    monkeypatch.setattr(_dask_panels, "panel_width", lambda *args: 128)
    X = np.random.default_rng(0).standard_normal((T, 600)).astype(np.float32)
    panels, pairs, panel_bytes = 5, 15, 4 * T * 128
    passes, merges = {
        "threshold": (1, 0),
        "density": (2, merging(pairs)),
        "top_k": (2, panels * (math.ceil(panels / 4) + merging(math.ceil(panels / 4)))),
    }[question]
    tasks = 2 * panels + passes * pairs + merges
    answers = (pairs + merges) * 2**20 if question == "density" else 8 * panels**2 * 4 * 128 * 8
    watch = benchmark.Watch(cluster.scheduler)
    before = sum(client.run(benchmark.incoming).values())
    cluster.scheduler.add_plugin(watch, name=question)
    model.fit(chunked(X))
    cluster.scheduler.remove_plugin(name=question)
    moved = sum(client.run(benchmark.incoming).values()) - before
    ours = {name: count for name, count in watch.done.items() if "rechunk" not in name and name not in ("array", "run")}
    assert sum(ours.values()) == tasks, ours
    assert ours["_answered"] == passes * pairs
    assert 0 < moved <= 2 * X.nbytes + passes * (2 * pairs - panels) * panel_bytes + merges * answers + 1e5


def test_the_panels_hold_the_table(client):
    data = tiles.read(DaskTable(chunked(table())), None, correlations=True, limit=2**30, kind="pearson")
    sizes = client.submit(lambda panels: [panel.Z.nbytes for panel in panels], data.panels.futures).result()
    assert sum(sizes) == 4 * 768 * T


def test_the_code_of_the_page_runs_and_prints_what_it_says(capsys):
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(code, "cluster.md", "exec"), {"__name__": "page"})
    assert re.fullmatch(r"True\n\d+ edges\n", capsys.readouterr().out)


def test_the_numbers_of_the_page():
    """Ten million features of 300 samples on 64 workers with one thread and 4 GB each."""
    page = " ".join((Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8").split())
    n, t, workers = 10_000_000, 300, 64
    width = _dask_panels.panel_width(n, t, workers, 4e9)
    panels = math.ceil(n / width)
    pairs = panels * (panels + 1) // 2
    moved = (2 * pairs - panels) * 4 * width * t
    for number in (
        f"{width:,} features",
        f"makes {panels} panels",
        f"= {pairs:,} pairs",
        f"{pairs + 2 * panels:,} tasks",
        f"{4 * width * t / 1e6:.3g} MB",
        f"{4 * n * t / 1e9:.3g} GB of panels",
        f"{moved / 1e12:.3g} TB",
        f"{moved / workers / 1e9:.3g} GB for each worker",
        f"{n**2 * t / (workers * 88e9) / 3600:.2g} hours",
    ):
        assert number in page, number


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tiles_of_panels_are_multiplied_on_a_gpu():
    X = table(np.float32)
    halves = [_dask_panels._standardised(X[:, a : a + 384], None, a, _OPTIONS) for a in (0, 384)]
    found = _dask.PairTiles(*halves, (1.0, 1.0), 2**30)
    assert found.device.type == "cuda"
    counts, columns, *_ = _dask._collected(found, None, 20.0, None, None)
    R = np.nan_to_num(np.corrcoef(X.T.astype(np.float64))) * T
    rows, expected = np.nonzero(np.abs(R[:384, 384:]) > 20.0)
    assert_array_equal(columns, expected + 384)
    assert_array_equal(counts, np.bincount(rows, minlength=384))
