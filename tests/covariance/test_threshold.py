from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import densities, seeds
from svnn import functional as F
from svnn.covariance import AdaptiveThreshold, HardThreshold, SoftThreshold
from svnn.datasets import make_sparse_covariance


def data(seed, t=40, n=8):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((t, 1)) + rng.standard_normal((t, n))) * rng.uniform(0.1, 10, n)


@given(seeds)
def test_a_number_is_the_papers_tau(seed):
    X = data(seed)
    C = np.cov(X.T, ddof=0)
    for estimator, rule in ((HardThreshold, F.hard_threshold), (SoftThreshold, F.soft_threshold)):
        fitted = estimator(tau=3.0).fit(X)
        assert fitted.threshold_ == pytest.approx(3 / np.sqrt(40))
        np.testing.assert_allclose(fitted.covariance_, rule(C, 3 / np.sqrt(40)), atol=1e-12)


@pytest.mark.parametrize("dense_limit", [4096, 0])
def test_a_covariance_at_the_threshold_is_kept(dense_limit):
    """Signs whose covariances are exactly 1/2: as large as tau / sqrt(t) with 16 rows and tau = 2."""
    first = np.repeat([1.0, -1.0], 8)
    second = first * np.tile([1.0, 1.0, 1.0, -1.0], 4)
    X = np.stack([first, second, -second], 1)
    for tau, kept in ((2.0, 3), (2.001, 1)):
        C = HardThreshold(tau=tau, dense_limit=dense_limit, sparse_output=False).fit(X).covariance_
        assert np.count_nonzero(np.triu(C, 1)) == kept
    C = SoftThreshold(tau=2.0, dense_limit=dense_limit, sparse_output=False).fit(X).covariance_
    np.testing.assert_allclose(C[np.triu_indices(3, 1)], [0, 0, -0.5], atol=1e-7)


@given(seeds, densities)
def test_density_is_exact(seed, density):
    X = data(seed)
    for estimator in (HardThreshold, SoftThreshold):
        fitted = estimator(density=density).fit(X)
        assert np.count_nonzero(fitted.covariance_) == 8 + 2 * round(density * 28)
        assert fitted.density_ == pytest.approx(2 * round(density * 28) / 56)


def test_density_is_exact_with_ties():
    X = np.tile(np.array([[1.0, 1, 1, 1], [-1, -1, -1, -1]]), (5, 1))  # every covariance is 1
    for estimator in (HardThreshold, SoftThreshold):
        assert np.count_nonzero(estimator(density=0.5).fit(X).covariance_) == 4 + 2 * 3


