"""What holds for every covariance estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from svnn.covariance import (
    ACV,
    RCV,
    AdaptiveThreshold,
    Banding,
    FactorThreshold,
    GraphicalLasso,
    HardThreshold,
    SampleCovariance,
    SignificantEdges,
    SoftThreshold,
    Tapering,
)
from svnn.covariance._base import Sparsifier
from svnn.covariance._resolve import OURS
from svnn.covariance._scatter import ScatterEstimator
from svnn.testing import check_covariance

#: The estimators as they come. A new one is tested as soon as it has a name.
DEFAULTS = [
    each().set_params(**({"random_state": 0} if hasattr(each(), "sample") or hasattr(each(), "width") else {}))
    for each in OURS.values()
]
SPARSIFIERS = [
    *(estimator for estimator in DEFAULTS if isinstance(estimator, Sparsifier)),
    HardThreshold(density=0.3),
    HardThreshold(tau=0.3),
    HardThreshold(tau="cv", random_state=0),
    SoftThreshold(density=0.3),
    *(AdaptiveThreshold(rule=rule, delta=1.0) for rule in ("hard", "soft", "scad", "adaptive_lasso")),
    ACV(density=0.4, unbiased=True, random_state=0),
    RCV(p=0.4, random_state=0),
    RCV(p=0.4, unbiased=True, random_state=0),
    FactorThreshold(n_factors=1, rule="soft", tau=1.0),
    FactorThreshold(n_factors=1, rule="scad", psd="load"),
    Tapering(width=4),
    SignificantEdges(method="by", alpha=0.2),
]
#: Robust scatters have other variances and locations than the sample, and are tested in a file of their own.
OTHERS = [estimator for estimator in DEFAULTS if not isinstance(estimator, (Sparsifier, ScatterEstimator))]
ALL = [*OTHERS, GraphicalLasso(alpha=0.3), *SPARSIFIERS]
every = pytest.mark.parametrize("estimator", ALL, ids=str)
sparsifiers = pytest.mark.parametrize("estimator", SPARSIFIERS, ids=str)


@pytest.fixture
def X(rng):
    common = rng.standard_normal((60, 1))
    return (common * rng.uniform(-1, 1, 9) + rng.standard_normal((60, 9))) * np.linspace(0.5, 3, 9)


def has_tiles(estimator):
    """Whether an estimator works with more than ``dense_limit`` features."""
    return isinstance(estimator, Sparsifier) and type(estimator)._from_tiles is not Sparsifier._from_tiles


def dense(C):
    return C.toarray() if sp.issparse(C) else (C.to_dense().numpy() if isinstance(C, torch.Tensor) else C)


#: One of every class: whatever else its parameters change is tested below.
OF_EVERY_CLASS = list({type(estimator): estimator for estimator in reversed(ALL)}.values())


@parametrize_with_checks(OF_EVERY_CLASS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def not_claimed(estimator):
    """Random masks and bands depend on the order of the features, a fixed threshold on their units."""
    if isinstance(estimator, (ACV, RCV, Banding)):
        return ["permutation"]
    return ["scaling"] if isinstance(getattr(estimator, "tau", None), float) else []


@every
def test_every_estimator_passes_the_check_for_covariances(estimator):
    iterates = isinstance(estimator, GraphicalLasso)
    check_covariance(estimator, tensors=True, skip=not_claimed(estimator), tolerance=1e-3 if iterates else 1e-9)


@every
def test_fitted_state(estimator, X):
    fitted = clone(estimator).fit(X)
    assert fitted.n_features_in_ == 9
    np.testing.assert_allclose(fitted.location_, X.mean(0))
    C = dense(fitted.covariance_)
    assert C.shape == (9, 9)
    np.testing.assert_array_equal(C, C.T)


@sparsifiers
def test_the_result_keeps_variances_and_support(estimator, X):
    fitted = clone(estimator).fit(X)
    np.testing.assert_allclose(fitted.covariance_.diagonal(), X.var(0))
    off = np.count_nonzero(dense(fitted.covariance_)) - 9
    assert fitted.density_ == pytest.approx(off / 72)


@every
def test_torch_in_torch_out(estimator, X):
    a, b = clone(estimator).fit(torch.tensor(X)), clone(estimator).fit(X)
    assert isinstance(a.covariance_, torch.Tensor) and isinstance(a.location_, torch.Tensor)
    assert a.n_features_in_ == 9
    np.testing.assert_allclose(dense(a.covariance_), dense(b.covariance_), rtol=1e-9, atol=1e-12)


@every
def test_three_dimensional_data(estimator, rng):
    X = rng.standard_normal((30, 5, 4))
    C = dense(clone(estimator).fit(X).covariance_)
    assert C.shape == (5, 5)
    np.testing.assert_allclose(C.diagonal(), X.transpose(0, 2, 1).reshape(-1, 5).var(0))


@every
def test_frames_keep_their_names(estimator, X):
    names = [f"region {i}" for i in range(9)]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        fitted = clone(estimator).fit(frame)
        assert fitted.feature_names_in_.tolist() == names
        np.testing.assert_allclose(dense(fitted.covariance_), dense(clone(estimator).fit(X).covariance_))


@every
def test_integer_weights_repeat_rows_in_the_variances(estimator, X, rng):
    w = rng.integers(1, 4, len(X))
    a = clone(estimator).fit(X, sample_weight=w)
    np.testing.assert_allclose(dense(a.covariance_).diagonal(), np.repeat(X, w, axis=0).var(0))


@every
def test_missing_values(estimator, X, rng):
    X[rng.random(X.shape) < 0.1] = np.nan
    with pytest.raises(ValueError, match='X contains NaN; pass missing="pairwise"'):
        clone(estimator).fit(X)
    fitted = clone(estimator).set_params(missing="pairwise").fit(X)
    np.testing.assert_allclose(dense(fitted.covariance_).diagonal(), np.nanvar(X, 0), rtol=1e-9)


@sparsifiers
@pytest.mark.parametrize("psd", ["load", "shrink", "clip"])
def test_psd_repairs(estimator, psd, rng):
    X = rng.standard_normal((10, 20))
    for data in (X, torch.tensor(X)):
        C = dense(clone(estimator).set_params(psd=psd).fit(data).covariance_)
        assert np.linalg.eigvalsh(C)[0] > -1e-9


@every
def test_a_constant_feature_has_no_edges(estimator, X):
    X[:, 3] = 7.0
    C = dense(clone(estimator).fit(X).covariance_)
    assert (C[3] == 0).all() and (C[:, 3] == 0).all()
    assert np.isfinite(C).all()


@every
def test_one_feature(estimator, X):
    fitted = clone(estimator).fit(X[:, :1])
    np.testing.assert_allclose(dense(fitted.covariance_), [[X[:, 0].var()]])


@every
def test_bad_data_is_named(estimator, X):
    for data, message in (
        (X[:1], "1 sample"),
        (np.where(X[0, 0] == X, np.inf, X), "inf"),
        (X[0], "2D"),
        (torch.tensor(X[:1]), "1 sample"),
        (torch.tensor(X[0]), "2D or 3D"),
        (X[:, :, None, None], r"\(t, N\) or \(t, N, F\)"),
        (pd.DataFrame(X).assign(sex="f", site="x"), "not numbers: 'sex', 'site'"),
        (pl.DataFrame(X).with_columns(pl.lit("f").alias("sex")), "not numbers: 'sex'"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(data)


@every
def test_parameters_are_keyword_only(estimator):
    with pytest.raises(TypeError):
        type(estimator)(0.5)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [(HardThreshold(missing="drop"), "missing must be one of"), (HardThreshold(psd="yes"), "psd must be one of")],
)
def test_bad_parameters_are_named(estimator, message, X):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X)


NOT_DATA = [
    (lambda X: X + 1j, "X holds complex numbers"),
    (lambda X: torch.tensor(X + 1j), "X holds complex numbers"),
    (lambda X: torch.tensor(X).to_sparse(), r"X is a sparse tensor.*X\.to_dense\(\)"),
    (lambda X: torch.tensor(X).to_sparse_csr(), r"X is a sparse tensor.*X\.to_dense\(\)"),
    (lambda X: X[:, :, None][:, :, :0], r"X has shape \(60, 9, 0\)"),
    (lambda X: torch.tensor(X)[:, :, None][:, :, :0], r"X has shape \(60, 9, 0\)"),
    (lambda X: torch.tensor(X)[:, :0], r"X has shape \(60, 0\)"),
    (lambda X: np.where(X > 2, "much", X.astype(object)), "X holds text"),
    (lambda X: X[:1], r"1 sample\(s\)"),
    (lambda X: X[:0], r"0 sample\(s\)"),
]


@every
def test_what_is_no_data_is_named(estimator, X):
    for limit in (0, 4096) if has_tiles(estimator) else (None,):
        for spoil, message in NOT_DATA:
            own = clone(estimator) if limit is None else clone(estimator).set_params(dense_limit=limit)
            with pytest.raises((ValueError, TypeError), match=message):
                own.fit(spoil(X))


@every
@pytest.mark.parametrize("limit", [0, 4096])
def test_a_sparse_table_is_data_or_is_named(estimator, limit, X):
    X = np.where(abs(X) > 0.5, X, 0)
    estimator = clone(estimator)
    if has_tiles(estimator):
        estimator.set_params(dense_limit=limit)
    if not estimator.__sklearn_tags__().input_tags.sparse:
        with pytest.raises(TypeError, match=r"Sparse data was passed for X.*toarray\(\)"):
            estimator.fit(sp.csr_array(X))
        return
    assert isinstance(estimator, (SampleCovariance, Sparsifier))
    expected = clone(estimator).fit(X)
    estimator.fit(sp.csr_array(X))
    A, B = (C.toarray() if hasattr(C, "toarray") else C for C in (estimator.covariance_, expected.covariance_))
    np.testing.assert_allclose(A, B, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(estimator.location_, expected.location_, rtol=1e-6, atol=1e-9)


@every
def test_numbers_of_any_dtype_are_data(estimator, X):
    whole = (10 * X).round()
    expected = dense(clone(estimator).fit(whole).covariance_)
    for data in (whole.astype(object), whole.astype(np.int16), whole.tolist(), torch.tensor(whole).short()):
        np.testing.assert_allclose(dense(clone(estimator).fit(data).covariance_), expected, rtol=1e-9)
    truth = dense(clone(estimator).fit(X > 0).covariance_)
    np.testing.assert_allclose(truth.diagonal(), (X > 0).var(0))


@every
def test_weights_that_are_none_are_named(estimator, X):
    for weight, message in (
        (np.full(60, np.nan), "sample_weight must be finite"),
        (np.full(60, np.inf), "sample_weight must be finite"),
        (np.zeros(60), "not all zero"),
        (-np.ones(60), "not negative"),
        (np.ones(60) * 1j, "sample_weight holds complex numbers"),
        (["heavy"] * 60, "sample_weight must hold real numbers"),
        (np.ones(59), r"sample_weight has shape \(59,\), expected \(60,\)"),
        (np.ones((60, 2)), r"sample_weight has shape \(60, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(X, sample_weight=weight)


@pytest.mark.parametrize("limit", [0, 4096])
@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        *(
            (HardThreshold(tau=bad), 'tau must be "universal", "cv" or a number >= 0')
            for bad in (np.nan, np.inf, -1.0, True, None)
        ),
        *((SoftThreshold(scale=bad), "scale must be a number >= 0") for bad in (np.nan, np.inf, -1.0, "large")),
        *(
            (HardThreshold(density=bad), "density must be None or a number between 0 and 1")
            for bad in (np.nan, -0.1, 1.1, True, "half", 1j)
        ),
        *((HardThreshold(top_k=bad), "top_k must be None or a positive integer") for bad in (np.nan, 0, True, 2.0)),
        *(
            (HardThreshold(tau="cv", n_splits=bad), "n_splits must be a positive integer")
            for bad in (np.nan, 0, True, 1.5)
        ),
        *((AdaptiveThreshold(delta=bad), "delta must be a number") for bad in (np.nan, np.inf, -1.0, True, "2")),
        *((ACV(density=bad), "density must be None or a number between 0 and 1") for bad in (np.nan, -0.1, True)),
        *((RCV(p=bad), "p must be a number") for bad in (np.nan, 1.1, True, None)),
        *((SampleCovariance(ddof=bad), "ddof must be a number") for bad in (np.nan, np.inf, "1", True)),
        *((GraphicalLasso(alpha=bad), "alpha must be a number") for bad in (np.nan, 0, True)),
        *((GraphicalLasso(tol=bad), "tol must be a positive number") for bad in (np.nan, 0, "1e-4")),
        *((HardThreshold(dense_limit=bad), "dense_limit must be") for bad in (np.nan, -1, True, 1.5)),
    ],
    ids=str,
)
def test_parameters_that_are_no_numbers_are_named(estimator, message, limit, X):
    estimator = clone(estimator)
    if has_tiles(estimator) and estimator.dense_limit == 4096:
        estimator.set_params(dense_limit=limit)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X)
