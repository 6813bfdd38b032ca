"""Model files as a careful program writes them: all that matters, to the right place, whole or not at all."""

from __future__ import annotations

import copy
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.covariance
import torch

import svnn
from model_files import QUICK, X, classifier, contents, forge, read, regressor
from svnn import HardThreshold, ModelFileError, SVNNClassifier, SVNNRegressor
from svnn.estimators import _model_file
from svnn.estimators._storage import _FITTED
from svnn.estimators._stored_values import _COVARIANCES

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


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


# -- what is stored ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [regressor, classifier], ids=["regressor", "classifier"])
def test_all_that_fit_sets_is_stored_and_read_again(make, path):
    model = make()
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
    regressor().save(path)
    for wrong in (dict, print, "SVNNRegressor"):
        with pytest.raises(ValueError, match="must be subclasses of svnn's estimators"):
            svnn.load(path, classes=[wrong])


@pytest.mark.parametrize(
    "changed",
    [{"activation": "tanh"}, {"hidden": (7, 7), "mlp": ()}, {"order": 4, "batch_norm": False}, {"readout": "flatten"}],
    ids=lambda changed: next(iter(changed)),
)
def test_parameters_changed_after_fit_do_not_change_the_network(path, changed):
    model = copy.copy(regressor()).set_params(**changed)
    model.save(path)
    again = svnn.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert {k: again.get_params()[k] for k in changed} == changed


def test_parameters_that_cannot_be_used_are_refused_before_anything_is_written(path):
    with pytest.raises(ValueError, match="lr must be"):
        copy.copy(regressor()).set_params(lr=-1).save(path)
    assert contents(path.parent) == []


def test_every_covariance_estimator_can_be_stored():
    known = []
    for name, module in (("svnn", svnn.covariance), ("sklearn", sklearn.covariance)):
        kinds = [each for each in map(module.__dict__.get, module.__all__) if hasattr(each, "get_params")]
        assert len(kinds) >= 8
        for kind in kinds:
            known.append(_COVARIANCES.get(f"{name}.{kind.__name__}"))
            assert known[-1] is kind
    assert len(known) == len(_COVARIANCES)


@pytest.mark.parametrize("name", _COVARIANCES)
@pytest.mark.filterwarnings("ignore")
def test_the_fitted_covariance_estimator_is_stored(path, name):
    labels = np.array(["a", "b", "c"])[np.arange(30) % 3]
    model = SVNNClassifier(covariance=_COVARIANCES[name](), **QUICK).fit(X, labels)
    model.save(path)
    found, expected = svnn.load(path).covariance_estimator_, model.covariance_estimator_
    assert type(found) is type(expected) and found.get_params() == expected.get_params()
    public = {k: v for k, v in vars(expected).items() if k.endswith("_") and not k.startswith("_")}
    assert len(public) >= 3
    for attribute, value in public.items():
        again = getattr(found, attribute)
        if sp.issparse(value):
            assert abs(again - value).max() == 0
        else:
            np.testing.assert_equal(again, value)
    assert hasattr(found, "sample") == hasattr(expected, "sample")
    if hasattr(found, "sample"):
        draws = [each.sample(np.random.default_rng(0)) for each in (found, expected)]
        assert abs(draws[0] - draws[1]).max() == 0


def test_covariance_estimators_of_users(path):
    class Mine(HardThreshold):
        """A covariance that no file can name."""

    model = SVNNRegressor(covariance=Mine(), **QUICK).fit(X, X[:, 0])
    model.set_params(covariance=model.covariance_).save(path)
    assert svnn.load(path).covariance_estimator_ is None


def test_matrices_that_torch_does_not_take_as_they_are(path):
    C = np.corrcoef(X.T)
    for shift in (C[::-1, ::-1], C.astype(">f8"), np.asfortranarray(C)):
        model = copy.copy(regressor()).set_params(covariance=shift)
        model.save(path)
        np.testing.assert_array_equal(svnn.load(path).covariance, shift)


def test_loading_leaves_the_generator_of_torch_and_its_modes_alone(path):
    regressor().save(path)
    before = torch.get_rng_state()
    with torch.inference_mode():
        again = svnn.load(path)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(p.is_inference() for p in again.module_.parameters())


def test_a_loaded_model_does_not_live_in_the_file(path):
    regressor().save(path)
    again = svnn.load(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)
    np.testing.assert_array_equal(again.predict(X), regressor().predict(X))


# -- where it is written ----------------------------------------------------------------------------------


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "store").mkdir()
    link, target = tmp_path / "link", tmp_path / "store" / "model.safetensors"
    link.symlink_to("store/model.safetensors")  # of which there is nothing yet
    for _ in range(2):
        regressor().save(link)
        assert link.is_symlink() and target.is_file() and not target.is_symlink()
        np.testing.assert_array_equal(svnn.load(link).predict(X), regressor().predict(X))
    assert contents(tmp_path) == ["link", "store"] and contents(target.parent) == [target.name]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_gives(path, umask):
    before = os.umask(umask)
    try:
        regressor().save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o600])
def test_a_file_that_is_replaced_keeps_its_permissions(path, mode):
    path.write_text("old")
    path.chmod(mode)
    regressor().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    svnn.load(path)


def test_another_saver_in_the_middle_of_a_save(path, monkeypatch):
    replace, others = os.replace, [classifier()]

    def replace_late(*arguments):
        if others:
            others.pop().save(path)
            assert type(svnn.load(path)) is SVNNClassifier
        replace(*arguments)

    monkeypatch.setattr(os, "replace", replace_late)
    regressor().save(path)
    assert type(svnn.load(path)) is SVNNRegressor and contents(path.parent) == [path.name]


def test_many_savers_on_one_path(path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda model: model.save(path), [regressor(), classifier()] * 20))
    svnn.load(path).predict(X)
    assert contents(path.parent) == [path.name]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["OSError", "KeyboardInterrupt"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch, step, error):
    classifier().save(path)
    before = path.read_bytes()

    def fail(*arguments):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(type(error)):
            regressor().save(path)
    assert path.read_bytes() == before and contents(path.parent) == [path.name]


def test_paths_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(["a", b"b", Path("c"), "~/d", Path("~/e"), "é " + 200 * "x"]):
        regressor().save(name)
        assert len(contents(tmp_path)) == i + 1
        svnn.load(name)
    assert {"a", "b", "c", "d", "e"} <= set(contents(tmp_path))
    for wrong in (3, None, 1.5):
        with pytest.raises(TypeError, match=r"str, bytes or os\.PathLike"):
            regressor().save(wrong)
        with pytest.raises(TypeError, match=r"str, bytes or os\.PathLike"):
            svnn.load(wrong)


def test_only_plain_files_are_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(FileExistsError, match="not a plain file"):
            regressor().save(tmp_path / name)
    assert contents(tmp_path) == ["folder", "pipe"] and contents(tmp_path / "folder") == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything")
def test_without_permission(tmp_path, path):
    regressor().save(path)
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="may not be written to"):
        regressor().save(path)
    path.chmod(0o000)
    with pytest.raises(ModelFileError, match="Permission denied"):
        svnn.load(path)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written to"):
        regressor().save(tmp_path / "other")
    tmp_path.chmod(0o700)


def test_a_header_too_long_to_be_read_is_not_written(path, monkeypatch):
    monkeypatch.setattr(_model_file, "LARGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="more than the 1000"):
        regressor().save(path)
    assert contents(path.parent) == []
