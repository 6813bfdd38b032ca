"""Model files that are damaged or forged: a ``ModelFileError`` and nothing else, and no code from a file."""

from __future__ import annotations

import copy
import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import svnn
from model_files import X, classifier, forge, read, regressor
from svnn import ACV, HardThreshold, ModelFileError, SVNNRegressor
from svnn.estimators import _model_file

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


def check_refused(path, tensors, header):
    """Forge a file, and see that it is not loaded."""
    forge(path, tensors, header)
    with pytest.raises(ModelFileError):
        svnn.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


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


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"list":['])
@pytest.mark.parametrize("inside", [False, True])
def test_deep_json(path, opening, inside):
    regressor().save(path)
    deep = opening * 100_000
    if inside:
        save_file(load_file(path), path, metadata={"svnn": deep})
    else:
        path.write_bytes(len(deep).to_bytes(8, "little") + deep.encode())
    with pytest.raises(ModelFileError):
        svnn.load(path)


def test_json_as_deep_as_the_parser_allows(path):
    regressor().save(path)
    tensors, header = read(path)
    for depth in (100, 200, 300, 400):
        nested = [8]
        for _ in range(depth):
            nested = {"list": [nested]}
        header["params"]["hidden"] = nested
        check_refused(path, tensors, header)


def test_a_name_given_twice(path):
    regressor().save(path)
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
    regressor().save(path)
    tensors, header = read(path)
    header["params"]["covariance"] = {"estimator": name, "params": {}}
    check_refused(path, tensors, header)
    assert not called


WRONG = {
    "class": [3, None, ["SVNNRegressor"], "BaseSVNN", "Pipeline", "SVNNClassifier"],
    "n_features_in": [0, -5, 4, 6, 5.0, True, "5", None, 10**30],
    "feature_names_in": [["a"], [1, 2, 3, 4, 5], "abcde", 7],
    "target_shape": [[2], [0], [-1], [1, 1], [10**12], "x", None, 3],
    "history": [[], {}, {"train_loss": 3}, {"train_loss": ["x"]}, None],
    "module": [*(None, [], {}, {"in_features": 2}, {"in_features": "1"})],
    "attributes": [3, {"fit": 1}, {"fitted_": 1}],
    "tensors": [{}, 3],
    "shift": [None, 3, [], {}],
    "members": [0, 2, 10**12, "1", None],
    "unseen": [None, [1], [-1], ["a"]],
    "standardize": [None, 1],
    "out_of_fold": [3, {"array": "module.readout.weight"}],
    "noise": [3, [], [1, 2, 3]],
}


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in WRONG.items() for v in values], ids=str)
def test_wrong_values_in_the_header(path, name, value):
    regressor().save(path)
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
        *(
            ("shift", "covariance", v)
            for v in (3, None, {"array": "nowhere"}, {"csr": "covariance", "shape": [5, 10**12]}, {"array": 5}, {})
        ),
        *(("shift", "scale", v) for v in (float("nan"), float("inf"), 0.0, -1.0, "1", None)),
        *(("shift", "use", v) for v in ("auto", None, 3)),
        *(("shift", "is_given", v) for v in (None, 1)),
        *(("shift", "per", v) for v in ("table", "sample", 3)),
        *(("shift", "operator", v) for v in (None, [], {})),
        *(
            ("shift", "estimator", v)
            for v in (
                *(3, [], {}, {"estimator": "os.system", "params": {}, "attributes": {}}),
                *({"estimator": "svnn.HardThreshold", "params": {"unheard_of": 1}, "attributes": {}},),
                *(
                    {"estimator": "svnn.HardThreshold", "params": {}, "attributes": attributes}
                    for attributes in (
                        None,
                        {"fit": 1},
                        {"_private_": 1},
                        {"__class__": 1},
                        {"a b_": 1},
                        {"x_": {"array": "no"}},
                    )
                ),
            )
        ),
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
    regressor().save(path)
    tensors, header = read(path)
    header[part][name] = value
    check_refused(path, tensors, header)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("scale", v) for v in (float("nan"), float("inf"), 0.0, -1.0, "1", True, [])),
        *(("backend", v) for v in ("csr", "lowrank", "gpu", None, 3, [])),
        ("adaptive", 3),
    ],
    ids=str,
)
def test_wrong_operators(path, name, value):
    regressor().save(path)
    tensors, header = read(path)
    header["shift"]["operator"][name] = value
    check_refused(path, tensors, header)


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
    classifier().save(path)
    tensors, header = read(path)
    header["classes"] = classes
    check_refused(path, tensors, header)


def test_tensors_missing_too_many_or_of_another_type_or_shape(path):
    regressor().save(path)
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
    regressor().save(path)
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
    regressor().save(path)
    return path, path.read_bytes(), regressor().predict(X)


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
    except ModelFileError:
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
        st.dictionaries(st.sampled_from(["list", "tuple", "dict", "csr", "shape", "array"]), inner, max_size=2),
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
    except ModelFileError:
        return
    predicted = model.predict(X)
    assert predicted.shape == (len(X),) and np.isfinite(predicted).all()


def test_strange_data_to_draw_from(path):
    covariance = ACV(dense_limit=3, density=0.5, random_state=0)
    small = SVNNRegressor(covariance=covariance, use="covariance", members=1, max_epochs=1, random_state=0)
    small.fit(X, X[:, 0]).save(path)
    tensors, header = read(path)
    data, key = header["shift"]["estimator"]["observations"], "covariance_estimator.observations"
    strange = [{name: value} for name in ("n_features", "n_values", "scale", "n_samples") for value in (-1, "1", None)]
    strange += [{"dtype": "float16"}, {"as_tensor": 1}, {"panels": 3}, {"extra": 1}, {"Z": {"array": key + ".unit"}}]
    for change in strange:
        other = copy.deepcopy(header)
        other["shift"]["estimator"]["observations"] = data | change
        forge(path, tensors, other)
        with pytest.raises(ModelFileError):
            svnn.load(path)
    for name, spoil in (("Z", lambda Z: Z[:3]), ("Z", lambda Z: Z / 0), ("weight", lambda w: w.double())):
        other = copy.deepcopy(header)
        forge(path, tensors | {f"{key}.{name}": spoil(tensors[f"{key}.{name}"]).contiguous()}, other)
        with pytest.raises(ModelFileError):
            svnn.load(path)
    forge(path, tensors, header)
    assert svnn.load(path).covariance_estimator_.sample(0).shape == (5, 5)


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_sparse_matrices_that_point_outside(path, part):
    covariance = HardThreshold(density=0.5, sparse_output=True)
    small = SVNNRegressor(covariance=covariance, use="covariance", members=1, max_epochs=1, random_state=0)
    small.fit(X, X[:, 0]).save(path)
    tensors, header = read(path)
    tensors[f"covariance.{part}"][2] = 10**6
    forge(path, tensors, header)
    with pytest.raises(ModelFileError, match="covariance is a damaged sparse matrix"):
        svnn.load(path)
