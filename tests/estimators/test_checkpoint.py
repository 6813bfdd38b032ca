"""A fit that is killed goes on from its checkpoint, as if nothing had happened."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from functools import cache, partial, wraps
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone

import svnn
from estimators.killed_fit import CASES, data, model, targets
from svnn import SVNNRegressor
from svnn.covariance import Spectral
from svnn.estimators._model_file import ModelFileError, read_model, write_model
from svnn.estimators.callbacks import Checkpoint
from svnn.estimators.training import CompiledTrainer, ModuleTrainer, StackedTrainer
from svnn.paper.baselines import MLPRegressor


def outputs(fitted, X):
    return fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X)


class Interrupted(Exception):
    """What stops a fit in these tests, as Ctrl-C would."""


def interrupted(fit, X, y, epoch):
    """Run a fit up to an epoch."""

    def stop(record):
        if record["epoch"] == epoch:
            raise Interrupted

    kept = fit.callbacks
    with pytest.raises(Interrupted):
        fit.set_params(callbacks=[stop, *kept]).fit(X, y)
    fit.set_params(callbacks=kept)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
@pytest.mark.parametrize("case", ["compiled", "modules"])
def test_a_killed_fit_goes_on(case, tmp_path):
    path = tmp_path / "fit.checkpoint"
    program = Path(__file__).with_name("killed_fit.py")
    # As many threads as here: the rounding of torch's sums depends on their number.
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads()), "MKL_NUM_THREADS": str(torch.get_num_threads())}
    died = subprocess.run(
        [sys.executable, program, case, path, "8"], check=False, capture_output=True, env=os.environ | threads
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert read_model(path)[1]["course"]["epoch"] == 7
    X, y = data()
    whole = model(case).fit(X, targets(case, y))
    seen = []
    resumed = model(case, path, [lambda record: seen.append(record["epoch"])])
    resumed.fit(X, targets(case, y))
    assert seen[0] == 8  # it did not train the first epochs again
    np.testing.assert_array_equal(outputs(resumed, X), outputs(whole, X))
    assert resumed.history_ == whole.history_ and resumed.n_iter_ == whole.n_iter_
    assert not path.exists()


@pytest.mark.parametrize(("case", "epoch"), list(zip(CASES, (2, 5, 5, 2, 5, 2), strict=True)))
def test_every_way_to_train_goes_on(case, epoch, tmp_path):
    X, y = data()
    y = targets(case, y)
    whole = model(case).fit(X, y)
    resumed = model(case, tmp_path / "fit")
    interrupted(resumed, X, y, epoch)
    interrupted(resumed, X, y, epoch + 1)  # twice
    np.testing.assert_array_equal(outputs(resumed.fit(X, y), X), outputs(whole, X))
    assert resumed.history_ == whole.history_


def test_the_trainers_are_those_that_are_meant(monkeypatch, tmp_path):
    seen = set()
    for kind in (CompiledTrainer, StackedTrainer, ModuleTrainer):
        inside = kind.state

        def state(self, inside=inside):
            seen.add(type(self))
            return inside(self)

        monkeypatch.setattr(kind, "state", state)
    X, y = data()
    for case in ("compiled", "modules"):
        model(case, str(tmp_path / "fit")).set_params(max_epochs=2).fit(X, y)
    assert ModuleTrainer in seen and seen & {CompiledTrainer, StackedTrainer}


def test_without_the_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr("svnn.estimators._trainers.has_kernel", lambda plan, device: False)
    X, y = data()
    whole, resumed = model("compiled").fit(X, y), model("compiled", tmp_path / "fit")
    interrupted(resumed, X, y, 6)
    np.testing.assert_array_equal(resumed.fit(X, y).predict(X), whole.predict(X))


def test_a_baseline_goes_on(tmp_path):
    X, y = data()
    options, checkpoint = {"max_epochs": 10, "random_state": 0}, Checkpoint(tmp_path / "fit", seconds=0)
    whole, resumed = MLPRegressor(**options).fit(X, y), MLPRegressor(callbacks=[checkpoint], **options)
    interrupted(resumed, X, y, 4)
    np.testing.assert_array_equal(resumed.fit(X, y).predict(X), whole.predict(X))


def test_a_checkpoint_of_another_fit_is_an_error_and_stays(tmp_path):
    path, (X, y) = tmp_path / "fit", data()
    interrupted(model("compiled", path), X, y, 3)
    before = path.read_bytes()
    changed = [
        (X + 1e-9, y, {}, "the data"),
        (X, y + np.eye(150)[0], {}, "the data"),
        (X, y, {"lr": 0.02}, "lr"),
        (X, y, {"random_state": 4}, "random_state"),
        (X, y, {"covariance": "soft"}, "covariance"),
        (X, y, {"loss": "squared", "hidden": (5,)}, "hidden, loss"),
    ]
    for X_other, y_other, parameters, reason in changed:
        text = rf"is that of a fit with other data, parameters or random_state \(what differs: {reason}\); delete it"
        with pytest.raises(ValueError, match=text):
            model("compiled", path).set_params(**parameters).fit(X_other, y_other)
        assert path.read_bytes() == before
    same = model("compiled", callbacks=[Checkpoint(path, seconds=5)]).set_params(verbose=1).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), model("compiled").fit(X, y).predict(X))


class Theirs(BaseEstimator):
    """A covariance estimator of somebody else."""

    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y=None):
        self.covariance_ = np.cov(X.T)
        return self


class Power:
    """A function with a state."""

    def __init__(self, p):
        self.p, self.me = p, self

    def __call__(self, lam):
        return lam**self.p


class Slim:
    """A function with a state that has no dictionary."""

    __slots__ = ("p",)

    def __init__(self, p):
        self.p = p

    def __call__(self, lam):
        return lam**self.p


def in_a_module(p):
    """Return a function of a module that has a constant."""
    module = {"POWER": p, "__name__": "theirs"}
    exec("def power(lam):\n    return [each**POWER for each in lam]", module)
    return module["power"]


def made(p, kind):
    """Return a function that is made anew, as in another process: it is equal, but lies elsewhere in memory."""

    def power(lam, *, shift=0.0):
        return np.array([each**p for each in lam]) + shift

    return {
        "function": power,
        "lambda": lambda lam: lam**p,
        "partial": partial(np.power, np.float64(p)),
        "object": Power(p),
        "slots": Slim(p),
        "constant": in_a_module(p),
        "cached": cache(lambda lam: lam**p),
        "method": Power(p).__call__,
        "wrapped": wraps(power)(lambda lam: power(lam)),
        "list": [Power(p), {"f": power}, {Power}],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["function", "lambda", "partial", "object", "slots", "constant", "cached", "method", "wrapped", "list"]
)
def test_functions_among_the_parameters(kind, tmp_path):
    path, (X, y) = tmp_path / "fit", data()

    def fit(p):
        return model("compiled", path, covariance=Theirs(made(p, kind)))

    interrupted(fit(0.5), X, y, 3)
    with pytest.raises(ValueError, match=r"\(what differs: covariance\); delete it"):
        fit(0.75).fit(X, y)
    seen = []
    again = fit(0.5)
    again.set_params(callbacks=[lambda record: seen.append(record["epoch"]), *again.callbacks]).fit(X, y)
    assert seen[0] == 3


def test_a_function_of_the_spectrum(tmp_path):
    path, (X, y) = tmp_path / "fit", data()

    def fit(function):
        return model("compiled", path, covariance=Spectral(function=function))

    interrupted(fit(lambda lam: lam**0.5), X, y, 3)
    with pytest.raises(ValueError, match=r"\(what differs: covariance\); delete it"):
        fit(lambda lam: lam**0.75).fit(X, y)
    fit(lambda lam: lam**0.5).fit(X, y)


def test_a_checkpoint_of_an_older_version(tmp_path):
    path, (X, y) = tmp_path / "fit", data()
    interrupted(model("compiled", path), X, y, 3)
    tensors, header = read_model(path)
    write_model(path, tensors, header | {"fit": "0" * 64})
    with pytest.raises(ValueError, match=r"\(another version of svnn wrote it\); delete it"):
        model("compiled", path).fit(X, y)


def test_damaged_and_foreign_files(tmp_path):
    path, (X, y) = tmp_path / "fit", data()
    interrupted(model("compiled", path), X, y, 3)
    good = path.read_bytes()
    for bad in (good[:-100], good[:-1] + bytes([good[-1] ^ 1]), b"", b"nothing"):
        path.write_bytes(bad)
        with pytest.raises(ModelFileError, match=r"the checkpoint cannot be used.*Delete it"):
            model("compiled", path).fit(X, y)
        assert path.read_bytes() == bad
    SVNNRegressor(max_epochs=2, random_state=0).fit(X, y).save(path)
    with pytest.raises(ModelFileError, match="is not the checkpoint of a training"):
        model("compiled", path).fit(X, y)
    path.write_bytes(good)
    with pytest.raises(ModelFileError, match="not svnn's"):
        svnn.load(path)


def test_it_needs_a_seed_and_a_folder(tmp_path):
    X, y = data()
    with pytest.raises(ValueError, match="needs an integer as random_state, got None"):
        SVNNRegressor(callbacks=[Checkpoint(tmp_path / "fit")]).fit(X, y)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model("compiled", tmp_path / "none" / "fit").fit(X, y)
    with pytest.raises(ValueError, match="seconds must be"):
        Checkpoint(tmp_path / "fit", seconds=-1)


def test_nothing_is_written_before_its_time(tmp_path):
    X, y = data()
    interrupted(model("compiled", callbacks=[Checkpoint(tmp_path / "fit", seconds=1e6)]), X, y, 5)
    assert not list(tmp_path.iterdir())


def test_a_model_with_a_checkpoint_can_be_saved_cloned_and_pickled(tmp_path):
    X, y = data()
    fit = model("compiled", tmp_path / "fit").set_params(max_epochs=3).fit(X, y)
    fit.save(tmp_path / "model")
    assert not svnn.load(tmp_path / "model").callbacks
    interrupted(fit, X, y, 3)
    assert (tmp_path / "fit").exists()
    for same in (clone(fit), pickle.loads(pickle.dumps(fit))):
        (checkpoint,) = same.callbacks
        assert checkpoint.path == tmp_path / "fit" and checkpoint.seconds == 0
    clone(fit).fit(X, y)
    assert not (tmp_path / "fit").exists()


def test_partial_fit_reads_and_writes_no_checkpoint(tmp_path):
    X, y = data()
    fit = model("compiled", tmp_path / "fit").set_params(max_epochs=3).fit(X, y)
    (tmp_path / "fit").write_bytes(b"another file")
    fit.partial_fit(X[:50], y[:50])
    assert (tmp_path / "fit").read_bytes() == b"another file"
