"""Windows become features that see past the phase, for any finite window."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import svnn.preprocessing
from svnn import SVNNClassifier
from svnn.preprocessing import WindowFeatures
from svnn.preprocessing import _window_features as module

EVERYTHING = {
    "extras": ("range", "min", "max", "roughness", "crossings"),
    "quantiles": (0.1, 0.5),
    "bands": 3,
    "lags": (1, 2),
}
quick = settings(deadline=None, max_examples=25, derandomize=True)


@pytest.fixture
def X(rng):
    return rng.gamma(2.0, size=(20, 3, 33)) * [[1.0], [10.0], [0.1]]


def values(X, **parameters):
    """Features by name, each of shape (t, N)."""
    transformer = WindowFeatures(**parameters)
    result = transformer.fit_transform(X)
    return {name: result[..., i] for i, name in enumerate(transformer.value_names_)}


def test_features_are_what_their_names_say(X):
    f = values(X, log=False, quantiles=(0.25,), lags=(3,), extras=EVERYTHING["extras"], bands=0)
    close = np.testing.assert_allclose
    close(f["mean"], X.mean(-1))
    close(f["std"], X.std(-1))
    close(f["skewness"], scipy.stats.skew(X, axis=-1))
    close(f["kurtosis"], scipy.stats.kurtosis(X, axis=-1, fisher=False))
    close(f["range"], X.max(-1) - X.min(-1))
    close(f["min"], X.min(-1))
    close(f["max"], X.max(-1))
    close(f["quantile_0.25"], np.quantile(X, 0.25, axis=-1))
    close(f["roughness"] ** 2, np.mean(np.diff(X) ** 2, -1))
    centred = X - X.mean(-1, keepdims=True)
    close(f["crossings"], np.mean(centred[..., 1:] * centred[..., :-1] < 0, -1))
    close(f["lag_3"], np.sum(centred[..., 3:] * centred[..., :-3], -1) / np.sum(centred**2, -1))


def test_magnitudes_are_logarithms_unless_told_otherwise(X):
    logs, plain = values(X, **EVERYTHING), values(X, **EVERYTHING, log=False)
    magnitudes = {"std", "kurtosis", "range", "roughness", *(name for name in plain if "band" in name)}
    assert len(magnitudes) == 7
    for name, value in plain.items():
        expected = np.log(value) if name in magnitudes else value
        np.testing.assert_allclose(logs[f"log_{name}" if name in magnitudes else name], expected)


@quick
@given(steps=st.integers(2, 40), bands=st.integers(1, 6), seed=st.integers(0, 99))
def test_bands_share_out_the_variance(steps, bands, seed):
    """Parseval, for even and odd lengths: no energy is lost, none is counted twice."""
    X = np.random.default_rng(seed).standard_normal((4, 2, steps))
    if bands > steps // 2:
        with pytest.raises(ValueError, match=f"have {steps // 2} frequencies"):
            WindowFeatures(bands=bands).fit(X)
        return
    transformer = WindowFeatures(moments=(), extras=(), bands=bands, log=False)
    energies = transformer.fit_transform(X)
    assert energies.shape == (4, 2, bands)
    np.testing.assert_allclose(energies.sum(-1), X.var(-1), rtol=1e-10)
    assert transformer.band_edges_[-1] == pytest.approx(0.5) and (np.diff(transformer.band_edges_) >= 0).all()


@quick
@given(shift=st.integers(0, 31), seed=st.integers(0, 99))
def test_the_phase_of_an_oscillation_does_not_matter(shift, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, 2, 32))
    transformer = WindowFeatures().fit(X)
    np.testing.assert_allclose(transformer.transform(np.roll(X, shift, -1)), transformer.transform(X), atol=1e-9)


@quick
@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 99))
def test_units_only_shift_the_logarithms(scale, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 2, 20))
    X[0, 0] = 0.5  # a constant window takes the floor, which has the same unit
    before, after = (values(x, moments=("std", "skewness"), bands=2) for x in (X, scale * X))
    np.testing.assert_allclose(after["skewness"], before["skewness"], atol=1e-6)
    for name in before:
        if name.startswith("log_"):
            power = 2 if "band" in name else 1
            np.testing.assert_allclose(after[name] - before[name], power * np.log(scale), rtol=1e-6, atol=1e-6)


def test_explicit_bands_hold_their_frequencies():
    rate, steps = 50.0, 100
    time = np.arange(steps) / rate
    tones = np.stack([a * np.sin(2 * np.pi * f * time) for a, f in ((1, 2.0), (2, 10.0), (3, 25 - 0.5))])
    transformer = WindowFeatures(moments=(), extras=(), bands=(0.5, 5, 15, 25), sampling_rate=rate, log=False)
    energies = transformer.fit_transform(tones[None])[0]
    np.testing.assert_allclose(energies, np.diag([0.5, 2.0, 4.5]), atol=1e-10)
    np.testing.assert_allclose(transformer.band_edges_, [0.5, 5, 15, 25])
    assert transformer.value_names_ == ["band_0.5_5", "band_5_15", "band_15_25"]
    # A frequency on an edge belongs to the band above it; the highest belongs to the last band.
    edge = values(tones[None, 1:2], moments=(), extras=(), bands=(5, 10, 25), sampling_rate=rate, log=False)
    assert edge["band_5_10"].item() < 1e-20 and edge["band_10_25"].item() == pytest.approx(2)
    nyquist = np.cos(np.pi * np.arange(steps))[None, None]
    assert values(nyquist, moments=(), extras=(), bands=(24, 25), sampling_rate=rate, log=False)["band_24_25"] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level", [0.0, 0.1, -3e8])
def test_constant_windows_are_finite_and_neutral(dtype, level, rng):
    X = rng.standard_normal((8, 2, 9)).astype(dtype)
    X[3] = level
    X[:, 1] = level  # a channel that never moves
    f = values(X, **EVERYTHING)
    assert all(np.isfinite(v).all() and v.dtype == dtype for v in f.values())
    assert f["skewness"][3, 0] == f["crossings"][3, 0] == f["lag_1"][3, 0] == 0
    assert f["log_kurtosis"][3, 0] == pytest.approx(np.log(3))
    assert f["log_std"][3, 0] == f["log_std"][:, 0].min() and np.ptp(f["log_std"][:, 1]) == 0


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_very_short_windows(steps, rng):
    X = rng.standard_normal((5, 2, steps))
    parameters = {**EVERYTHING, "bands": steps // 2, "lags": ()}
    assert all(np.isfinite(v).all() for v in values(X, **parameters).values())


def test_float32_is_computed_in_double_precision(rng):
    """A small motion on a large offset, as of a magnetometer, is not lost."""
    X = (1000 + 0.01 * rng.standard_normal((10, 2, 64))).astype(np.float32)
    exact = WindowFeatures().fit_transform(X.astype(np.float64))
    result = WindowFeatures().fit_transform(X)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-5)


def test_rows_do_not_depend_on_each_other_nor_on_the_pieces(X, monkeypatch):
    transformer = WindowFeatures(**EVERYTHING).fit(X)
    whole = transformer.transform(X)
    np.testing.assert_array_equal(transformer.transform(X[4:5]), whole[4:5])
    monkeypatch.setattr(module, "_VALUES", 3 * 33 * 7)
    np.testing.assert_array_equal(transformer.fit(X).transform(X), whole)


def test_the_test_rows_are_not_learnt_from(X):
    transformer = WindowFeatures().fit(X[:10])
    floor = transformer.floor_.copy()
    transformer.transform(1e-9 * X[10:])
    np.testing.assert_array_equal(transformer.floor_, floor)
    # Below a thousandth of the typical value there is nothing to tell.
    tiny = transformer.transform(1e-9 * X[10:])
    np.testing.assert_allclose(tiny[..., 1], np.broadcast_to(np.log(floor[:, 1]), (10, 3)))


def test_tables_have_named_columns(X):
    transformer = WindowFeatures(layout="table").fit(X)
    nodes = WindowFeatures().fit_transform(X)
    np.testing.assert_array_equal(transformer.transform(X), nodes.reshape(len(X), -1))
    names = transformer.get_feature_names_out(["a", "b", "c"])
    assert len(names) == 27 and names[0] == "a_mean" and names[10] == "b_log_std"
    frame = transformer.set_output(transform="pandas").transform(X)
    assert isinstance(frame, pd.DataFrame) and frame.columns[0] == "x0_mean"
    np.testing.assert_array_equal(frame.to_numpy(), nodes.reshape(len(X), -1))


def test_names_of_nodes_are_checked(X):
    transformer = WindowFeatures(layout="table").fit(X)
    with pytest.raises(ValueError, match=r"number of features \(3\), got 2"):
        transformer.get_feature_names_out(["a", "b"])
    transformer.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    assert transformer.get_feature_names_out()[0] == "a_mean"
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        transformer.get_feature_names_out(["a", "b", "d"])


def test_frames_are_not_made_of_three_dimensions(X):
    from sklearn import config_context

    with config_context(transform_output="pandas"):
        assert isinstance(WindowFeatures().fit_transform(X), np.ndarray)
    assert not hasattr(WindowFeatures().fit(X), "get_feature_names_out")


def test_manners(X):
    transformer = WindowFeatures(bands=(0.1, 0.4), lags=(1,))
    assert clone(transformer).get_params() == transformer.get_params()
    tags = transformer.__sklearn_tags__()
    assert tags.input_tags.three_d_array and not tags.input_tags.two_d_array
    np.testing.assert_array_equal(transformer.fit_transform(torch.as_tensor(X)), transformer.fit_transform(X))
    assert transformer.n_features_in_ == 3 and transformer.n_steps_in_ == 33
    for name in svnn.preprocessing.__all__:
        assert ">>>" in inspect.getdoc(getattr(svnn.preprocessing, name))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"moments": "mean"}, "moments must be a sequence of names"),
        ({"moments": ("median",)}, "moments must be a sequence of names"),
        ({"extras": ("jerk",)}, "extras must be a sequence of names"),
        ({"quantiles": (1.5,)}, r"quantiles must be a sequence of numbers in \[0, 1\]"),
        ({"bands": 17}, "have 16 frequencies"),
        ({"bands": -1}, "bands=-1 is not possible"),
        ({"bands": (0.2, 0.1)}, "increasing edges"),
        ({"bands": (0.1, 0.101, 0.4)}, "no frequency from 0.1 to 0.101"),
        ({"bands": (0.1, 0.4, 0.6, 0.7)}, "no frequency from 0.6 to 0.7"),
        ({"lags": (33,)}, "lags must be integers from 1 to 32"),
        ({"lags": (0.5,)}, "lags must be a sequence of positive integers"),
        ({"sampling_rate": 0}, "sampling_rate must be None or a positive number"),
        ({"layout": "flat"}, "layout must be one of"),
        ({"moments": (), "extras": (), "bands": 0}, "no features to compute"),
    ],
)
def test_bad_parameters_are_named(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        WindowFeatures(**parameters).fit(X)


def test_bad_windows_are_named(X):
    with pytest.raises(ValueError, match=r"a single channel is X\[:, None, :\]"):
        WindowFeatures().fit(X[:, 0])
    with pytest.raises(ValueError, match="contains NaN"):
        WindowFeatures().fit(np.full_like(X, np.nan))
    transformer = WindowFeatures().fit(X)
    with pytest.raises(ValueError, match="windows of 20 samples"):
        transformer.transform(X[..., :20])
    with pytest.raises(ValueError, match="expecting 3 features"):
        transformer.transform(X[:, :2])


def test_what_raw_samples_cannot_see(rng):
    """Two rhythms at random phases: alike on average at every moment, told apart by their bands."""
    y = np.arange(120) % 2
    time = np.arange(64)
    phase = rng.uniform(0, 2 * np.pi, (120, 4, 1))
    rhythm = np.where(y == 1, 8, 3)[:, None, None]
    X = np.sin(2 * np.pi * rhythm * time / 64 + phase) + 0.5 * rng.standard_normal((120, 4, 64))
    model = SVNNClassifier(max_epochs=30, random_state=0)
    assert cross_val_score(make_pipeline(WindowFeatures(), model), X, y, cv=3).mean() > 0.98


def test_windows_of_any_unit(rng):
    X = rng.standard_normal((6, 2, 32))
    parameters = {"moments": ("std", "skewness", "kurtosis"), "extras": (), "bands": 0, "log": False}
    expected = values(X, **parameters)
    for factor in (1e150, 1e-150, 1e-170):
        found = values(factor * X, **parameters)
        for name in expected:
            unit = factor if name == "std" else 1.0
            np.testing.assert_allclose(found[name] / unit, expected[name], rtol=1e-9)
    with pytest.raises(ValueError, match="X has values too large for their squares; rescale"):
        WindowFeatures().fit_transform(1e200 * X)


def test_constant_up_to_rounding_is_constant():
    window = np.full((1, 1, 20), 3.3)
    window[..., ::2] = np.nextafter(3.3, 4)
    rest, scale = module.centred(window)
    assert (rest == 0).all() and (scale == 0).all()
