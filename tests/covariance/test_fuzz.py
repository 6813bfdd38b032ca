"""Any sequence of fits, good and bad, leaves the covariance of the last good one, or of all batches."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import reference
from svnn import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold

ESTIMATORS = (SampleCovariance, HardThreshold, SoftThreshold, AdaptiveThreshold, ACV, RCV)
NAN = float("nan")
#: Good and bad values of the parameters, where an estimator has them. Bad is what every fit refuses.
GOOD = {
    "density": [None, 0.0, 0.3, 1.0],
    "tau": ["universal", "cv", 0.5, 3],
    "scale": [2.0, 0.0, np.float32(1.0)],
    "delta": [2.0, 0.5],
    "rule": ["hard", "soft", "scad", "adaptive_lasso"],
    "p": [0.5, 0.0, 1.0],
    "unbiased": [False, True],
    "keep_diagonal": [True, False],
    "psd": [None, "load"],
    "dense_limit": [4096, 0],
    "ddof": [0, 1],
    "missing": ["raise", "pairwise"],
}
BAD = {
    "density": [-0.1, 1.5, NAN, "half"],
    "tau": [-1.0, NAN, "auto"],
    "scale": [-1.0, NAN],
    "delta": [-1.0, NAN, "2"],
    "rule": ["none", None],
    "p": [-0.1, 1.1, NAN],
    "psd": ["repair", 3],
    "dense_limit": [-1, 1.5, None],
    "missing": ["drop", None],
    "random_state": ["seed"],
}


def rows(kind: str, seed: int = 0, t: int = 30, n: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((t, n)) + rng.standard_normal((t, 1))
    if kind == "binary":
        return (X > 0).astype(float)
    if kind == "constant":
        X[:, [1, 4]] = (3.3, 1e8)
    if kind == "large numbers":
        X = X * 1e100
    if kind == "single precision":
        X = X.astype(np.float32)
    if kind == "windows":
        X = np.stack([X, X[::-1]], 2)
    return X


def spoiled(how: str):
    X = rows("plain")
    bad = X.copy()
    bad[2, 3] = np.inf
    return {
        "complex": X * 1j,
        "text": X.astype(str).astype(object) + "a",
        "one row": X[:1],
        "one dimension": X[0],
        "no values": X[:, :, None][:, :, :0],
        "sparse": torch.tensor(X).to_sparse(),
        "too large": X * 1e200,
        "nothing": None,
    }.get(how, bad)


def dense(C) -> np.ndarray:
    return C.toarray() if sp.issparse(C) else np.asarray(C)


class Sequences(RuleBasedStateMachine):
    """One estimator, and the covariance that it must still have."""

    @initialize(family=st.sampled_from(ESTIMATORS))
    def start(self, family):
        self.model = family()
        if "random_state" in self.model.get_params():
            self.model.set_params(random_state=0)
        self.expected = None

    def own(self, values):
        """Return those of the parameters that the estimator has."""
        return sorted(set(values) & set(self.model.get_params()))

    def is_bad(self):
        current = self.model.get_params()
        numbers = [isinstance(current.get(name), (int, float)) for name in ("tau", "density")]
        # Compared as text: a copy of NaN is another object, and equal to nothing.
        return all(numbers) or any(repr(current[name]) in map(repr, BAD[name]) for name in self.own(BAD))

    @rule(data=st.data(), good=st.booleans())
    def set_a_value(self, data, good):
        values = GOOD if good else BAD
        if self.own(values):
            name = data.draw(st.sampled_from(self.own(values)))
            self.model.set_params(**{name: data.draw(st.sampled_from(values[name]))})

    @rule()
    def set_everything_right(self):
        defaults = type(self.model)().get_params()
        self.model.set_params(**{name: value for name, value in defaults.items() if name != "random_state"})
        if "random_state" in defaults:
            self.model.set_params(random_state=0)

    @rule(kind=st.sampled_from(["plain", "binary", "constant", "large numbers", "single precision", "windows"]))
    def fit(self, kind):
        X = rows(kind)
        large = X.shape[1] > self.model.get_params().get("dense_limit", np.inf) if not self.is_bad() else False
        if self.is_bad() or (large and isinstance(self.model, RCV)):
            with pytest.raises((ValueError, TypeError)):
                self.model.fit(X)
            return
        self.model.fit(X)
        self.expected = dense(self.model.covariance_).copy()
        twin = clone(self.model).fit(X)
        np.testing.assert_array_equal(dense(twin.covariance_), self.expected)
        np.testing.assert_array_equal(self.expected, self.expected.T)
        values = X.reshape(len(X), -1) if X.ndim == 2 else X.transpose(0, 2, 1).reshape(-1, X.shape[1])
        truth = reference.covariance(values)
        constant = values.max(0) == values.min(0)
        assert not self.expected[constant].any() or self.model.get_params().get("psd") == "load"
        kept = self.expected != 0
        np.fill_diagonal(kept, False)
        if type(self.model) in (HardThreshold, ACV, RCV) and not self.model.get_params().get("unbiased"):
            # What is kept is the sample covariance's own.
            tolerance = 1e-5 if large or X.dtype == np.float32 else 1e-9
            np.testing.assert_allclose(self.expected[kept], truth[kept], rtol=tolerance, atol=tolerance * truth.max())
        if type(self.model) in (HardThreshold, SoftThreshold) and self.model.density is not None:
            nonzero = np.triu(reference.nonzero_covariances(values), 1).sum()
            pairs = round(self.model.density * 21)
            assert kept.sum() // 2 == min(pairs, nonzero)

    @rule(how=st.sampled_from(["complex", "text", "one row", "one dimension", "no values", "sparse", "too large",
                               "nothing", "infinite"]))  # fmt: skip
    def fit_spoiled_data(self, how):
        if how == "one row" and isinstance(self.model, SampleCovariance):
            return  # one row has a covariance: zero
        with pytest.raises((ValueError, TypeError)):
            self.model.fit(spoiled(how))

    @precondition(lambda self: self.expected is not None)
    @rule(how=st.sampled_from(["pickle", "deepcopy"]))
    def copy_whole(self, how):
        self.model = pickle.loads(pickle.dumps(self.model)) if how == "pickle" else copy.deepcopy(self.model)

    @precondition(lambda self: self.expected is not None and hasattr(self.model, "sample"))
    @rule(seed=st.integers(0, 5))
    def draw(self, seed):
        if self.is_bad():  # parameters set since then count for new draws
            return
        drawn = [dense(self.model.sample(seed)) for _ in range(2)]
        np.testing.assert_array_equal(*drawn)
        np.testing.assert_array_equal(drawn[0], drawn[0].T)

    @invariant()
    def the_last_good_fit_is_still_there(self):
        if not hasattr(self, "model"):
            return
        assert hasattr(self.model, "covariance_") == (self.expected is not None)
        if self.expected is not None:
            np.testing.assert_array_equal(dense(self.model.covariance_), self.expected)


class Batches(RuleBasedStateMachine):
    """``partial_fit`` in any order and with any weights is ``fit`` on all rows together."""

    @initialize(ddof=st.sampled_from([0, 1]))
    def start(self, ddof):
        self.model = SampleCovariance(ddof=ddof)
        self.rows, self.weights = [], []

    @rule(
        seed=st.integers(0, 9),
        t=st.integers(1, 12),
        kind=st.sampled_from(["plain", "constant"]),
        unit=st.sampled_from([None, 1.0, 1e-13, 1e40]),
    )
    def add(self, seed, t, kind, unit):
        X = rows(kind, seed, t)
        weight = None if unit is None else unit * np.random.default_rng(seed).uniform(0.1, 1, t)
        if sum(map(len, self.rows)) + t > self.model.ddof + 1:
            self.model.partial_fit(X, sample_weight=weight)
            self.rows.append(X)
            self.weights.append(np.ones(t) if weight is None else weight)

    @rule(how=st.sampled_from(["complex", "one dimension", "infinite", "another size"]))
    def add_what_is_no_data(self, how):
        X = rows("plain", n=8) if how == "another size" else spoiled(how)
        if how == "another size" and not self.rows:
            return
        with pytest.raises((ValueError, TypeError)):
            self.model.partial_fit(X)

    @invariant()
    def all_batches_count(self):
        if not getattr(self, "rows", None):
            return
        X, weight = np.concatenate(self.rows), np.concatenate(self.weights)
        whole = SampleCovariance(ddof=self.model.ddof).fit(X, sample_weight=weight)
        size = max(np.abs(whole.covariance_).max(), 1e-300)
        np.testing.assert_allclose(self.model.covariance_, whole.covariance_, rtol=1e-7, atol=1e-9 * size)
        if not self.model.ddof:
            truth = reference.covariance(X, weight)
            np.testing.assert_allclose(self.model.covariance_, truth, rtol=1e-6, atol=1e-6 * size)


def test_nothing_is_fitted_before_the_first_fit():
    for family in ESTIMATORS:
        if hasattr(family, "sample"):
            with pytest.raises(NotFittedError):
                family().sample(0)


TestSequences, TestBatches = Sequences.TestCase, Batches.TestCase
TestSequences.settings = settings(max_examples=60, stateful_step_count=20)
TestBatches.settings = settings(max_examples=30, stateful_step_count=12)
TestSequences = pytest.mark.filterwarnings("ignore")(TestSequences)
