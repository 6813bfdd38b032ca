"""A fit that fails leaves the estimate of an earlier one as it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import ACV, RCV, AdaptiveThreshold, GraphicalLasso, HardThreshold, SampleCovariance, SoftThreshold
from svnn.covariance import WithinClass

ESTIMATORS = [
    SampleCovariance(),
    SampleCovariance(missing="pairwise"),
    HardThreshold(),
    SoftThreshold(density=0.5),
    AdaptiveThreshold(),
    ACV(random_state=0),
    ACV(random_state=0, dense_limit=2),
    HardThreshold(dense_limit=2),
    RCV(random_state=0),
    GraphicalLasso(),
    WithinClass("sample"),
]


def same(a, b):
    """Compare what two estimators hold."""
    if sp.issparse(a):
        return (a != b).nnz == 0
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple):
        return all(map(same, a, b))
    return a is b or type(a).__module__.startswith("svnn.") or a == b


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_failed_fit_leaves_the_old_estimate(estimator, rng):
    X, y = rng.standard_normal((30, 5)), np.arange(30) % 2
    estimator = copy.deepcopy(estimator).fit(X, y)
    before = copy.deepcopy(vars(estimator))
    for rows, labels, weight in (
        (np.full((30, 3), np.inf), y, None),
        (X[:, :3], y, -np.ones(30)),
        (X[:, :3], y, np.zeros(30)),
        (X[:1, :3], y[:1], None),
        (X[:, :3, None, None], y, None),
    ):
        with pytest.raises(ValueError, match=r"(?i)X |sample.weight|Found array|inf"):
            estimator.fit(rows, labels, sample_weight=weight)
        assert vars(estimator).keys() == before.keys()
        assert all(same(value, before[name]) for name, value in vars(estimator).items())


def test_a_failed_part_leaves_the_others(rng):
    X = rng.standard_normal((30, 5))
    parts = SampleCovariance().partial_fit(X[:10]).partial_fit(X[10:20])
    for rows, weight in ((X[20:, :3], None), (X[20:], np.zeros(10)), (np.full((3, 5), np.nan), None)):
        with pytest.raises(ValueError, match=r"(?i)X |sample.weight"):
            parts.partial_fit(rows, sample_weight=weight)
    np.testing.assert_allclose(parts.partial_fit(X[20:]).covariance_, SampleCovariance().fit(X).covariance_)
