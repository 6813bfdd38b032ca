"""Parameters as numpy holds them: scalars of any width, arrays as sizes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import SVNNRegressor, load

WHOLE = ("order", "members", "heads", "max_epochs", "patience", "batch_size", "verbose", "random_state")
WHOLE += ("n_components", "n_neighbors", "max_observations")
REAL = ("dropout", "node_dropout", "lr", "weight_decay", "validation_fraction")
TRUTH = ("batch_norm", "standardize", "shrink", "warm_start")
SIZES = ("hidden", "mlp")


def in_numpy(parameters, whole, real, sizes):
    """Return the parameters with numpy's numbers in the place of Python's."""
    found = {}
    for name, value in parameters.items():
        if name in SIZES:
            found[name] = sizes(value)
        elif name in TRUTH:
            found[name] = np.bool_(value)
        elif name in REAL:
            found[name] = real(value)
        elif name in WHOLE and not isinstance(value, str) and value is not None:
            found[name] = whole(value)
    return found


KINDS = {
    "wide": (np.int64, np.float64, lambda sizes: tuple(np.int64(s) for s in sizes)),
    "narrow": (np.int32, np.float32, lambda sizes: [np.uint8(s) for s in sizes]),
    "arrays": (np.int64, np.float64, lambda sizes: np.array(sizes, dtype=np.int64)),
}


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        pytest.param(*parameter.values, kind, id=f"{parameter.id}-{kind}")
        for place, parameter in enumerate(each(REGRESSORS, "blend") + each(CLASSIFIERS, "blend"))
        for kind in (KINDS if place == 0 else list(KINDS)[place % 3 :][:1])
    ],
)
def test_numbers_of_numpy_are_numbers(model, kind, data, tmp_path):
    X, y = data[0], (data[1] > 100 if "Classifier" in type(model).__name__ else data[1])
    plain = clone(model)
    own = in_numpy(plain.get_params(deep=False), *KINDS[kind])
    if kind == "narrow":  # what float32 rounds is another number
        plain.set_params(**{name: float(own[name]) for name in REAL if name in own})
    expected = plain.fit(X, y)
    found = clone(clone(model).set_params(**own)).fit(X, y)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_array_equal(found.embed(X), expected.embed(X))
    assert repr(found)
    if hasattr(found, "save"):
        found.save(tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.predict(X), expected.predict(X))
        np.testing.assert_array_equal(clone(again).fit(X, y).predict(X), expected.predict(X))


@pytest.mark.parametrize("name", ["hidden", "mlp"])
@pytest.mark.parametrize(
    "sizes",
    [
        np.array(8),
        np.array([[8]]),
        np.array([8.0]),
        np.array([8, -1]),
        np.array([True]),
        {8, 16},
        iter([8]),
        "8",
        (8.0,),
        (True,),
        np.nan,
        None,
    ],
    ids=lambda sizes: "iterator" if hasattr(sizes, "__next__") else repr(sizes),
)
def test_sizes_that_are_none_are_named(name, sizes, data):
    with pytest.raises(ValueError, match=f"{name} must be a sequence of positive integers"):
        SVNNRegressor(max_epochs=2, **{name: sizes}).fit(*data)


@pytest.mark.parametrize(
    "name", ["order", "members", "heads", "max_epochs", "patience", "batch_size", "verbose", *REAL, *TRUTH]
)
def test_values_that_are_no_parameters_are_named(name, data):
    for value in (np.array([1, 2]), np.array(["a"]), np.nan, "1", [1], 1j):
        with pytest.raises(ValueError, match=f"{name} must"):
            SVNNRegressor(max_epochs=2).set_params(**{name: value}).fit(*data)


@pytest.mark.parametrize(
    "name",
    [*("use", "resample", "covariance_per", "schedule", "activation", "readout", "loss", "device", "random_state")],
)
def test_words_that_are_none_are_named(name, data):
    for value in (np.array(["a", "b"]), ["relu"], {}, 1.5, np.nan):
        with pytest.raises(ValueError, match=f"{name} must"):
            SVNNRegressor(max_epochs=2).set_params(**{name: value}).fit(*data)


@pytest.mark.parametrize("name", REAL)
def test_numbers_without_end_are_named(name, data):
    for value in (np.inf, -np.inf, np.nan, np.float32("nan")):
        with pytest.raises(ValueError, match=f"{name} must"):
            SVNNRegressor(max_epochs=2).set_params(**{name: value}).fit(*data)


@pytest.mark.parametrize("name", ["C", "epsilon", "gamma"])
@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_a_machine_names_its_numbers(name, value, data):
    with pytest.raises(ValueError, match=f"(?s){name}"):
        clone(REGRESSORS["svm"]).set_params(**{name: value}).fit(*data)


@pytest.mark.parametrize("device", ["meta", "cuda:99", "tpu"])
def test_devices_that_cannot_be_trained_on_are_named(device, data):
    with pytest.raises(ValueError, match="device"):
        SVNNRegressor(max_epochs=2, device=device).fit(*data)


def test_a_negative_seed_is_named(data):
    with pytest.raises(ValueError, match="random_state must be None, an integer >= 0 or a random generator"):
        SVNNRegressor(max_epochs=2, random_state=-1).fit(*data)
