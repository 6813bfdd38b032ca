"""The evaluator in double precision: what the modules give, for any number of rows at once."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from inspected_models import QUICK, numbers, signals
from svnn import SVNNRegressor
from svnn.estimators import _evaluate
from svnn.estimators._evaluate import evaluate, networks_of
from svnn.estimators._per_sample import RowMatrices

MODELS = {
    "default": {},
    "one member": {"members": 1, "hidden": (4, 3), "batch_norm": True, "dropout": 0.2},
    "several layers": {"members": 3, "hidden": (4, 3), "readout": "flatten", "node_dropout": 0.1},
    "no shifts": {"order": 0, "readout": "mean"},
}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def model(request):
    X = signals()
    return SVNNRegressor(**{**QUICK, **request.param}).fit(X, numbers(X))


def by_the_modules(model, Z, operator, embed=False):
    networks = [copy.deepcopy(network).double().eval() for network in networks_of(model.module_)]
    x = torch.as_tensor(Z)
    with torch.no_grad():
        if embed:
            return torch.cat([network.embed(x, operator) for network in networks], -1).numpy()
        return torch.stack([network(x, operator) for network in networks]).numpy()


@pytest.mark.parametrize("values", [1, 200, 2**19])  # one row at a time, a few, all
def test_it_gives_what_the_modules_give(model, values, monkeypatch):
    monkeypatch.setattr(_evaluate, "_PREDICT_VALUES", values)
    Z = model.fitted_.standardizer(signals(n_values=1))
    for embed in (False, True):
        found = evaluate(model.fitted_.module, model.shift_, Z, embed=embed)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, by_the_modules(model, Z, model.operator_, embed), rtol=0, atol=1e-11)


def test_rows_with_their_own_matrices(model, monkeypatch):
    monkeypatch.setattr(_evaluate, "_PREDICT_VALUES", 500)
    Z = model.fitted_.standardizer(signals(n_values=1))
    matrices = RowMatrices(np.stack([np.eye(7) * 0.5, np.ones((7, 7))]), np.arange(len(Z)) % 2)
    operator = matrices.operator(model.shift_.scale, torch.float64, torch.device("cpu"))
    for embed in (False, True):
        found = evaluate(model.fitted_.module, model.shift_, Z, matrices, embed)
        np.testing.assert_allclose(found, by_the_modules(model, Z, operator, embed), rtol=1e-12, atol=1e-11)


def test_the_network_itself_stays_as_it_is(model):
    module = model.module_.train()
    before = copy.deepcopy(module.state_dict())
    model.predict(signals())
    assert all(part.training for part in module.modules())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    module.eval()


def test_predictions_need_no_deep_copy_and_follow_the_network(model, monkeypatch):
    X = signals()[:3]

    def refuse(*args):
        raise AssertionError("a deep copy")

    monkeypatch.setattr(copy, "deepcopy", refuse)
    before = model.predict(X)
    bias = [own for name, own in model.module_.named_parameters() if name.endswith("bias")][-1]
    bias.data.add_(1.0)  # which no counter of versions would notice
    try:
        assert np.abs(model.predict(X) - before).min() > 0
    finally:
        bias.data.sub_(1.0)
