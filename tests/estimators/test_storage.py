from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save_file
from sklearn.covariance import LedoitWolf
from sklearn.exceptions import NotFittedError

import svnn
from svnn import ACV, RCV, HardThreshold, ModelFileError, SVNNClassifier, SVNNRegressor

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

QUICK = {"max_epochs": 5, "hidden": (8,), "random_state": 0}


@pytest.fixture
def X(rng):
    return rng.standard_normal((40, 5))


@pytest.fixture
def model(X):
    return SVNNRegressor(**QUICK).fit(X, X[:, 0])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"covariance": HardThreshold(density=0.3, psd="load")},
        {"covariance": RCV(p=0.25), "resample": "epoch"},
        {"covariance": LedoitWolf(assume_centered=True)},
        {"covariance": "graphical_lasso", "use": "precision"},
        {"covariance": np.eye(5)},
        {"hidden": [8, 8], "readout": "mean", "standardize": False},
        {"readout": "flatten", "mlp": (), "batch_norm": False},
        {"callbacks": [print]},
        {"device": torch.device("cpu"), "random_state": np.random.default_rng(0)},
    ],
    ids=lambda parameters: "-".join(parameters) or "defaults",
)
def test_round_trip(parameters, X, path, capsys):
    model = SVNNRegressor(**{**QUICK, **parameters}).fit(X, np.c_[X[:, 0], X[:, 1]])
    model.save(path)
    again = svnn.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.embed(X), model.embed(X))
    assert again.history_ == model.history_ and again.n_iter_ == model.n_iter_
    assert again.operator_.scale == model.operator_.scale
    C, D = (c if isinstance(c, np.ndarray) else c.toarray() for c in (again.covariance_, model.covariance_))
    np.testing.assert_array_equal(C, D)
    unstored = ("callbacks", "random_state")
    kept = {k: str(v) for k, v in model.get_params().items() if k not in unstored}
    assert {k: str(v) for k, v in again.get_params().items() if k not in unstored} == kept
    again.on(np.eye(5)).predict(X)


@pytest.mark.parametrize("labels", [["a", "b"], [False, True], [-1.0, 2.0], [3, 10]], ids=str)
@pytest.mark.parametrize("as_object", [False, True])
def test_labels_survive(labels, as_object, X, path):
    y = np.array(labels, dtype=object if as_object and isinstance(labels[0], str) else None)[(X[:, 0] > 0).astype(int)]
    model = SVNNClassifier(class_weight={labels[0]: 1.0, labels[1]: 2.0}, **QUICK).fit(X, y)
    model.save(path)
    again = svnn.load(path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.class_weight == model.class_weight


@pytest.mark.parametrize("halflife", [None, 20])
def test_realisations_from_tiles_survive(halflife, rng, path):
    X = rng.standard_normal((40, 5)) * [1, 2, 3, 4, 1e30]
    covariance = ACV(dense_limit=3, density=0.5, random_state=0, halflife=halflife)
    model = SVNNRegressor(covariance=covariance, members=1, use="covariance", **QUICK).fit(X, X[:, 0])
    model.save(path)
    again, before = svnn.load(path).covariance_estimator_, model.covariance_estimator_
    for seed in (0, 1):
        found, expected = again.sample(seed), before.sample(seed)
        assert found.nnz > 5 and (found != expected).nnz == 0 and found.dtype == expected.dtype
    del again._observations_
    with pytest.raises(ValueError, match=r"without the data that it draws from .* fit it again"):
        again.sample()


def test_feature_names_survive(X, path):
    frame = pd.DataFrame(X, columns=list("abcde"))
    SVNNRegressor(**QUICK).fit(frame, X[:, 0]).save(str(path))
    assert svnn.load(str(path)).feature_names_in_.tolist() == list("abcde")


def test_three_dimensions_survive(rng, path):
    X = rng.standard_normal((30, 4, 3))
    model = SVNNRegressor(**QUICK).fit(X, X[:, 0, 0])
    model.save(path)
    np.testing.assert_array_equal(svnn.load(path).predict(X), model.predict(X))


def test_a_loaded_model_can_be_fitted_again(model, X, path):
    model.save(path)
    again = svnn.load(path).fit(X, X[:, 0])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_file_holds_no_pickle(model, path):
    model.save(path)
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert json.loads(header["__metadata__"]["svnn"])["class"] == "SVNNRegressor"


def test_pickle_works_too(model, X):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_an_unfitted_model_cannot_be_saved(path):
    with pytest.raises(NotFittedError):
        SVNNRegressor().save(path)


def test_a_foreign_covariance_class_says_what_to_do(X, path):
    class Mine(HardThreshold):
        pass

    model = SVNNRegressor(covariance=Mine(), **QUICK).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"covariance=model\.covariance_"):
        model.save(path)
    model.set_params(covariance=model.covariance_).save(path)
    np.testing.assert_array_equal(svnn.load(path).predict(X), model.predict(X))


