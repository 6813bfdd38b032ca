"""Advice: what is recommended where the right answer is known, and the numbers behind it."""

from __future__ import annotations

import dataclasses

import advice as advice_benchmark
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from svnn import ACV, RCV, AdaptiveThreshold, HardThreshold, SoftThreshold, SVNNRegressor
from svnn.datasets import make_sparse_covariance
from svnn.functional import sparsify
from svnn.paper import load_released, load_thickness, make_large_cov, make_small_cov
from svnn.stability import advise, expected_error, realisation_moments
from svnn.stability._candidates import Part, candidates, held_out_error

THRESHOLDS = (HardThreshold, SoftThreshold, AdaptiveThreshold)


def draw(C, t, seed):
    return np.random.default_rng(seed).multivariate_normal(np.zeros(len(C)), C, t)


def standardised(X):
    return (X - X.mean(0)) / X.std(0)


@pytest.mark.parametrize(("density", "t"), [(0.05, 200), (0.2, 200), (0.05, 1000), (0.2, 500)])
def test_blocks_look_sparse_and_are_thresholded(density, t):
    for seed in range(2):
        C = make_sparse_covariance(100, density, "block", random_state=seed)
        advice = advise(draw(C, t, seed), n_splits=5, random_state=seed)
        assert advice.looks == "sparse"
        assert isinstance(advice.estimator, THRESHOLDS)
        assert advice.row["density"] < 2 * density + 0.1


@pytest.mark.parametrize("t", [100, 200, 1000])
def test_a_common_factor_looks_dense_and_is_not_thresholded(t):
    for seed in range(2):
        advice = advise(make_large_cov(t, random_state=seed).X, density=0.9, n_splits=5, random_state=seed)
        assert advice.looks == "dense"
        assert isinstance(advice.estimator, (ACV, RCV))


@pytest.mark.parametrize("t", [120, 200])
def test_weak_factors_are_seen_in_the_spectrum(t):
    """Correlations of 0.1, lost in the noise one by one, all of the same sign."""
    advice = advise(draw(0.1 + 0.9 * np.eye(150), t, 0), n_splits=5, random_state=0)
    assert advice.looks == "dense"
    assert advice.n_above == 1 and advice.spread > 0.75


def test_many_small_relations_look_dense():
    advice = advise(make_small_cov(random_state=0).X, n_splits=5, random_state=0)
    assert advice.looks == "dense" and advice.related_share > 0.6 and advice.cv_density > 0.9


def test_pure_noise_keeps_nothing(rng):
    advice = advise(rng.standard_normal((300, 60)), random_state=0)
    assert advice.looks == "sparse" and isinstance(advice.estimator, THRESHOLDS)
    assert advice.row["density"] < 0.05 and advice.n_above <= 1


def test_released_draws_and_ixi(data_folder):
    for name in ("SparseCov", "LargeCov", "SmallCov"):
        advice = advise(load_released(name, root=data_folder).X, random_state=0)
        assert advice.looks == ("sparse" if name == "SparseCov" else "dense")
        assert isinstance(advice.estimator, THRESHOLDS) == (name == "SparseCov")
    assert advise(load_thickness("ixi", root=data_folder).X, random_state=0).looks == "dense"


# -- the errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(120, 15), (60, 8, 3)])
def test_candidates_are_what_their_estimators_make_of_the_data(rng, shape):
    X = rng.standard_normal(shape) + rng.standard_normal((shape[0], 1, *shape[2:]))
    part = Part.of(X, np.random.default_rng(3))
    mean = X.mean(0) if X.ndim == 2 else X.mean((0, 2))[:, None]
    scale = X.std(0) if X.ndim == 2 else X.std((0, 2))[:, None]
    Z = (X - mean) / scale
    for option in candidates(0.55):
        estimator = clone(option.estimator)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=3)
        estimator.fit(Z if Z.ndim == 2 or option.kind != "dense" else Z.transpose(0, 2, 1).reshape(-1, Z.shape[1]))
        mean, variance = option.moments(dataclasses.replace(part, rng=np.random.default_rng(3), _probabilities={}))
        if option.kind == "stochastic":
            expected = realisation_moments(estimator.sample_covariance_, estimator.probabilities_, estimator.unbiased)
            np.testing.assert_allclose(variance, expected.variance, atol=1e-12, err_msg=option.label)
            np.testing.assert_allclose(mean, expected.mean, atol=1e-12, err_msg=option.label)
            continue
        C = estimator.covariance_
        np.testing.assert_allclose(mean, C.toarray() if sp.issparse(C) else C, atol=1e-12, err_msg=option.label)


