"""``check_covariance`` lets right estimators pass and names what is wrong with others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.covariance import OAS, EmpiricalCovariance
from sklearn.utils.validation import validate_data

from svnn.covariance import HardThreshold, SampleCovariance, WithinClass
from svnn.testing import check_covariance
from svnn.testing._covariances import CHECKS, check_parameters


class Sample(BaseEstimator):
    """The smallest estimator there is."""

    def __init__(self, scale=1.0, random_state=None):
        self.scale, self.random_state = scale, random_state

    def fit(self, X, y=None):
        self.covariance_ = self.estimate(validate_data(self, X, dtype=[np.float64, np.float32]))
        return self

    def estimate(self, X):
        return self.scale * np.cov(X.T, ddof=0)


class Silent(Sample):
    def fit(self, X, y=None):
        super().fit(X)


class Unnamed(Sample):
    def fit(self, X, y=None):
        self.matrix_ = np.cov(np.asarray(X).T)
        return self


class Greedy(Sample):
    def fit(self, X, y=None):
        super().fit(X)
        self.scale = 2.0
        return self


class Centring(Sample):
    def fit(self, X, y=None):
        X -= X.mean(0)
        return super().fit(X)


class Asymmetric(Sample):
    def estimate(self, X):
        return np.triu(super().estimate(X))


class Transposed(Sample):
    def estimate(self, X):
        return super().estimate(X.T)


class Negative(Sample):
    def estimate(self, X):
        return -super().estimate(X)


class Infinite(Sample):
    def estimate(self, X):
        return super().estimate(X) * np.inf


class Running(Sample):
    def estimate(self, X):
        self.total_ = getattr(self, "total_", 0) + 1
        return super().estimate(X) * self.total_


class Random(Sample):
    def estimate(self, X):
        return super().estimate(X) * np.random.default_rng().random()


class Seeded(Sample):
    def estimate(self, X):
        return super().estimate(X) * np.random.default_rng(self.random_state).random()


class Ordered(Sample):
    def estimate(self, X):
        weight = np.arange(1, X.shape[1] + 1)
        return super().estimate(X) * weight * weight[:, None]


class Loaded(Sample):
    def estimate(self, X):
        return super().estimate(X) + np.eye(X.shape[1])


class Shrunk(Sample):
    def estimate(self, X):
        C = super().estimate(X)
        return C + np.eye(len(C)) * np.trace(C)


class Correlation(Sample):
    def estimate(self, X):
        with np.errstate(invalid="ignore"):
            return np.corrcoef(X.T) * X.var()


class Careless(Sample):
    def estimate(self, X):
        return super().estimate(np.nan_to_num(X))

    def fit(self, X, y=None):
        self.covariance_ = self.estimate(np.asarray(X))
        return self


class Coarse(Sample):
    def estimate(self, X):
        return super().estimate(X) * (1.1 if X.dtype == np.float32 else 1.0)


class Undecayed(SampleCovariance):
    """What knows a half-life in ``fit``, but forgets it when rows come."""

    def partial_fit(self, X, y=None):
        halflife, self.halflife = self.halflife, None
        super().partial_fit(X)
        self.halflife = halflife
        return self


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (Silent(), "Silent: fit must return self, it returned NoneType"),
        (Unnamed(), "fit must set covariance_"),
        (Greedy(), "fit must not change parameters; it changed scale"),
        (Centring(), "fit must not change the data it is given"),
        (Asymmetric(), r"covariance_ must be symmetric. Entry \("),
        (Transposed(), r"covariance_ has shape \(60, 60\), expected \(9, 9\)"),
        (Negative(), "covariance_ has a negative variance"),
        (Infinite(), "covariance_ must be finite"),
        (Running(), "a second fit must give what a first fit"),
        (Random(), "a second fit must give|two fits with the same data and random_state"),
        (Ordered(), "the order of the features matters"),
        (Loaded(), "data times 4 must give covariance_ times 16"),
        (Shrunk(), "a constant feature must have a row and a column of zeros"),
        (Correlation(), "a constant feature must not make covariance_ infinite or NaN"),
        (Careless(), "fit must raise a ValueError where X contains nan. Nothing was raised"),
        (Coarse(), "data in single precision must give the same matrix"),
        (Undecayed(), r"partial_fit in pieces must give what fit gives on all rows \{'halflife': 20.0\}"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Sample) else "",
)
def test_mistakes_are_named(estimator, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_covariance(estimator)


@pytest.mark.parametrize(
    "estimator", [Sample(), Sample(scale=3), Seeded(), EmpiricalCovariance(), WithinClass()], ids=str
)
def test_right_estimators_pass_and_are_not_fitted(estimator):
    check_covariance(estimator)
    assert not hasattr(estimator, "covariance_")


def test_what_is_not_claimed_can_be_left_out():
    check_covariance(Ordered(), skip=["permutation"])
    check_covariance(OAS(), skip={"constant"})
    with pytest.raises(AssertionError, match="data times 4"):  # a check after the one that is left out
        check_covariance(Loaded(), skip=["permutation"])
    with pytest.raises(ValueError, match=r"names that are no checks: \['speed'\]"):
        check_covariance(Sample(), skip=["speed"])
    with pytest.raises(ValueError, match=r"such as \['permutation'\]"):
        check_covariance(Sample(), skip="permutation")


def test_tensors_are_checked_where_they_are_claimed():
    with pytest.raises(AssertionError, match="covariance_ of a tensor must be a tensor, it is ndarray"):
        check_covariance(Sample(), tensors=True)

    class WithTensors(Sample):
        def fit(self, X, y=None):
            super().fit(X)
            self.covariance_ = torch.tensor(self.covariance_) if isinstance(X, torch.Tensor) else self.covariance_
            return self

    check_covariance(WithTensors(), tensors=True)


def test_objects_without_parameters_are_told_how_to_get_them():
    class Plain:
        def fit(self, X):
            self.covariance_ = np.cov(np.asarray_chkfinite(X).T, ddof=0)
            return self

    with pytest.raises(AssertionError, match=r"inherit from sklearn\.base\.BaseEstimator"):
        check_covariance(Plain())
    check_covariance(Plain(), skip=["parameters"])


def test_every_check_is_documented():
    for name in CHECKS:
        assert f'``"{name}"``' in check_covariance.__doc__


def test_a_parameter_may_be_a_fitted_estimator():
    inner = HardThreshold().fit(np.random.default_rng(0).standard_normal((20, 3)))
    assert "fitted" in repr(inner)
    check_parameters(WithinClass(inner))
