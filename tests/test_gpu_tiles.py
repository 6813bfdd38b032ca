"""Covariances of many features on a GPU: products fused with the selection; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svnn import HardThreshold, SoftThreshold
from svnn.covariance import tiles
from svnn.covariance.tiles import _gpu

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
#: Correlations in single precision are right to this.
CLOSE = 2e-6


def table(n=3000, t=80, seed=0):
    """Return noise with groups of features, one of them larger than any list, and a constant feature."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(t, n, generator=generator)
    X[:, :400] += 1.5 * torch.randn(t, 1, generator=generator)
    X[:, 500:520] += 2 * torch.randn(t, 1, generator=generator)
    X[:, 700] = 3.0
    return X.cuda()


def correlations(X):
    Z = X.cpu().double().numpy()
    Z = Z - Z.mean(0)
    norm = np.linalg.norm(Z, axis=0)
    Z /= np.where(norm > 1e-9, norm, np.inf)
    R = Z.T @ Z
    np.fill_diagonal(R, 0)
    return R


def found(matrix):
    """Return the off-diagonal entries as a dense array of correlations."""
    C = matrix.to_dense().double().cpu().numpy()
    sd = np.sqrt(np.maximum(C.diagonal(), 1e-30))
    R = C / np.outer(sd, sd)
    np.fill_diagonal(R, 0)
    return R


@pytest.fixture
def launched(monkeypatch):
    """Count the launches of fused kernels, and forbid tiles that are written."""
    names = []
    old = _gpu.FusedTiles.launch

    def launch(self, kernel, *rest):
        names.append(kernel.fn.__name__ if hasattr(kernel, "fn") else str(kernel))
        return old(self, kernel, *rest)

    def products(self, tile):
        raise AssertionError("a tile was written.")

    monkeypatch.setattr(_gpu.FusedTiles, "launch", launch)
    monkeypatch.setattr(_gpu.FusedTiles, "products", products)
    return names


def test_a_threshold_is_exact(launched):
    X = table()
    model = HardThreshold(sparse_output=True, dense_limit=0, scale=1.5).fit(X)
    R, got = correlations(X), found(model.covariance_)
    clear = np.abs(np.abs(R) - model.threshold_) > CLOSE
    np.testing.assert_array_equal((got != 0)[clear], (np.abs(R) > model.threshold_)[clear])
    np.testing.assert_allclose(got[got != 0], R[got != 0], atol=CLOSE)
    assert launched == ["list_pairs"]


def test_the_largest_pairs_are_exact(launched):
    X = table(seed=1)
    X = (X - X.mean(0)) / X.std(0).clamp(min=1e-9)
    R = correlations(X)
    upper = np.sort(np.abs(R[np.triu_indices_from(R, 1)]))[::-1]
    for kept in (1, 1000, 150_000):
        model = HardThreshold(sparse_output=True, dense_limit=0, density=kept / len(upper)).fit(X)
        got = found(model.covariance_)
        assert np.count_nonzero(np.triu(got, 1)) == kept
        assert np.abs(R[got != 0]).min() > upper[kept - 1] - CLOSE
        assert upper[kept] - CLOSE < model.threshold_ * (len(X) / (len(X) - 1)) < upper[kept - 1] + 0.03
    assert set(launched) == {"list_pairs"}


@pytest.mark.parametrize("k", [1, 10, 60])
def test_the_largest_of_each_feature_are_exact(launched, k):
    X = table(seed=2)
    X = (X - X.mean(0)) / X.std(0).clamp(min=1e-9)
    R = np.abs(correlations(X))
    cut = np.sort(R, axis=1)[:, -k]
    got = found(HardThreshold(sparse_output=True, dense_limit=0, top_k=k).fit(X).covariance_)
    lower = np.minimum(cut[:, None], cut)
    clear = (np.abs(R - lower) > CLOSE) & (R > 0)
    np.testing.assert_array_equal((got != 0)[clear], (lower < R)[clear])
    assert set(launched) == {"list_partners"}


def test_units_of_any_size_give_what_the_processor_gives():
    X = table(seed=3) * torch.logspace(-3, 3, 3000, device="cuda")
    for make in (
        lambda: HardThreshold(tau=0.5, dense_limit=0, sparse_output=True),
        lambda: HardThreshold(density=0.001, dense_limit=0, sparse_output=True),
        lambda: SoftThreshold(top_k=3, dense_limit=0, sparse_output=True),
    ):
        ours, theirs = make().fit(X), make().fit(X.cpu().numpy())
        C = ours.covariance_.to_dense().double().cpu().numpy()
        expected = theirs.covariance_.toarray()
        sd = np.sqrt(np.maximum(expected.diagonal(), 1e-30))
        different = (C != 0) != (expected != 0)
        assert different.sum() <= 1e-5 * np.count_nonzero(expected) + 2
        np.testing.assert_allclose(
            (C / sd / sd[:, None])[~different], (expected / sd / sd[:, None])[~different], atol=1e-5
        )


