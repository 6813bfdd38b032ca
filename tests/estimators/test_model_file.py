"""Model files as a careful program handles them: what is written, where, and what is never believed."""

from __future__ import annotations

import copy
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import svnn
from svnn import ModelFileError, SVNNClassifier, SVNNRegressor
from svnn.estimators import _model_file
from svnn.estimators._storage import _FITTED

QUICK = {"max_epochs": 2, "hidden": (4,), "mlp": (3,), "random_state": 0}
X = np.random.default_rng(0).standard_normal((30, 5))
REGRESSOR = SVNNRegressor(**QUICK).fit(X, X[:, 0])
CLASSIFIER = SVNNClassifier(**QUICK).fit(X, np.array(["a", "b", "c"])[np.arange(30) % 3])


class Mine(SVNNRegressor):
    """A user's class with a parameter, fitted state and a prediction of its own."""

    def __init__(self, *, offset=0.0, max_epochs=2, hidden=(4,), random_state=0):
        super().__init__(max_epochs=max_epochs, hidden=hidden, random_state=random_state)
        self.offset = offset

    def fit(self, X, y):
        super().fit(X, y)
        self.median_ = np.median(y)
        self.columns_seen_ = {"first": X[:2].copy()}
        return self

    def predict(self, X):
        return super().predict(X) + self.offset + self.median_


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def contents(folder):
    return sorted(p.name for p in folder.iterdir())


def outer_header(data):
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def read(path):
    return load_file(path), json.loads(outer_header(path.read_bytes())["__metadata__"]["svnn"])


def forge(path, tensors, header):
    """Write a file whose checksum is right, as one who wants to do harm would."""
    if "tensors" in header:
        names = _model_file._DTYPES
        header["tensors"] = {k: [names[v.dtype], list(v.shape)] for k, v in tensors.items()}
    header["checksum"] = _model_file.checksum(tensors, header)
    save_file(tensors, path, metadata={"svnn": json.dumps(header)})


