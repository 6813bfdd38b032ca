"""Reductions of the node axis: fitted on training rows, the same for every value of a sample."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from svnn.estimators._data import split_rows
from svnn.paper.baselines import PCAMLPClassifier, PCAMLPRegressor, _pca_mlp
from svnn.paper.baselines._pca_mlp import fit_reduction, reduce_nodes

QUICK = {"n_components": 3, "max_epochs": 3, "random_state": 0}


def inputs(model, X):
    """Return what the network gets for the rows of a table."""
    return model.fitted_.projection(model.fitted_.standardizer(X[..., None]))


def test_tables_get_ordinary_pca(data):
    X, y = data
    model = PCAMLPRegressor(validation_fraction=0.0, **QUICK).fit(X, y)
    expected = PCA(3).fit_transform(StandardScaler().fit_transform(X))
    found = inputs(model, X)[..., 0] * model.fitted_.projection.scale
    np.testing.assert_allclose(abs(found), abs(expected), atol=1e-9)
    assert np.mean(inputs(model, X) ** 2) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["pca", "kernel", "sparse"])
def test_every_value_of_a_sample_is_projected_alike(kind, rng):
    Z = rng.standard_normal((30, 5, 4))
    reduction = fit_reduction(kind, Z, 3, None, 0, 2000)
    reduced = reduce_nodes(reduction, Z)
    assert reduced.shape == (30, 3, 4)
    for f in range(4):
        np.testing.assert_allclose(reduced[:, :, f], reduction.transform(Z[:, :, f]), atol=1e-10)


@pytest.mark.parametrize("reduction", ["pca", "kernel", "sparse"])
def test_only_training_rows_are_seen(reduction, data):
    X, y = data
    plain = PCAMLPRegressor(reduction=reduction, validation_fraction=0.0, **QUICK).fit(X[:90], y[:90])
    spoiled = PCAMLPRegressor(reduction=reduction, **QUICK)
    spoiled.fit(X[:90], y[:90], validation_data=(100 * X[90:], y[90:]))
    np.testing.assert_allclose(inputs(spoiled, X), inputs(plain, X))
    held_out = PCAMLPRegressor(reduction=reduction, **QUICK)
    held_out.fit(X, y)
    _, rest = split_rows(y, None, 0.1, int(np.random.default_rng(0).integers(2**31)), stratify=False)
    changed = X.copy()
    changed[rest] *= 100
    np.testing.assert_allclose(
        inputs(held_out, X), inputs(PCAMLPRegressor(reduction=reduction, **QUICK).fit(changed, y), X)
    )


def test_weights_count_in_pca(data):
    X, y = data
    weight = np.r_[np.full(60, 2.0), np.zeros(60)]
    repeated = np.r_[X[:60], X[:60]]
    options = {**QUICK, "validation_fraction": 0.0}
    a = PCAMLPRegressor(**options).fit(X, y, weight)
    b = PCAMLPRegressor(**options).fit(repeated, np.r_[y[:60], y[:60]])
    np.testing.assert_allclose(abs(a.reduction_.vectors), abs(b.reduction_.vectors), atol=1e-9)
    for kind in ("kernel", "sparse"):
        spoiled = np.where(weight[:, None] > 0, X, 1e3)
        a, b = (PCAMLPRegressor(reduction=kind, **options).fit(rows, y, weight) for rows in (X, spoiled))
        np.testing.assert_allclose(a.reduction_.transform(X), b.reduction_.transform(X))


def test_more_components_than_there_can_be(data):
    X, y = data
    options = {"max_epochs": 2, "random_state": 0}
    with pytest.warns(UserWarning, match=r"n_components=20 is more than the 6 nodes .*; 6 are used"):
        model = PCAMLPRegressor(**options).fit(X, y)
    assert model.n_components_ == 6
    with pytest.warns(UserWarning, match="more than the 4 observations"):
        PCAMLPRegressor(n_components=5, validation_fraction=0, **options).fit(X[:4], y[:4])
    with pytest.warns(UserWarning, match="more than the 10 observations"):
        PCAMLPRegressor(n_components=11, reduction="kernel", max_observations=10, **options).fit(X, y)
    assert PCAMLPRegressor(n_components=9, reduction="kernel", **options).fit(X, y).n_components_ == 9


def test_large_data_fit_the_reduction_on_a_part_and_project_in_parts(monkeypatch, rng):
    Z = rng.standard_normal((100, 5, 3))
    reduction = fit_reduction("kernel", Z, 3, None, 0, 50)
    assert reduction.X_fit_.shape == (50, 5)
    whole = reduce_nodes(reduction, Z)
    monkeypatch.setattr(_pca_mlp, "_KERNEL_VALUES", 350)
    np.testing.assert_allclose(reduce_nodes(reduction, Z), whole, atol=1e-12)


def test_sparse_components_are_sparse(data):
    X, y = data
    model = PCAMLPRegressor(reduction="sparse", **QUICK).fit(X, y)
    assert model.reduction_.components_.shape == (3, 6)
    strong = np.random.default_rng(0).standard_normal((40, 6)) * [3, 3, 0.01, 0.01, 0.01, 0.01]
    components = fit_reduction("sparse", strong[..., None], 2, None, 0, 2000).components_
    assert (components[:, 2:] == 0).all() and (components != 0).any()


def test_constant_data_are_no_error():
    X, y = np.ones((20, 4)), np.arange(20) % 2
    assert np.isfinite(PCAMLPClassifier(**QUICK).fit(X, y).predict_proba(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"n_components": 2.5}, "n_components must be a positive integer"),
        ({"reduction": "ica"}, "reduction must be one of"),
        ({"max_observations": 1}, "max_observations must be an integer >= 2"),
        ({"patience": 0}, "patience must be"),
    ],
)
def test_bad_parameters_are_named(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        PCAMLPRegressor(**{**QUICK, **parameters}).fit(*data)