def test_held_out_errors_are_expected_errors(rng):
    X = rng.standard_normal((80, 10)) + rng.standard_normal((80, 1))
    train, test = Part.of(X[:50], rng), Part.of(X[50:], rng, for_fitting=False)
    for option in candidates(0.5):
        if option.kind != "stochastic":
            continue
        P = clone(option.estimator).set_params(random_state=0).fit(standardised(X[:50])).probabilities_
        fixed = option._replace(
            moments=lambda part, P=P, u=option.estimator.unbiased: realisation_moments(part.R, P, u)
        )
        found = held_out_error(fixed, train, test)
        options = {"unbiased": option.estimator.unbiased, "reference": test.R}
        assert found.shift == pytest.approx(expected_error([0, 1], train.R, P, moment=test.R, **options))
        assert found.frobenius == pytest.approx(expected_error([0, 1], train.R, P, **options))


@pytest.mark.parametrize("unbiased", [False, True])
def test_held_out_errors_are_the_mean_over_masks_and_signals(unbiased):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6)) + rng.standard_normal((80, 1))
    train, test = Part.of(X[:50], rng), Part.of(X[50:], rng, for_fitting=False)
    option = next(o for o in candidates(0.5) if o.label == f"ACV(density=0.5{', unbiased=True' * unbiased})")
    P = ACV(density=0.5, unbiased=unbiased).fit(standardised(X[:50])).probabilities_
    signals = standardised(X[50:])
    draws = [sparsify(train.R, P, seed, unbiased) - test.R for seed in range(2000)]
    found = held_out_error(option, train, test)
    for value, samples in (
        (found.shift, [((signals @ E) ** 2).sum(1).mean() for E in draws]),
        (found.frobenius, [(E**2).sum() for E in draws]),
    ):
        assert value == pytest.approx(np.mean(samples), abs=4 * np.std(samples) / len(samples) ** 0.5)


def test_keeping_the_largest_is_best_by_frobenius_and_not_by_shift():
    """Why the matrix error does not decide: at equal density it always favours hard thresholding."""
    X = make_large_cov(400, 60, random_state=0).X
    table = {row["estimator"]: row for row in advise(X, n_splits=5, random_state=0).table}
    for d in (0.1, 0.5, 0.9):
        hard, random = table[f"HardThreshold(density={d})"], table[f"ACV(density={d}, unbiased=True)"]
        assert hard["matrix_error"] < random["matrix_error"]
        assert hard["error"] > 1.5 * random["error"]


def test_the_benchmark_compares_with_the_best_in_hindsight():
    for X, dense in ((make_large_cov(100, 12, random_state=0).X, True), (draw(np.eye(12), 100, 0), False)):
        found = advice_benchmark.by_covariance(X, folds=2)
        assert found["advice"].startswith(("ACV", "RCV")) == dense
        assert 1 <= float(found["error / best"]) < 1.2 and float(found["matrix / best"]) >= 1
        assert (float(found["error / dense"]) > 1) == dense


def test_where_no_pair_has_to_be_dropped_nothing_is_preferred_to_a_dense_covariance_with_a_smaller_error(rng):
    """ACV used to come first here, with a larger error than the sample covariance."""
    for X in (make_large_cov(200, 40, random_state=0).X, rng.standard_normal((80, 12)) + rng.standard_normal((80, 1))):
        advice = advise(X, n_splits=5)
        assert advice.density == 1 and advice.row["error"] <= min(
            row["error"] for row in advice.table if row["kind"] == "dense"
        )
        sparse = advise(X, density=0.9, n_splits=5)
        assert sparse.row["density"] <= 0.9 and sparse.label.startswith(("ACV", "RCV"))
    assert advice.covariance is advice.estimator


