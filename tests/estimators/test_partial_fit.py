"""Networks that are updated with new rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import svnn
from svnn import SVNNClassifier, SVNNRegressor
from svnn.covariance import HardThreshold, SampleCovariance

QUICK = {"max_epochs": 40, "random_state": 0}


def rows(seed, t, n=10, drift=0.0, classes=False):
    """Targets of a direction that turns by ``drift``, in features of a fixed covariance."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    mix = np.eye(n) + 0.8 * fixed.standard_normal((n, n)) / np.sqrt(n)
    first, second = fixed.standard_normal((2, n)) / np.sqrt(n)
    X = rng.standard_normal((t, n)) @ mix
    y = X @ (np.cos(drift) * first + np.sin(drift) * second) + 0.3 * rng.standard_normal(t)
    return X, (np.array(["low", "mid", "high"])[np.digitize(y, [-1, 1])] if classes else y)


KINDS = [
    (SVNNRegressor, {}),
    (SVNNRegressor, {"members": 1, "use": "covariance"}),
    (SVNNRegressor, {"members": 1}),
    (SVNNRegressor, {"members": 1, "hidden": (6, 6)}),
    (SVNNClassifier, {}),
    (SVNNClassifier, {"members": 1}),
]
kinds = pytest.mark.parametrize(("kind", "parameters"), KINDS, ids=str)


@kinds
def test_rows_of_the_same_kind_do_no_harm(kind, parameters):
    classes = kind is SVNNClassifier
    model = kind(**QUICK, **parameters).fit(*rows(1, 300, classes=classes))
    test = rows(2, 1000, classes=classes)
    before = model.score(*test)
    for seed in range(5):
        model.partial_fit(*rows(10 + seed, 40, classes=classes))
    assert model.score(*test) > before - 0.08


@kinds
def test_after_a_drift_it_is_better_than_the_stale_model(kind, parameters):
    classes = kind is SVNNClassifier
    model = kind(**QUICK, covariance=HardThreshold(halflife=100), **parameters).fit(*rows(1, 300, classes=classes))
    test = rows(2, 1000, drift=1.0, classes=classes)
    stale = model.score(*test)
    for seed in range(10):
        model.partial_fit(*rows(10 + seed, 40, drift=1.0, classes=classes))
    assert model.score(*test) > stale + 0.1


def test_the_first_call_is_fit_and_the_covariance_is_that_of_all_rows():
    X, y = rows(1, 200)
    fitted, updated = SVNNRegressor(**QUICK).fit(X, y), SVNNRegressor(**QUICK).partial_fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), updated.predict(X))
    more, z = rows(2, 50)
    old = copy.deepcopy(updated)
    updated.partial_fit(more, z)
    Z = old.fitted_.standardizer(np.concatenate([X, more])[..., None])[..., 0]
    np.testing.assert_allclose(updated.covariance_, HardThreshold().fit(Z).covariance_, atol=1e-9)
    assert updated.shift_.scale == old.shift_.scale
    np.testing.assert_array_equal(updated.fitted_.standardizer.mean, old.fitted_.standardizer.mean)
    assert updated.n_iter_ == 10 and len(updated.history_["train_loss"]) == 10
    assert len(updated.module_.networks) == len(old.module_.networks)


def test_a_half_life_is_that_of_the_covariance():
    (X, y), (more, z) = rows(1, 200), rows(2, 50)
    model = SVNNRegressor(covariance=SampleCovariance(halflife=30), **QUICK).fit(X, y)
    model.partial_fit(more, z)
    Z = model.fitted_.standardizer(np.concatenate([X, more])[..., None])[..., 0]
    np.testing.assert_allclose(model.covariance_, SampleCovariance(halflife=30).fit(Z).covariance_, atol=1e-9)


def test_the_rows_of_a_single_member_stay_in_the_order_of_time():
    X, y = rows(1, 200)
    X[-20:] *= 10
    fading = SampleCovariance(halflife=10)
    model = SVNNRegressor(covariance=fading, members=1, standardize=False, **QUICK).fit(X, y)
    assert np.trace(model.covariance_) > 30 * np.trace(np.cov(X[:-20].T))