# -- what is stored ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [REGRESSOR, CLASSIFIER], ids=["regressor", "classifier"])
def test_all_that_fit_sets_is_stored_and_read_again(model, path):
    assert set(vars(model)) <= set(model.get_params()) | _FITTED
    model.save(path)
    again = svnn.load(path)
    assert set(vars(again)) == set(vars(model)) and type(again) is type(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not again.module_.training and all(p.requires_grad for p in again.module_.parameters())


def test_a_subclass_is_loaded_with_its_own_parameters_state_and_methods(path):
    model = Mine(offset=5.0).fit(X, X[:, 0])
    model.save(path)
    with pytest.raises(ModelFileError, match=r"class Mine, which is not svnn's.*classes="):
        svnn.load(path)
    again = svnn.load(path, classes=[Mine])
    assert type(again) is Mine and again.offset == 5.0
    np.testing.assert_array_equal(again.columns_seen_["first"], model.columns_seen_["first"])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_subclass_is_not_taken_for_the_class_whose_name_it_has(path):
    shadow = type("SVNNRegressor", (SVNNRegressor,), {"predict": lambda self, X: np.zeros(len(X))})
    shadow(**QUICK).fit(X, X[:, 0]).save(path)
    with pytest.raises(ModelFileError, match="classes="):
        svnn.load(path)
    assert not svnn.load(path, classes=[shadow]).predict(X).any()


def test_state_of_a_subclass_that_cannot_be_stored_is_named_and_nothing_is_written(path):
    model = Mine().fit(X, X[:, 0])
    model.secret_ = object()
    with pytest.raises(ValueError, match="secret_"):
        model.save(path)
    assert contents(path.parent) == []


def test_state_of_a_subclass_cannot_take_the_place_of_a_method(path):
    Mine().fit(X, X[:, 0]).save(path)
    tensors, header = read(path)
    header["attributes"]["predict"] = 3
    forge(path, tensors, header)
    with pytest.raises(ModelFileError, match="predict"):
        svnn.load(path, classes=[Mine])


def test_only_subclasses_may_be_added_to_the_list(path):
    REGRESSOR.save(path)
    for wrong in (dict, print, "SVNNRegressor"):
        with pytest.raises(ValueError, match="must be subclasses of SVNNRegressor"):
            svnn.load(path, classes=[wrong])


@pytest.mark.parametrize(
    "changed",
    [
        {"activation": "tanh"},
        {"hidden": (7, 7), "mlp": ()},
        {"order": 4, "batch_norm": False},
        {"readout": "flatten"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_parameters_changed_after_fit_do_not_change_the_network(path, changed):
    model = copy.copy(REGRESSOR).set_params(**changed)
    model.save(path)
    again = svnn.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert {k: again.get_params()[k] for k in changed} == changed


def test_parameters_that_cannot_be_used_are_refused_before_anything_is_written(path):
    with pytest.raises(ValueError, match="lr must be"):
        copy.copy(REGRESSOR).set_params(lr=-1).save(path)
    assert contents(path.parent) == []


def test_matrices_that_torch_does_not_take_as_they_are(path):
    C = np.corrcoef(X.T)
    for shift in (C[::-1, ::-1], C.astype(">f8"), np.asfortranarray(C)):
        model = copy.copy(REGRESSOR).set_params(covariance="precomputed", shift=shift)
        model.save(path)
        np.testing.assert_array_equal(svnn.load(path).shift, shift)


def test_loading_leaves_the_generator_of_torch_and_its_modes_alone(path):
    REGRESSOR.save(path)
    before = torch.get_rng_state()
    with torch.inference_mode():
        again = svnn.load(path)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(p.is_inference() for p in again.module_.parameters())


def test_a_loaded_model_does_not_live_in_the_file(path):
    REGRESSOR.save(path)
    again = svnn.load(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)
    np.testing.assert_array_equal(again.predict(X), REGRESSOR.predict(X))


def test_files_of_the_first_kind_are_still_read(path):
    REGRESSOR.save(path)
    tensors, header = read(path)
    del header["tensors"]
    header["module"] = {"in_features": header["module"]["in_features"]}
    forge(path, tensors, header)
    np.testing.assert_array_equal(svnn.load(path).predict(X), REGRESSOR.predict(X))


# -- where it is written ----------------------------------------------------------------------------------


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "store").mkdir()
    link, target = tmp_path / "link", tmp_path / "store" / "model.safetensors"
    link.symlink_to("store/model.safetensors")  # of which there is nothing yet
    for _ in range(2):
        REGRESSOR.save(link)
        assert link.is_symlink() and target.is_file() and not target.is_symlink()
        np.testing.assert_array_equal(svnn.load(link).predict(X), REGRESSOR.predict(X))
    assert contents(tmp_path) == ["link", "store"] and contents(target.parent) == [target.name]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_gives(path, umask):
    before = os.umask(umask)
    try:
        REGRESSOR.save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o600])
def test_a_file_that_is_replaced_keeps_its_permissions(path, mode):
    path.write_text("old")
    path.chmod(mode)
    REGRESSOR.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    svnn.load(path)


def test_another_saver_in_the_middle_of_a_save(path, monkeypatch):
    replace, others = os.replace, [CLASSIFIER]

    def replace_late(*arguments):
        if others:
            others.pop().save(path)
            assert type(svnn.load(path)) is SVNNClassifier
        replace(*arguments)

    monkeypatch.setattr(os, "replace", replace_late)
    REGRESSOR.save(path)
    assert type(svnn.load(path)) is SVNNRegressor and contents(path.parent) == [path.name]


def test_many_savers_on_one_path(path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda model: model.save(path), [REGRESSOR, CLASSIFIER] * 20))
    svnn.load(path).predict(X)
    assert contents(path.parent) == [path.name]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["OSError", "KeyboardInterrupt"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch, step, error):
    CLASSIFIER.save(path)
    before = path.read_bytes()

    def fail(*arguments):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(type(error)):
            REGRESSOR.save(path)
    assert path.read_bytes() == before and contents(path.parent) == [path.name]


