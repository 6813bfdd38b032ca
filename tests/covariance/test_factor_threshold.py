"""Factors with a sparse rest: equal to its formula, the same from tiles, and better than a threshold alone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

import svnn
from model_files import forge, read
from svnn import SVNNClassifier, SVNNRegressor, as_operator
from svnn.covariance import FactorThreshold, HardThreshold
from svnn.covariance.tiles import _factors as residual_tiles
from svnn.functional import LowRankPlusSparse, growth_ratio_factors, hard_threshold, universal_threshold
from svnn.operators import SumOperator

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

CASES = [
    FactorThreshold(),
    FactorThreshold(n_factors=2),
    FactorThreshold(n_factors=0),
    FactorThreshold(tau=2.0),
    FactorThreshold(tau=2.0, rule="soft"),
    FactorThreshold(tau="cv", random_state=0, n_splits=2),
    FactorThreshold(rule="scad", scale=1.0),
    FactorThreshold(rule="adaptive_lasso", psd="load"),
]
every = pytest.mark.parametrize("estimator", CASES, ids=str)


def planted(seed, n=120, t=150, r=3):
    """Data of r factors and residuals of which neighbours in pairs are correlated, and the true covariance."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((n, r))
    rest = np.eye(n)
    i = np.arange(0, n - 1, 2)
    rest[i, i + 1] = rest[i + 1, i] = 0.6
    truth = B @ B.T + rest
    return rng.multivariate_normal(np.zeros(n), truth, t), truth, rest


def test_it_is_its_formula():
    X, *_ = planted(0)
    fitted = FactorThreshold(n_factors=3).fit(X)
    sd, R = X.std(0), np.corrcoef(X.T)
    values, vectors = np.linalg.eigh(R)
    low_rank = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T * np.outer(sd, sd)
    rest = np.cov(X.T, bias=True) - low_rank
    size = np.sqrt(rest.diagonal())
    kept = hard_threshold(rest, universal_threshold(150, 120) * np.outer(size, size))
    np.testing.assert_allclose(fitted.loadings_ @ fitted.loadings_.T, low_rank, atol=1e-10)
    np.testing.assert_allclose(fitted.residual_covariance_, kept, atol=1e-10)
    np.testing.assert_allclose(fitted.covariance_, low_rank + kept, atol=1e-10)
    np.testing.assert_allclose(fitted.factors_.T @ fitted.factors_ / 150, np.eye(3), atol=1e-10)
    np.testing.assert_allclose((X - X.mean(0)).T @ fitted.factors_ / 150, fitted.loadings_, atol=1e-10)
    assert (fitted.loadings_[abs(fitted.loadings_).argmax(0), range(3)] > 0).all()


@every
@pytest.mark.parametrize("weighted", [False, True])
def test_the_tiles_give_the_same(estimator, weighted, kernels):
    X, *_ = planted(1)
    weight = np.random.default_rng(0).integers(0, 4, len(X)) if weighted else None
    a = clone(estimator).fit(X, sample_weight=weight)
    b = clone(estimator).set_params(dense_limit=0).fit(X, sample_weight=weight)
    assert isinstance(b.covariance_, LowRankPlusSparse) and sp.issparse(b.residual_covariance_)
    assert a.n_factors_ == b.n_factors_ and a.density_ == pytest.approx(b.density_)
    size = abs(a.covariance_).max()
    np.testing.assert_allclose(b.covariance_.toarray(), a.covariance_, rtol=1e-4, atol=1e-5 * size)
    np.testing.assert_array_equal(b.residual_covariance_.toarray() != 0, a.residual_covariance_ != 0)
    np.testing.assert_allclose(b.loadings_, a.loadings_, atol=1e-4 * abs(a.loadings_).max(initial=1))
    np.testing.assert_allclose(b.factors_, a.factors_, atol=1e-4)
    np.testing.assert_allclose(b.threshold_, a.threshold_, rtol=1e-6)
    np.testing.assert_allclose(b.location_, a.location_, atol=1e-6)


