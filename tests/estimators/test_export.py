"""Exported files predict what the model predicts, for every covariance, and are written whole or not at all."""

from __future__ import annotations

import builtins
import json
import os

import numpy as np
import pandas as pd
import pytest
import torch

import svnn
from inspected_models import QUICK, numbers, signals
from svnn import BlendClassifier, SVNNClassifier, SVNNRegressor
from svnn.covariance._resolve import NAMES
from svnn.nn import _powers
from svnn.operators import from_data

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


def run_onnx(path, X, dtype=np.float32):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X.astype(dtype)}), strict=True))
    return found, session.get_modelmeta().custom_metadata_map


def run_program(program, X, dtype=np.float32):
    return program(torch.as_tensor(X.astype(dtype))).numpy()


def check(model, X, path, tolerance):
    """Compare both files with the model, for all rows, one and two of them."""
    pytest.importorskip("onnxscript")
    model.export(path.with_suffix(".onnx"))
    model.export(path.with_suffix(".pt2"))
    program = torch.export.load(path.with_suffix(".pt2")).module()
    for rows in (X, X[:1], X[:2]):
        expected = model.predict(rows)
        prediction = run_onnx(path.with_suffix(".onnx"), rows)[0]["prediction"]
        assert prediction.shape == expected.shape
        np.testing.assert_allclose(prediction, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(run_program(program, rows), expected, rtol=0, atol=tolerance)


#: A matrix, and factors with a sparse rest; `make test-slow` runs the others, and test_to_torch their modules.
QUICK_NAMES = ("hard", "factors")


@pytest.mark.parametrize(
    "covariance", [pytest.param(name, marks=() if name in QUICK_NAMES else pytest.mark.slow) for name in NAMES]
)
def test_every_covariance(covariance, tmp_path):
    X = signals(n_samples=260)
    y = numbers(X)
    model = SVNNRegressor(**QUICK, covariance=covariance).fit(X, y)
    check(model, X, tmp_path / "model", 1e-5 * y.std())


PRECISION = {"covariance": "graphical_lasso", "use": "precision"}
SHAPES = {
    "one feature": (signals()[:, :1], numbers(signals()), {"order": 0, "activation": "tanh"}),
    "three values": (
        signals(n_values=3),
        numbers(signals(n_values=3)),
        {"hidden": (4, 3), "batch_norm": True, "activation": "leaky_relu", **PRECISION},
    ),
    "two outputs": (
        signals(),
        np.stack([numbers(signals()), signals()[:, 1]], 1),
        {"readout": "flatten", "activation": "gelu", "mlp": ()},
    ),
    "realisations": (
        signals(),
        numbers(signals()),
        {"readout": "mean", "activation": "elu", "covariance": "acv", "resample": "forward"},
    ),
}


@pytest.mark.parametrize(("X", "y", "options"), SHAPES.values(), ids=SHAPES)
def test_every_shape(X, y, options, tmp_path):
    model = SVNNRegressor(**{**QUICK, "activation": "silu", **options}).fit(X, y)
    check(model, X, tmp_path / "model", 1e-5 * y.std(0).min())


@pytest.mark.parametrize("kind", ["lowrank", "csr", pytest.param("dense", marks=pytest.mark.slow)])
def test_large_matrices(kind, tmp_path, monkeypatch):
    """More features than the limits, which are lower here."""
    monkeypatch.setattr(_powers, "DENSE_NODES", 10)
    monkeypatch.setattr(_powers, "STACKED_VALUES", 10)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1)) + rng.standard_normal((60, 80))
    shift = from_data(X[:6] / 10) if kind == "lowrank" else np.eye(80) + 0.3 * (np.eye(80, k=1) + np.eye(80, k=-1))
    shift = svnn.as_operator(shift, backend=kind)
    y = X[:, :4].sum(1)
    model = SVNNRegressor(**QUICK, covariance=shift).fit(X, y)
    assert model.operator_.backend == kind
    check(model, X, tmp_path / "model", 1e-5 * y.std())


#: `make test-slow` runs those that are written as others are: objects as their text, numbers as truth values.
LABELS = {
    "integers": np.array([3, 7, 9]),
    "text": np.array(["b", "é", "a b"]),
    "objects": np.array(["b", "c", "a b"], dtype=object),
    "numbers": np.array([0.0, 1.0, 4.0]),
    "truth": np.array([False, True]),
}


