"""A matrix is a matrix: every form of the same one gives the same numbers, small and large."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.covariance import EmpiricalCovariance

from svnn import HardThreshold, SampleCovariance, SVNNRegressor, as_operator
from svnn.functional import LowRankPlusSparse
from svnn.nn import SVNN
from svnn.paper import kurtosis_terms
from svnn.stability import (
    Spectrum,
    _bounds,
    _network,
    certificate,
    expected_error,
    filter_bound,
    largest_filter_change,
    pca_distance,
    realisation_moments,
    sparsification_error,
    stability_curve,
    stochastic_bound,
)

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

N = 12


def tensor(C, layout):
    dense = torch.from_numpy(np.array(C))
    return {"strided": dense, "COO": dense.to_sparse_coo(), "CSR": dense.to_sparse_csr()}[layout]


FORMS = {
    "array": np.asarray,
    "list": lambda C: C.tolist(),
    "frame": pd.DataFrame,
    "tensor": lambda C: tensor(C, "strided"),
    "tensor that learns": lambda C: tensor(C, "strided").requires_grad_(),
    "COO tensor": lambda C: tensor(C, "COO"),
    "CSR tensor": lambda C: tensor(C, "CSR"),
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
    "csr_matrix": sp.csr_matrix,
    "dense operator": lambda C: as_operator(C, backend="dense"),
    "CSR operator": lambda C: as_operator(C, backend="csr"),
    "low-rank operator": lambda C: as_operator(C, backend="lowrank"),
    "factors and a rest": lambda C: LowRankPlusSparse(np.zeros((len(C), 1)), sp.csr_array(C)),
    "sum operator": lambda C: as_operator(LowRankPlusSparse(np.zeros((len(C), 1)), sp.csr_array(C))),
    "scaled operator": lambda C: as_operator(C).normalized(7.0),
    "estimator": lambda C: SimpleNamespace(covariance_=C),
    "estimator of tensors": lambda C: SimpleNamespace(covariance_=tensor(C, "strided")),
    "sparse estimator": lambda C: SimpleNamespace(covariance_=sp.csr_array(C)),
}


def matrices(n=N, seed=0):
    """A covariance and the same with its small entries cut, both with many zeros."""
    rng = np.random.default_rng(seed)
    A = np.cov(rng.standard_normal((n, 3 * n)))
    A[abs(A) < 0.15] = 0.0
    return A, np.where(abs(A) > 0.25, A, 0.0)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, N))
    return SVNNRegressor(covariance="sample", hidden=(3, 3), max_epochs=5, random_state=0).fit(X, X[:, 0])


def module(normalize=False):
    torch.manual_seed(0)
    return SVNN(2, 1, hidden=(3, 4), readout="mean", normalize=normalize).double().eval()


SIGNALS = np.random.default_rng(1).standard_normal((4, N, 2))
FUNCTIONS = {
    "filter_bound": lambda A, B: filter_bound([0.5, 1.0, -2.0], A, B),
    "filter_bound, deterministic": lambda A, B: filter_bound([0.5, 1.0, -2.0], A, B, deterministic=True),
    "certificate": lambda A, B: certificate(module(normalize=True), A, B).output,
    "certificate of signals": lambda A, B: certificate(module(normalize=True), A, B, SIGNALS).per_sample,
    "certificate, deterministic": lambda A, B: certificate(module(normalize=True), A, B, deterministic=True).output,
    "pca_distance": lambda A, B: pca_distance(A, B, 3),
    "Spectrum": lambda A, B: [Spectrum.of(A).low, Spectrum.of(B).high],
    "largest_filter_change": lambda A, B: largest_filter_change(module(normalize=True), A, B),
    "stochastic_bound": lambda A, B: stochastic_bound([0.5, 1.0, -2.0], A, 0.4),
    "expected_error": lambda A, B: expected_error([0.5, 1.0, -2.0], A, 0.4, reference=B),
    "sparsification_error": lambda A, B: sparsification_error(A, 0.4),
    "kurtosis_terms": lambda A, B: kurtosis_terms(A).k,
}


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """Everything exact, or the ways of large matrices on a size at which they are quick."""
    if request.param == "large":
        monkeypatch.setattr(_bounds, "_EXACT_LIMIT", 5)
        monkeypatch.setattr(_bounds, "_BLOCK_LIMIT", 5)
        monkeypatch.setattr(_network, "_DENSE_LIMIT", 5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_form_of_a_matrix_does_not_matter(size, function):
    A, B = matrices()
    expected = FUNCTIONS[function](A, B)
    for name, form in FORMS.items():
        if name == "scaled operator" and function.startswith(("certificate", "largest")):
            continue  # it says what a module is to divide by
        np.testing.assert_allclose(FUNCTIONS[function](form(A), form(B)), expected, rtol=1e-8, err_msg=name)
        np.testing.assert_allclose(FUNCTIONS[function](form(A), B), expected, rtol=1e-8, err_msg=name)


def test_certificates_of_estimators(size, model):
    A, B = matrices()
    X = np.random.default_rng(2).standard_normal((5, N))
    expected = certificate(model, A, B, X)
    for name, form in FORMS.items():
        found = certificate(model, form(A), form(B), X)
        # The network runs on single precision, to which a matrix that passed through its factors may be rounded
        # otherwise.
        rtol = 1e-5 if name in ("low-rank operator", "scaled operator") else 1e-8
        np.testing.assert_allclose(found.per_sample, expected.per_sample, rtol=rtol, err_msg=name)
        assert found.failure_probability == expected.failure_probability and found.scale == expected.scale, name


@pytest.mark.parametrize(("density", "forms"), [(0.02, ("csr_array", "CSR operator")), (1.0, ("dense operator",))])
def test_bounds_on_matrices_beyond_all_limits(density, forms):
    """1,030 features with a Lanczos bound for every layer: sparse, dense, and operators of both."""
    n, rng = 1030, np.random.default_rng(0)
    A = rng.standard_normal((n, n)) * (rng.random((n, n)) < density)
    A = np.eye(n) + 0.3 * (A + A.T) / np.linalg.norm(A + A.T, 2)
    B = np.where(abs(A) > 0.02, A, 0.0)
    network = module(normalize=True)
    expected = certificate(network, A, B)
    assert 0 < expected.failure_probability < 1e-10
    bound = filter_bound([0.0, 1.0, 1.0], A, B)
    for form in (FORMS[name] for name in forms):
        found = certificate(network, form(A), form(B))
        assert found.output == pytest.approx(expected.output, rel=1e-9)
        assert found.failure_probability == expected.failure_probability
        assert filter_bound([0.0, 1.0, 1.0], form(A), form(B)) == pytest.approx(bound, rel=1e-9)


def test_a_bound_never_asks_what_is_fast(size, monkeypatch):
    """The choice of the faster backend is never made."""
    A, B = matrices()
    expected = certificate(module(normalize=True), A, B, SIGNALS).output
    home = sys.modules[as_operator.__module__]
    monkeypatch.setattr(home, "choose_backend", lambda *args, **kwargs: pytest.fail("the cost model was asked"))
    with pytest.raises(pytest.fail.Exception):
        as_operator(A)
    for form in (np.asarray, sp.csr_array):
        assert certificate(module(normalize=True), form(A), B, SIGNALS).output == pytest.approx(expected, rel=1e-9)


def test_fitted_estimators_of_every_kind(model):
    X = np.random.default_rng(3).standard_normal((60, N))
    X[:, 1] += X[:, 0]
    _, B = matrices()
    estimators = {
        "sample": SampleCovariance().fit(X),
        "sample of tensors": SampleCovariance().fit(torch.from_numpy(X)),
        "scikit-learn": EmpiricalCovariance().fit(X),
    }
    for function in ("filter_bound", "pca_distance", "stochastic_bound", "sparsification_error"):
        values = [FUNCTIONS[function](estimator, B) for estimator in estimators.values()]
        for value in values[1:]:
            np.testing.assert_allclose(value, values[0], rtol=1e-8)
    hard = [HardThreshold(density=0.3, dense_limit=limit).fit(X) for limit in (4096, 4)]
    bounds = [[filter_bound([0.0, 1.0], e, B), float(certificate(model, model.covariance_, e))] for e in hard]
    np.testing.assert_allclose(bounds[1], bounds[0], rtol=1e-6)


def test_moments_and_probabilities_in_every_form():
    A, _ = matrices()
    P = np.clip(abs(A), 0.1, 0.9)
    expected = realisation_moments(A, P, unbiased=True)
    for form in FORMS.values():
        for found in (realisation_moments(form(A), P, unbiased=True), realisation_moments(A, form(P), unbiased=True)):
            for part, wanted in zip(found, expected, strict=True):
                part = part.toarray() if sp.issparse(part) else part
                np.testing.assert_allclose(part, wanted, rtol=1e-8, atol=1e-12)


def test_curves_take_a_reference_in_every_form(model):
    A, _ = matrices()
    X = np.random.default_rng(4).standard_normal((60, N))
    options = {"sizes": [20], "repeats": 1, "random_state": 0}
    expected = stability_curve(model, X[:9], "sample", X, reference=A, **options)[0]
    for name, form in FORMS.items():
        found = stability_curve(model, X[:9], "sample", X, reference=form(A), **options)[0]
        rtol = 1e-5 if name in ("low-rank operator", "scaled operator") else 1e-8
        assert found == pytest.approx(expected, rel=rtol, nan_ok=True), name


def test_scaled_operators_in_single_precision_are_not_rounded_twice():
    A, B = matrices()
    operator = as_operator(A.astype(np.float32)).normalized(3.0)
    stored = operator.to_dense().double().numpy() * 3.0
    assert filter_bound([0.0, 1.0], operator, B) == pytest.approx(filter_bound([0.0, 1.0], stored, B), rel=1e-12)


def test_a_pool_of_rows_comes_as_it_likes(model):
    X = np.random.default_rng(5).standard_normal((40, N))
    options = {"sizes": [20], "repeats": 1, "random_state": 0}
    expected = stability_curve(model, X[:9], "hard", X, **options)[0]
    for pool in (X.tolist(), pd.DataFrame(X), torch.from_numpy(X), np.asfortranarray(X)):
        assert stability_curve(model, X[:9], "hard", pool, **options)[0] == pytest.approx(expected, nan_ok=True)
    with pytest.raises(ValueError, match="stability_curve: X contains NaN"):
        stability_curve(model, X[:9], "hard", np.where(X > 2, np.nan, X), **options)