def test_values_of_nodes_and_tensors_on_tiles():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1, 2)) + rng.standard_normal((40, 60, 2))
    for estimator in (FactorThreshold(), FactorThreshold(tau="cv", random_state=0, n_splits=2)):
        a = clone(estimator).fit(X)
        b = clone(estimator).set_params(dense_limit=0).fit(torch.tensor(X))
        assert a.n_factors_ == 1 and a.factors_.shape == (80, 1) and isinstance(b.loadings_, torch.Tensor)
        np.testing.assert_allclose(b.covariance_.toarray(), a.covariance_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(b.factors_, a.factors_, atol=1e-4)


def test_many_samples_take_the_iterations(monkeypatch):
    X, *_ = planted(2)
    expected = FactorThreshold(dense_limit=0).fit(X)
    monkeypatch.setattr(residual_tiles, "_GRAM_LIMIT", 0)
    found = FactorThreshold(dense_limit=0).fit(X)
    np.testing.assert_allclose(found.loadings_, expected.loadings_, atol=1e-4)
    np.testing.assert_allclose(found.covariance_.toarray(), expected.covariance_.toarray(), atol=1e-4)


@pytest.mark.parametrize("r", [0, 1, 3])
@pytest.mark.parametrize("limit", [0, 4096])
def test_factors_are_counted(r, limit):
    found = [FactorThreshold(dense_limit=limit).fit(planted(seed, r=r)[0]).n_factors_ for seed in range(10)]
    assert np.mean(np.array(found) == r) >= 0.9


def test_counting_at_the_edges():
    assert growth_ratio_factors([1.0], 1.0, 1) == 0
    assert growth_ratio_factors([], 0.0, 0) == 0
    assert growth_ratio_factors([5.0, 0.0], 5.0, 5) in (0, 1)


def test_better_than_a_threshold_alone_on_three_factors():
    ratios, recall = [], []
    for seed in range(10):
        X, truth, rest = planted(seed)
        ours, hard = FactorThreshold().fit(X), HardThreshold().fit(X)
        ratios.append(np.linalg.norm(ours.covariance_ - truth) / np.linalg.norm(hard.covariance_ - truth))
        recall.append(np.mean(ours.residual_covariance_[rest != 0] != 0))
        assert np.mean(ours.residual_covariance_[rest == 0] != 0) < 0.01
    assert np.mean(ratios) < 0.75
    assert np.mean(recall) > 0.9


def test_the_operator_is_a_sum_and_the_matrix():
    X, *_ = planted(0)
    for limit in (0, 4096):
        fitted = FactorThreshold(dense_limit=limit).fit(X)
        for given in (fitted, fitted.parts_):
            op = as_operator(given)
            assert isinstance(op, SumOperator)
            dense = fitted.covariance_ if limit else fitted.covariance_.toarray()
            np.testing.assert_allclose(op.to_dense(), dense, atol=1e-10)
    C = fitted.parts_
    np.testing.assert_allclose(as_operator(C).norm(), np.linalg.norm(C.toarray(), 2))


def test_memory_does_not_grow_with_the_square():
    peaks = []
    for n in (2000, 8000):
        X = np.random.default_rng(0).standard_normal((20, 1)) + np.random.default_rng(1).standard_normal((20, n))
        tracemalloc.start()
        fitted = FactorThreshold(dense_limit=100, scale=3.0).fit(X)
        op = as_operator(fitted).normalized()
        op.filter(torch.ones(1, n, 1, dtype=torch.float64), torch.ones(3, 1, 1, dtype=torch.float64))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert fitted.residual_covariance_.nnz < 50 * n
    assert peaks[1] < 8000**2  # bytes: an eighth of the matrix
    assert peaks[1] < 8 * peaks[0]


@pytest.mark.parametrize("limit", [0, 4096])
@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_networks_train_save_and_load(kind, limit, tmp_path):
    X, *_ = planted(0, n=40)
    y = X[:, 0] if kind is SVNNRegressor else (X[:, 0] > 0).astype(int)
    covariance = FactorThreshold(dense_limit=limit) if limit == 0 else "factors"
    model = kind(covariance=covariance, use="covariance", max_epochs=3, members=2, random_state=0).fit(X, y)
    assert isinstance(model.operator_, SumOperator)
    assert isinstance(model.covariance_, LowRankPlusSparse if limit == 0 else np.ndarray)
    assert "edges" in repr(model) and "factor" in repr(model.covariance_estimator_)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = svnn.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert isinstance(again.operator_, SumOperator) and again.operator_.scale == model.operator_.scale
    assert type(again.covariance_) is type(model.covariance_)
    dense = [m.covariance_.toarray() if limit == 0 else m.covariance_ for m in (again, model)]
    np.testing.assert_array_equal(*dense)
    np.testing.assert_array_equal(again.covariance_estimator_.loadings_, model.covariance_estimator_.loadings_)
    moved = model.on(model.covariance_estimator_)
    np.testing.assert_allclose(moved.predict(X), model.predict(X), rtol=1e-5)


def test_the_default_network_takes_the_logarithm():
    X, *_ = planted(0, n=40)
    model = SVNNRegressor(covariance="factors", max_epochs=2, random_state=0).fit(X, X[:, 0])
    assert model.operator_.backend == "dense" and np.isfinite(model.predict(X)).all()


def test_distances_and_likelihoods_of_factors():
    X, *_ = planted(0, n=30)
    dense, parts = FactorThreshold(psd="load").fit(X), FactorThreshold(psd="load", dense_limit=0).fit(X)
    assert parts.score(X) == pytest.approx(dense.score(X), rel=1e-4)
    np.testing.assert_allclose(parts.mahalanobis(X), dense.mahalanobis(X), rtol=1e-3)
    assert parts.error_norm(dense.covariance_) < 1e-6
    np.testing.assert_allclose(parts.get_precision(), dense.get_precision(), rtol=1e-2, atol=1e-4)


def test_what_cannot_be_written_out_says_so():
    C = LowRankPlusSparse(np.ones((40_000, 1)), sp.eye_array(40_000))
    with pytest.raises(ValueError, match="low-rank plus sparse matrix of 40000 features"):
        as_operator(C, backend="dense")


@pytest.mark.parametrize("limit", [0, 4096])
def test_too_many_factors_are_named(limit):
    X = np.random.default_rng(0).standard_normal((10, 30))
    with pytest.raises(ValueError, match="n_factors=20 is more than the 9 components"):
        FactorThreshold(n_factors=20, dense_limit=limit).fit(X)
    with pytest.raises(ValueError, match='n_factors must be "auto" or an integer >= 0'):
        FactorThreshold(n_factors=-1, dense_limit=limit).fit(X)


def test_all_components_leave_nothing():
    X = np.random.default_rng(0).standard_normal((10, 30))
    for limit in (0, 4096):
        fitted = FactorThreshold(n_factors=9, dense_limit=limit).fit(X)
        C = fitted.covariance_.toarray() if limit == 0 else fitted.covariance_
        np.testing.assert_allclose(C, np.cov(X.T, bias=True), atol=1e-5)
        rest = fitted.residual_covariance_
        assert (rest.toarray() if limit == 0 else rest)[~np.eye(30, dtype=bool)].max() == 0


def test_missing_values_have_factors_but_no_scores():
    X, *_ = planted(0)
    X[::7, 3] = np.nan
    fitted = FactorThreshold(missing="pairwise").fit(X)
    assert fitted.n_factors_ == 3 and not hasattr(fitted, "factors_")
    with pytest.raises(ValueError, match='tau="cv" of FactorThreshold needs data without NaN'):
        FactorThreshold(missing="pairwise", tau="cv").fit(X)


def test_forged_sums_are_refused(tmp_path):
    X, *_ = planted(0, n=40)
    path = tmp_path / "model.safetensors"
    covariance = FactorThreshold(dense_limit=0)
    SVNNRegressor(covariance=covariance, use="covariance", max_epochs=1, members=1, random_state=0).fit(
        X, X[:, 0]
    ).save(path)
    tensors, header = read(path)
    stored = header["shift"]["operator"]
    low_rank, csr = stored["parts"]
    for parts in ([], [stored], [csr, low_rank], [low_rank], 3, [{**low_rank, "backend": "gpu"}, csr]):
        shift = header["shift"] | {"operator": {**stored, "parts": parts}}
        forge(path, tensors, header | {"shift": shift})
        if parts == [low_rank]:
            assert svnn.load(path).operator_.shape == (40, 40)  # a sum of one, which is well formed
            continue
        with pytest.raises(svnn.ModelFileError, match="is damaged"):
            svnn.load(path)
    residual = header["shift"]["covariance"]["factored"]["residual"]
    for factored in ({}, {"loadings": 3, "residual": residual}, {"other": 1}):
        forge(path, tensors, header | {"shift": header["shift"] | {"covariance": {"factored": factored}}})
        with pytest.raises(svnn.ModelFileError, match="is damaged"):
            svnn.load(path)