@pytest.mark.parametrize("dense_limit", [0, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=seeds, density=st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_density_is_exact_on_binary_data(dense_limit, dtype, seed, density):
    """Covariances of zeros and ones are tied, exactly or up to rounding; no kept one may become zero."""
    rng = np.random.default_rng(seed)
    X = (rng.random((37, 60)) < 0.3).astype(dtype)  # 37 is prime: no covariance is exactly zero
    kept = round(density * 1770)
    limits = {"dense_limit": dense_limit, "sparse_output": False}
    hard, soft = (e(density=density, **limits).fit(X) for e in (HardThreshold, SoftThreshold))
    for fitted in (hard, soft):
        assert fitted.density_ == 2 * kept / (60 * 59)
        off = fitted.covariance_ - np.diag(fitted.covariance_.diagonal())
        assert np.count_nonzero(off) == 2 * kept
    np.testing.assert_array_equal(hard.covariance_ != 0, soft.covariance_ != 0)
    moduli = np.abs(hard.covariance_[np.triu_indices(60, 1)])
    assert 0 < soft.threshold_ < moduli[moduli > 0].min()
    shrunk = np.abs(soft.covariance_[np.triu_indices(60, 1)])
    # Tiles are in single precision: a difference of close numbers is as exact as they are.
    expected = moduli[moduli > 0] - soft.threshold_
    np.testing.assert_allclose(shrunk[shrunk > 0], expected, rtol=1e-3, atol=1e-6 * moduli.max())


@pytest.mark.parametrize("dense_limit", [0, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(seed=seeds, k=st.integers(1, 59))
def test_soft_and_hard_keep_the_same_neighbours_of_binary_data(dense_limit, dtype, seed, k):
    X = (np.random.default_rng(seed).random((37, 60)) < 0.3).astype(dtype)
    limits = {"dense_limit": dense_limit, "sparse_output": False}
    hard, soft = (e(top_k=k, **limits).fit(X) for e in (HardThreshold, SoftThreshold))
    np.testing.assert_array_equal(hard.covariance_ != 0, soft.covariance_ != 0)
    assert ((hard.covariance_ != 0).sum(1) >= k + 1).all()


@pytest.mark.parametrize("dense_limit", [0, 4096])
@pytest.mark.parametrize("kept", [{"density": 0.25}, {"density": 0.5}, {"top_k": 3}, {"top_k": 20}])
def test_equal_covariances_keep_their_share(dense_limit, kept):
    """All 780 moduli are 1, so the next smaller one is zero and the threshold a half."""
    signs = np.where(np.arange(40) % 3, 1.0, -1.0)
    X = np.tile([[1.0], [-1.0]], (10, 1)) * signs
    for estimator, value in ((HardThreshold, 1.0), (SoftThreshold, 0.5)):
        fitted = estimator(dense_limit=dense_limit, sparse_output=True, **kept).fit(X)
        C = fitted.covariance_.tocoo()
        np.testing.assert_allclose(np.abs(C.data), np.where(C.row == C.col, 1.0, value), rtol=1e-6)
        np.testing.assert_allclose(fitted.threshold_, 0.5, rtol=1e-6)
        if "density" in kept:
            assert fitted.density_ == pytest.approx(kept["density"])


@pytest.mark.parametrize("dense_limit", [0, 4096])
def test_where_fewer_pairs_are_not_zero_all_of_them_stay(dense_limit):
    X = np.kron(np.eye(8), np.array([[1.0, 1.0], [-1.0, -1.0]]))  # eight pairs, all others exactly zero
    for estimator in (HardThreshold, SoftThreshold):
        fitted = estimator(density=0.5, dense_limit=dense_limit, sparse_output=False).fit(X)
        assert np.count_nonzero(fitted.covariance_) == 16 + 2 * 8 and fitted.threshold_ == 0


@given(seeds)
def test_universal_does_not_depend_on_units(seed):
    X = data(seed)
    units = np.random.default_rng(seed).uniform(1e-3, 1e3, 8)
    for estimator in (HardThreshold(), SoftThreshold(), HardThreshold(tau="cv", random_state=0, n_splits=3)):
        a = estimator.fit(X).covariance_
        b = estimator.fit(X * units).covariance_
        np.testing.assert_allclose(b, a * np.outer(units, units), rtol=1e-6)


def test_universal_is_scale_root_log_n_over_t_on_correlations():
    X = data(0, t=100)
    fitted = HardThreshold(scale=1.5).fit(X)
    assert fitted.threshold_ == pytest.approx(1.5 * np.sqrt(np.log(8) / 100))
    kept = abs(np.corrcoef(X.T)) >= fitted.threshold_
    np.testing.assert_array_equal(fitted.covariance_ != 0, kept)


def test_cross_validation_beats_no_threshold_on_a_sparse_truth():
    C = make_sparse_covariance(40, 0.05, "block", random_state=0)
    X = np.random.default_rng(0).multivariate_normal(np.zeros(40), C, 100)
    for estimator in (HardThreshold, SoftThreshold):
        fitted = estimator(tau="cv", random_state=0).fit(X)
        assert fitted.tau_ > 0
        assert fitted.threshold_ == pytest.approx(fitted.tau_ / 10)
        error = np.linalg.norm(fitted.covariance_ - C)
        assert error < 0.7 * np.linalg.norm(np.cov(X.T, ddof=0) - C)


def test_cross_validation_is_seeded():
    X = data(0)
    taus = {HardThreshold(tau="cv", n_splits=1, random_state=s).fit(X).tau_ for s in (0, 0)}
    assert len(taus) == 1


def test_adaptive_threshold_by_definition():
    X = data(3, t=200)
    moments = F.sample_moments(X)
    expected = 2 * np.sqrt(F.product_variances(X, moments) * np.log(8) / 200)
    for rule in ("hard", "soft", "scad", "adaptive_lasso"):
        fitted = AdaptiveThreshold(rule=rule).fit(X)
        np.testing.assert_allclose(fitted.threshold_, expected)
        result = getattr(F, f"{rule}_threshold")(moments.covariance, expected)
        np.testing.assert_allclose(fitted.covariance_, result)


def test_the_threshold_follows_the_number_of_common_samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    X[40:, 0] = np.nan
    fitted = HardThreshold(missing="pairwise").fit(X)
    assert fitted.threshold_[0, 1] == pytest.approx(2 * np.sqrt(np.log(3) / 40))
    assert fitted.threshold_[1, 2] == pytest.approx(2 * np.sqrt(np.log(3) / 400))


def test_the_literal_definition_drops_small_variances():
    X = np.random.default_rng(0).standard_normal((100, 3)) * [1, 0.1, 1]
    X[:, 2] += X[:, 0]
    assert HardThreshold(tau=1.0, keep_diagonal=False).fit(X).covariance_[1, 1] == 0


def test_a_tau_that_drops_every_edge_warns_and_leaves_the_diagonal():
    X = data(0)
    with pytest.warns(UserWarning, match=r"tau=1e\+06 leaves no edge"):
        fitted = HardThreshold(tau=1e6).fit(X)
    np.testing.assert_allclose(fitted.covariance_, np.diag(X.var(0)))
    assert fitted.density_ == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tau": -1.0}, 'tau must be "universal", "cv" or a number >= 0'),
        ({"tau": np.nan}, 'tau must be "universal", "cv" or a number >= 0'),
        ({"tau": np.inf}, 'tau must be "universal", "cv" or a number >= 0'),
        ({"tau": "best"}, 'tau must be "universal", "cv" or a number >= 0'),
        ({"tau": 1.0, "density": 0.5}, "set only one of them"),
        ({"tau": "cv", "density": 0.5}, "set only one of them"),
        ({"density": 1.5}, "density must be None or a number between 0 and 1"),
        ({"scale": -2.0}, "scale must be a number >= 0"),
        ({"tau": "cv", "n_splits": 0}, "n_splits"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        SoftThreshold(**parameters).fit(data(0))


def test_cross_validation_needs_samples():
    with pytest.raises(ValueError, match="at least 4 samples"):
        HardThreshold(tau="cv").fit(data(0, t=3))


@pytest.mark.parametrize(
    ("parameters", "message"), [({"delta": -1}, "delta must be"), ({"rule": "firm"}, "rule must be one of")]
)
def test_bad_adaptive_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveThreshold(**parameters).fit(data(0))


def test_refitting_forgets_the_cross_validated_tau():
    estimator = HardThreshold(tau="cv", random_state=0).fit(data(0))
    assert not hasattr(estimator.set_params(tau=0.1).fit(data(0)), "tau_")


def test_cross_validation_says_when_a_split_cannot_work():
    X = data(0)
    X[3:, 0] = np.nan
    with pytest.raises(ValueError, match=r'cannot split this data: feature 0 .* Or use tau="universal"'):
        HardThreshold(tau="cv", missing="pairwise", random_state=0).fit(X)
    weight = np.r_[np.ones(30), np.zeros(10)]
    HardThreshold(tau="cv", random_state=0).fit(data(0), sample_weight=weight)