def test_paths_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(["a", b"b", Path("c"), "~/d", Path("~/e"), "é " + 200 * "x"]):
        REGRESSOR.save(name)
        assert len(contents(tmp_path)) == i + 1
        svnn.load(name)
    assert {"a", "b", "c", "d", "e"} <= set(contents(tmp_path))
    for wrong in (3, None, 1.5):
        with pytest.raises(TypeError, match="str, bytes or os.PathLike"):
            REGRESSOR.save(wrong)
        with pytest.raises(TypeError, match="str, bytes or os.PathLike"):
            svnn.load(wrong)


def test_only_plain_files_are_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(FileExistsError, match="not a plain file"):
            REGRESSOR.save(tmp_path / name)
    assert contents(tmp_path) == ["folder", "pipe"] and contents(tmp_path / "folder") == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything")
def test_without_permission(tmp_path, path):
    REGRESSOR.save(path)
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="may not be written to"):
        REGRESSOR.save(path)
    path.chmod(0o000)
    with pytest.raises(ModelFileError, match="Permission denied"):
        svnn.load(path)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written to"):
        REGRESSOR.save(tmp_path / "other")
    tmp_path.chmod(0o700)


# -- what is not believed ---------------------------------------------------------------------------------


def test_what_is_no_file(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(ModelFileError, match="not a model"):
            svnn.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no model file"):
        svnn.load(tmp_path / "link")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="no model file"):
        svnn.load(tmp_path / "link")


@pytest.mark.parametrize("length", [2**63 - 1, 2**40, _model_file.LARGEST_HEADER + 1])
def test_giant_headers_are_refused_before_they_are_read(path, length, monkeypatch):
    path.write_bytes(length.to_bytes(8, "little"))
    os.truncate(path, min(8 + length, 2**40 + 8))  # as long as it says, without taking space
    asked = []
    monkeypatch.setattr(_model_file, "_parse", lambda text: asked.append(len(text)))
    with pytest.raises(ModelFileError, match="its header"):
        svnn.load(path)
    assert asked == []