def test_equal_products_take_the_way_that_tells_them_apart():
    X = table(n=1000, seed=4)
    X[:, 100:500] = X[:, :1]  # four hundred features are the same
    for make in (
        lambda: HardThreshold(top_k=5, dense_limit=0, sparse_output=True),
        lambda: HardThreshold(density=0.01, dense_limit=0, sparse_output=True),
    ):
        ours, theirs = (
            make().fit(X).covariance_.to_dense().cpu().numpy(),
            make().fit(X.cpu().numpy()).covariance_.toarray(),
        )
        assert np.count_nonzero(ours) == pytest.approx(np.count_nonzero(theirs), rel=1e-3)


def test_a_level_below_the_errors_of_half_precision():
    X = table(n=800, seed=5)
    model = HardThreshold(tau=1e-4, dense_limit=0, sparse_output=True).fit(X)
    expected = HardThreshold(tau=1e-4, dense_limit=0, sparse_output=True).fit(X.cpu().numpy())
    assert model.covariance_.values().numel() == pytest.approx(expected.covariance_.nnz, rel=1e-4)


def test_lists_that_overflow_and_little_room(monkeypatch):
    X = table(seed=6)
    expected = [
        HardThreshold(dense_limit=0, sparse_output=True, **kind).fit(X).covariance_.to_dense()
        for kind in ({"scale": 1.0}, {"top_k": 4})
    ]
    monkeypatch.setattr(_gpu, "_ROOM", 100)
    monkeypatch.setattr(_gpu, "_LEAST_ROOM", 1)
    monkeypatch.setattr(_gpu, "_PANEL", 2**18)
    monkeypatch.setattr(_gpu, "_LIST_ROOM", 2)
    monkeypatch.setattr(_gpu, "_LIST_LEAST", 1)
    for kind, C in zip(({"scale": 1.0}, {"top_k": 4}), expected, strict=True):
        again = HardThreshold(dense_limit=0, sparse_output=True, **kind).fit(X).covariance_.to_dense()
        torch.testing.assert_close(again, C, rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_a_memory_error_and_progress_is_told(capsys):
    X = table(seed=7)
    with pytest.raises(MemoryError, match="pairs of features or more survive"):
        HardThreshold(scale=0.2, dense_limit=0, memory_limit="2MB").fit(X)
    few = HardThreshold(density=1e-4, dense_limit=0, memory_limit="2MB", sparse_output=True).fit(X)
    assert few.covariance_.values().numel() == 2 * 450 + 2999
    HardThreshold(top_k=3, dense_limit=0, verbose=True).fit(X)
    assert "largest of each feature" in capsys.readouterr().err


def test_lists_hold_no_feature_that_is_not_there():
    X = torch.randn(64, 200_000, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    data = tiles.read(X, None, correlations=True, limit=2**36, kind="pearson")
    quick = tiles.over(data, 2**36).fast_largest_of_rows(15)
    assert quick is not None
    best, pairs = quick
    assert int(pairs.columns.max()) < 200_000 and bool((best[:, 0] > 0).all())
    rows = torch.randint(200_000, (200,), generator=torch.Generator().manual_seed(0)).cuda()
    exact = (data.Z[rows].double() @ data.Z[:200_000].double().T).abs()
    exact[torch.arange(200), rows] = 0
    torch.testing.assert_close(torch.topk(exact, 15).values.flip(1).float(), best[rows], rtol=1e-5, atol=1e-4)


def test_graphs_of_tables_in_memory_go_to_the_gpu(launched, tmp_path):
    pytest.importorskip("pyarrow")
    from svnn.graphs import correlation_graph, read_edges

    X = table(seed=8).cpu().numpy()
    expected = correlation_graph(X, threshold=0.5, device="cpu")
    found = correlation_graph(X, threshold=0.5)
    assert launched and found.n_edges == expected.n_edges
    correlation_graph(X, threshold=0.5, out=tmp_path / "edges.parquet")
    assert read_edges(tmp_path / "edges.parquet").n_edges == expected.n_edges
    a, b = correlation_graph(X, top_k=4), correlation_graph(X, top_k=4, device="cpu")
    assert abs(a.matrix - b.matrix).max() < 1e-5 and len(a.threshold) == 3000
