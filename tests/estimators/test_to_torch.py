"""The plain torch module of a fitted model predicts what the model predicts, for every option."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from itertools import cycle

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor

from inspected_models import QUICK, REGRESSORS, numbers, signals
from svnn import ACV, BlendClassifier, BlendRegressor, HardThreshold, SVNNClassifier, SVNNRegressor, load
from svnn.covariance._resolve import NAMES
from svnn.estimators._export import plain_module
from svnn.estimators._linear import LinearClassifier, LinearRegressor
from svnn.nn import _powers

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

MODELS = {
    **REGRESSORS,
    "deep": {"hidden": (5, 4, 3), "batch_norm": True, "use": "covariance", "order": 3},
    "every shift drawn": {"covariance": ACV(density=0.5), "resample": "shift"},
    "three members": {"members": 3},
    "linear head": {"mlp": (), "heads": 2},
    "two heads": {"mlp": (6, 5)},
    **{f"with {name}": {"activation": name} for name in ("leaky_relu", "elu", "gelu", "tanh", "identity")},
}


def outputs(model, X, dtype=torch.float64):
    return model.to_torch(dtype)(torch.as_tensor(X)).numpy()


#: Every other model has one value a node, the others three.
@pytest.mark.parametrize(("options", "n_values"), [*zip(MODELS.values(), cycle([3, None]), strict=False)], ids=MODELS)
def test_predictions_are_those_of_the_model(options, n_values):
    X = signals(n_samples=260, n_values=n_values)
    y = numbers(X)
    model = SVNNRegressor(**{**QUICK, "max_epochs": 3, **options}).fit(X, y)
    expected, spread = model.predict(X), y.std()
    np.testing.assert_allclose(outputs(model, X), expected, rtol=0, atol=1e-9 * spread)
    single = outputs(model, X, torch.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=0, atol=1e-5 * spread)
    np.testing.assert_allclose(outputs(model, X[:1]), expected[:1], rtol=0, atol=1e-9 * spread)


def test_predictions_on_every_covariance():
    X = signals(n_samples=260)
    y = numbers(X)
    for covariance in NAMES:
        model = SVNNRegressor(**{**QUICK, "max_epochs": 2}, covariance=covariance).fit(X, y)
        np.testing.assert_allclose(outputs(model, X), model.predict(X), rtol=0, atol=1e-9 * y.std(), err_msg=covariance)
        single = outputs(model, X, torch.float32)
        np.testing.assert_allclose(single, model.predict(X), rtol=0, atol=1e-5 * y.std(), err_msg=covariance)


@pytest.mark.parametrize("members", [1, 4])
def test_probabilities_are_those_of_the_model(iris, members):
    X, y = iris
    model = SVNNClassifier(**{**QUICK, "members": members, "max_epochs": 20}).fit(X, y)
    found = outputs(model, X)
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(model.classes_[found.argmax(1)], model.predict(X))


def test_targets_keep_their_shape():
    X = signals()
    for y in (numbers(X)[:, None], np.stack([numbers(X), X[:, 1]], 1)):
        model = SVNNRegressor(**QUICK).fit(X, y)
        np.testing.assert_allclose(outputs(model, X), model.predict(X), atol=1e-8)
        assert outputs(model, X).shape == y.shape


def test_one_feature_and_one_column_of_values():
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X[:, :1], numbers(X))
    np.testing.assert_allclose(outputs(model, X[:, :1]), model.predict(X[:, :1]), atol=1e-8)
    np.testing.assert_array_equal(outputs(model, X[:, :1, None]), outputs(model, X[:, :1]))


def test_a_constant_feature_and_rows_without_it():
    X = signals()
    X[:, 3] = 0.1
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    np.testing.assert_allclose(outputs(model, X), model.predict(X), atol=1e-8)


def test_a_model_on_another_covariance_and_of_another_size():
    X = signals()
    model = SVNNRegressor(**QUICK, readout="mean").fit(X, numbers(X))
    moved = model.on(HardThreshold(density=0.3), X)
    np.testing.assert_allclose(outputs(moved, X), moved.predict(X), atol=1e-8)
    smaller = model.on("sample", X[:, :5])
    np.testing.assert_allclose(outputs(smaller, X[:, :5]), smaller.predict(X[:, :5]), atol=1e-8)


def test_a_loaded_model(tmp_path):
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    model.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(outputs(load(tmp_path / "m.safetensors"), X), outputs(model, X))


# -- linear models and blends -----------------------------------------------------------------------


@pytest.mark.parametrize("n_values", [None, 2])
def test_linear_models(n_values):
    X = signals(n_values=n_values)
    y = numbers(X)
    for targets in (y, y[:, None], np.stack([y, X.reshape(len(X), -1)[:, 1]], 1)):
        model = LinearRegressor().fit(X, targets)
        np.testing.assert_allclose(plain_module(model, torch.float64)(torch.as_tensor(X)), model.predict(X), atol=1e-9)
    model = LinearClassifier().fit(X, y > y.mean())
    np.testing.assert_allclose(
        plain_module(model, torch.float64)(torch.as_tensor(X)), model.predict_proba(X), atol=1e-9
    )


WEIGHTS = [(0.5, 0.1, 0.4), (0.6, 0, 0.4), (0, 0.6, 0.4), (0, 0, 1), (0.5, 0.5, 0)]


@pytest.fixture(scope="module", params=["numbers", "labels"])
def blend(request):
    X = signals(n_samples=120)
    y = numbers(X)
    if request.param == "numbers":
        return BlendRegressor(SVNNRegressor(**{**QUICK, "members": 4}), random_state=0).fit(X, y), X
    y = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    return BlendClassifier(SVNNClassifier(**{**QUICK, "members": 4}), random_state=0).fit(X, y), X


@pytest.mark.parametrize("weights", WEIGHTS)
def test_blends_without_the_parts_that_do_not_count(blend, weights):
    model, X = blend
    model.blend_.update(zip(model.blend_, weights, strict=True))
    expected = getattr(model, "predict_proba", model.predict)(X)
    np.testing.assert_allclose(outputs(model, X), expected, atol=1e-8)
    names = " ".join(model.to_torch().state_dict())
    assert ("matrices" in names) == bool(weights[0])  # members without edges need no shift
    assert names.count(".scale") == sum(weight > 0 for weight in weights)


def test_a_part_that_cannot_be_exported_is_named():
    X = signals()
    model = BlendRegressor([("network", SVNNRegressor(**QUICK)), ("forest", RandomForestRegressor(5))], random_state=0)
    model.fit(X, numbers(X))
    model.blend_.update(network=0.5, forest=0.5)
    with pytest.raises(ValueError, match="the part 'forest' is a RandomForestRegressor, which cannot be exported"):
        model.to_torch()
    model.blend_.update(network=1.0, forest=0.0)
    np.testing.assert_allclose(outputs(model, X), model.predict(X), atol=1e-8)


def test_a_blend_whose_rows_have_matrices():
    X = signals()
    model = BlendRegressor(SVNNRegressor(**{**QUICK, "members": 4}), random_state=0)
    rng = np.random.default_rng(0)
    C = np.array([np.cov(rng.standard_normal((7, 20))) for _ in X])
    model.fit(X, numbers(X), shift=C)
    model.blend_.update(dict.fromkeys(model.blend_, 1 / 3))
    found = model.to_torch(torch.float64)(torch.as_tensor(X), torch.as_tensor(C))
    np.testing.assert_allclose(found, model.predict(X, shift=C), atol=1e-8)


# -- how shifts are stored --------------------------------------------------------------------------


def test_the_shift_of_several_layers_is_stored_once():
    X = signals()
    model = SVNNRegressor(**QUICK, hidden=(4, 4, 4)).fit(X, numbers(X))
    assert sum("matrices" in name for name in model.to_torch().state_dict()) == 1


def test_orthonormal_polynomials_keep_the_digits_that_powers_lose(monkeypatch):
    """The plain reference is a filter of powers: in single precision predictions lose more than one digit with it."""
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    error = abs(outputs(model, X, torch.float32) - model.predict(X)).max()
    monkeypatch.setattr(_powers, "STACKED_VALUES", -1)
    np.testing.assert_allclose(outputs(model, X), model.predict(X), atol=1e-8)
    assert abs(outputs(model, X, torch.float32) - model.predict(X)).max() > 10 * error


# -- a torch module like any other -----------------------------------------------------------------


def test_it_is_a_plain_module_in_evaluation_mode():
    X = signals()
    module = SVNNRegressor(**QUICK, dropout=0.5, batch_norm=True).fit(X, numbers(X)).to_torch()
    assert not module.training and not any(p.requires_grad for p in module.parameters())
    types = {type(part).__module__ for part in module.modules()}
    assert all(name.startswith("torch.") for name in types)
    with torch.inference_mode():
        x = torch.as_tensor(X)
    torch.testing.assert_close(module.train()(x), module.eval()(x), rtol=0, atol=0)


def test_state_moves_and_saves():
    X = torch.as_tensor(signals())
    module = SVNNRegressor(**QUICK).fit(X, numbers(X.numpy())).to_torch()
    other = copy.deepcopy(module)
    for value in other.state_dict().values():
        value.zero_()
    assert other(X).abs().max() == 0 or not torch.isfinite(other(X)).all()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other(X), module(X), rtol=0, atol=0)
    assert module.double()(X).dtype == torch.float64 and module.float()(X).dtype == torch.float32


def test_it_runs_where_svnn_cannot_be_imported(tmp_path):
    X = signals()
    model = SVNNRegressor(**QUICK, hidden=(4, 3), batch_norm=True).fit(X, numbers(X))
    (tmp_path / "m.pickle").write_bytes(pickle.dumps((model.to_torch(), torch.tensor(X))))
    code = (
        "import pickle, sys; sys.modules['svnn'] = None; module, X = pickle.load(open(sys.argv[1], 'rb')); "
        "print(float(module(X)[3]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.pickle")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(model.predict(X)[3], rel=1e-5)


def test_gradients_reach_the_input():
    X = torch.as_tensor(signals())[:3].requires_grad_()
    model = SVNNRegressor(**QUICK).fit(signals(), numbers(signals()))
    model.to_torch(torch.float64)(X).sum().backward()
    step = np.zeros(7)
    step[2] = 1e-5
    slope = (model.predict(X.detach().numpy() + step) - model.predict(X.detach().numpy() - step)) / 2e-5
    np.testing.assert_allclose(X.grad[:, 2], slope, rtol=1e-5, atol=1e-7)


def test_bad_requests_say_what_is_wrong():
    X = signals()
    with pytest.raises(ValueError, match="not fitted"):
        SVNNRegressor().to_torch()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    with pytest.raises(ValueError, match=r"dtype must be torch.float32 or torch.float64, got torch.float16"):
        model.to_torch(torch.float16)
    with pytest.raises(AssertionError, match=r"X must have shape \(t, 7\)"):
        model.to_torch()(torch.zeros(5, 8))
    with pytest.raises(RuntimeError, match="shape"):
        model.to_torch()(torch.zeros(5, 7, 2))
