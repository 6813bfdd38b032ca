"""Any sequence of calls ends in the right answer or a documented error, and an error loses nothing.

A state machine fits, changes parameters, predicts, moves to other covariances, stores, loads, copies, with valid and
invalid values. Beside the model it keeps what the model must still say.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import reference
import svnn
from svnn import ModelFileError, SVNNClassifier, SVNNRegressor

#: What a call may raise; anything else is a failure.
DOCUMENTED = (ValueError, TypeError, FloatingPointError, ModelFileError)

#: Values of the parameters: good ones, which every fit accepts, and bad ones, which every fit refuses.
GOOD = {
    "covariance": ["hard", "soft", "sample", "adaptive", "acv", "rcv", "ledoit_wolf"],
    "hidden": [(3,), [2, 3], np.array([4]), (np.int64(2),)],
    "order": [0, 1, 2, np.int32(3)],
    "activation": ["leaky_relu", "silu", "tanh", "identity"],
    "members": [1, 2, np.int64(3)],
    "dropout": [0.0, 0.3, np.float32(0.25)],
    "batch_norm": [True, False, np.True_],
    "readout": ["weighted", "mean", "flatten"],
    "heads": [1, 2],
    "mlp": [(), (3,), np.array([2, 2])],
    "node_dropout": [0.0, 0.4],
    "standardize": [True, False],
    "lr": [0.01, np.float64(0.1)],
    "weight_decay": [0.0, 1e-3],
    "max_epochs": [1, 2],
    "patience": [1, 5],
    "batch_size": ["auto", None, 1, 5, 1000],
    "schedule": ["one_cycle", "constant"],
    "shrink": [True, False],
    "validation_fraction": [0.0, 0.1, 0.5],
    "callbacks": [(), [lambda record: np.True_]],
}
BAD = {
    "covariance": ["nothing", 3, None, np.eye(77), np.full((4, 4), np.nan)],
    "hidden": [(), (0,), "32", 5, (2.5,)],
    "order": [-1, 1.5, None, "2"],
    "activation": ["sine", None, 3],
    "dropout": [1.0, -0.1, float("nan"), "0"],
    "readout": ["sum", None],
    "heads": [0, -1, 1.5, None],
    "mlp": [(0,), (1.5,), 3],
    "node_dropout": [1.0, float("nan")],
    "lr": [0.0, -1.0, float("nan"), float("inf"), None],
    "weight_decay": [-1.0, float("nan")],
    "max_epochs": [0, 1.5, None],
    "patience": [0, -3],
    "batch_size": [0, -1, 1.5, "all"],
    "schedule": ["cosine", None],
    "validation_fraction": [1.0, -0.1, float("nan")],
    "callbacks": [3, [None]],
    "device": ["nowhere"],
    "random_state": [-1, "seed"],
    "resample": ["never"],
}
DEFAULTS = {name: values[0] for name, values in GOOD.items()}


def table(kind: str, n: int = 4, t: int = 24) -> np.ndarray:
    rng = np.random.default_rng(n)
    X = rng.standard_normal((t, n)) + rng.standard_normal((t, 1))
    if kind == "constant column":
        X[:, -1] = 0.1
    if kind == "small integers":
        X = np.round(X)
    if kind == "other units":
        X = X * 1e6 + 1e7
    return X


def spoiled(X: np.ndarray, how: str):
    bad = X.copy()
    bad[0, 0] = {"NaN": np.nan, "infinity": np.inf}.get(how, 0.0)
    return {
        "one dimension": X[:, 0],
        "four dimensions": X[None, None],
        "complex": X + 1j,
        "text": X.astype(str).astype(object) + "a",
        "no values": np.empty((len(X), X.shape[1], 0)),
        "no rows": X[:0],
        "sparse tensor": torch.tensor(X).to_sparse(),
        "nothing": None,
    }.get(how, bad)


SPOILS = ("NaN", "infinity", "one dimension", "four dimensions", "complex", "text", "no values", "no rows",
          "sparse tensor", "nothing")  # fmt: skip
KINDS = ("plain", "constant column", "small integers", "other units")
MATRICES = ("identity", "ones", "covariance", "sparse", "zero")
BAD_MATRICES = {
    "asymmetric": np.triu(np.ones((4, 4))),
    "not square": np.ones((4, 3)),
    "NaN": np.full((4, 4), np.nan),
    "another size": np.eye(7),
    "complex": np.eye(4) * 1j,
    "text": "covariance",
    "nothing": None,
}


class Sequences(RuleBasedStateMachine):
    """One model and what it must say: ``expected`` are its predictions on ``probe`` since the last good fit."""

    regression: bool

    @initialize()
    def start(self):
        family = SVNNRegressor if self.regression else SVNNClassifier
        self.model = family(random_state=0, device="cpu", **DEFAULTS)
        self.fitted_params = None
        self.expected = None
        self.probe = None

    def targets(self, X):
        y = X.sum(1) + np.sin(np.arange(len(X)))
        return y if self.regression else np.where(y > np.median(y), "high", "low")

    def answers(self, model):
        return model.predict(self.probe) if self.regression else model.predict_proba(self.probe)

    def bad_parameters(self):
        """Names of parameters that no fit accepts. A copy of the model may hold copies of the values: nan is one."""
        current = self.model.get_params(deep=False)
        return [
            name
            for name, values in BAD.items()
            if any(type(current[name]) is type(value) and repr(current[name]) == repr(value) for value in values)
        ]

    @rule(name=st.sampled_from(sorted(GOOD)), choice=st.integers(0, 10))
    def set_a_good_value(self, name, choice):
        self.model.set_params(**{name: GOOD[name][choice % len(GOOD[name])]})

    @rule(name=st.sampled_from(sorted(BAD)), choice=st.integers(0, 10))
    def set_a_bad_value(self, name, choice):
        self.model.set_params(**{name: BAD[name][choice % len(BAD[name])]})

    @rule()
    def set_everything_right(self):
        self.model.set_params(**DEFAULTS, device="cpu", random_state=0, resample="fixed", use="covariance")

    @rule(name=st.sampled_from(["hidden_", "epochs", "fit"]))
    def set_what_does_not_exist(self, name):
        with pytest.raises(ValueError, match="Invalid parameter"):
            self.model.set_params(**{name: 1})

    @rule(kind=st.sampled_from(KINDS), n=st.sampled_from([1, 2, 4]))
    def fit(self, kind, n):
        X = table(kind, n)
        y = self.targets(X)
        if self.bad_parameters():
            with pytest.raises(DOCUMENTED):
                self.model.fit(X, y)
            return
        try:
            assert self.model.fit(X, y) is self.model
        except FloatingPointError:
            assert not self.model.standardize  # raw numbers of any size may well overflow
            return
        self.probe = X[:7]
        self.expected = self.answers(self.model)
        self.fitted_params = self.model.get_params(deep=False)
        assert np.isfinite(self.expected).all()
        # The same again from scratch: a fit depends on its data, parameters and seed alone.
        twin = clone(self.model).fit(X, y)
        np.testing.assert_array_equal(self.answers(twin), self.expected)
        self.compare_with_the_reference(X, y)

    def compare_with_the_reference(self, X, y):
        p = self.fitted_params
        plain = p["covariance"] in ("sample", "hard", "soft") and p["activation"] in reference.ACTIVATIONS
        if not plain or not p["standardize"] or p["readout"] == "flatten" or p["validation_fraction"]:
            return
        Z = reference.standardize(X)
        C = reference.thresholded_correlation(Z, p["covariance"])
        state = {key: value.double().numpy() for key, value in self.model.module_.state_dict().items()}
        outputs = [
            reference.network(C, Z[:7, :, None], member, len(p["hidden"]), p["activation"], p["use"])
            for member in reference.member_states(state)
        ]
        if self.regression:
            answer = np.mean(outputs, axis=0)[:, 0] * y.std() + y.mean()
        else:
            answer = np.mean([np.exp(o) / np.exp(o).sum(1, keepdims=True) for o in outputs], axis=0)
        # The network is trained in single precision; its covariance, too, is kept in it.
        np.testing.assert_allclose(self.expected, answer, rtol=1e-4, atol=1e-4 * np.abs(answer).max())

    @rule(how=st.sampled_from(SPOILS))
    def fit_spoiled_data(self, how):
        X = table("plain")
        with pytest.raises(DOCUMENTED):
            self.model.fit(spoiled(X, how), self.targets(X))

    @rule(how=st.sampled_from(["too few", "NaN", "complex", "nothing", "one class"]))
    def fit_spoiled_targets(self, how):
        X = table("plain")
        y = self.targets(X)
        numbers = X.sum(1)
        numbers[3] = np.nan
        spoiled_y = {"too few": y[:-1], "NaN": numbers, "complex": X[:, 0] + 1j, "nothing": None}
        if how == "one class" and self.regression:
            return
        with pytest.raises(DOCUMENTED):
            self.model.fit(X, spoiled_y.get(how, np.zeros(len(X), int)))

    @rule()
    def interrupted_fit(self):
        X = table("plain")

        def stop(record):
            raise KeyboardInterrupt

        before = self.model.callbacks
        self.model.set_params(callbacks=[stop])
        expected = DOCUMENTED if self.bad_parameters() else (*DOCUMENTED, KeyboardInterrupt)
        with pytest.raises(expected):
            self.model.fit(X, self.targets(X))
        self.model.set_params(callbacks=before)

    @rule(how=st.sampled_from(SPOILS))
    def predict_spoiled_data(self, how):
        error = NotFittedError if self.expected is None else DOCUMENTED
        X = table("plain", 4 if self.expected is None else self.probe.shape[1])
        with pytest.raises(error):
            self.model.predict(spoiled(X, how))

    @precondition(lambda self: self.expected is not None)
    @rule()
    def predict_another_number_of_features(self):
        with pytest.raises(ValueError, match="features"):
            self.model.predict(np.ones((3, self.probe.shape[1] + 1)))

    @precondition(lambda self: self.expected is not None)
    @rule(name=st.sampled_from(MATRICES))
    def move_to_another_covariance(self, name):
        n = self.probe.shape[1]
        C = reference.awkward_matrices(max(n, 2))[name][:n, :n]
        other = self.model.on(C)
        assert np.isfinite(self.answers(other)).all()
        back = other.on(self.model.operator_.normalized(1.0).to(dtype=torch.float64))
        np.testing.assert_allclose(self.answers(back), self.expected, rtol=1e-4, atol=1e-4)

    @precondition(lambda self: self.expected is not None)
    @rule(name=st.sampled_from(sorted(BAD_MATRICES)))
    def move_to_a_bad_covariance(self, name):
        if name == "another size" and self.fitted_params["readout"] == "mean":
            return
        with pytest.raises(DOCUMENTED):
            self.model.on(BAD_MATRICES[name])

    @rule()
    def store_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            if self.expected is None:
                with pytest.raises(NotFittedError):
                    self.model.save(path)
                assert not path.exists()
                return
            try:
                self.model.save(path)
            except DOCUMENTED:  # a parameter set since that cannot be stored
                assert self.model.get_params(deep=False) != self.fitted_params
                assert not path.exists()
                return
            loaded = svnn.load(path, device="cpu")
            np.testing.assert_array_equal(self.answers(loaded), self.expected)
            data = bytearray(path.read_bytes())
            data[len(data) // 3] ^= 0xFF
            path.write_bytes(data[: len(data) - 5])
            with pytest.raises(ModelFileError):
                svnn.load(path)

    @rule(how=st.sampled_from(["pickle", "deepcopy"]))
    def copy_whole(self, how):
        if any(callable(c) for c in (self.model.callbacks if isinstance(self.model.callbacks, (list, tuple)) else ())):
            return  # a function defined here cannot be pickled
        twin = pickle.loads(pickle.dumps(self.model)) if how == "pickle" else copy.deepcopy(self.model)
        if self.expected is not None:
            np.testing.assert_array_equal(self.answers(twin), self.expected)
        self.model = twin

    @rule()
    def clone_is_not_fitted(self):
        twin = clone(self.model)
        with pytest.raises(NotFittedError):
            twin.predict(table("plain"))

    @invariant()
    def the_last_good_fit_still_answers(self):
        if not hasattr(self, "model"):
            return
        if self.expected is None:
            with pytest.raises(NotFittedError):
                self.model.predict(table("plain"))
        else:
            np.testing.assert_array_equal(self.answers(self.model), self.expected)


class RegressorSequences(Sequences):
    regression = True


class ClassifierSequences(Sequences):
    regression = False


_SETTINGS = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestRegressor = pytest.mark.filterwarnings("ignore")(RegressorSequences.TestCase)
TestClassifier = pytest.mark.filterwarnings("ignore")(ClassifierSequences.TestCase)
TestRegressor.settings = TestClassifier.settings = _SETTINGS
