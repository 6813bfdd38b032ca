"""Above ``dense_limit`` the tiles give what the N×N matrix gives, to the rounding of float32."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from svnn import SVNNRegressor
from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold
from svnn.covariance.tiles import _order_statistics as order_statistics
from svnn.covariance.tiles import _products as products
from svnn.functional import moments

N, T = 300, 60
CASES = [
    HardThreshold(),
    HardThreshold(keep_diagonal=False),
    HardThreshold(tau=30.0),
    HardThreshold(tau=0.0),
    HardThreshold(tau="cv", random_state=0, n_splits=2),
    HardThreshold(density=0.1),
    HardThreshold(density=0.0),
    HardThreshold(density=1.0),
    HardThreshold(top_k=3),
    HardThreshold(top_k=N),
    HardThreshold(psd="load"),
    HardThreshold(psd="shrink"),
    SoftThreshold(),
    SoftThreshold(tau=30.0, keep_diagonal=False),
    SoftThreshold(density=0.1),
    SoftThreshold(top_k=3, keep_diagonal=False),
    *(AdaptiveThreshold(rule=rule, delta=1.0) for rule in ("hard", "soft", "scad", "adaptive_lasso")),
    AdaptiveThreshold(rule="scad", delta=1.0, keep_diagonal=False),
    AdaptiveThreshold(delta=0.0),
    ACV(random_state=0),
    ACV(density=0.2, random_state=0),
    ACV(density=0.2, unbiased=True, random_state=0),
    ACV(density=0.0, random_state=0),
    ACV(density=1.0, random_state=0),
    ACV(max_over="offdiagonal", random_state=0),
]
FEW = [
    HardThreshold(),
    SoftThreshold(tau=3.0),
    SoftThreshold(density=0.1),
    HardThreshold(top_k=3),
    AdaptiveThreshold(delta=1.0, rule="soft", keep_diagonal=False),
    ACV(density=0.2, random_state=0),
]
every = pytest.mark.parametrize("estimator", CASES, ids=str)
few = pytest.mark.parametrize("estimator", FEW, ids=str)


def data(seed=0, t=T, n=N):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((t, 5)) @ rng.standard_normal((5, n)) / 2
    return (common + rng.standard_normal((t, n))) * rng.uniform(0.1, 10, n) + rng.uniform(-5, 5, n)


def dense(C):
    return C.toarray() if sp.issparse(C) else C.to_dense().cpu().numpy() if isinstance(C, torch.Tensor) else C


def check_same(estimator, X, sample_weight=None, large=None):
    """Fit both ways, compare, and return the fit from tiles."""
    a = clone(estimator).fit(X, sample_weight=sample_weight)
    b = clone(estimator).set_params(dense_limit=0)
    b.fit(X if large is None else large, sample_weight=sample_weight)
    A, B = dense(a.covariance_), dense(b.covariance_)
    np.testing.assert_allclose(B, A, rtol=1e-4, atol=1e-6 * abs(A).max())
    np.testing.assert_array_equal(A != 0, B != 0)
    np.testing.assert_array_equal(B, B.T)
    np.testing.assert_allclose(np.asarray(b.location_), np.asarray(a.location_), rtol=1e-5, atol=1e-6)
    assert a.density_ == pytest.approx(b.density_)
    for name in ("tau_", "slope_", "threshold_"):
        if hasattr(b, name):
            np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-5)
    return b


@pytest.fixture
def engine(kernels, monkeypatch):
    """The kernels of the tiles or torch alone; with two threads also tiles enough for both."""
    if kernels.n_threads > 1:
        monkeypatch.setattr(products, "_CPU_TILE", (128, 256))
    return kernels


@every
def test_same_as_the_dense_path(estimator, engine):
    fitted = check_same(estimator, data())
    C = fitted.covariance_
    assert isinstance(C, sp.csr_array) and C.dtype == np.float64 and C.indices.dtype == np.int32
    assert C.has_sorted_indices and (np.diff(C.indptr) >= 0).all()
    assert not hasattr(fitted, "probabilities_") and not hasattr(fitted, "sample_covariance_")
    engine.must_have_run("compress", "symmetric")
    if isinstance(estimator, ACV):
        engine.must_have_run("draw")
    if getattr(estimator, "density", None) == 0.1:
        engine.must_have_run("histogram")
    if getattr(estimator, "top_k", None) == 3:
        engine.must_have_run("largest")


@few
def test_tiles_and_threads_do_not_matter(estimator, engine, monkeypatch):
    expected = clone(estimator).set_params(dense_limit=0).fit(data()).covariance_
    torch.set_num_threads(3)
    try:
        for tile in [(128, 128), (128, 256), (256, 128)]:
            monkeypatch.setattr(products, "_CPU_TILE", tile)
            found = clone(estimator).set_params(dense_limit=0).fit(data()).covariance_
            assert torch.get_num_threads() == 3
            np.testing.assert_array_equal(found.indices, expected.indices)
            np.testing.assert_allclose(found.data, expected.data, rtol=1e-5, atol=1e-5)
    finally:
        torch.set_num_threads(1)


@few
def test_kinds_of_data(estimator, engine, tmp_path):
    X = data()
    assert check_same(estimator, X.astype(np.float32)).covariance_.dtype == np.float32
    tensor = check_same(estimator, torch.tensor(X)).covariance_
    assert tensor.layout == torch.sparse_csr and tensor.dtype == torch.float64
    check_same(estimator, np.asfortranarray(X))
    stored = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=X.shape)
    stored[:] = X
    readonly = np.memmap(tmp_path / "X", dtype=np.float32, mode="r", shape=X.shape)
    check_same(estimator, np.array(readonly), large=readonly)
    check_same(estimator, np.random.default_rng(0).integers(0, 10**6, (T, N)))


@few
def test_weights_and_values_per_node(estimator, engine):
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, T)
    check_same(estimator, data(), weight)
    X = rng.standard_normal((30, N, 3)) + rng.standard_normal((30, 1, 3))
    check_same(estimator, X)
    check_same(estimator, X, rng.integers(0, 4, 30))
    check_same(estimator, torch.tensor(X, dtype=torch.float32))


@few
def test_rows_in_chunks(estimator):
    X = data()
    for limit in (None, "550KB", "8MB"):  # with 550 kB the chunks, of 144 kB, go to a file
        if limit != "550KB" or isinstance(estimator, HardThreshold):
            large = clone(estimator).set_params(memory_limit=limit)
            check_same(large, X, large=iter(np.array_split(X, 7)))
    few_features = clone(estimator).fit(iter(np.array_split(X[:, :9], 7)))
    np.testing.assert_allclose(
        dense(few_features.covariance_), dense(clone(estimator).fit(X[:, :9]).covariance_), rtol=1e-12
    )


def test_chunks_must_agree():
    with pytest.raises(ValueError, match="yields nothing"):
        HardThreshold().fit(iter([]))
    with pytest.raises(ValueError, match="chunk 1 of X has shape"):
        HardThreshold().fit(iter([np.ones((2, 3)), np.ones((2, 4))]))


@pytest.mark.parametrize("rule", [HardThreshold, SoftThreshold])
def test_ties_are_broken_in_row_order(rule, engine, monkeypatch):
    X = np.random.default_rng(0).choice([-1.0, 1.0], (16, 200))
    X = np.concatenate([X, -X])  # means of zero: covariances are multiples of 1/16
    for density in (0.01, 0.2, 0.37):
        fitted = check_same(rule(density=density), X)
        assert fitted.covariance_.nnz == 200 + 2 * round(density * 199 * 100)
    check_same(HardThreshold(top_k=5), X)
    monkeypatch.setattr("svnn.covariance.tiles._order_statistics._SPARE", 0)  # a second pass finds the cut
    for density in (0.0, 0.01, 0.2, 0.37, 0.9999):
        check_same(rule(density=density), X)
    engine.must_have_run("compress", "symmetric", "histogram", "histogram_inside", "largest")
    constant = np.tile([[1.0], [-1.0]], (8, 150))
    check_same(rule(density=0.3), constant)
    check_same(ACV(density=0.3, random_state=0), constant)


def test_a_density_beyond_the_non_zero_entries(engine):
    X = np.kron(np.eye(64), np.array([[1.0, 1.0], [-1.0, -1.0]]))  # 64 pairs are correlated, the rest exactly not
    for estimator in (HardThreshold(density=0.5), ACV(density=0.5, random_state=0), HardThreshold(top_k=9)):
        check_same(estimator, X)


def test_units_do_not_matter(engine):
    X = data()
    for factor in (1e-12, 1e12):
        for estimator in (HardThreshold(), HardThreshold(density=0.1), AdaptiveThreshold(delta=1.0)):
            a = clone(estimator).set_params(dense_limit=0).fit(X).covariance_
            b = clone(estimator).set_params(dense_limit=0).fit(X * factor).covariance_
            np.testing.assert_allclose(dense(b), dense(a) * factor**2, rtol=1e-4)


def test_constant_features_and_single_ones():
    X = data()
    X[:, 7] = 0.1
    C = HardThreshold(tau=0.0, dense_limit=0).fit(X).covariance_
    assert (C[[7]].toarray() == 0).all() and np.isfinite(C.data).all()
    np.testing.assert_allclose(HardThreshold(dense_limit=0).fit(X[:, :1]).covariance_.toarray(), [[X[:, 0].var()]])
    assert HardThreshold(density=0.5, dense_limit=0).fit(X[:, :1]).density_ == 0


def test_edges_of_bins_are_float32_of_32_bits():
    """A single bin is a number without dimensions, which numpy before 2 widens to 64 bits."""
    for bin_ in (0, 1, 0x3F80 << 1, np.int64(300), 2**16 - 300):
        edge = order_statistics.bin_edges(bin_)
        assert isinstance(edge, float) and edge == order_statistics.bin_edges(np.array([bin_]))[0]
        assert np.float32(edge).view(np.uint32) == int(bin_) << 15


def test_acv_draws_again():
    X = data()
    small, large = ACV(density=0.2, random_state=0).fit(X), ACV(density=0.2, random_state=0, dense_limit=0).fit(X)
    for seed in (1, 2):
        a, b = dense(small.sample(seed)), dense(large.sample(seed))
        np.testing.assert_array_equal(a != 0, b != 0)
    np.testing.assert_array_equal(b, dense(pickle.loads(pickle.dumps(large)).sample(2)))
    large.set_params(dense_limit=4096).fit(X)  # forgets the tiles
    assert large.probabilities_.shape == (N, N)
    np.testing.assert_array_equal(dense(large.sample(2)), dense(small.sample(2)))


def test_cross_validation_looks_at_some_features(monkeypatch):
    monkeypatch.setattr("svnn.covariance._thresholds.CV_FEATURES", 50)
    fitted = HardThreshold(tau="cv", random_state=0, n_splits=2, dense_limit=0).fit(data())
    assert fitted.tau_ > 0 and fitted.threshold_ == pytest.approx(fitted.tau_ / np.sqrt(T))


@pytest.mark.parametrize(
    ("estimator", "spoil", "message"),
    [
        (HardThreshold(), np.nan, r"X contains NaN \(feature 3\).*missing=\"pairwise\" with dense_limit at least 300"),
        (HardThreshold(missing="pairwise"), np.nan, r"X contains NaN \(feature 3\)"),
        (HardThreshold(), np.inf, "X contains inf"),
        (HardThreshold(), 1e200, "feature 3 of X has values too large"),
        (HardThreshold(psd="clip"), 0.0, r'psd="clip" gives a dense matrix.*raise dense_limit'),
        (RCV(), 0.0, "RCV looks at all pairs of its 300 features at once, more than dense_limit=0"),
        (ACV(density=2.0), 0.0, "density must be None or a number between 0 and 1"),
        (ACV(max_over="rows"), 0.0, "max_over must be"),
        (HardThreshold(density=2.0), 0.0, "density must be None or a number between 0 and 1"),
    ],
)
def test_what_cannot_be_done_is_named(estimator, spoil, message):
    X = data()
    X[5, 3] = spoil
    for Y in (X, torch.tensor(X)):
        with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
            clone(estimator).set_params(dense_limit=0).fit(Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dense_limit": -1}, "dense_limit must be an integer >= 0"),
        ({"dense_limit": 0.5}, "dense_limit must be an integer >= 0"),
        ({"memory_limit": "much"}, "memory_limit must be"),
        ({"memory_limit": -1}, "memory_limit must be"),
        ({"top_k": 0}, "top_k must be None or a positive integer"),
        ({"top_k": 2, "density": 0.5}, r"top_k=2 and density=0.5 are mutually exclusive"),
        ({"top_k": 2, "tau": 1.0}, r"top_k=2 and tau=1.0 are mutually exclusive"),
        ({"top_k": 2, "tau": "cv"}, r"top_k=2 and tau='cv' are mutually exclusive"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        HardThreshold(**parameters).fit(data())


def test_a_result_beyond_the_limit_is_an_error(engine):
    for estimator in (HardThreshold(tau=0.0), HardThreshold(density=0.9), ACV(density=0.9, random_state=0)):
        with pytest.raises(MemoryError, match="memory_limit"):
            clone(estimator).set_params(dense_limit=0, memory_limit="1MB").fit(data())


def test_data_beyond_the_limit_goes_to_a_file(engine):
    X = data(t=500)
    expected = HardThreshold(dense_limit=0).fit(X).covariance_
    found = HardThreshold(dense_limit=0, memory_limit=10**6).fit(X).covariance_
    np.testing.assert_array_equal(found.indices, expected.indices)


def test_a_network_on_it():
    X = data(t=40)
    model = SVNNRegressor(covariance=HardThreshold(dense_limit=10), max_epochs=1, random_state=0).fit(X, X[:, 0])
    assert model.covariance_.shape == (N, N) and np.isfinite(model.predict(X)).all()


def test_the_matrix_is_never_formed():
    """Neither without the kernels nor with them."""
    code = """
