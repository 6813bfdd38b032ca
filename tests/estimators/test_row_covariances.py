"""Models whose rows, or groups of rows, have covariances of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_score

import svnn
from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators._per_sample import RowMatrices
from svnn.estimators.callbacks import Checkpoint
from svnn.nn import SVNN
from svnn.operators import BatchedOperator

FAST = {"max_epochs": 4, "members": 2, "random_state": 0, "device": "cpu"}
N, F = 5, 7


@pytest.fixture(scope="module")
def data():
    """Rows whose target is how strongly their first two nodes go together, which only their own matrix tells."""
    rng = np.random.default_rng(0)
    strength = rng.uniform(-0.9, 0.9, 90)
    shift = np.tile(np.eye(N), (90, 1, 1))
    shift[:, 0, 1] = shift[:, 1, 0] = strength
    X = shift + 0.1 * rng.standard_normal((90, N, N))  # nodes that know their own row, roughly
    return X[:, :, :2], strength, shift


def series(t=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((t, N, F)) + rng.standard_normal((t, 1, F)), rng.standard_normal(t)


def by_hand(model, Z, matrices):
    """The prediction of every row by itself, on its own matrix."""
    networks = model.module_.networks if hasattr(model.module_, "networks") else [model.module_]
    scale = model.shift_.scale
    found = []
    for z, C in zip(Z, matrices, strict=True):
        shift = svnn.as_operator(C).normalized(scale)
        x = torch.from_numpy(z)[None]
        with torch.no_grad():
            found.append([network.double()(x, shift).numpy()[0] for network in networks])
    return np.array(found).transpose(1, 0, 2)


def test_matrices_of_rows_carry_what_the_table_does_not(data):
    _, y, shift = data
    noise = np.random.default_rng(1).standard_normal((90, N)) + 3
    settings = {"standardize": False, "random_state": 0, "device": "cpu"}
    model = SVNNRegressor(**settings).fit(noise[:60], y[:60], shift=shift[:60])
    score = model.score(noise[60:], y[60:], shift=shift[60:])
    assert score > 0.6 > SVNNRegressor(**settings).fit(noise[:60], y[:60]).score(noise[60:], y[60:]) + 0.3


@pytest.mark.parametrize(
    "options", [{}, {"hidden": (3, 3)}, {"batch_norm": True}, {"members": 1}, {"schedule": "constant"}]
)
def test_a_batch_is_what_a_loop_over_its_rows_is(data, options):
    X, y, shift = data
    model = SVNNRegressor(**FAST | options, shrink=False).fit(X[:40], y[:40], shift=shift[:40])
    Z = model.fitted_.standardizer(X[40:50])
    outputs = model._outputs(X[40:50], shift=shift[40:50])
    np.testing.assert_allclose(outputs, by_hand(model, Z, shift[40:50]), rtol=1e-6, atol=1e-9)


def test_training_is_on_the_rows_own_matrices(data):
    """Not on others: swapping the matrices of two rows that are alike otherwise swaps nothing else."""
    X, y, shift = data
    order = np.random.default_rng(1).permutation(40)
    same = SVNNRegressor(**FAST, validation_fraction=0, batch_size=None, node_dropout=0.0)
    a = same.fit(X[:40], y[:40], shift=shift[:40]).predict(X[40:], shift=shift[40:])
    b = same.fit(X[:40][order], y[:40][order], shift=shift[:40][order]).predict(X[40:], shift=shift[40:])
    np.testing.assert_allclose(a, b, atol=1e-3)
    c = same.fit(X[:40], y[:40], shift=shift[:40][order]).predict(X[40:], shift=shift[40:])
    assert abs(a - c).max() > 10 * abs(a - b).max()


def test_all_ways_to_train_agree(data, monkeypatch):
    X, y, shift = data
    fit = lambda: SVNNRegressor(**FAST, node_dropout=0.0).fit(X, y, shift=shift).predict(X, shift=shift)  # noqa: E731
    fast = fit()
    monkeypatch.setenv("SVNN_NUMBA", "0")
    np.testing.assert_allclose(fit(), fast, atol=1e-3)


def test_covariances_of_samples_are_those_of_their_values():
    X, y = series()
    model = SVNNRegressor(**FAST, covariance_per="sample", covariance="sample").fit(X, y)
    found = model.row_covariances(X[:3])
    Z = model.fitted_.standardizer(X[:3])
    for C, z in zip(found, Z, strict=True):
        np.testing.assert_allclose(C, np.cov(z, bias=True), atol=1e-10)
    given = SVNNRegressor(**FAST).fit(X, y, shift=model.row_covariances(X))
    np.testing.assert_allclose(given.predict(X, shift=model.row_covariances(X)), model.predict(X), atol=1e-6)
    np.testing.assert_allclose(model.covariance_, model.row_covariances(X).mean(0))


def test_covariances_of_groups_are_shared():
    X, y = series()
    groups = np.repeat(["a", "b", "c"], 10)
    model = SVNNRegressor(**FAST, covariance_per="group", covariance="sample").fit(X, y, groups=groups)
    found = model.row_covariances(X, groups=groups)
    Z = model.fitted_.standardizer(X)
    np.testing.assert_allclose(found[12], np.cov(Z[10:20].transpose(1, 0, 2).reshape(N, -1), bias=True), atol=1e-10)
    np.testing.assert_array_equal(found[10], found[19])
    assert model.predict(X[:10], groups=groups[:10]).shape == (10,)
    table = X[:, :, 0]
    shared = SVNNClassifier(**FAST, covariance_per="group").fit(table, y > 0, groups=groups)
    assert shared.predict_proba(table, groups=groups).shape == (30, 2)


def test_thresholds_act_on_every_row():
    X, y = series()
    model = SVNNRegressor(**FAST, covariance_per="sample", covariance=svnn.HardThreshold(density=0.3)).fit(X, y)
    kept = (model.row_covariances(X) != 0).sum((1, 2)) - N
    np.testing.assert_array_equal(kept, 2 * round(0.3 * N * (N - 1) / 2))


def test_what_set_params_changes_is_not_fitted(tmp_path):
    X, y = series()
    model = SVNNRegressor(
        **FAST, shrink=False, covariance_per="sample", covariance=svnn.HardThreshold(density=0.3)
    ).fit(X, y)
    before = model.predict(X)
    model.covariance.density = 1.0
    np.testing.assert_array_equal(model.predict(X), before)
    model.set_params(covariance="sample")
    np.testing.assert_array_equal(model.predict(X), before)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(svnn.load(tmp_path / "model").predict(X), before)
    assert abs(model.fit(X, y).predict(X) - before).max() > 1e-4


@pytest.mark.parametrize("per", ["sample", "group", "given"])
@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
def test_models_are_stored(per, kind, tmp_path):
    X, y = series()
    y = y if kind is SVNNRegressor else y > 0
    groups, shift = np.arange(30) % 3, RowMatrices.of_samples("hard", X, 0).matrices
    own = {"group": {"groups": groups}, "given": {"shift": shift}}.get(per, {})
    model = kind(
        **FAST, covariance="acv" if per == "sample" else "hard", **({} if per == "given" else {"covariance_per": per})
    )
    model.fit(X, y, **own)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(svnn.load(tmp_path / "model").predict(X, **own), model.predict(X, **own))


@pytest.mark.parametrize(
    ("kind", "options"),
    [(SVNNRegressor, {"hidden": (3, 2), "batch_norm": True, "readout": "mean"}), (SVNNClassifier, {})],
    ids=["two", "one"],
)
def test_exported_models_take_the_matrices(data, kind, options, tmp_path):
    X, y, shift = data
    y = y if kind is SVNNRegressor else np.where(y > 0, "up", "down")
    model = kind(**FAST | options).fit(X, y, shift=shift)
    wanted = model.predict(X, shift=shift) if kind is SVNNRegressor else model.predict_proba(X, shift=shift)
    x, C = torch.from_numpy(X), torch.from_numpy(shift)
    np.testing.assert_allclose(model.to_torch(torch.float64)(x, C), wanted, atol=1e-9)
    np.testing.assert_allclose(model.to_torch()(x, C), wanted, atol=1e-5)
    model.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    np.testing.assert_allclose(program(x.float()[:1], C.float()[:1]), wanted[:1], atol=1e-5)
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model.export(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(None, {"X": X.astype(np.float32), "shift": shift.astype(np.float32)})
    np.testing.assert_allclose(found[0], wanted, atol=1e-5)
    if kind is SVNNClassifier:
        np.testing.assert_array_equal(found[1].astype(str), model.predict(X, shift=shift))


def test_validation_data_come_with_their_matrices(data):
    X, y, shift = data
    model = SVNNRegressor(**FAST)
    model.fit(X[:60], y[:60], shift=shift[:60], validation_data=(X[60:], y[60:], shift[60:]))
    assert len(model.history_["valid_loss"]) == 4
    with pytest.raises(ValueError, match=r"validation_data must be \(X, y, shift\)"):
        model.fit(X[:60], y[:60], shift=shift[:60], validation_data=(X[60:], y[60:]))


def test_cross_validation_deals_out_the_matrices(data):
    import sklearn

    X, y, shift = data
    model = SVNNRegressor(**FAST | {"max_epochs": 40}, covariance_per="table")
    with sklearn.config_context(enable_metadata_routing=True):
        routed = model.set_fit_request(shift=True).set_score_request(shift=True)
        scores = cross_val_score(routed, X, y, params={"shift": shift}, cv=3)
    assert scores.min() > 0.3


def test_another_covariance_for_all_rows(data):
    X, y, shift = data
    model = SVNNRegressor(**FAST).fit(X, y, shift=shift)
    other = model.on(shift[0])
    same = model.predict(X[:1], shift=shift[:1])
    np.testing.assert_allclose(other.predict(X[:1]), same, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "own", "message"),
    [
        ({}, {"shift": np.eye(N)}, "shift must hold a matrix for each row of X"),
        ({}, {"shift": np.tile(np.triu(np.ones((N, N))), (30, 1, 1))}, r"shift\[0\] is not symmetric"),
        (
            {"use": "log"},
            {"shift": np.tile(np.eye(N), (30, 1, 1))},
            'shift= uses the covariances themselves, not use="log"',
        ),
        ({"covariance_per": "group"}, {}, 'covariance_per="group" needs groups='),
        ({"covariance_per": "sample", "use": "precision"}, {}, "uses the covariances themselves"),
        ({"covariance_per": "sample", "covariance": np.eye(N)}, {}, "but covariance= is a matrix"),
        ({"covariance_per": "sample", "covariance": "acv", "resample": "epoch"}, {}, "draws others"),
        ({"covariance_per": "row"}, {}, "covariance_per"),
    ],
)
def test_what_makes_no_sense_is_said(options, own, message):
    X, y = series()
    with pytest.raises(ValueError, match=message):
        SVNNRegressor(**FAST | options).fit(X, y, **own)


def test_requests_that_do_not_fit_the_model_are_said(data):
    X, y, shift = data
    model = SVNNRegressor(**FAST).fit(X, y, shift=shift)
    with pytest.raises(ValueError, match="give those of X as shift="):
        model.predict(X)
    with pytest.raises(ValueError, match="leave it out"):
        SVNNRegressor(**FAST).fit(X, y).predict(X, shift=shift)
    with pytest.raises(ValueError, match="a single observation"):
        SVNNRegressor(**FAST, covariance_per="group").fit(X[:, :, 0], y, groups=np.r_[0, np.ones(89)])
    with pytest.raises(ValueError, match=r"needs X of shape \(t, N, F\)"):
        SVNNRegressor(**FAST, covariance_per="sample").fit(X[:, :, 0], y)
    with pytest.raises(ValueError, match="partial_fit is for models with one covariance"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"svnn\.inspection is for models with one covariance"):
        svnn.inspection.feature_contributions(model, X)
    with pytest.raises(ValueError, match="a report is for models with one covariance"):
        model.report(X, y, "never.html")


def test_a_killed_fit_is_resumed_with_its_matrices(data, tmp_path):
    X, y, shift = data
    saved = Checkpoint(tmp_path / "state", seconds=0)

    def stop(record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SVNNRegressor(**FAST, callbacks=[saved, stop]).fit(X, y, shift=shift)
    with pytest.raises(ValueError, match="state"):
        SVNNRegressor(**FAST, callbacks=[saved]).fit(X, y, shift=shift[::-1])
    resumed = SVNNRegressor(**FAST, callbacks=[saved]).fit(X, y, shift=shift)
    whole = SVNNRegressor(**FAST).fit(X, y, shift=shift)
    np.testing.assert_array_equal(resumed.predict(X, shift=shift), whole.predict(X, shift=shift))


def test_the_operator_of_rows_does_not_repeat_matrices():
    matrices = RowMatrices(np.stack([np.eye(3), 2 * np.eye(3)]), np.array([0, 1, 1, 0, 1]))
    operator = matrices.operator(2.0, torch.float64, torch.device("cpu"))
    assert isinstance(operator, BatchedOperator) and operator.source.matrices.shape == (2, 3, 3)
    np.testing.assert_allclose((operator @ torch.ones(5, 3, 1).double())[:, 0, 0], [0.5, 1, 1, 0.5, 1])
    assert matrices.norm() == pytest.approx(1.6) and matrices.mean()[0, 0] == pytest.approx(1.6)
    network = SVNN(1, 1)
    assert network.double()(torch.ones(5, 3, 1).double(), operator).shape == (5, 1)
