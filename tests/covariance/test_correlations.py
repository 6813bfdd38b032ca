"""Correlations by ranks and biweights: the numbers of scipy, the same from tiles, and better where Pearson's fail."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from strategies import seeds
from svnn import SVNNRegressor
from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold, tiles
from svnn.functional import kendall_tau, sample_moments
from svnn.functional.stand_ins import average_ranks, weighted_median
from svnn.testing import check_covariance

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

KINDS = ("spearman", "kendall", "biweight")
TILED = ("spearman", "biweight")
kinds = pytest.mark.parametrize("kind", KINDS)
tiled_kinds = pytest.mark.parametrize("kind", TILED)
SPARSIFIERS = [
    HardThreshold(),
    HardThreshold(tau=0.1),
    HardThreshold(tau="cv", n_splits=2, random_state=0),
    SoftThreshold(density=0.3),
    HardThreshold(top_k=2),
    AdaptiveThreshold(delta=1.0, rule="soft"),
    ACV(density=0.4, random_state=0),
    RCV(p=0.4, random_state=0),
]


def correlations(C):
    sd = np.sqrt(np.diag(C))
    return C / np.outer(sd, sd)


def tied_data(seed=0, t=50, n=6):
    """Heavy tails, whole numbers and a yes-no column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (t, n)) @ rng.standard_normal((n, n))
    X[:, 1] = X[:, 1].round()
    X[:, 2] = X[:, 2] > 0
    return X


# -- the numbers of others ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 1e150, 1e-150])
def test_spearman_is_scipys(seed, scale):
    X = tied_data(seed)
    fitted = SampleCovariance(correlation="spearman").fit(X * scale)
    np.testing.assert_allclose(correlations(fitted.covariance_), scipy.stats.spearmanr(X).statistic, atol=1e-10)
    np.testing.assert_allclose(fitted.covariance_.diagonal(), (X * scale).var(0))
    np.testing.assert_allclose(fitted.location_, (X * scale).mean(0), atol=1e-12 * scale)


@pytest.mark.parametrize("seed", range(3))
def test_kendall_is_scipys(seed):
    X = tied_data(seed)
    expected = np.array([[scipy.stats.kendalltau(a, b).statistic for a in X.T] for b in X.T])
    np.testing.assert_allclose(kendall_tau(X), expected, atol=1e-10)
    np.testing.assert_allclose(kendall_tau(torch.tensor(X)), expected, atol=1e-10)
    C = SampleCovariance(correlation="kendall").fit(X).covariance_
    np.testing.assert_allclose(correlations(C), np.sin(np.pi / 2 * expected), atol=1e-10)
    np.testing.assert_allclose(C.diagonal(), X.var(0))


def test_values_far_smaller_than_the_mean_keep_their_ranks():
    """Without the mean, the two small ones are equal up to rounding."""
    X = np.array([[1e-20, 3.0], [2e-20, 5.0], [1e3, 4.0], [1e4, 7.0]])
    expected = scipy.stats.spearmanr(X).statistic
    for limit in (0, 10):
        C = HardThreshold(tau=0.0, correlation="spearman", dense_limit=limit, sparse_output=False).fit(X).covariance_
        assert correlations(C)[0, 1] == pytest.approx(expected, abs=1e-6)


def test_biweight_by_hand(rng):
    X = rng.standard_t(2, (41, 3))
    rest = X - np.median(X, 0)
    u = rest / (9 * np.median(abs(rest), 0))
    inside = abs(u) < 1
    kept = np.where(inside, rest * (1 - u**2) ** 2, 0)
    slope = np.where(inside, (1 - u**2) * (1 - 5 * u**2), 0)
    fitted = SampleCovariance(correlation="biweight").fit(X)
    np.testing.assert_allclose(correlations(fitted.covariance_), np.corrcoef(kept.T), atol=1e-12)
    np.testing.assert_allclose(fitted.covariance_.diagonal(), 41 * (kept**2).sum(0) / slope.sum(0) ** 2)
    np.testing.assert_array_equal(fitted.location_, np.median(X, 0))


