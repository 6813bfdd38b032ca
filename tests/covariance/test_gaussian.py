"""scikit-learn's covariance methods: the same numbers as scikit-learn's for the same matrices, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance, LedoitWolf
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from strategies import seeds
from svnn.covariance import (
    ACV,
    RCV,
    AdaptiveThreshold,
    GraphicalLasso,
    HardThreshold,
    SampleCovariance,
    SoftThreshold,
    WithinClass,
    _gaussian,
)

#: Estimators that keep everything, in every kind of result.
EVERYTHING = [
    SampleCovariance(),
    HardThreshold(tau=0.0),
    HardThreshold(tau=0.0, sparse_output=True),
    SoftThreshold(density=1.0, scale=0.0),
    AdaptiveThreshold(delta=0.0),
    ACV(density=1.0, random_state=0),
    RCV(p=1.0, random_state=0),
]
ALL = [
    SampleCovariance(),
    *(HardThreshold(density=0.2, psd="load", sparse_output=sparse) for sparse in (False, True)),
    HardThreshold(dense_limit=3),
    AdaptiveThreshold(),
    ACV(density=0.2, random_state=0, psd="shrink", sparse_output=True),
    GraphicalLasso(alpha=0.2),
    GraphicalLasso(alpha=0.2, sparse_output=True),
    WithinClass(),
]


def data(seed=0, t=60, n=8):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((t, 1)) + rng.standard_normal((t, n))) * rng.uniform(0.1, 10, n) + 3


def dense(C):
    return C.toarray() if sp.issparse(C) else np.asarray(C)


def theirs(fitted):
    """scikit-learn's estimator with the same matrix."""
    peer = EmpiricalCovariance()
    peer.location_, peer.n_features_in_ = np.asarray(fitted.location_), fitted.n_features_in_
    peer._set_covariance(dense(fitted.covariance_).astype(np.float64))
    return peer


@pytest.mark.parametrize("estimator", EVERYTHING, ids=str)
def test_the_same_as_the_empirical_covariance(estimator):
    X, new = data(), data(1)
    peer, fitted = EmpiricalCovariance().fit(X), clone(estimator).fit(X)
    if isinstance(estimator, SoftThreshold):  # the smallest kept value is moved by half of itself
        peer = theirs(fitted)
    np.testing.assert_allclose(dense(fitted.get_precision()), peer.get_precision(), rtol=1e-8)
    assert fitted.score(new) == pytest.approx(peer.score(new), rel=1e-10)
    np.testing.assert_allclose(fitted.mahalanobis(new), peer.mahalanobis(new), rtol=1e-8)
    other = LedoitWolf().fit(X).covariance_
    for norm in ("frobenius", "spectral"):
        for scaling in (True, False):
            for squared in (True, False):
                arguments = {"norm": norm, "scaling": scaling, "squared": squared}
                expected = peer.error_norm(other, **arguments)
                assert fitted.error_norm(other, **arguments) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_the_same_as_scikit_learn_makes_of_the_matrix(estimator):
    X, new = data(), data(1)
    fitted = clone(estimator).fit(X, np.arange(len(X)) % 2)
    peer = theirs(fitted)
    np.testing.assert_allclose(dense(fitted.get_precision()), peer.get_precision(), rtol=1e-5, atol=1e-8)
    assert type(fitted.get_precision()) is type(fitted.covariance_)
    np.testing.assert_allclose(fitted.mahalanobis(new), peer.mahalanobis(new), rtol=1e-5)
    if np.linalg.eigvalsh(dense(fitted.covariance_))[0] > 1e-6:
        assert fitted.score(new) == pytest.approx(peer.score(new), rel=1e-6)
    for norm in ("frobenius", "spectral"):
        for other in (LedoitWolf().fit(X), sp.csr_array(np.diag(X.var(0))), HardThreshold(sparse_output=True).fit(X)):
            matrix = dense(getattr(other, "covariance_", other))
            assert fitted.error_norm(other, norm) == pytest.approx(peer.error_norm(matrix, norm), rel=1e-6)
    assert fitted.error_norm(fitted) == fitted.error_norm(fitted, "spectral") == 0