@pytest.mark.parametrize(
    "classes",
    [
        pytest.param(labels, id=name, marks=pytest.mark.slow if name in ("objects", "numbers") else ())
        for name, labels in LABELS.items()
    ],
)
def test_labels_of_every_kind(classes, iris, tmp_path):
    pytest.importorskip("onnxscript")
    X, y = iris
    X, y = X[y < len(classes)], classes[y[y < len(classes)]]
    model = SVNNClassifier(**QUICK).fit(X, y)
    model.export(tmp_path / "m.onnx")
    for rows in (X, X[:1]):
        found, about = run_onnx(tmp_path / "m.onnx", rows)
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-5)
        assert found["label"].tolist() == model.predict(rows).tolist()
    assert json.loads(about["classes"]) == model.classes_.tolist()
    if classes.dtype.kind == "U":  # a .pt2 file only says their names
        extra = {"classes": ""}
        model.export(tmp_path / "m.pt2")
        program = torch.export.load(tmp_path / "m.pt2", extra_files=extra).module()
        np.testing.assert_allclose(run_program(program, X), model.predict_proba(X), atol=1e-5)
        assert json.loads(extra["classes"]) == model.classes_.tolist()


def test_a_blend(iris, tmp_path):
    pytest.importorskip("onnxscript")
    X, y = iris
    model = BlendClassifier(SVNNClassifier(**{**QUICK, "members": 4}), random_state=0).fit(X, y)
    model.blend_.update(dict.fromkeys(model.blend_, 1 / 3))
    model.export(tmp_path / "m.onnx")
    for rows in (X, X[:1]):
        found, _ = run_onnx(tmp_path / "m.onnx", rows)
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-5)
        assert found["label"].tolist() == model.predict(rows).tolist()
    model.export(tmp_path / "m.pt2")
    program = torch.export.load(tmp_path / "m.pt2").module()
    np.testing.assert_allclose(run_program(program, X), model.predict_proba(X), atol=1e-5)


def test_double_precision_and_what_files_say_of_themselves(tmp_path, capfd):
    pytest.importorskip("onnxscript")
    names = [f"column {i}" for i in range(7)]
    X = pd.DataFrame(signals(), columns=names)
    model = SVNNRegressor(**QUICK).fit(X, numbers(signals()))
    model.export(str(tmp_path / "m.onnx"), dtype=torch.float64)
    found, about = run_onnx(tmp_path / "m.onnx", signals(), np.float64)
    np.testing.assert_allclose(found["prediction"], model.predict(X), rtol=1e-10)
    assert about["svnn"] == svnn.__version__ and about["estimator"] == "SVNNRegressor"
    assert json.loads(about["feature_names"]) == names and "classes" not in about
    model.export(tmp_path / "m.pt2", dtype=torch.float64)
    extra = dict.fromkeys(("svnn", "feature_names"), "")
    program = torch.export.load(tmp_path / "m.pt2", extra_files=extra).module()
    np.testing.assert_allclose(run_program(program, signals(), np.float64), model.predict(X), rtol=1e-10)
    assert extra["svnn"] == svnn.__version__ and json.loads(extra["feature_names"]) == names
    assert capfd.readouterr() == ("", "")  # nothing about packages that are not needed
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.pt2"]


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_failed_export_leaves_the_old_file(tmp_path, monkeypatch):
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    path = tmp_path / "m.pt2"
    path.write_bytes(b"old")

    def fail(*args, **kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr(torch.export, "export", fail)
    with pytest.raises(RuntimeError, match="no"):
        model.export(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["m.pt2"]


def test_bad_requests_say_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        SVNNRegressor().export(tmp_path / "m.onnx")
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    for name in ("m.safetensors", "m", "m.ONNX.txt"):
        with pytest.raises(ValueError, match=r"path must end in \.onnx .* or \.pt2"):
            model.export(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.export(tmp_path / "nowhere" / "m.pt2")
    with pytest.raises(ValueError, match="dtype must be"):
        model.export(tmp_path / "m.pt2", dtype=torch.int64)
    assert not os.listdir(tmp_path)


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    find = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("onnx"):
            raise ImportError(name)
        return find(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r'pip install "svnn\[export\]"'):
        model.export(tmp_path / "m.onnx")


def test_a_model_that_no_onnx_file_can_hold(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    X = signals()
    model = SVNNRegressor(**QUICK).fit(X, numbers(X))
    monkeypatch.setattr("svnn.estimators._export._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"larger than the 2 GB .* \.pt2"):
        model.export(tmp_path / "m.onnx")
