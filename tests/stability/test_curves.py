"""Stability curves: the same network on covariances that differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from svnn import (
    ACV,
    RCV,
    AdaptiveThreshold,
    BlendClassifier,
    HardThreshold,
    SampleCovariance,
    SVNNClassifier,
    SVNNRegressor,
)
from svnn.paper import make_sparse_cov
from svnn.stability import stability_curve
from svnn.stability._records import Records

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

QUICK = {"max_epochs": 15, "hidden": (8,), "random_state": 0}
DATA = make_sparse_cov(n_samples=1600, n_features=24, random_state=0)
TEST, POOL = DATA.X[200:260], DATA.X[300:]
Y_TEST = DATA.y[200:260]
CHANGES = ["embedding_error", "embedding_distance", "prediction_change", "covariance_error", "covariance_error_fro"]


@pytest.fixture(scope="module")
def model():
    network = SVNNRegressor(covariance=DATA.covariance, readout="mean", **QUICK)
    return network.fit(DATA.X[:200], DATA.y[:200])


def curve(model, estimator="sample", *args, **options):
    options = {"repeats": 3, "random_state": 0} | options
    return stability_curve(model, TEST, estimator, POOL, *args, **options)


@pytest.mark.parametrize("reference", [DATA.covariance, None])
@pytest.mark.parametrize("estimator", ["sample", HardThreshold(), ACV(density=0.5)])
def test_differences_are_real_and_fall_with_the_sample_size(model, estimator, reference):
    table = curve(model, estimator, (30, 120, 600), reference=reference, repeats=5)
    assert len(table) == 15
    for name in CHANGES:
        assert (table[name] > 0).all(), name
    means = table.mean("n_samples")
    assert means["n_samples"].tolist() == [30, 120, 600]
    for name in CHANGES:
        assert means[name][0] > means[name][-1], name
    if estimator == "sample":
        for name in CHANGES:
            assert (np.diff(means[name]) < 0).all(), name


def test_records_say_what_the_network_itself_says(model):
    table = curve(model, "hard", [100], reference=DATA.covariance, y_test=Y_TEST, repeats=1)
    row = table[0]
    rows = np.random.default_rng(row["seed"]).permutation(len(POOL))[:100]
    base, moved = model.on(DATA.covariance), model.on(HardThreshold(), X=POOL[rows])
    U, V = base.embed(TEST), moved.embed(TEST)
    assert row["embedding_error"] == pytest.approx(np.linalg.norm(V - U) / np.linalg.norm(U))
    assert row["embedding_distance"] == pytest.approx(
        np.mean([np.linalg.norm(v - u) for u, v in zip(U, V, strict=True)])
    )
    assert row["prediction_change"] == pytest.approx(np.mean(abs(moved.predict(TEST) - base.predict(TEST))))
    assert row["task_error"] == pytest.approx(np.mean(abs(moved.predict(TEST) - Y_TEST)))
    assert row["task_change"] == pytest.approx(row["task_error"] - np.mean(abs(base.predict(TEST) - Y_TEST)))
    E = moved.covariance_ - DATA.covariance
    assert row["covariance_error"] == pytest.approx(np.linalg.norm(E, 2) / np.linalg.norm(DATA.covariance, 2), rel=1e-5)
    assert row["covariance_error_fro"] == pytest.approx(np.linalg.norm(E) / np.linalg.norm(DATA.covariance), rel=1e-5)
    n = 24
    assert row["density"] == pytest.approx((np.count_nonzero(moved.covariance_) - n) / (n * (n - 1)))
    assert (row["n_samples"], row["n_features"], row["repeat"]) == (100, n, 0) and np.isnan(row["level"])


def test_the_same_covariance_gives_no_difference(model):
    """The instrument's zero: the reference itself, all rows of the pool, by the same estimator."""
    fitted = model.on("sample", X=POOL)
    table = curve(model, "sample", [len(POOL)], reference=fitted.covariance_, repeats=1)
    assert all(table[name][0] == pytest.approx(0, abs=1e-6) for name in CHANGES)


@pytest.mark.parametrize("estimator", [HardThreshold(), ACV(), RCV(unbiased=True), ACV(random_state=7)])
def test_levels_set_the_density_and_compare_with_the_whole_matrix(model, estimator):
    stochastic = hasattr(estimator, "sample")
    table = curve(model, estimator, levels=(0.2, 0.6, 1.0))
    assert len(table) == (9 if stochastic else 3)
    means = table.mean("level")
    assert means["density"] == pytest.approx([0.2, 0.6, 1.0], abs=0.1)
    for name in CHANGES:
        assert means[name][0] > means[name][1] > means[name][2], name
        assert means[name][2] == pytest.approx(0, abs=1e-6)
    if stochastic:  # every repeat draws its own mask
        assert len(set(table["embedding_error"][:3])) == 3
    parameter = "p" if isinstance(estimator, RCV) else "density"
    assert estimator.get_params()[parameter] == type(estimator)().get_params()[parameter]  # the user's stays


