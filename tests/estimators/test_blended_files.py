"""Blends on disk, and files of versions that had none."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from model_files import forge, read
from svnn import SVNNClassifier, SVNNRegressor, load
from svnn.estimators._model_file import ModelFileError

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

QUICK = {"max_epochs": 2, "members": 4, "validation_fraction": 0.2, "device": "cpu", "random_state": 0}
X = np.random.default_rng(0).standard_normal((80, 4))
Y = X[:, 0] + np.sin(3 * X[:, 1])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A stored blend, its tensors and its header."""
    path = tmp_path_factory.mktemp("blend") / "model.safetensors"
    SVNNRegressor(**QUICK).fit(X, Y).save(path)
    return read(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("kind", [SVNNRegressor, SVNNClassifier])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_stored_blend_is_the_same(kind, columns, path):
    signals = np.stack([X, X**2], 2) if columns == 2 else X
    model = kind(**QUICK).fit(signals, Y if kind is SVNNRegressor else np.digitize(Y, [-0.5, 0.5]))
    model.save(path)
    again = load(path, device="cpu")
    assert again.blend_ == model.blend_ and "linear" in again.blend_
    for name in ("weights", "linear_weight", "linear_bias"):
        assert torch.equal(getattr(again.module_, name), getattr(model.module_, name))
    np.testing.assert_array_equal(again._outputs(signals), model._outputs(signals))
    np.testing.assert_array_equal(again.on(np.eye(4)).predict(signals), model.on(np.eye(4)).predict(signals))


def older(tensors, header):
    """Return the contents of a file of the version before: members, and neither weights nor a linear model."""
    new = ("module.weights", "module.linear")
    tensors = {name: value for name, value in tensors.items() if not name.startswith(new)}
    header = {name: value for name, value in copy.deepcopy(header).items() if name != "blend"}
    del header["params"]["blend"]
    return tensors, header


def test_members_of_older_files_count_alike(whole, path):
    forge(path, *older(*whole))
    model = load(path, device="cpu")
    assert model.blend_ == {"with edges": 1.0} and model.module_.linear_weight is None
    np.testing.assert_allclose(model.module_.weights, 0.25)
    outputs = model._outputs(X)
    assert len(outputs) == 4
    np.testing.assert_allclose(model.predict(X), model.fitted_.targets.decode(outputs.mean(0)), rtol=1e-10)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    model.save(path)  # as a file of today
    np.testing.assert_array_equal(load(path, device="cpu").predict(X), mean)


def damaged(path, tensors, header):
    forge(path, tensors, copy.deepcopy(header))
    with pytest.raises(ModelFileError, match="damaged"):
        load(path, device="cpu")


@pytest.mark.parametrize("part", ["weights", "linear_weight", "linear_bias"])
@pytest.mark.parametrize("change", ["gone", "nan", "inf", "float32", "integers", "longer", "a scalar"])
def test_a_blend_of_another_kind_is_damaged(part, change, whole, path):
    tensors, header = whole
    values = tensors[f"module.{part}"]
    others = {
        "nan": values * torch.nan,
        "inf": values + torch.inf,
        "float32": values.float(),
        "integers": values.long(),
        "longer": torch.cat([values, values]),
        "a scalar": torch.ones((), dtype=torch.float64),
    }
    changed = {name: value for name, value in tensors.items() if name != f"module.{part}"}
    damaged(path, changed | ({} if change == "gone" else {f"module.{part}": others[change]}), header)


def test_weights_that_do_not_add_up_are_damaged(whole, path):
    tensors, header = whole
    for weights in ([0.2] * 4 + [0.1], [-0.2, 0.2, 0.5, 0.5, 0.0], [0.0] * 5, [1e300] * 5):
        damaged(path, tensors | {"module.weights": torch.tensor(weights, dtype=torch.float64)}, header)


@pytest.mark.parametrize(
    "blend",
    [None, [], {}, 1.0, {"linear": 1.0}, {"with edges": 1.0}, {"with edges": "1.0", "linear": 0.0},
     {"with edges": float("nan"), "linear": 1.0}, {"with edges": 2.0, "linear": -1.0}, {"with edges": 1, "linear": 0},
     {"with edges": 0.5, "others": 0.5}, {"with edges": 0.5, "linear": 0.1}],
    ids=str,
)  # fmt: skip
def test_other_blends_in_the_header_are_damaged(blend, whole, path):
    tensors, header = whole
    damaged(path, tensors, header | {"blend": blend})


def test_a_linear_model_that_the_header_does_not_name_is_damaged(whole, path):
    tensors, header = whole
    damaged(path, tensors, header | {"blend": {"with edges": 0.5, "without edges": 0.5}})
    plain = {name: value for name, value in tensors.items() if not name.startswith("module.linear")}
    weights = torch.full((4,), 0.25, dtype=torch.float64)
    damaged(path, plain | {"module.weights": weights}, header)
    header = header | {"blend": {"with edges": 0.5, "without edges": 0.5}}
    forge(path, plain | {"module.weights": weights}, header)
    assert load(path, device="cpu").predict(X).shape == (80,)


def test_a_single_network_is_no_blend(path):
    SVNNRegressor(**QUICK | {"members": 1}).fit(X, Y).save(path)
    tensors, header = read(path)
    damaged(path, tensors, header | {"blend": {"with edges": 0.5, "without edges": 0.5}})
    damaged(path, tensors, header | {"blend": {"with edges": 0.5, "linear": 0.5}})