def test_a_header_too_long_to_be_read_is_not_written(path, monkeypatch):
    monkeypatch.setattr(_model_file, "LARGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="more than the 1000"):
        REGRESSOR.save(path)
    assert contents(path.parent) == []


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"list":['])
@pytest.mark.parametrize("inside", [False, True])
def test_deep_json(path, opening, inside):
    REGRESSOR.save(path)
    deep = opening * 100_000
    if inside:
        save_file(load_file(path), path, metadata={"svnn": deep})
    else:
        path.write_bytes(len(deep).to_bytes(8, "little") + deep.encode())
    with pytest.raises(ModelFileError):
        svnn.load(path)


def test_json_as_deep_as_the_parser_allows(path):
    REGRESSOR.save(path)
    tensors, header = read(path)
    for depth in (100, 200, 300, 400):
        nested = [8]
        for _ in range(depth):
            nested = {"list": [nested]}
        header["params"]["hidden"] = nested
        forge(path, tensors, header)
        with pytest.raises(ModelFileError):
            svnn.load(path)


def test_a_name_given_twice(path):
    REGRESSOR.save(path)
    tensors, header = read(path)
    text = json.dumps(header)
    save_file(tensors, path, metadata={"svnn": text[:-1] + ', "class": "SVNNRegressor"}'})
    with pytest.raises(ModelFileError, match="given twice"):
        svnn.load(path)


@pytest.mark.parametrize(
    "name",
    [
        *("sklearn.ledoit_wolf", "sklearn.empirical_covariance", "sklearn.log_likelihood", "svnn.resolve"),
        *("svnn.ConvergenceError", "svnn.__name__", "sklearn.os", "os.system", "builtins.print", "", ".", "svnn."),
    ],
)
def test_a_function_named_in_a_file_is_not_called(path, name, monkeypatch):
    called = []
    for module in ("svnn.covariance.resolve", "sklearn.covariance.ledoit_wolf", "sklearn.covariance.log_likelihood"):
        monkeypatch.setattr(module, lambda *a, **k: called.append(a))
    REGRESSOR.save(path)
    tensors, header = read(path)
    header["params"]["covariance"] = {"estimator": name, "params": {}}
    forge(path, tensors, header)
    with pytest.raises(ModelFileError):
        svnn.load(path)
    assert not called


WRONG = {
    "class": [3, None, ["SVNNRegressor"], "BaseSVNN", "Pipeline", "SVNNClassifier"],
    "n_features_in": [0, -5, 4, 6, 5.0, True, "5", None, 10**30],
    "feature_names_in": [["a"], [1, 2, 3, 4, 5], "abcde", 7],
    "target_shape": [[2], [0], [-1], [1, 1], [10**12], "x", None, 3],
    "history": [[], {}, {"train_loss": 3}, {"train_loss": ["x"]}, None],
    "covariance": [3, None, {"array": "nowhere"}, {"csr": "covariance", "shape": [5, 10**12]}, {"array": 5}, {}],
    "module": [
        *(None, [], {}, {"in_features": 2}, {"in_features": "1"}),
    ],
    "attributes": [3, {"fit": 1}, {"module_": 1}],
    "tensors": [{}, 3],
}


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in WRONG.items() for v in values], ids=str)
def test_wrong_values_in_the_header(path, name, value):
    REGRESSOR.save(path)
    tensors, header = read(path)
    header[name] = value
    keep = header.pop("tensors") if name == "tensors" else None
    if keep is not None:
        header["tensors"] = value
        header["checksum"] = _model_file.checksum(tensors, header)
        save_file(tensors, path, metadata={"svnn": json.dumps(header)})
    else:
        forge(path, tensors, header)
    with pytest.raises(ModelFileError):
        svnn.load(path)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        *(("operator", "scale", v) for v in (float("nan"), float("inf"), 0.0, -1.0, "1", True, [])),
        *(("operator", "backend", v) for v in ("csr", "lowrank", "gpu", None, 3, [])),
        ("operator", "adaptive", 3),
        *(("module", "hidden", v) for v in ([10**12], [10**30], [], "x", [4.5], [-4], [4] * 10_000, None)),
        *(("module", "order", v) for v in (10**12, -1, 2.5, "2", None)),
        *(("module", "heads", v) for v in (10**9, 0, "4")),
        *(("module", "out_features", v) for v in (2, 10**12, None)),
        *(("module", "n_nodes", v) for v in (6, 10**12, None)),
        ("module", "in_features", 10**12),
        ("module", "activation", "eval"),
        ("module", "unheard_of", 1),
        *(("params", "lr", v) for v in ("fast", None, {"array": "operator.0"}, {"tuple": 3}, {"dict": [[{}, 1]]})),
        *(("params", "hidden", v) for v in (3, {"list": [{"tuple": []}]}, "ab", {"list": [-1]})),
        ("params", "unheard_of", 1),
    ],
    ids=str,
)
def test_wrong_values_further_inside(path, part, name, value):
    REGRESSOR.save(path)
    tensors, header = read(path)
    header[part][name] = value
    forge(path, tensors, header)
    with pytest.raises(ModelFileError):
        svnn.load(path)


@pytest.mark.parametrize(
    "classes",
    [
        *(None, {}, {"dtype": "<U1", "values": ["a", "b"]}, {"dtype": "<U1", "values": ["a", "b", "a"]}),
        *({"dtype": "<U1000000000", "values": ["a", "b", "c"]}, {"dtype": "V9", "values": ["a", "b", "c"]}),
        *({"dtype": "<i8", "values": ["a", "b", "c"]}, {"dtype": "<f8", "values": [0.0, 1.0, float("nan")]}),
        *({"dtype": "<U1", "values": [1, 2, 3]}, {"dtype": "|O", "values": [[], [1], [2]]}, {"dtype": 3, "values": 3}),
        *({"dtype": "<U1", "values": "abc"}, {"dtype": "(999999999,)i8", "values": [1, 2, 3]}),
        {"dtype": "|u1", "values": [1, 2, 300]},
    ],
    ids=str,
)
def test_wrong_labels(path, classes):
    CLASSIFIER.save(path)
    tensors, header = read(path)
    header["classes"] = classes
    forge(path, tensors, header)
    with pytest.raises(ModelFileError):
        svnn.load(path)


