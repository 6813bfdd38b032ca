"""Covariances of every source are those of the array, and hold no more of it than they must."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sources.made_up import NAMES, SOURCES, annotated, counts, every_source, in_h5
from svnn import SVNNRegressor
from svnn.covariance import ACV, AdaptiveThreshold, GraphicalLasso, HardThreshold, SampleCovariance, SoftThreshold
from svnn.sources import _table as tables
from svnn.sources._stored import SparseTable

ESTIMATORS = [
    HardThreshold(),
    HardThreshold(top_k=3),
    HardThreshold(tau="cv", random_state=0, n_splits=2),
    HardThreshold(correlation="spearman", density=0.1),
    HardThreshold(base="ledoit_wolf", density=0.2),
    HardThreshold(halflife=10, tau=1.0),
    SoftThreshold(tau=0.5),
    AdaptiveThreshold(delta=1.0),
    ACV(density=0.3, random_state=0),
]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)


def dense(C):
    return C.toarray() if sp.issparse(C) else C


def check_same(found, expected):
    scale = abs(dense(expected.covariance_)).max()
    np.testing.assert_allclose(dense(found.covariance_), dense(expected.covariance_), rtol=1e-4, atol=1e-5 * scale)
    np.testing.assert_allclose(found.location_, expected.location_, rtol=1e-5)
    assert found.covariance_.dtype == expected.covariance_.dtype
    assert found.n_features_in_ == expected.n_features_in_


@every_source
@every
@pytest.mark.parametrize("limit", [0, 4096])
def test_same_as_the_array(source, estimator, limit, tmp_path, monkeypatch):
    if limit == 0 and estimator.base is not None:
        pytest.skip("a base covariance has no tiles")
    monkeypatch.setattr(tables, "_SMALLEST", 2000)  # several blocks
    X = counts()
    make, named = SOURCES[source]
    estimator = clone(estimator).set_params(dense_limit=limit)
    found = clone(estimator).set_params(memory_limit=5000 if limit else 10**6).fit(make(X, tmp_path))
    check_same(found, estimator.fit(X))
    assert list(getattr(found, "feature_names_in_", [])) == (NAMES if named else [])


@every_source
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sample_covariance(source, weighted, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_SMALLEST", 2000)
    monkeypatch.setattr(tables, "_LARGEST", 2000)
    X = counts(dtype=np.float64)
    weight = np.arange(len(X)) // 25 * np.linspace(0, 1, len(X)) if weighted else None  # whole chunks have none
    make, named = SOURCES[source]
    table = make(X, tmp_path)
    found = SampleCovariance(ddof=1).fit(table, sample_weight=weight)
    expected = SampleCovariance(ddof=1).fit(X, sample_weight=weight)
    np.testing.assert_allclose(found.covariance_, expected.covariance_, rtol=1e-9, atol=1e-12)
    assert found.n_samples_ == pytest.approx(expected.n_samples_)
    assert (found.covariance_[5] == 0).all()  # the constant feature
    assert hasattr(found, "feature_names_in_") == named
    ranked = SampleCovariance(correlation="spearman").fit(table)
    np.testing.assert_allclose(ranked.covariance_, SampleCovariance(correlation="spearman").fit(X).covariance_)


def test_decay_goes_on_from_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_SMALLEST", 2000)
    monkeypatch.setattr(tables, "_LARGEST", 2000)
    X = counts(dtype=np.float64)
    found = SampleCovariance(halflife=8).fit(SOURCES["h5, rows"][0](X[:40], tmp_path)).partial_fit(X[40:])
    np.testing.assert_allclose(
        found.covariance_, SampleCovariance(halflife=8).fit(X).covariance_, rtol=1e-9, atol=1e-12
    )


def test_moments_are_enough_where_they_are(tmp_path, monkeypatch):
    """The table is never held as a whole, unless the estimator needs its rows."""
    monkeypatch.setattr(SparseTable, "stored", None)
    X = sp.csr_array(counts())
    HardThreshold().fit(X)
    SampleCovariance().fit(X)
    with pytest.raises(TypeError):
        AdaptiveThreshold().fit(X)


def test_bad_tables_are_named(tmp_path):
    X = counts()
    spoiled = X.copy()
    spoiled[3, 4] = np.nan
    for limit in (0, 4096):
        with pytest.raises(ValueError, match="X contains NaN"):
            HardThreshold(dense_limit=limit).fit(sp.csr_array(spoiled))
    with pytest.raises(ValueError, match=r"found 1 sample\(s\)"):
        HardThreshold().fit(sp.csr_array(X[:1]))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        SampleCovariance().fit(sp.csr_array((4, 0)))
    with pytest.raises(ValueError, match="one per row"):
        SampleCovariance().fit(sp.csr_array(X), sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="real numbers only"):
        HardThreshold().fit(annotated(np.full((3, 2), "a")))
    with pytest.raises(ValueError, match="tau must be"):
        HardThreshold(tau=-1).fit(sp.csr_array(X))
    fitted = HardThreshold().fit(annotated(X))
    assert list(fitted.feature_names_in_) == NAMES
    assert not hasattr(fitted.fit(X), "feature_names_in_")


@pytest.mark.parametrize("estimator", [SVNNRegressor(), GraphicalLasso()], ids=str)
def test_elsewhere_such_tables_are_named(estimator):
    X = counts()
    with pytest.raises(TypeError, match=r"toarray\(\)"):
        estimator.fit(sp.csr_array(X), X[:, 0])
    with pytest.raises(TypeError, match=r"X is an AnnData.*X\.to_df\(\)"):
        estimator.fit(annotated(X), X[:, 0])


def test_the_blocks_of_a_fit_are_small(tmp_path, monkeypatch):
    """tracemalloc sees all arrays of numpy; the file is 40 times as large as what is held of it."""
    monkeypatch.setattr(tables, "_SMALLEST", 2**16)
    X = in_h5(np.random.default_rng(0).standard_normal((8000, 40)).astype(np.float32), tmp_path, (100, 40))
    HardThreshold(memory_limit=10**5).fit(X)  # loads what it needs
    tracemalloc.start()
    HardThreshold(memory_limit=10**5).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8000 * 40 * 4 / 2


LIMITED = """
import sys, h5py, numpy as np
import scipy.sparse as sp
from pathlib import Path
from svnn.covariance import HardThreshold
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
estimator = HardThreshold(memory_limit="64MB")
estimator.fit(sp.csr_array(np.eye(9)))  # loads what it needs
before = peak()
estimator.fit(h5py.File(sys.argv[1])["X"])
print(peak() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from Linux")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        X = file.create_dataset("X", shape=(400_000, 200), dtype="f4", chunks=(1000, 200))  # 320 MB
        rng = np.random.default_rng(0)
        for a in range(0, len(X), 50_000):
            X[a : a + 50_000] = rng.standard_normal((50_000, 200), dtype=np.float32)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "x.h5"], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 120  # MB