@given(seeds, st.integers(1, 12), st.integers(2, 20), st.floats(0, 1))
def test_parts_are_the_whole(seed, n, t, density):
    """Also of singular and indefinite matrices, in parts of all sizes: dense, sparse, and as scipy inverts them."""
    X = data(seed, t, n)
    X[:, 0] = 1.0
    C = HardThreshold(density=density).fit(X).covariance_
    C = (C + C.T) / 2
    expected = scipy.linalg.pinvh(C)
    size = np.abs(expected).max() + 1e-300
    for matrix in (C, sp.csr_array(C)):
        np.testing.assert_allclose(dense(_gaussian.precision(matrix)) / size, expected / size, atol=1e-6)
        rest = data(seed + 1, 5, n)
        quadratic = np.einsum("ti,ij,tj->t", rest, expected, rest)
        scale = np.abs(expected).max() * (rest**2).sum(1) + 1e-300
        np.testing.assert_allclose(_gaussian.squared_distances(matrix, rest) / scale, quadratic / scale, atol=1e-6)


def test_tensors_and_values_per_node():
    X = data()
    for sparse in (False, True):
        a = HardThreshold(psd="load", sparse_output=sparse).fit(torch.tensor(X))
        b = HardThreshold(psd="load").fit(X)
        assert isinstance(a.mahalanobis(torch.tensor(X)), torch.Tensor)
        np.testing.assert_allclose(a.mahalanobis(torch.tensor(X)), b.mahalanobis(X), rtol=1e-6)
        assert a.score(torch.tensor(X)) == pytest.approx(b.score(X), rel=1e-6)
        assert a.get_precision().layout == a.covariance_.layout
    nodes = X.reshape(20, 3, 8).transpose(0, 2, 1)
    fitted = SampleCovariance().fit(nodes)
    assert fitted.score(nodes) == pytest.approx(SampleCovariance().fit(X).score(X))
    np.testing.assert_allclose(fitted.mahalanobis(nodes).ravel(), SampleCovariance().fit(X).mahalanobis(X), rtol=1e-6)


def test_a_matrix_that_is_not_positive_definite_has_no_likelihood():
    """(scikit-learn returns what the rounding of a determinant of zero makes of it.)"""
    X = data()
    X[:, 2] = 1.0
    assert SampleCovariance().fit(X).score(X) == -np.inf


def test_large_sparse_matrices(monkeypatch):
    """Parts of two features are inverted without a dense matrix; a large part is an error that says what to do."""
    rng = np.random.default_rng(0)
    pairs = rng.standard_normal((200, 3000, 1)) + rng.standard_normal((200, 3000, 2))
    X = pairs.reshape(200, 6000)
    fitted = HardThreshold(scale=3.0).fit(X)
    assert isinstance(fitted.covariance_, sp.csr_array) and fitted.density_ < 1e-3
    precision = fitted.get_precision()
    difference = precision @ fitted.covariance_ - sp.eye_array(6000)
    assert abs(difference).max() < 1e-5
    assert np.isfinite(fitted.score(X)) and fitted.mahalanobis(X[:3]).shape == (3,)
    few = np.sqrt(fitted.error_norm(2 * fitted.covariance_, "spectral", scaling=False))
    assert few == pytest.approx(sp.linalg.norm(fitted.covariance_, 2), rel=1e-5)
    monkeypatch.setattr(_gaussian, "LARGEST_PART", 1)
    for call in (fitted.get_precision, lambda: fitted.score(X), lambda: fitted.mahalanobis(X)):
        with pytest.raises(ValueError, match=r"links 2 of its 6000 features.*Use GraphicalLasso.*pinvh"):
            call()


def test_what_cannot_be_compared_is_named():
    X = data()
    fitted = HardThreshold().fit(X)
    with pytest.raises(ValueError, match=r"comp_cov has shape \(3, 3\), the covariance has \(8, 8\)"):
        fitted.error_norm(np.eye(3))
    with pytest.raises(ValueError, match="comp_cov is not symmetric"):
        fitted.error_norm(np.arange(64.0).reshape(8, 8))
    with pytest.raises(NotImplementedError, match='norm must be "frobenius" or "spectral"'):
        fitted.error_norm(np.eye(8), "nuclear")
    with pytest.raises(ValueError, match="X has 3 features, but HardThreshold is expecting 8"):
        fitted.score(X[:, :3])
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.mahalanobis(np.where(X > 3, np.nan, X))
    for call in ("get_precision", "score", "mahalanobis", "error_norm"):
        with pytest.raises(NotFittedError):
            getattr(HardThreshold(), call)(*([] if call == "get_precision" else [np.eye(8)]))


def test_the_score_chooses_a_density():
    """A search over estimators needs no targets: the likelihood of held-out rows decides."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((80, 10)), 2, axis=1) + rng.standard_normal((80, 20))  # ten pairs of 190
    search = GridSearchCV(HardThreshold(psd="shrink"), {"density": [0.0, 10 / 190, 0.5]}).fit(X)
    assert search.best_params_ == {"density": 10 / 190}
