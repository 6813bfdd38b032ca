"""The copy that predictions are made with: the same as a deep copy, and made without one."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from inspected_models import QUICK, numbers, signals
from svnn import SVNNRegressor
from svnn.estimators._double import in_double
from svnn.paper import baselines

MODELS = {
    "default": SVNNRegressor(**QUICK),
    "one member": SVNNRegressor(**{**QUICK, "members": 1}, hidden=(4, 3), batch_norm=True, dropout=0.2),
    "mlp": baselines.MLPRegressor(max_epochs=3, random_state=0, device="cpu"),
}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def model(request):
    X = signals(n_samples=260)
    model = request.param.fit(X, numbers(X))
    weights = getattr(model.module_, "weights", torch.empty(0))
    weights.fill_(1 / max(len(weights), 1))  # all parts count
    return model


def test_it_is_a_deep_copy_in_double_precision(model):
    plain, quick = copy.deepcopy(model.module_).double().eval(), in_double(model.module_)
    assert repr(plain) == repr(quick) and not any(part.training for part in quick.modules())
    expected, found = plain.state_dict(), quick.state_dict()
    assert list(expected) == list(found)
    for name, value in expected.items():
        assert torch.equal(found[name], value) and found[name].dtype == value.dtype
    assert [name for name, _ in plain.named_parameters()] == [name for name, _ in quick.named_parameters()]


def test_the_network_itself_stays_as_it_is(model):
    module = copy.deepcopy(model.module_).train()
    before = copy.deepcopy(module.state_dict())
    quick = in_double(module)
    with torch.no_grad():
        for value in quick.state_dict().values():
            value.zero_()
    assert all(part.training for part in module.modules())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    already = copy.deepcopy(module).double()
    pairs = zip(already.parameters(), in_double(already).parameters(), strict=True)
    assert all(a.data_ptr() != b.data_ptr() for a, b in pairs)


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


def test_other_classes_are_copied_deeply():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = [nn.Linear(2, 2)]  # which torch does not know of

    Odd.__module__ = "elsewhere"
    odd = Odd()
    assert in_double(odd).parts[0] is not odd.parts[0]
    whole = nn.Sequential(nn.Linear(2, 2), odd)
    assert in_double(whole)[1].parts[0] is not odd.parts[0] and in_double(whole)[0].weight.dtype == torch.float64


def test_hooks_run():
    X = signals()
    model, seen = SVNNRegressor(**QUICK).fit(X, numbers(X)), []
    model.module_.networks[0].activation.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    model.predict(X[:2])
    assert seen == [torch.float64] * 2 or seen == [torch.float64]
