"""What ``covariance_`` is: a dense matrix up to ``dense_limit`` features, a sparse one beyond, or what is asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from svnn.covariance import ACV, RCV, AdaptiveThreshold, GraphicalLasso, HardThreshold, SoftThreshold, WithinClass
from svnn.covariance._base import Sparsifier, off_diagonal_density

TILED = [
    HardThreshold(),
    SoftThreshold(density=0.2),
    HardThreshold(top_k=2),
    AdaptiveThreshold(delta=1.0),
    ACV(density=0.3, random_state=0),
    GraphicalLasso(alpha=0.3),
]
ALL = [*TILED, RCV(random_state=0)]


@pytest.fixture
def X(rng):
    return rng.standard_normal((40, 1)) + rng.standard_normal((40, 12))


def dense(C):
    return C.toarray() if sp.issparse(C) else np.asarray(C.to_dense() if isinstance(C, torch.Tensor) else C)


def kind(C):
    """Return "ndarray", "csr", "tensor" or "csr tensor"."""
    if isinstance(C, torch.Tensor):
        return "tensor" if C.layout == torch.strided else "csr tensor"
    return "csr" if isinstance(C, sp.csr_array) else type(C).__name__


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_the_kind_of_the_result(estimator, X):
    for data, names in ((X, ("ndarray", "csr")), (torch.tensor(X), ("tensor", "csr tensor"))):
        for parameters, expected in (
            ({}, names[0]),
            ({"sparse_output": False}, names[0]),
            ({"sparse_output": True}, names[1]),
            ({"dense_limit": 5}, names[1]),
            ({"dense_limit": 5, "sparse_output": True}, names[1]),
            ({"dense_limit": 5, "sparse_output": False}, names[0]),
        ):
            if "dense_limit" in parameters and isinstance(estimator, RCV):
                continue
            fitted = clone(estimator).set_params(**parameters).fit(data)
            assert kind(fitted.covariance_) == expected, parameters
            assert fitted.covariance_.dtype == data.dtype
            if hasattr(fitted, "sample"):
                assert kind(fitted.sample(1)) == expected
            if isinstance(estimator, GraphicalLasso):
                assert kind(fitted.precision_) == kind(fitted.get_precision()) == expected


@pytest.mark.parametrize("psd", [None, "load", "shrink"])
@pytest.mark.parametrize("estimator", TILED[:-1], ids=str)
def test_the_kind_does_not_change_the_numbers(estimator, psd, X):
    plain = clone(estimator).set_params(psd=psd).fit(X)
    for parameters in ({"sparse_output": True}, {"dense_limit": 5}, {"dense_limit": 5, "sparse_output": False}):
        for data in (X, torch.tensor(X)):
            fitted = clone(estimator).set_params(psd=psd, **parameters).fit(data)
            np.testing.assert_allclose(dense(fitted.covariance_), plain.covariance_, rtol=1e-4, atol=1e-5)
            assert fitted.density_ == plain.density_ == pytest.approx(off_diagonal_density(plain.covariance_))


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_zeros_have_no_sign(estimator, X):
    C = clone(estimator).fit(X).covariance_
    assert not np.signbit(C[C == 0]).any()


def test_the_result_goes_where_matrices_go(X):
    frame = pd.DataFrame(X, columns=[f"node {i}" for i in range(12)])
    fitted = HardThreshold(psd="shrink").fit(frame)
    values, _ = np.linalg.eigh(fitted.covariance_)
    assert values[0] > -1e-9
    names = fitted.feature_names_in_
    table = pd.DataFrame(fitted.covariance_, index=names, columns=names)
    assert table.loc["node 3", "node 3"] == pytest.approx(X[:, 3].var())


def test_a_dense_result_that_does_not_fit_is_an_error(X):
    estimator = HardThreshold(dense_limit=5, sparse_output=False, memory_limit=1151)
    with pytest.raises(MemoryError, match=r"sparse_output=False asks for a dense matrix of 12 features"):
        estimator.fit(X)
    estimator.set_params(memory_limit="1MB").fit(X)
    assert estimator.covariance_.shape == (12, 12)
    with pytest.raises(ValueError, match="sparse_output must be True, False or None"):
        HardThreshold(sparse_output="yes").fit(X)


def test_within_class_follows_its_estimator(X):
    y = np.arange(40) % 2
    for sparse, expected in ((None, "ndarray"), (True, "csr")):
        fitted = WithinClass(HardThreshold(sparse_output=sparse)).fit(X, y)
        assert kind(fitted.covariance_) == kind(fitted.get_precision()) == kind(fitted.precision_) == expected


def test_a_sparsifier_needs_one_function_only(X):
    class Half(Sparsifier):
        """Keeps the first half of the features."""

        def _from_moments(self, X, moments, sample_weight):
            from svnn.covariance._base import Estimate

            keep = np.arange(X.shape[1]) < X.shape[1] // 2
            return Estimate(moments.covariance * keep * keep[:, None], moments.location, {"kept_": int(keep.sum())})

    fitted = Half().fit(X)
    assert fitted.kept_ == 6 and fitted.density_ == pytest.approx(30 / 132)
    assert kind(Half(sparse_output=True).fit(X).covariance_) == "csr"
    with pytest.raises(ValueError, match=r"Half looks at all pairs of its 12 features at once.*dense_limit=3"):
        Half(dense_limit=3).fit(X)


def test_a_refit_forgets_what_the_last_one_learned(X):
    acv = ACV(random_state=0).fit(X)
    acv.set_params(dense_limit=5).fit(X)
    assert not hasattr(acv, "probabilities_") and not hasattr(acv, "sample_covariance_")
    assert not hasattr(acv.set_params(dense_limit=99).fit(X), "_observations_")
    adaptive = AdaptiveThreshold().fit(X)
    assert not hasattr(adaptive.set_params(dense_limit=5).fit(X), "threshold_")