def test_it_says_what_it_cannot_know(sparse_advice):
    assert sparse_advice.reasons[-1].endswith(
        "They cannot say whether predictions get better: advise(X, y) measures that."
    )


@pytest.mark.parametrize("option", [{"groups": np.zeros(20)}, {"task": "regression"}, {"covariances": ["soft"]}])
def test_what_needs_a_target(rng, option):
    with pytest.raises(ValueError, match="groups=, task= and covariances= need y"):
        advise(rng.standard_normal((20, 3)), **option)


# -- the recommendation ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sparse_advice():
    C = make_sparse_covariance(40, 0.1, "block", random_state=0)
    return advise(draw(C, 300, 0), random_state=0)


def test_the_recommendation_is_within_the_tolerance_of_the_best():
    for X in (make_small_cov(300, 40, random_state=0).X, make_large_cov(200, 40, random_state=0).X):
        for budget in (None, 0.6, 0.25):
            advice = advise(X, density=budget, tolerance=0.04, n_splits=5, random_state=0)
            assert advice.row["density"] <= (budget or 1) + 1e-9
            allowed = [r for r in advice.table if r["density"] <= (budget or 1) + 1e-9]
            assert advice.row["error"] <= 1.04 * min(r["error"] for r in allowed)
    assert advice.density == 0.25


def test_the_estimator_is_ready_to_fit(sparse_advice):
    X = draw(np.eye(40), 60, 0)
    assert not hasattr(sparse_advice.estimator, "covariance_")
    model = SVNNRegressor(covariance=sparse_advice.estimator, max_epochs=3, random_state=0).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()
    name, arguments = sparse_advice.label[:-1].split("(")
    assert type(sparse_advice.estimator).__name__ == name
    for argument in arguments.split(", "):
        key, value = argument.split("=")
        assert repr(sparse_advice.estimator.get_params()[key]) == value


def test_it_prints_a_short_report(sparse_advice):
    text = str(sparse_advice)
    assert text.startswith(f"The covariance looks sparse. Recommended: {sparse_advice.label}\n- About ")
    assert sum(line.startswith("→") for line in text.splitlines()) == 1
    assert all(reason in text for reason in sparse_advice.reasons) and len(text.splitlines()) < 20
    assert "SampleCovariance()" in text and "Marchenko" in text
    assert repr(sparse_advice) == f"<Advice: looks sparse, {sparse_advice.label}>"
    with pytest.raises(dataclasses.FrozenInstanceError):
        sparse_advice.looks = "dense"


def test_pandas_takes_the_table(sparse_advice):
    frame = pd.DataFrame(sparse_advice.table)
    assert list(frame.columns) == ["estimator", "kind", "density", "error", "matrix_error", "standing"]
    assert set(frame["kind"]) == {"dense", "threshold", "stochastic"}
    assert all(part["error"].is_monotonic_increasing for _, part in frame.groupby("standing"))
    assert frame["estimator"].is_unique


def test_units_seeds_frames_and_tensors_do_not_matter(rng):
    X = draw(make_sparse_covariance(20, 0.1, "block", random_state=0), 150, 1)
    base = advise(X, n_splits=5, random_state=0)
    for other in (X * rng.uniform(0.01, 100, 20) + 7, pd.DataFrame(X), torch.tensor(X), X.tolist()):
        again = advise(other, n_splits=5, random_state=0)
        assert again.label == base.label
        assert again.table["error"] == pytest.approx(base.table["error"])


def test_signals_of_several_values(rng):
    common = rng.standard_normal((120, 1, 4))
    advice = advise(common + 0.5 * rng.standard_normal((120, 12, 4)), n_splits=5, random_state=0)
    assert (advice.looks, advice.n_samples, advice.n_features) == ("dense", 120, 12)
    assert advise(rng.standard_normal((200, 12, 2)), n_splits=5, random_state=0).looks == "sparse"


