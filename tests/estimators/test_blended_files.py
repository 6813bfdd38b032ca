"""Blends on disk."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from model_files import forge, read
from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor, load
from svnn.estimators._model_file import ModelFileError

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

QUICK = {"max_epochs": 2, "members": 4, "validation_fraction": 0.2, "device": "cpu", "random_state": 0}
X = np.random.default_rng(0).standard_normal((80, 4))
Y = X[:, 0] + np.sin(3 * X[:, 1])
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-0.5, 0.5])]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A stored blend: its tensors and its header."""
    path = tmp_path_factory.mktemp("blend") / "model.safetensors"
    BlendRegressor(SVNNRegressor(**QUICK)).fit(X, Y).save(path)
    return read(path)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    path = tmp_path_factory.mktemp("blend") / "model.safetensors"
    BlendClassifier(SVNNClassifier(**QUICK)).fit(X, LABELS).save(path)
    return read(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("kind", [BlendRegressor, BlendClassifier])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_stored_blend_is_the_same(kind, columns, path):
    signals = np.stack([X, X**2], 2) if columns == 2 else X
    network = (SVNNRegressor if kind is BlendRegressor else SVNNClassifier)(**QUICK)
    model = kind(network).fit(signals, Y if kind is BlendRegressor else LABELS)
    model.save(path)
    again = load(path, device="cpu")
    assert again.blend_ == model.blend_ and list(again.parts_) == ["with edges", "without edges", "linear"]
    assert again.get_params().keys() == model.get_params().keys() and again.parts.members == 4
    np.testing.assert_array_equal(again.predict(signals), model.predict(signals))
    np.testing.assert_array_equal(again.out_of_fold_, model.out_of_fold_)
    np.testing.assert_array_equal(again.on(np.eye(4)).predict(signals), model.on(np.eye(4)).predict(signals))
    if kind is BlendRegressor:
        np.testing.assert_array_equal(again.predict(signals, True)[1], model.predict(signals, True)[1])
    else:
        np.testing.assert_array_equal(again.predict_proba(signals), model.predict_proba(signals))
    again.partial_fit(signals[:9], model.predict(signals[:9]))


def test_parts_of_a_list_are_stored_with_their_names(path):
    parts = [("hard", SVNNRegressor(**QUICK)), ("sample", SVNNRegressor(covariance="sample", **QUICK))]
    model = BlendRegressor(parts, random_state=0).fit(X, Y)
    model.save(path)
    again = load(path, device="cpu")
    assert [name for name, _ in again.parts] == ["hard", "sample"] and again.parts[1][1].covariance == "sample"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_part_that_cannot_be_stored_is_named(path):
    model = BlendRegressor([("network", SVNNRegressor(**QUICK)), ("ridge", Ridge())]).fit(X, Y)
    with pytest.raises(ValueError, match="the part 'ridge' is a Ridge, which a model file cannot hold"):
        model.save(path)
    assert not path.exists()


def test_parts_of_subclasses_are_loaded_where_they_are_given(path):
    class Mine(SVNNRegressor):
        """A network of a user."""

    model = BlendRegressor([("mine", Mine(**QUICK)), ("ours", SVNNRegressor(**QUICK))]).fit(X, Y)
    model.save(path)
    with pytest.raises(ModelFileError, match=r"a model of the class Mine.*give it in classes="):
        load(path)
    again = load(path, classes=[Mine])
    assert type(again.parts_["mine"]) is Mine
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def damaged(path, tensors, header):
    forge(path, tensors, copy.deepcopy(header))
    with pytest.raises(ModelFileError):
        load(path, device="cpu")


@pytest.mark.parametrize("part", ["weight", "bias", "gram"])
@pytest.mark.parametrize("change", ["gone", "nan", "inf", "float32", "integers", "longer", "a scalar"])
def test_another_linear_part_is_damaged(part, change, whole, path):
    tensors, header = whole
    name = f"part 2.{part}"
    values = tensors[name]
    others = {
        "nan": values * float("nan"),
        "inf": values + float("inf"),
        "float32": values.float(),
        "integers": values.long(),
        "longer": values.repeat(2, *[1] * (values.ndim - 1)),
        "a scalar": values.sum(),
    }
    changed = {key: value for key, value in tensors.items() if key != name}
    damaged(path, changed | ({} if change == "gone" else {name: others[change]}), header)


NAMES = ("with edges", "without edges", "linear")


@pytest.mark.parametrize(
    "weights",
    [(0.2, 0.2, 0.2), (-0.2, 0.2, 1.0), (0.0, 0.0, 0.0), (1e300, 1e300, 1e300), ("1", 0.0, 0.0), (1, 0, 0), (None,) * 3,
     (float("nan"), 0.5, 0.5), (2.0, -1.0, 0.0), (0.5, 0.5)],
    ids=str,
)  # fmt: skip
def test_weights_that_do_not_add_up_are_damaged(weights, whole, path):
    tensors, header = whole
    damaged(path, tensors, header | {"blend": dict(zip(NAMES, weights, strict=False))})


@pytest.mark.parametrize("key", ["names", "parts", "blend", "unfitted", "target_shape"])
@pytest.mark.parametrize("value", [None, [], {}, 1.0, "linear", ["linear"], [1, 2, 3], {"linear": 1.0}], ids=str)
def test_other_parts_in_the_header_are_damaged(key, value, whole, path):
    if (key, value) in (("unfitted", []), ("target_shape", [])):
        pytest.skip("these are what svnn writes")
    tensors, header = whole
    damaged(path, tensors, header | {key: value})


def test_parts_are_neither_blends_nor_of_other_classes(whole, labelled, path):
    tensors, header = whole
    for change in ({"class": "BlendRegressor"}, {"class": "Pipeline"}, {"parts": []}, {"n_features_in": 5}):
        parts = copy.deepcopy(header["parts"])
        parts[0] |= change
        damaged(path, tensors, header | {"parts": parts})
    damaged(path, tensors, header | {"class": "BlendClassifier"})
    tensors, header = labelled
    parts = copy.deepcopy(header["parts"])
    parts[1]["classes"]["values"] = ["a", "b", "d"]
    damaged(path, tensors, header | {"parts": parts})