def test_dimensions_run_on_other_features(model):
    table = curve(model, "sample", dimensions=(6, 12, 24), n_samples=40, reference=DATA.covariance)
    assert table["n_features"].tolist() == [6] * 3 + [12] * 3 + [24] * 3
    assert (table["n_samples"] == 40).all()
    for name in CHANGES:
        assert (table[name] > 0).all() and np.isfinite(table[name]).all()
    # More features, the same samples: the covariance is worse.
    assert (np.diff(table.mean("n_features")["covariance_error"]) > 0).all()
    by_default = curve(model, "sample", dimensions=[6])
    assert by_default["n_samples"].tolist() == [len(POOL) // 2] * 3 and (by_default["embedding_error"] > 0).all()


def test_dimensions_compare_the_same_filter_on_both_matrices(model):
    """Doubling the matrix must show: both are divided by the reference's norm, not each by its own."""

    class Double(SampleCovariance):
        def fit(self, X, y=None, sample_weight=None):
            super().fit(X)
            self.covariance_ = 2 * self.covariance_
            return self

    table = curve(model, Double(), dimensions=[10], n_samples=1000, reference=np.corrcoef(POOL.T), repeats=1)
    assert table["covariance_error"][0] > 0.8


def test_labels_of_a_classifier():
    labels = np.array(["a", "b"])[(DATA.y > 0).astype(int)]
    network = BlendClassifier(SVNNClassifier(**QUICK)).fit(DATA.X[:200], labels[:200])
    table = stability_curve(network, TEST, "sample", POOL, [30, 500], y_test=labels[200:260], repeats=2, random_state=1)
    assert ((table["prediction_change"] >= 0) & (table["prediction_change"] <= 1)).all()
    moved = network.on("sample", X=POOL[np.random.default_rng(table[0]["seed"]).permutation(len(POOL))[:30]])
    assert table[0]["task_error"] == pytest.approx(1 - moved.score(TEST, labels[200:260]))


def test_signals_of_several_values(rng):
    X = rng.standard_normal((150, 6, 3)) + rng.standard_normal((150, 1, 3))
    network = SVNNRegressor(readout="mean", **QUICK).fit(X, X.mean((1, 2)))
    table = stability_curve(network, X[:20], "sample", X, [20, 100], repeats=2, random_state=0)
    assert (table["embedding_error"] > 0).all()
    assert (stability_curve(network, X[:20], "sample", X, dimensions=[4], repeats=1)["embedding_error"] > 0).all()


def test_pandas_takes_the_table_and_frames_and_tensors_go_in(model):
    table = curve(model, "hard", (30, 60), reference=DATA.covariance)
    frame = pd.DataFrame(table)
    assert list(frame.columns) == table.columns and len(frame) == 6
    assert frame.groupby("n_samples").mean()["embedding_error"].tolist() == pytest.approx(
        table.mean("n_samples")["embedding_error"]
    )
    again = curve(model, "hard", np.array([30, 60]), reference=DATA.covariance)
    assert again["embedding_error"].tolist() == table["embedding_error"].tolist()
    names = [f"x{i}" for i in range(24)]
    named = SVNNRegressor(readout="mean", **QUICK).fit(pd.DataFrame(DATA.X[:200], columns=names), DATA.y[:200])
    options = {"sizes": [30], "repeats": 1, "random_state": 0}
    by_frame = stability_curve(
        named, pd.DataFrame(TEST, columns=names), "hard", pd.DataFrame(POOL, columns=names), **options
    )
    by_array = stability_curve(named.fit(DATA.X[:200], DATA.y[:200]), TEST, "hard", POOL, **options)
    by_tensor = stability_curve(named, torch.tensor(TEST), "hard", torch.tensor(POOL), **options)
    assert by_frame["embedding_error"] == by_array["embedding_error"] == by_tensor["embedding_error"]


def test_printing_aligns_the_columns():
    lines = str(
        Records([{"rule": "hard", "error": 0.123456, "n": 5}, {"rule": "x", "error": 2.0, "n": 100}])
    ).splitlines()
    assert lines == ["rule   error    n", "hard  0.1235    5", "x          2  100"]
    assert str(Records()) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of sizes, levels and dimensions, got none"),
        ({"sizes": [10], "levels": [0.5]}, "got sizes and levels"),
        ({"sizes": [1]}, r"sizes must hold integers from 2 to 1299 \(rows of X_pool\), got 1"),
        ({"sizes": [1300]}, "from 2 to 1299"),
        ({"sizes": [30.5]}, "sizes must hold integers"),
        ({"levels": [1.5]}, "levels must be a number between 0 and 1"),
        ({"dimensions": [25]}, r"dimensions must hold integers from 2 to 24 \(features of X_pool\)"),
        ({"dimensions": [5], "n_samples": 5000}, "n_samples must hold integers"),
        ({"sizes": [10], "n_samples": 5}, "n_samples is for dimensions only"),
        ({"sizes": [10], "repeats": 0}, "repeats must be an integer >= 1"),
        ({"sizes": [10], "y_test": [1.0]}, "y_test has 1 rows, X_test has 60"),
        ({"sizes": [10], "reference": np.triu(np.ones((24, 24)))}, "reference is not symmetric"),
        ({"sizes": [10], "reference": np.eye(5)}, "covariance has 5 features, X has 24"),
    ],
)
def test_errors_name_the_argument(model, options, message):
    with pytest.raises(ValueError, match=message):
        curve(model, "hard", **options)


def test_more_errors(model):
    with pytest.raises(ValueError, match=r"levels needs an estimator with a parameter density or p.*AdaptiveThreshold"):
        curve(model, AdaptiveThreshold(), levels=[0.5])
    weighted = SVNNRegressor(**QUICK).fit(DATA.X[:100], DATA.y[:100])
    with pytest.raises(ValueError, match='Train with readout="mean" to transfer'):
        curve(weighted, "hard", dimensions=[5])
    with pytest.raises(ValueError, match=r"X_pool must have shape \(T, N\)"):
        stability_curve(model, TEST, "hard", np.ones(5), [3])
