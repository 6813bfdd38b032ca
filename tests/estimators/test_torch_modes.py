"""What the caller has told torch, for code of their own, changes nothing in an estimator."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.base import clone

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import HardThreshold, SVNNRegressor, load
from svnn.nn import SVNN, CovarianceFilter

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


MODES = {
    "float64": lambda: default_dtype(torch.float64),
    "float16": lambda: default_dtype(torch.float16),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "on meta": lambda: torch.device("meta"),
    "default device": lambda: default_device("meta"),
}


#: All modes for the network, two for every other model; `make test-slow` runs the rest.
PAIRS = [
    pytest.param(
        *parameter.values,
        mode,
        id=f"{parameter.id}-{mode}",
        marks=() if place == 0 or (place + 3 * k) % len(MODES) in (0, 1) else pytest.mark.slow,
    )
    for place, parameter in enumerate(each(REGRESSORS) + each(CLASSIFIERS))
    for k, mode in enumerate(MODES)
]


def answers(model, X):
    """Return the predictions of a fitted model, and the embeddings where it has them."""
    return [model.predict(X), *([model.embed(X)] if hasattr(model, "embed") else [])]


def use(model, X, y):
    """Fit a model and return what it says."""
    found = answers(model.fit(X, y), X)
    if hasattr(model, "on"):
        found += answers(model.on(HardThreshold(density=0.5), X=X), X)
        found.append(model.on(np.eye(X.shape[1])).predict(X))
    return found


@pytest.mark.parametrize(("model", "mode"), PAIRS)
def test_the_same_numbers_in_every_mode(model, mode, data):
    X, y = data[0], (data[1] > 100 if "Classifier" in type(model).__name__ else data[1])
    expected = use(clone(model), X, y)
    with MODES[mode]():
        inside = use(fitted := clone(model), X, y)
    for found in (inside, answers(fitted, X)):
        for a, b in zip(found, expected, strict=False):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_a_network_fitted_in_a_mode_is_an_ordinary_one(mode, data):
    X, y = data
    with MODES[mode]():
        model = SVNNRegressor(max_epochs=2, random_state=0).fit(X, y)
    x = torch.randn(3, 6, 1, generator=torch.Generator().manual_seed(0))
    model.module_(x, model.operator_).sum().backward()
    for weights in model.module_.parameters():
        assert weights.device.type == "cpu" and weights.dtype == torch.float32
        assert not weights.is_inference() and weights.grad is not None


@pytest.mark.parametrize("mode", MODES)
def test_models_are_stored_and_read_in_every_mode(mode, data, tmp_path):
    X, y = data
    model = SVNNRegressor(max_epochs=2, random_state=0).fit(X, y)
    expected = model.predict(X)
    with MODES[mode]():
        model.save(tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.predict(X), expected)
    np.testing.assert_array_equal(again.predict(X), expected)


def test_wide_data_in_every_mode(rng):
    X = rng.standard_normal((30, 400))
    y = X[:, 0]
    modes = list(MODES.values())
    for k, covariance in enumerate((HardThreshold(density=0.01), "acv", "sample")):
        model = SVNNRegressor(covariance=covariance, members=2, max_epochs=2, random_state=0)
        expected = use(clone(model), X, y)
        for mode in modes[k::3]:
            with mode():
                found = use(clone(model), X, y)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_shift_of_inference_tensors(data):
    with torch.inference_mode():
        shift = torch.eye(6)
    model = SVNNRegressor(covariance=shift, max_epochs=2, random_state=0)
    plain = clone(model).set_params(covariance=np.eye(6, dtype=np.float32))
    np.testing.assert_array_equal(model.fit(*data).predict(data[0]), plain.fit(*data).predict(data[0]))


@pytest.mark.parametrize("make", [lambda: CovarianceFilter(2, 3, order=2), lambda: SVNN(2, 3, hidden=(4,))])
def test_modules_are_made_as_torch_makes_its_own(make):
    with default_dtype(torch.float64):
        assert {p.dtype for p in make().parameters()} == {torch.float64}
        x = torch.ones(5, 3, 2)
        assert make()(x, torch.eye(3)).dtype == torch.float64
    with torch.device("meta"):
        assert {p.device.type for p in make().parameters()} == {"meta"}
    with torch.no_grad():
        assert all(p.requires_grad for p in make().parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert {p.dtype for p in make().parameters()} == {torch.float32}
