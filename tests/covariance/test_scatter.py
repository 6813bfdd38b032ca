"""Tyler's and Huber's scatter: fixed points, equivariance, and what they are good for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from hypothesis import given
from sklearn.base import clone
from sklearn.covariance import MinCovDet
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from strategies import seeds
from svnn import SVNNRegressor, load
from svnn.covariance import (
    ACV,
    RCV,
    AdaptiveThreshold,
    HardThreshold,
    HuberCovariance,
    SampleCovariance,
    SoftThreshold,
    TylerCovariance,
)
from svnn.testing import check_covariance

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

BOTH = [TylerCovariance(), HuberCovariance()]
both = pytest.mark.parametrize("estimator", BOTH, ids=str)


@parametrize_with_checks(BOTH)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [*BOTH, TylerCovariance(shrinkage=0.0), HuberCovariance(shrinkage=0.3)], ids=str)
def test_they_pass_the_check_for_covariances(estimator):
    check_covariance(estimator, tensors=True, tolerance=1e-6)


def standardised(X):
    location = np.median(X, 0)
    scale = np.median(abs(X - location), 0) / scipy.stats.norm.ppf(0.75)
    return location, scale, (X - location) / scale


def test_tyler_is_a_fixed_point(rng):
    X = rng.standard_t(2, (40, 5)) @ rng.standard_normal((5, 5)) + 3
    fitted = TylerCovariance(shrinkage=0.2).fit(X)
    location, scale, Z = standardised(X)
    S = fitted.covariance_ / np.outer(scale, scale)
    distances = np.einsum("ki,ij,kj->k", Z, np.linalg.inv(S), Z)
    right = 0.8 * 5 / 40 * (Z / distances[:, None]).T @ Z + 0.2 * np.eye(5)
    np.testing.assert_allclose(S, right * 5 / np.trace(right), atol=1e-7)
    assert np.trace(S) == pytest.approx(5)
    np.testing.assert_allclose(fitted.location_, location)
    assert fitted.shrinkage_ == 0.2 and 1 < fitted.n_iter_ < 500


def test_huber_is_a_fixed_point(rng):
    X = rng.standard_t(2, (60, 4)) @ rng.standard_normal((4, 4))
    fitted = HuberCovariance(shrinkage=0.1, quantile=0.8).fit(X)
    _, scale, Z = standardised(X)
    S, edge = fitted.covariance_ / np.outer(scale, scale), scipy.stats.chi2.ppf(0.8, 4)
    size = scipy.stats.chi2.cdf(edge, 6) + edge / 4 * 0.2

    def step(A):
        distances = np.einsum("ki,ij,kj->k", Z, np.linalg.inv(A), Z)
        return 0.9 * (Z * (np.minimum(1, edge / distances) / size)[:, None]).T @ Z / 60 + 0.1 * np.eye(4)

    A = np.eye(4)
    for _ in range(500):
        A = step(A)
    np.testing.assert_allclose(S, A * 4 / np.trace(A), atol=1e-7)


@both
def test_normal_data_gives_its_covariance(estimator, rng):
    L = np.tril(rng.uniform(0.3, 1, (4, 4)))
    C = clone(estimator).fit(rng.standard_normal((20_000, 4)) @ L.T).covariance_
    np.testing.assert_allclose(C, L @ L.T, atol=0.1)


def test_a_huber_near_one_is_the_sample_covariance_up_to_scale(rng):
    X = rng.standard_normal((300, 3))
    C = HuberCovariance(shrinkage=0.0, quantile=1 - 1e-12, assume_centered=True).fit(X).covariance_
    S = X.T @ X
    np.testing.assert_allclose(C / np.trace(C), S / np.trace(S), rtol=0.2, atol=0.02)


@given(seeds)
def test_tyler_follows_linear_maps_up_to_a_factor(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (40, 4))
    A = scipy.linalg.qr(rng.standard_normal((4, 4)))[0] * rng.uniform(0.3, 3, 4)
    tyler = TylerCovariance(shrinkage=0.0, assume_centered=True, tol=1e-12)
    C, mapped = tyler.fit(X).covariance_, clone(tyler).fit(X @ A.T).covariance_
    expected = A @ C @ A.T
    np.testing.assert_allclose(mapped / np.trace(mapped), expected / np.trace(expected), atol=1e-6)


@given(seeds)
def test_lengths_of_rows_do_not_matter_to_tyler(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 4))
    tyler = TylerCovariance(shrinkage=0.0, assume_centered=True, tol=1e-12)
    C, stretched = (clone(tyler).fit(Y).covariance_ for Y in (X, X * rng.uniform(0.1, 10, (40, 1))))
    np.testing.assert_allclose(C / np.trace(C), stretched / np.trace(stretched), atol=1e-6)


@given(seeds)
def test_the_order_of_features_does_not_matter_and_integer_weights_repeat_rows(seed):
    rng = np.random.default_rng(seed)
    X, w, order = rng.standard_t(3, (20, 5)), rng.integers(0, 4, 20), rng.permutation(5)
    w[:3] = 1
    for estimator in (TylerCovariance(shrinkage=0.2), HuberCovariance(shrinkage=0.2)):
        C = clone(estimator).fit(X, sample_weight=w).covariance_
        assert np.linalg.eigvalsh(C)[0] > 0
        tolerance = 1e-6 * abs(C).max()
        permuted = clone(estimator).fit(X[:, order], sample_weight=w).covariance_
        np.testing.assert_allclose(permuted, C[np.ix_(order, order)], atol=tolerance)
        repeated = clone(estimator).fit(np.repeat(X, w, axis=0)).covariance_
        np.testing.assert_allclose(repeated, C, atol=tolerance)


@both
@pytest.mark.parametrize("shape", [(10, 40), (10, 40, 3), (500, 3)])
def test_they_exist_for_any_number_of_rows(estimator, shape, rng):
    X = rng.standard_t(2, shape)
    fitted = clone(estimator).fit(X)
    assert 0 < fitted.shrinkage_ <= 1
    assert np.linalg.eigvalsh(fitted.covariance_)[0] > 0
    tensor = clone(estimator).fit(torch.tensor(X)).covariance_
    np.testing.assert_allclose(tensor, fitted.covariance_)


@both
def test_more_rows_shrink_less(estimator, rng):
    X = rng.standard_normal((2000, 20)) * np.linspace(1, 3, 20) + rng.standard_normal((2000, 1))
    few, many = (clone(estimator).fit(X[:t]).shrinkage_ for t in (20, 2000))
    assert few > 5 * many


@both
def test_what_does_not_exist_is_named(estimator, rng):
    name = type(estimator).__name__
    X = rng.standard_normal((6, 6))
    with pytest.raises(ValueError, match=r"shrinkage=0 needs more rows than features, got 6 and 6; use shrinkage="):
        clone(estimator).set_params(shrinkage=0).fit(X)
    flat = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5))
    with pytest.raises(ValueError, match=f"{name}: the rows lie in too few directions for shrinkage=0; use"):
        clone(estimator).set_params(shrinkage=0).fit(flat)
    with pytest.warns(ConvergenceWarning, match=f"{name} did not converge in max_iter=1 iterations"):
        clone(estimator).set_params(max_iter=1).fit(X)
    for bad in (-0.1, 1.1, "much", None):
        with pytest.raises(ValueError, match='shrinkage must be "auto" or a number between 0 and 1'):
            clone(estimator).set_params(shrinkage=bad).fit(X)
    X[2, 3] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        clone(estimator).fit(X)


@both
def test_features_of_extreme_units(estimator, rng):
    X = rng.standard_normal((60, 3))
    expected, unit = clone(estimator).fit(X).covariance_, np.array([1e-120, 1.0, 1e120])
    np.testing.assert_allclose(clone(estimator).fit(X * unit).covariance_, expected * unit[:, None] * unit, rtol=1e-6)


# -- inside sparsifiers and networks --------------------------------------------------------------


@pytest.mark.parametrize("base", ["tyler", "ledoit_wolf", HuberCovariance(), MinCovDet(random_state=0)], ids=str)
@pytest.mark.parametrize(
    "sparsifier",
    [
        HardThreshold(),
        SoftThreshold(density=0.3),
        HardThreshold(tau="cv", n_splits=2, random_state=0),
        ACV(density=0.5, random_state=0),
        RCV(random_state=0),
    ],
    ids=str,
)
def test_sparsifiers_take_another_covariance(sparsifier, base, rng):
    from svnn.covariance import resolve

    X = rng.standard_t(3, (60, 6)) @ rng.standard_normal((6, 6))
    plain = resolve(base).fit(X)
    fitted = clone(sparsifier).set_params(base=base).fit(X)
    kept = fitted.covariance_ != 0
    if isinstance(sparsifier, HardThreshold):
        np.testing.assert_allclose(fitted.covariance_[kept], plain.covariance_[kept])
    np.testing.assert_allclose(fitted.covariance_.diagonal(), plain.covariance_.diagonal())
    np.testing.assert_allclose(fitted.location_, plain.location_)
    assert fitted.density_ < 1
    tensor = clone(sparsifier).set_params(base=base).fit(torch.tensor(X)).covariance_
    np.testing.assert_allclose(tensor, fitted.covariance_)


def test_what_a_base_cannot_do_is_named(rng):
    X = rng.standard_normal((30, 6))
    with pytest.raises(ValueError, match=r"base='tyler' needs all pairs .* dense_limit=5"):
        HardThreshold(base="tyler", dense_limit=5).fit(X)
    with pytest.raises(ValueError, match=r"base='tyler' and correlation='spearman' are mutually exclusive"):
        HardThreshold(base="tyler", correlation="spearman").fit(X)
    with pytest.raises(ValueError, match=r"AdaptiveThreshold .* base='tyler' does not have"):
        AdaptiveThreshold(base="tyler").fit(X)
    with pytest.raises(ValueError, match="covariance='tylor' is not known"):
        HardThreshold(base="tylor").fit(X)
    with pytest.raises(AttributeError, match="base covariance needs all rows; fit them at once, or use base=None"):
        HardThreshold(base="tyler").partial_fit(X)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_base_of_this_package_gets_the_weights(weighted, rng):
    X, w = rng.standard_normal((30, 4)), rng.integers(0, 3, 30)
    w = w if weighted else None
    C = HardThreshold(base="sample", tau=0.0).fit(X, sample_weight=w).covariance_
    np.testing.assert_allclose(C, SampleCovariance().fit(X, sample_weight=w).covariance_)


@pytest.mark.parametrize("estimator", BOTH, ids=str)
def test_mixing_guesses_is_quicker_and_changes_nothing(estimator, rng, monkeypatch):
    for X in (rng.standard_normal((40, 60)) + rng.standard_normal((40, 1)), rng.standard_cauchy((80, 20))):
        mixed = clone(estimator).fit(X)
        with monkeypatch.context() as patch:
            patch.setattr("svnn.covariance._scatter._MEMORY", 0)
            plain = clone(estimator).set_params(max_iter=5000).fit(X)
        np.testing.assert_allclose(mixed.covariance_, plain.covariance_, rtol=1e-5, atol=1e-6)
    assert mixed.n_iter_ < 0.7 * plain.n_iter_


def test_common_factors_and_few_rows_converge(rng):
    X = rng.standard_normal((30, 200)) + 2 * rng.standard_normal((30, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TylerCovariance().fit(X)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=5 iterations \(the last one changed a distance by"):
        TylerCovariance(max_iter=5).fit(X)


@pytest.mark.parametrize("estimator", BOTH, ids=str)
def test_a_value_of_any_size_is_one_bad_row(estimator, rng):
    X = rng.standard_normal((60, 4))
    found = []
    for size in (1e6, 1e150, 1e300):
        Y = X.copy()
        Y[7, 2], Y[9] = size, np.median(X, 0)  # and one row is the centre itself
        found.append(clone(estimator).fit(Y).covariance_)
    assert np.isfinite(found[2]).all()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-6)


def test_a_half_life_reaches_the_base_or_is_an_error(rng):
    X = rng.standard_normal((60, 4))
    decayed = HardThreshold(base="tyler", tau=0.0, halflife=15).fit(X).covariance_
    expected = TylerCovariance().fit(X, sample_weight=0.5 ** (np.arange(60)[::-1] / 15)).covariance_
    np.testing.assert_allclose(decayed, expected)
    with pytest.raises(ValueError, match=r"base=MinCovDet\(.*takes no weights, so halflife=15 .*or halflife=None"):
        HardThreshold(base=MinCovDet(random_state=0), halflife=15).fit(X)


@pytest.mark.parametrize(
    "covariance", ["tyler", "huber", MinCovDet(random_state=0), HardThreshold(base=MinCovDet(random_state=0))], ids=str
)
def test_networks_take_them_and_files_hold_them(covariance, rng, tmp_path):
    X = rng.standard_t(3, (60, 5))
    model = SVNNRegressor(covariance=covariance, max_epochs=2, random_state=0).fit(X, X[:, 0])
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert repr(loaded.covariance) == repr(covariance)
    np.testing.assert_allclose(loaded.predict(X), model.predict(X))


# -- data made for them ---------------------------------------------------------------------------

N, T = 20, 100


def truth():
    C = np.kron(np.eye(4), np.full((5, 5), 0.6))
    np.fill_diagonal(C, 1.0)
    return C


def mean_error(estimator, draw):
    """Squared distance of the correlations to the true ones, averaged over draws."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        C = clone(estimator).fit(draw(rng, rng.multivariate_normal(np.zeros(N), truth(), T))).covariance_
        sd = np.sqrt(C.diagonal())
        errors.append(((C / np.outer(sd, sd) - truth()) ** 2).sum())
    return np.mean(errors)


def heavy_tails(rng, Z):
    return Z / np.sqrt(rng.chisquare(2, (T, 1)) / 2)


def bad_rows(rng, Z):
    """One row in twenty is another kind of thing altogether."""
    Z[::20] = 20 * rng.standard_normal((T // 20, N))
    return Z


@pytest.mark.parametrize("estimator", [*BOTH, HardThreshold(base="tyler"), HardThreshold(base="huber")], ids=str)
@pytest.mark.parametrize("draw", [heavy_tails, bad_rows])
def test_they_are_nearer_to_the_truth_than_a_threshold_alone(estimator, draw):
    ours, usual = mean_error(estimator, draw), mean_error(HardThreshold(), draw)
    assert ours < 0.7 * usual, (ours, usual)
