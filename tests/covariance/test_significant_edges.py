"""Significant edges: equal to the tests of scipy, the same on tiles, and as many false edges as promised."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
import torch
from sklearn.base import clone

from svnn.covariance import HardThreshold, SignificantEdges
from svnn.covariance._significant_edges import neighbourhoods
from svnn.functional.correlations import (
    METHODS,
    correlation_p_values,
    critical_correlation,
    harmonic,
    largest_significant,
    pairwise_correlations,
)

methods = pytest.mark.parametrize("method", METHODS)


def planted(seed, n=40, t=60, r=0.5):
    """Pairs of neighbours with one correlation, all else independent; the data and the true edges."""
    truth = np.eye(n)
    i = np.arange(0, n // 2, 2)
    truth[i, i + 1] = truth[i + 1, i] = r
    return np.random.default_rng(seed).multivariate_normal(np.zeros(n), truth, t), truth - np.eye(n) > 0


def chain(seed, n=12, t=200, strength=0.4):
    """A Gaussian whose precision is a chain, and its edges."""
    precision = np.eye(n) + strength * (np.eye(n, k=1) + np.eye(n, k=-1))
    X = np.random.default_rng(seed).multivariate_normal(np.zeros(n), np.linalg.inv(precision), t)
    return X, abs(np.eye(n, k=1) + np.eye(n, k=-1)) > 0


def upper(C):
    dense = C.toarray() if sp.issparse(C) else np.asarray(C)
    return dense[np.triu_indices(len(dense), 1)]


def test_p_values_are_those_of_scipy():
    X, _ = planted(0)
    p = correlation_p_values(np.corrcoef(X.T), 58)
    for i, j in ((0, 1), (0, 5), (7, 30)):
        assert p[i, j] == pytest.approx(scipy.stats.pearsonr(X[:, i], X[:, j]).pvalue, rel=1e-9)
    assert correlation_p_values([1.0, -1.0], 10).tolist() == [0.0, 0.0]
    assert critical_correlation(float(correlation_p_values(0.37, 20)), 20) == pytest.approx(0.37)
    assert harmonic(2000) == pytest.approx((1 / np.arange(1, 2001)).sum(), rel=1e-12)


@pytest.mark.parametrize("method", ["bh", "by"])
def test_the_cut_is_that_of_scipy(method):
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = np.concatenate([rng.random(80), rng.random(20) ** 6])
        expected = scipy.stats.false_discovery_control(p, method=method) <= 0.1
        np.testing.assert_array_equal(p <= largest_significant(p, 0.1, method, 100), expected)
    assert largest_significant([0.5, 0.9], 0.05, method, 2) == -1
    assert largest_significant([], 0.05, method, 0) == -1


@methods
def test_edges_and_their_p_values(method):
    X, _ = planted(0)
    fitted = SignificantEdges(method=method, alpha=0.1).fit(X)
    p = np.array([scipy.stats.pearsonr(X[:, i], X[:, j]).pvalue for i, j in zip(*np.triu_indices(40, 1), strict=True)])
    m = len(p)
    adjusted = p * m if method == "bonferroni" else scipy.stats.false_discovery_control(p, method=method)
    np.testing.assert_array_equal(upper(fitted.covariance_) != 0, adjusted <= 0.1)
    found = fitted.p_values_
    assert isinstance(found, sp.csr_array) and found.nnz == 2 * (adjusted <= 0.1).sum()
    np.testing.assert_allclose(upper(found)[adjusted <= 0.1], p[adjusted <= 0.1], rtol=1e-7)
    np.testing.assert_array_equal(found.toarray() > 0, (fitted.covariance_ != 0) & ~np.eye(40, dtype=bool))
    np.testing.assert_allclose(fitted.covariance_.diagonal(), X.var(0))


@methods
@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_tiles_give_the_same(method, alpha, weighted, kernels):
    X, _ = planted(1, n=300, t=50)
    X[:, 5] = 1.0  # a constant takes part in no test
    weight = np.random.default_rng(0).integers(0, 4, 50) if weighted else None
    estimator = SignificantEdges(method=method, alpha=alpha)
    a = clone(estimator).fit(X, sample_weight=weight)
    b = clone(estimator).set_params(dense_limit=0).fit(X, sample_weight=weight)
    np.testing.assert_array_equal(b.covariance_.toarray() != 0, a.covariance_ != 0)
    np.testing.assert_allclose(b.covariance_.toarray(), a.covariance_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(b.p_values_.indices, a.p_values_.indices)
    np.testing.assert_allclose(b.p_values_.data, a.p_values_.data, rtol=1e-3, atol=1e-12)
    if method != "bonferroni":
        kernels.must_have_run("histogram")


def test_tiles_without_any_and_with_all_edges():
    X = np.random.default_rng(0).standard_normal((30, 200))
    none = SignificantEdges(alpha=1e-9, dense_limit=0).fit(X)
    assert none.density_ == 0 and none.p_values_.nnz == 0
    same = SignificantEdges(dense_limit=0).fit(X[:, :1] + 1e-3 * X)
    assert same.density_ == 1


@pytest.mark.parametrize("limit", [0, 4096])
def test_weights_count_as_effective_samples(limit):
    X, _ = planted(0, n=4)
    weight = np.random.default_rng(0).random(60)
    n = weight.sum() ** 2 / (weight**2).sum()
    fitted = SignificantEdges(alpha=0.9, dense_limit=limit).fit(X, sample_weight=weight)
    C = np.cov(X.T, aweights=weight, bias=True)
    r = C[0, 1] / np.sqrt(C[0, 0] * C[1, 1])
    expected = 2 * scipy.stats.t.sf(abs(r) * np.sqrt((n - 2) / (1 - r**2)), n - 2)
    assert fitted.p_values_[0, 1] == pytest.approx(expected, rel=1e-4)


def test_tensors_and_missing_values():
    X, _ = planted(0, r=0.8)
    assert isinstance(SignificantEdges().fit(torch.tensor(X)).covariance_, torch.Tensor)
    X[::9, 0] = np.nan
    fitted = SignificantEdges(missing="pairwise").fit(X)
    known = ~np.isnan(X[:, 0])
    assert 50 < known.sum() < 55
    assert fitted.p_values_[2, 3] == pytest.approx(scipy.stats.pearsonr(X[:, 2], X[:, 3]).pvalue, rel=1e-7)
    expected = scipy.stats.pearsonr(X[known, 0], X[known, 1]).pvalue
    assert fitted.p_values_[0, 1] == pytest.approx(expected, rel=1e-7)


def gaps(seed, t=60, n=15, missing=0.6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((t, n))
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("spoil", ["nothing", "units", "outliers", "constants", "weights", "float32"])
def test_missing_values_are_tested_on_the_common_rows(spoil):
    X, weight = gaps(3, t=40, n=8), np.ones(40)
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, X[:, 1] + np.arange(40) / 20)
    if spoil == "units":
        X[:, [2, 5]] += 1e3, -1e5
        X = X * 10.0 ** np.arange(-60, 100, 20)
    elif spoil == "outliers":  # where the other feature is missing: they say nothing about the two
        X[np.flatnonzero(np.isnan(X[:, 1]))[:2], 0], X[np.flatnonzero(np.isnan(X[:, 0]))[0], 1] = 1e14, 1e9
    elif spoil == "constants":
        X[~np.isnan(X[:, 1]) & ~np.isnan(X[:, 0]), 0] = 0.1
        X[:, 2] = 3.3
    elif spoil == "weights":
        weight[::3] = 0
    elif spoil == "float32":
        X = X.astype(np.float32)
    R = pairwise_correlations(X[weight > 0], weight[weight > 0])
    fitted = SignificantEdges(missing="pairwise", alpha=0.999999, method="bonferroni")
    fitted.fit(X, sample_weight=weight)
    np.testing.assert_array_equal(R, R.T)
    seen = 0
    for i, j in zip(*np.triu_indices(8, 1), strict=True):
        common = ~np.isnan(X[:, [i, j]]).any(1) & (weight > 0)
        a, b = X[common, i].astype(float), X[common, j].astype(float)
        if spoil == "constants" and (2 in (i, j) or (i, j) == (0, 1)):
            assert R[i, j] == 0
        elif common.sum() > 2:
            r, p = scipy.stats.pearsonr(a, b)
            assert R[i, j] == pytest.approx(r, abs=1e-7)
            if p < 0.03:  # 28 tests
                seen += 1
                assert fitted.p_values_[i, j] == pytest.approx(p, rel=1e-5)
    assert seen or spoil in ("constants", "weights")


def test_noise_with_missing_values_has_no_edges():
    estimator = SignificantEdges(missing="pairwise", method="bonferroni")
    found = sum(estimator.fit(gaps(seed)).density_ > 0 for seed in range(100))
    assert found <= 11  # the binomial distribution with probability 0.05 is above that once in 200


def test_pairs_of_two_common_rows_are_no_edges():
    X = np.full((12, 4), np.nan)
    X[:6, 0], X[4:, 1], X[:, 2] = np.arange(6), np.arange(8), np.random.default_rng(0).standard_normal(12)
    X[10:, 3] = 1, 5
    with pytest.warns(UserWarning, match="too few samples"):
        fitted = SignificantEdges(missing="pairwise", alpha=0.9).fit(X)
    assert fitted.covariance_[0, 1] == 0 == fitted.covariance_[1, 3]


def rates(estimator, draw, draws):
    """The mean share of false edges among those found, its standard error, and the share of true edges found."""
    false, power = [], []
    for seed in range(draws):
        X, edges = draw(seed)
        C = clone(estimator).fit(X).covariance_
        found, true = upper(C) != 0, upper(edges)
        false.append((found & ~true).sum() / max(found.sum(), 1))
        power.append((found & true).sum() / true.sum())
    return np.mean(false), np.std(false) / np.sqrt(draws), np.mean(power)


@methods
def test_the_share_of_false_edges_is_at_most_alpha(method):
    alpha = 0.1
    false, error, power = rates(SignificantEdges(alpha=alpha, method=method), planted, 200)
    assert false <= alpha + 3 * error
    assert power > 0.5
    if method == "bh":
        assert false > alpha / 2  # the level is used


def test_false_edges_of_partial_correlations():
    estimator = SignificantEdges(partial=True, alpha=0.1)
    false, error, power = rates(estimator, chain, 200)
    assert false <= 0.1 + 3 * error and power > 0.9


def test_better_than_a_threshold_at_finding_edges():
    """In the harmonic mean of the shares of true edges found, and of edges found that are true."""
    scores = []
    for seed in range(20):
        X, edges = planted(seed, t=60)
        row = []
        for estimator in (SignificantEdges(), HardThreshold()):
            found, true = upper(estimator.fit(X).covariance_) != 0, upper(edges)
            row.append(2 * (found & true).sum() / (found.sum() + true.sum()))
        scores.append(row)
    ours, hard = np.mean(scores, axis=0)
    assert ours > hard + 0.1


def test_partial_correlations_are_those_of_regressions():
    X, _ = chain(0, n=6, t=50)
    fitted = SignificantEdges(partial=True, alpha=0.99).fit(X)
    others = np.column_stack([np.ones(50), X[:, 2:]])
    rest = [X[:, k] - others @ np.linalg.lstsq(others, X[:, k], rcond=None)[0] for k in (0, 1)]
    r = np.corrcoef(rest)[0, 1]
    degrees = 50 - 2 - 4
    expected = 2 * scipy.stats.t.sf(abs(r) * np.sqrt(degrees / (1 - r**2)), degrees)
    assert fitted.p_values_[0, 1] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(fitted.covariance_[0, 1], np.cov(X.T, bias=True)[0, 1])


@pytest.mark.parametrize("rule", ["and", "or"])
def test_neighbourhoods_where_samples_are_few(rule):
    hits, extra = [], []
    for seed in range(5):
        X, edges = chain(seed, n=60, t=59, strength=0.45)
        fitted = SignificantEdges(partial=True, rule=rule).fit(X)
        assert not hasattr(fitted, "p_values_")
        found, true = upper(fitted.covariance_) != 0, upper(edges)
        hits.append((found & true).sum() / true.sum())
        extra.append((found & ~true).sum())
    assert np.mean(hits) > (0.2 if rule == "and" else 0.4)
    assert np.mean(extra) < 1


def test_neighbourhoods_solve_their_lassos():
    X, _ = chain(0, n=8, t=100)
    Z = (X - X.mean(0)) / X.std(0)
    both, either = (neighbourhoods(Z, 100, 0.05, rule) for rule in ("and", "or"))
    assert (both <= either).all() and (both == both.T).all() and not either.diagonal().any()
    penalty = -scipy.stats.norm.ppf(0.05 / (2 * 64)) / 10
    from sklearn.linear_model import Lasso

    for i in range(8):
        others = np.delete(np.arange(8), i)
        chosen = Lasso(alpha=penalty, fit_intercept=False).fit(Z[:, others], Z[:, i]).coef_ != 0
        assert (both[i, others] <= chosen).all() and (chosen <= either[i, others]).all()


def test_constants_and_weights_in_partial_tests():
    X, _ = chain(0, n=60, t=59)
    X[:, 3] = 2.0
    weight = np.random.default_rng(0).integers(0, 3, 59)
    for rows in (X, np.tile(X, (4, 1))):
        C = SignificantEdges(partial=True).fit(rows, sample_weight=np.resize(weight, len(rows))).covariance_
        assert not C[3].any() and np.isfinite(C).all()


@pytest.mark.parametrize("limit", [0, 4096])
def test_what_cannot_be_tested_is_named(limit):
    X, _ = planted(0, n=5)
    with pytest.raises(ValueError, match="needs more than 2 samples to test a correlation, got 2"):
        SignificantEdges(dense_limit=limit).fit(X[:2])
    for bad in (0, 1, -0.1, np.nan, "5%", True):
        with pytest.raises(ValueError, match="alpha must be"):
            SignificantEdges(alpha=bad, dense_limit=limit).fit(X)
    with pytest.raises(ValueError, match="method must be one of"):
        SignificantEdges(method="holm", dense_limit=limit).fit(X)


def test_partial_tests_have_a_limit():
    X, _ = planted(0, n=5)
    with pytest.raises(ValueError, match="partial=True looks at all 5 features at once, more than dense_limit=4"):
        SignificantEdges(partial=True, dense_limit=4).fit(X)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="needs data without NaN"):
        SignificantEdges(partial=True, missing="pairwise").fit(X)


def test_tests_of_correlations_go_on():
    X, _ = planted(0)
    pieces = SignificantEdges().partial_fit(X[:20]).partial_fit(X[20:])
    whole = SignificantEdges().fit(X)
    np.testing.assert_allclose(pieces.covariance_, whole.covariance_)
    np.testing.assert_allclose(pieces.p_values_.toarray(), whole.p_values_.toarray(), rtol=1e-6)
    growing = SignificantEdges()
    for k in range(3):  # of one and of two rows nothing is significant
        growing.partial_fit(X[k : k + 1])
        assert k == 2 or (growing.p_values_.nnz == 0 and growing.density_ == 0)
    np.testing.assert_allclose(growing.covariance_, SignificantEdges().fit(X[:3]).covariance_)
    with pytest.raises(AttributeError, match=r"partial=True needs all rows.*use partial=False"):
        SignificantEdges(partial=True).partial_fit(X)
