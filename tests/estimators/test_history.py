"""The losses of a training: as a frame, and for TensorBoard."""

from __future__ import annotations

import builtins
import copy
import pickle
import sys

import numpy as np
import pytest

import svnn
from svnn import SVNNRegressor
from svnn.estimators.callbacks import TensorBoardCallback


def test_the_history_is_a_dict_and_a_frame(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    model = SVNNRegressor(max_epochs=7, random_state=0).fit(*data)
    assert isinstance(model.history_, dict) and model.history_ == dict(model.history_)
    frame = model.history_.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.tolist() == list(range(1, 8)) and frame.index.name == "epoch"
    assert frame["train_loss"].tolist() == model.history_["train_loss"]
    assert frame["valid_loss"].tolist() == model.history_["valid_loss"]
    assert frame["best_members"].sum() == 8
    model.save(tmp_path / "model")
    for again in (svnn.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        pandas.testing.assert_frame_equal(again.history_.to_frame(), frame)
    alone = SVNNRegressor(max_epochs=3, validation_fraction=0, random_state=0).fit(*data).history_.to_frame()
    assert list(alone) == ["train_loss", "best_members"]
    assert len(model.partial_fit(*data).history_.to_frame()) == 10


def test_a_frame_without_pandas_names_the_extra(data, monkeypatch):
    model = SVNNRegressor(max_epochs=2, random_state=0).fit(*data)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pip install "svnn\[compare\]"'):
        model.history_.to_frame()


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_tensorboard_gets_the_losses(data, tmp_path):
    pytest.importorskip("tensorboard")
    callback = TensorBoardCallback(tmp_path / "run")
    model = SVNNRegressor(max_epochs=4, random_state=0, callbacks=[callback]).fit(*data)
    found = scalars(tmp_path / "run")
    assert set(found) == {"loss/train", "loss/valid", "loss/best"}
    for name in ("train", "valid"):
        steps, values = zip(*found[f"loss/{name}"], strict=True)
        assert steps == (1, 2, 3, 4)
        np.testing.assert_allclose(values, model.history_[f"{name}_loss"], rtol=1e-6)
    again = pickle.loads(pickle.dumps(callback))
    assert again.log_dir == callback.log_dir
    model.fit(*data)
    assert len(scalars(tmp_path / "run" / "run_2")["loss/train"]) == 4
    callback.close()


def test_tensorboard_that_is_missing_is_named(data, monkeypatch, tmp_path):
    inside = builtins.__import__

    def without(name, *args, **kwargs):
        if "tensorboard" in name:
            raise ImportError(name)
        return inside(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "svnn\[tensorboard\]"'):
        TensorBoardCallback(tmp_path)({"epoch": 1, "train_loss": 1.0, "valid_loss": 1.0, "best_loss": 1.0})