def test_an_untrained_step_changes_nothing_but_the_covariance():
    """With a learning rate of next to nothing the network does on the new shift what it did on the old one."""
    X, y = rows(1, 300)
    model = SVNNRegressor(members=2, shrink=False, **QUICK).fit(X, y)
    before = model.predict(X)
    model.set_params(lr=1e-11).partial_fit(*rows(2, 300))
    assert np.abs(model.predict(X) - before).max() < 0.5 * before.std()
    assert np.corrcoef(model.predict(X), before)[0, 1] > 0.98


def test_a_failed_call_changes_nothing():
    X, y = rows(1, 200)
    model = SVNNRegressor(**QUICK).fit(X, y)
    before, state = model.predict(X), dict(vars(model))
    wrong = [
        ((X[:, :4], y), {}, "X has 4 features"),
        ((X, y[:-1]), {}, "inconsistent numbers of samples"),
        ((X, np.c_[y, y]), {}, r"y has shape \(200, 2\)"),
        ((X, y), {"sample_weight": np.zeros(200)}, "sample_weight is zero"),
        ((1e30 * X, y), {}, "loss became|too large|too far"),
    ]
    for args, more, message in wrong:
        with pytest.raises((ValueError, FloatingPointError), match=message):
            model.partial_fit(*args, **more)
    assert all(vars(model)[name] is value for name, value in state.items())
    np.testing.assert_array_equal(model.predict(X), before)

    def stop(record):
        raise KeyboardInterrupt

    model.set_params(callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_after_save_and_load(tmp_path):
    (X, y), (more, z) = rows(1, 200), rows(2, 50)
    model = SVNNRegressor(**QUICK).fit(X, y)
    model.save(tmp_path / "model")
    again = svnn.load(tmp_path / "model")
    np.testing.assert_array_equal(again.partial_fit(more, z).predict(X), model.partial_fit(more, z).predict(X))
    again.save(tmp_path / "model")
    np.testing.assert_array_equal(svnn.load(tmp_path / "model").predict(X), model.predict(X))


def test_covariances_without_running_moments_say_so():
    X, y = rows(1, 200)
    model = SVNNRegressor(**QUICK).fit(X, y)
    del model.covariance_estimator_._totals_
    with pytest.raises(ValueError, match=r"was fitted without running moments.*fit all rows again"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("covariance", ["ledoit_wolf", "adaptive", HardThreshold(tau="cv"), "graphical_lasso"])
def test_covariances_that_cannot_be_updated(covariance):
    X, y = rows(1, 60)
    model = SVNNRegressor(covariance=covariance, members=1, max_epochs=2, random_state=0)
    with pytest.raises(ValueError, match=r"partial_fit needs a covariance estimator with partial_fit.*\"hard\""):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"partial_fit needs a covariance estimator with partial_fit.*\"hard\""):
        model.fit(X, y).partial_fit(X, y)


def test_other_ways_to_train():
    X, y = rows(1, 120)
    cases = [
        {"covariance": np.corrcoef(X.T)},
        {"covariance": "acv", "resample": "epoch", "members": 2},
        {"readout": "flatten", "members": 2},
        {"batch_norm": True, "members": 1},
        {"schedule": "constant", "use": "covariance"},
        {"standardize": False},
    ]
    for parameters in cases:
        model = SVNNRegressor(**{"max_epochs": 5, "random_state": 0, **parameters}).partial_fit(X, y)
        assert np.isfinite(model.partial_fit(X[:3], y[:3]).predict(X)).all()
    signals = np.stack([X, X**2], -1)
    model = SVNNRegressor(max_epochs=5, random_state=0).fit(signals, np.c_[y, -y])
    assert model.partial_fit(signals[:9], np.c_[y, -y][:9]).predict(signals).shape == (120, 2)


def test_a_single_row_and_weights_and_validation_data():
    (X, y), test = rows(1, 200), rows(3, 100)
    model = SVNNRegressor(**QUICK).fit(X, y)
    model.partial_fit(X[:1], y[:1])
    weight = np.r_[np.ones(10), np.zeros(10)]
    a, b = copy.deepcopy(model), copy.deepcopy(model)
    y[10:20] = 1e3  # rows without weight
    a.set_params(batch_size=None).partial_fit(X[:20], y[:20], sample_weight=weight)
    b.set_params(batch_size=None).partial_fit(X[:10], y[:10])
    np.testing.assert_allclose(a.covariance_, b.covariance_, atol=1e-9)
    np.testing.assert_allclose(a.predict(X), b.predict(X), atol=0.3)
    model.partial_fit(X, y, validation_data=test)
    assert len(model.history_["valid_loss"]) == 10
    best = model.history_["best_epoch"]
    assert len(best) == 8 and set(best) <= set(range(1, 11))


def test_classes_are_named_in_the_first_call():
    X, y = rows(1, 200, classes=True)
    first = y != "mid"
    labels = np.array(["high", "low", "mid"])
    model = SVNNClassifier(**QUICK).partial_fit(X[first], y[first], classes=labels)
    np.testing.assert_array_equal(model.classes_, labels)
    assert set(model.predict(X)) <= {"high", "low"}
    for _ in range(10):
        model.partial_fit(X, y, classes=labels)
    assert model.predict_proba(X)[y == "mid", 2].mean() > 2 * model.predict_proba(X)[y != "mid", 2].mean()
    with pytest.raises(ValueError, match=r"y holds the labels \['other'\].*name all of them as classes="):
        model.partial_fit(X[:2], ["low", "other"])
    with pytest.raises(ValueError, match=r"classes=\['high', 'low'\] are not those of the first call"):
        model.partial_fit(X, y, classes=["high", "low"])
    with pytest.raises(ValueError, match=r"y holds the labels \['mid'\]"):
        SVNNClassifier().partial_fit(X, y, classes=["high", "low"])
    with pytest.raises(ValueError, match="a classifier needs at least two"):
        SVNNClassifier().partial_fit(X, y, classes=["low"])


# -- warm_start -----------------------------------------------------------------------------------


@kinds
def test_a_warm_start_starts_from_the_last_weights(kind, parameters):
    X, y = rows(1, 300, classes=kind is SVNNClassifier)
    model = kind(**QUICK, **parameters).fit(X, y)
    first = model.history_["train_loss"][0]
    again = kind(**QUICK, **parameters).fit(X, y).set_params(warm_start=True, lr=1e-9, max_epochs=1)
    before = again.predict(X) if kind is SVNNRegressor else again.predict_proba(X)
    again.fit(X, y)
    after = again.predict(X) if kind is SVNNRegressor else again.predict_proba(X)
    assert again.history_["train_loss"][0] < 0.8 * first
    assert np.abs(after - before).mean() < 0.1 * before.std()


def test_a_warm_start_without_an_earlier_fit_is_a_fit_and_with_another_shape_an_error():
    X, y = rows(1, 200)
    warm, cold = SVNNRegressor(warm_start=True, **QUICK).fit(X, y), SVNNRegressor(**QUICK).fit(X, y)
    np.testing.assert_array_equal(warm.predict(X), cold.predict(X))
    for changed in ({"hidden": (3,)}, {"mlp": ()}, {"members": 4}, {"order": 2}):
        other = copy.deepcopy(warm).set_params(**changed)
        with pytest.raises(ValueError, match="warm_start=False"):
            other.fit(X, y)
        np.testing.assert_array_equal(other.predict(X), warm.predict(X))
    with pytest.raises(ValueError, match="warm_start=False"):
        warm.fit(X[:, :5], y)
    warm.fit(X, y, validation_data=rows(2, 50))
    assert len(warm.history_["valid_loss"]) == warm.n_iter_