def test_tensors_missing_too_many_or_of_another_type_or_shape(path):
    REGRESSOR.save(path)
    tensors, header = read(path)
    for key, value in tensors.items():
        if key.startswith("covariance") or not value.numel():
            continue
        others = [None, value.to(torch.int32) if value.is_floating_point() else value.double(), value[None]]
        for other in others:
            changed = {k: v for k, v in tensors.items() if k != key} | ({} if other is None else {key: other})
            forge(path, changed, copy.deepcopy(header))
            with pytest.raises(ModelFileError):
                svnn.load(path)
    for extra in ("module.more", "operator.7"):
        forge(path, {**tensors, extra: torch.ones(3)}, copy.deepcopy(header))
        with pytest.raises(ModelFileError):
            svnn.load(path)


def test_a_changed_type_of_the_same_bytes_is_noticed(path):
    """The bytes of the tensors and svnn's own header are as they were; only what the bytes mean was changed."""
    REGRESSOR.save(path)
    data = path.read_bytes()
    assert b'"F32"' in data and b'"F64"' in data
    for old, new in ((b'"F32"', b'"I32"'), (b'"F64"', b'"I64"')):
        start = 0
        end = 8 + int.from_bytes(data[:8], "little")
        while (start := data.find(old, start, end)) >= 0:
            path.write_bytes(data[:start] + new + data[start + 5 :])
            with pytest.raises(ModelFileError):
                svnn.load(path)
            start += 1




@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "model.safetensors"
    REGRESSOR.save(path)
    return path, path.read_bytes(), REGRESSOR.predict(X)


@given(data=st.data())
def test_damaged_bytes_are_noticed_or_harmless(whole, data):
    path, good, expected = whole
    head = 8 + int.from_bytes(good[:8], "little")
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.one_of(st.integers(0, len(bad) - 1), st.integers(0, min(head, len(bad) - 1))))
        kind = data.draw(st.sampled_from(["flip", "set", "insert", "delete", "cut"]))
        byte = data.draw(st.integers(0, 255))
        if kind == "flip":
            bad[at] ^= 1 << (byte % 8)
        elif kind == "set":
            bad[at] = byte
        elif kind == "insert":
            bad[at:at] = bytes([byte]) * data.draw(st.integers(1, 9))
        elif kind == "delete":
            del bad[at : at + 1 + byte % 9]
        else:
            del bad[at + 1 :]
        if not bad:
            break
    path.write_bytes(bad)
    try:
        model = svnn.load(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return
    np.testing.assert_array_equal(model.predict(X), expected)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10),
    st.just(10**18),
    st.floats(),
    st.sampled_from(["", "x", "covariance", "operator.0", "mean", "csr", "tuple", "precomputed", "SVNNClassifier"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["list", "tuple", "dict", "csr", "shape", "array", "params"]), inner, max_size=2),
    ),
    max_leaves=4,
)


def places(node, at=()):
    """The way to every value of a JSON document."""
    yield at
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(value, (*at, key))


@given(data=st.data())
def test_any_value_in_the_header_is_refused_or_harmless(whole, data):
    path, good, _ = whole
    path.write_bytes(good)
    tensors, header = read(path)
    at = data.draw(st.sampled_from([p for p in places(header) if p and p[0] not in ("tensors", "checksum")]))
    node = header
    for key in at[:-1]:
        node = node[key]
    if data.draw(st.booleans()):
        node[at[-1]] = data.draw(VALUES)
    else:
        del node[at[-1]]
    forge(path, tensors, header)
    try:
        model = svnn.load(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return
    predicted = model.predict(X)
    assert predicted.shape == (len(X),) and np.isfinite(predicted).all()