def test_biweight_is_like_pearson_for_normal_data(rng):
    L = np.tril(rng.uniform(-1, 1, (4, 4)))
    C = SampleCovariance(correlation="biweight").fit(rng.standard_normal((20_000, 4)) @ L.T).covariance_
    np.testing.assert_allclose(C, L @ L.T, atol=0.05)


def test_kendall_finds_the_correlation_of_normal_data_through_monotone_functions(rng):
    Z = rng.standard_normal((4000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    C = SampleCovariance(correlation="kendall").fit(np.exp(3 * Z)).covariance_
    assert correlations(C)[0, 1] == pytest.approx(0.6, abs=0.04)


def test_a_feature_of_mostly_equal_values_is_left_as_it_is_by_the_biweight(rng):
    X = rng.standard_normal((40, 2))
    X[:30, 0] = 5.0
    fitted = SampleCovariance(correlation="biweight").fit(X)
    assert fitted.covariance_[0, 0] == pytest.approx(X[:, 0].var())
    assert fitted.location_[0] == pytest.approx(X[:, 0].mean())


# -- properties -----------------------------------------------------------------------------------


@given(seeds, st.sampled_from(["spearman", "kendall"]), st.sampled_from([np.exp, np.cbrt, np.arctan]))
def test_monotone_functions_change_no_rank_correlation(seed, kind, function):
    X = np.random.default_rng(seed).integers(-4, 5, (20, 4)) / 2 + 0.0
    X[0], X[1] = -3, 3  # no column is constant
    before = SampleCovariance(correlation=kind).fit(X).covariance_
    after = SampleCovariance(correlation=kind).fit(function(X)).covariance_
    np.testing.assert_allclose(correlations(after), correlations(before), atol=1e-10)


@given(seeds, st.sampled_from(KINDS))
def test_the_order_of_features_and_rows_does_not_matter(seed, kind):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (25, 5)).round(1)
    features, rows = rng.permutation(5), rng.permutation(25)
    C = SampleCovariance(correlation=kind).fit(X).covariance_
    permuted = SampleCovariance(correlation=kind).fit(X[rows][:, features]).covariance_
    np.testing.assert_allclose(permuted, C[np.ix_(features, features)], atol=1e-9 * abs(C).max())


@given(seeds, st.sampled_from(KINDS))
def test_integer_weights_repeat_rows(seed, kind):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_t(3, (20, 4)).round(1), rng.integers(0, 4, 20)
    w[:4] = 1
    a = SampleCovariance(correlation=kind).fit(X, sample_weight=w)
    b = SampleCovariance(correlation=kind).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(a.covariance_, b.covariance_, atol=1e-9 * abs(b.covariance_).max())
    np.testing.assert_allclose(a.location_, b.location_, atol=1e-9)


@given(seeds, st.sampled_from(TILED), st.sampled_from(SPARSIFIERS[:-1]), st.booleans())
def test_tiles_give_what_the_matrix_gives(seed, kind, estimator, weighted):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (30, 12)) + rng.standard_normal((30, 1))
    X[:, :3] = X[:, :3].round()
    X[:, 4] = 7.0
    w = rng.integers(0, 3, 30) if weighted else None
    a = clone(estimator).set_params(correlation=kind).fit(X, sample_weight=w)
    b = clone(estimator).set_params(correlation=kind, dense_limit=0).fit(X, sample_weight=w)
    A = a.covariance_
    np.testing.assert_allclose(b.covariance_.toarray(), A, rtol=1e-4, atol=2e-6 * abs(A).max())
    np.testing.assert_allclose(b.location_, a.location_, atol=1e-6)


@tiled_kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_of_node_values_and_tensors(kind, dtype, rng):
    X = rng.standard_t(3, (20, 7, 4)).astype(dtype)
    for data in (X, torch.tensor(X)):
        a = HardThreshold(tau=0.0, correlation=kind).fit(data).covariance_
        b = HardThreshold(tau=0.0, correlation=kind, dense_limit=0, sparse_output=False).fit(data).covariance_
        assert type(a) is type(b) and a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), atol=1e-5 * float(abs(a).max()))
        rows = X.transpose(0, 2, 1).reshape(-1, 7)
        np.testing.assert_allclose(
            np.asarray(a), SampleCovariance(correlation=kind).fit(rows).covariance_, rtol=1e-4, atol=1e-4
        )