def test_of_many_features_some_are_looked_at():
    C = make_sparse_covariance(300, 0.02, "block", random_state=0)
    X = draw(C, 200, 0)
    advice = advise(X, max_features=120, n_splits=5, random_state=0)
    assert advice.n_features == 300 and "120 of the 300 features" in str(advice)
    assert advice.looks == "sparse" and isinstance(advice.estimator, THRESHOLDS)
    # The factor is restated for all features: the threshold is the one that was looked at.
    scales = [
        o.estimator.scale * np.sqrt(np.log(300)) for o in candidates(0.9, np.sqrt(np.log(120) / np.log(300))) if o.scale
    ]
    assert scales == pytest.approx([o.scale * np.sqrt(np.log(120)) for o in candidates(0.9) if o.scale], rel=1e-2)


def test_constant_features_are_left_out(rng):
    X = rng.standard_normal((60, 10))
    X[:, 3] = 5.0
    advice = advise(X, n_splits=5, random_state=0)
    assert advice.notes == ("1 of the 10 features are constant and left out.",)
    assert np.isfinite(advice.table["error"]).all()


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.ones((5, 4)), {}, "advise needs at least 10 samples to hold some of them out, got 5"),
        (np.ones((20, 4)), {}, "at least 2 features that are not constant, got 0"),
        (np.full((20, 4), np.nan), {}, "advise: X contains NaN; impute them first"),
        (np.ones(20), {}, "Expected 2D array"),
        (np.eye(20), {"density": 1.5}, "density must be a number between 0 and 1"),
        (np.eye(20), {"n_splits": 0}, "n_splits must be an integer >= 1"),
        (np.eye(20), {"tolerance": -0.1}, "tolerance must be a number >= 0"),
        (np.eye(20), {"max_features": 1}, "max_features must be an integer >= 2"),
    ],
)
def test_errors_name_the_argument(X, options, message):
    with pytest.raises(ValueError, match=message):
        advise(X, **options)


def test_the_same_data_get_the_same_advice():
    X = draw(make_sparse_covariance(30, 0.2, "block", random_state=0), 60, seed=0)
    first = advise(X, max_features=20)
    for _ in range(3):
        again = advise(X, max_features=20)
        assert str(again) == str(first) and list(again.table) == list(first.table)
    assert list(advise(X, max_features=20, random_state=1).table) != list(first.table)
    assert list(advise(X, max_features=20, random_state=None).table) != list(first.table)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda X: X + 1j, ValueError),
        (lambda X: torch.tensor(X + 1j), ValueError),
        (lambda X: torch.tensor(X).to_sparse(), (TypeError, ValueError)),
        (sp.csr_array, TypeError),
        (lambda X: np.zeros((60, 5, 0)), ValueError),
        (lambda X: np.where(X > 1, np.nan, X), ValueError),
    ],
)
def test_data_that_no_advice_can_be_given_for(spoil, error):
    X = np.random.default_rng(0).standard_normal((60, 5))
    with pytest.raises(error, match=r"X|data"):
        advise(spoil(X))


@pytest.mark.parametrize("unit", [1e160, 1e-170])
def test_advice_in_any_unit(unit):
    X = draw(make_sparse_covariance(20, 0.2, "block", random_state=0), 60, seed=0)
    found, expected = advise(unit * X, n_splits=2), advise(X, n_splits=2)
    assert found.label == expected.label and found.looks == expected.looks
    np.testing.assert_allclose(found.table["error"], expected.table["error"], rtol=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, "1", None, 1j])
def test_numbers_without_end_are_named(value):
    X = np.random.default_rng(0).standard_normal((60, 5))
    for name in ("density", "tolerance", "n_splits", "max_features"):
        if name == "density" and value is None:
            continue
        with pytest.raises(ValueError, match=name):
            advise(X, **{name: value})