import os, resource, numpy as np
from svnn.covariance import HardThreshold
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
X = np.random.default_rng(0).standard_normal((40, 6_000), dtype=np.float32)
for numba in "01":
    os.environ["SVNN_NUMBA"] = numba
    HardThreshold(dense_limit=0).fit(X[:, :500])
    before = peak()
    HardThreshold().fit(X)
    print(peak() - before)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert max(map(float, out.split())) < 60  # MB; the matrix would have 144


def test_the_dense_path_multiplies_two_different_arrays(monkeypatch):
    """OpenBLAS's product of an array with itself can crash on large float64 data."""
    seen = []

    class Watched(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            plain = [np.asarray(x) for x in inputs]
            if ufunc is np.matmul:
                seen.append(np.shares_memory(*plain))
            out = getattr(ufunc, method)(*plain, **kwargs)
            return out.view(Watched) if isinstance(out, np.ndarray) else out

    monkeypatch.setattr(moments, "as_floating", lambda X: X)

    for shape in ((20, 6), (20, 6, 3)):
        X = np.random.default_rng(0).standard_normal(shape).view(Watched)
        moments.product_variances(X, moments.sample_moments(X))
    assert seen and not any(seen)
    assert SampleCovariance().fit(np.asarray(X)).covariance_.shape == (6, 6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@few
def test_same_on_a_gpu(estimator):
    X = data()
    found = clone(estimator).set_params(dense_limit=0).fit(torch.tensor(X, device="cuda")).covariance_
    assert found.is_cuda
    expected = clone(estimator).fit(X).covariance_
    np.testing.assert_allclose(dense(found), dense(expected), rtol=1e-4, atol=1e-5)


def test_progress_is_a_bar_on_terminals_and_lines_elsewhere(capsys, monkeypatch):
    HardThreshold(dense_limit=0).fit(data())
    assert capsys.readouterr().err == ""
    estimator = HardThreshold(dense_limit=0, verbose=True)
    estimator.fit(data())
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(re.search(r": \d+ of \d+, .*(left|done in)", line) for line in lines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    estimator.fit(data())
    assert "threshold" in capsys.readouterr().err