@tiled_kinds
def test_tiles_without_numba_and_with_a_file(kind, rng, monkeypatch):
    X = rng.standard_t(3, (40, 150))
    expected = HardThreshold(tau=1.0, correlation=kind).fit(X).covariance_
    monkeypatch.setenv("SVNN_NUMBA", "0")
    found = HardThreshold(tau=1.0, correlation=kind, dense_limit=0, memory_limit="1MB").fit(X).covariance_
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5 * abs(expected).max())


def test_ranks_of_ties_by_hand():
    rows, w = np.array([[2.0, 1.0, 2.0, 3.0]]), np.array([1.0, 2.0, 3.0, 1.0])
    np.testing.assert_array_equal(average_ranks(rows, w), [[4.0, 1.0, 4.0, 6.5]])
    np.testing.assert_array_equal(average_ranks(torch.tensor(rows), torch.tensor(w)), [[4.0, 1.0, 4.0, 6.5]])


@given(seeds, st.integers(1, 12))
def test_medians_are_numpys(seed, m):
    rng = np.random.default_rng(seed)
    rows, w = rng.integers(0, 9, (3, m)) / 1.0, rng.integers(1, 4, m)
    expected = np.median(np.repeat(rows, w, axis=1), 1)
    np.testing.assert_array_equal(weighted_median(rows, w / 7), expected)
    np.testing.assert_array_equal(weighted_median(torch.tensor(rows), torch.tensor(w / 7)), expected)


# -- the contract ---------------------------------------------------------------------------------


def checked(kind):
    fine = [SampleCovariance(), *SPARSIFIERS]
    return [clone(e).set_params(correlation=kind) for e in fine if kind != "kendall" or e is not SPARSIFIERS[5]]


@pytest.mark.parametrize("estimator", [e for kind in KINDS for e in checked(kind)], ids=str)
def test_every_estimator_passes_the_check_for_covariances(estimator):
    skip = ["permutation"] if isinstance(estimator, (ACV, RCV)) else []
    skip += ["scaling"] if getattr(estimator, "tau", None) == 0.1 else []
    check_covariance(estimator, tensors=True, skip=skip, tolerance=1e-9)


@tiled_kinds
def test_the_sparsifiers_threshold_the_correlations_of_the_kind(kind):
    X = tied_data(t=200)
    R = correlations(SampleCovariance(correlation=kind).fit(X).covariance_)
    fitted = HardThreshold(correlation=kind).fit(X)
    np.testing.assert_array_equal(fitted.covariance_ != 0, abs(R) >= fitted.threshold_)


@kinds
def test_missing_values_are_left_out_feature_by_feature(kind, rng):
    X = tied_data(t=60)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 0] = np.arange(60.0)  # one pair of features without gaps in one of them
    with pytest.raises(ValueError, match="X contains NaN"):
        SampleCovariance(correlation=kind).fit(X)
    for data in (X, torch.tensor(X)):
        C = np.asarray(SampleCovariance(correlation=kind, missing="pairwise").fit(data).covariance_)
        assert np.isfinite(C).all()
        if kind != "biweight":
            np.testing.assert_allclose(C.diagonal(), np.nanvar(X, 0))
        if kind == "kendall":
            both = ~np.isnan(X[:, [3, 4]]).any(1)
            expected = scipy.stats.kendalltau(X[both, 3], X[both, 4]).statistic
            np.testing.assert_allclose(correlations(C)[3, 4], np.sin(np.pi / 2 * expected), atol=1e-10)
    if kind == "spearman":  # ranks among the known values of each feature, then pairwise moments
        ranks = scipy.stats.rankdata(X, axis=0, nan_policy="omit")
        expected = correlations(sample_moments(ranks, missing="pairwise").covariance)
        np.testing.assert_allclose(correlations(C), expected, atol=1e-10)