def test_shifts_of_every_kind_can_be_stored(X, path):
    C = np.corrcoef(X.T)
    for shift in (C, svnn.as_operator(C), pd.DataFrame(C), torch.tensor(C), sp.csr_array(C)):
        model = SVNNRegressor(covariance=shift, **QUICK).fit(X, X[:, 0])
        other = model.on(shift)
        for each in (model, other):
            assert isinstance(each.covariance_, (np.ndarray, sp.csr_array))
            each.save(path)
            np.testing.assert_allclose(svnn.load(path).predict(X), model.predict(X), rtol=1e-6)


def test_dates_as_labels(X, path):
    days = np.array(["2020-01-01", "2021-06-01"], dtype="datetime64[D]")[(X[:, 0] > 0).astype(int)]
    model = SVNNClassifier(**QUICK).fit(X, days)
    model.save(path)
    np.testing.assert_array_equal(svnn.load(path).predict(X), model.predict(X))


def test_a_missing_folder(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        model.save(tmp_path / "nowhere" / "model.safetensors")


def test_a_missing_file(path):
    with pytest.raises(FileNotFoundError, match="no model file"):
        svnn.load(path)


def test_foreign_files(path):
    for content in (b"", b"not a model", b"\x80\x04pickle" * 100):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="not a safetensors file"):
            svnn.load(path)
    save_file({"a": torch.ones(2)}, path)
    with pytest.raises(ModelFileError, match="not one that svnn wrote"):
        svnn.load(path)


def test_damage_anywhere_is_noticed(model, path, rng):
    model.save(path)
    good = path.read_bytes()
    start = 8 + int.from_bytes(good[:8], "little")
    for place in [*rng.integers(start, len(good), 10), len(good) - 1]:
        bad = bytearray(good)
        bad[place] ^= 0xFF
        path.write_bytes(bad)
        with pytest.raises(ModelFileError, match="damaged"):
            svnn.load(path)
    for length in (0, 4, start // 2, start, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ModelFileError):
            svnn.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format=99), "Upgrade svnn"),
        (lambda h: h.update(format="x"), "header cannot be read"),
        (lambda h: h["shift"]["operator"].update(scale=2.0), "do not match their checksum"),
        (lambda h: h.pop("format"), "header cannot be read"),
        (lambda h: h.pop("params"), "damaged"),
        (lambda h: h.update({"class": "Pipeline"}), "damaged"),
        (lambda h: h["params"].update(covariance={"estimator": "os.system", "params": {}}), "damaged"),
        (lambda h: h["params"].update(covariance={"estimator": "sklearn.os", "params": {}}), "damaged"),
    ],
)
def test_strange_headers(model, path, change, message):
    model.save(path)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["svnn"])
    change(header)
    save_file(load_file(path), path, metadata={"svnn": json.dumps(header)})
    with pytest.raises(ModelFileError, match=message):
        svnn.load(path)


def test_saving_replaces_and_leaves_nothing_beside(model, path):
    model.save(path)
    model.save(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