@kinds
@pytest.mark.parametrize("estimator", [SampleCovariance(), HardThreshold(), ACV()], ids=str)
def test_partial_fit_says_the_way_out(estimator, kind, rng):
    estimator = clone(estimator).set_params(correlation=kind)
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(AttributeError, match=rf"correlation='{kind}' .*fit all rows at once, or use"):
        estimator.partial_fit(rng.standard_normal((5, 3)))


@kinds
def test_a_halflife_is_a_weight(kind, rng):
    X = rng.standard_t(3, (30, 4))
    for family in (SampleCovariance, HardThreshold):
        a = family(correlation=kind, halflife=10).fit(X).covariance_
        b = family(correlation=kind).fit(X, sample_weight=0.5 ** (np.arange(29, -1, -1) / 10)).covariance_
        np.testing.assert_allclose(a, b, atol=1e-12 * abs(b).max())


def test_what_kendall_cannot_do_is_named(rng):
    X = rng.standard_normal((20, 6))
    with pytest.raises(ValueError, match=r'correlation="kendall" needs all pairs .* dense_limit=5; use .*"spearman"'):
        HardThreshold(correlation="kendall", dense_limit=5).fit(X)
    with pytest.raises(ValueError, match=r'AdaptiveThreshold .* correlation="kendall" does not have; use .*"spearman"'):
        AdaptiveThreshold(correlation="kendall").fit(X)
    with pytest.raises(ValueError, match="correlation must be one of"):
        HardThreshold(correlation="Spearman").fit(X)


@tiled_kinds
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named_in_tiles(kind, bad, rng):
    X = rng.standard_normal((20, 6))
    X[3, 4] = bad
    with pytest.raises(ValueError, match=r"X contains (NaN|inf) \(feature 4\)"):
        HardThreshold(correlation=kind, dense_limit=0).fit(X)


def test_reading_tiles_needs_the_kind(rng):
    """So that no estimator forgets it."""
    with pytest.raises(TypeError, match="kind"):
        tiles.read(rng.standard_normal((20, 6)), None, correlations=True, limit=10**9)


@kinds
def test_networks_take_them(kind, rng, tmp_path):
    X = rng.standard_t(3, (60, 5))
    model = SVNNRegressor(covariance=HardThreshold(correlation=kind), max_epochs=2, random_state=0).fit(X, X[:, 0])
    model.save(tmp_path / "model")
    from svnn import load

    loaded = load(tmp_path / "model")
    assert loaded.covariance.correlation == kind
    np.testing.assert_allclose(loaded.predict(X), model.predict(X))


# -- data made for them ---------------------------------------------------------------------------

N, T = 30, 120


def sparse_truth():
    """Ten groups of three features with correlations 0.6."""
    C = np.kron(np.eye(N // 3), np.full((3, 3), 0.6))
    np.fill_diagonal(C, 1.0)
    return C


def support_score(C, truth):
    """F1 of the edges."""
    found, right = (np.triu(M != 0, 1) for M in (C, truth))
    return 2 * (found & right).sum() / (found.sum() + right.sum())


def mean_score(kind, draw):
    truth = sparse_truth()
    scores = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = draw(rng, rng.multivariate_normal(np.zeros(N), truth, T))
        scores.append(support_score(HardThreshold(correlation=kind).fit(X).covariance_, truth))
    return np.mean(scores)


def heavy_tails(rng, Z):
    """A multivariate t distribution with 2 degrees of freedom."""
    return Z / np.sqrt(rng.chisquare(2, (T, 1)) / 2)


def bad_cells(rng, Z):
    """One value in fifty is an outlier."""
    return np.where(rng.random(Z.shape) < 0.02, 50 * rng.standard_normal(Z.shape), Z)


def monotone(rng, Z):
    return np.exp(2 * Z)


MADE_FOR = [(kind, draw) for kind in KINDS for draw in (heavy_tails, bad_cells)]


@pytest.mark.parametrize(("kind", "draw"), [*MADE_FOR, ("spearman", monotone), ("kendall", monotone)])
def test_edges_are_found_where_pearson_fails(kind, draw):
    ours, usual = mean_score(kind, draw), mean_score("pearson", draw)
    assert ours > usual + 0.1, (ours, usual)
