"""Networks on every kind of covariance: they train, are stored, come back, are cloned and searched."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import svnn
from svnn import SVNNClassifier, SVNNRegressor
from svnn.covariance import (
    ACV,
    RCV,
    AdaptiveThreshold,
    Banding,
    FactorThreshold,
    HardThreshold,
    HuberCovariance,
    SampleCovariance,
    SignificantEdges,
    SoftThreshold,
    Spectral,
    Tapering,
    TylerCovariance,
    resolve,
)
from svnn.covariance._resolve import OURS
from svnn.functional import LowRankPlusSparse
from svnn.operators import SumOperator

#: Networks of a few epochs predict no better than a constant, and would be shrunk to it.
QUICK = {"max_epochs": 2, "members": 2, "hidden": (4,), "shrink": False, "random_state": 0}
#: A covariance, and values of one of its parameters to search.
SHIFTS = {
    **{kind: (HardThreshold(correlation=kind), {"tau": [0.5, 1.0]}) for kind in ("spearman", "kendall", "biweight")},
    "soft ranks": (SoftThreshold(correlation="spearman"), {"correlation": ["spearman", "kendall"]}),
    "adaptive biweight": (AdaptiveThreshold(correlation="biweight"), {"delta": [1.0, 2.0]}),
    "all ranks": (SampleCovariance(correlation="kendall"), {"ddof": [0, 1]}),
    "random, of ranks": (ACV(correlation="spearman", density=0.5), {"density": [0.3, 0.5]}),
    "resampled, of deviations": (RCV(correlation="biweight"), {"p": [0.3, 0.5]}),
    "base": (HardThreshold(base="tyler"), {"base": ["tyler", "huber"]}),
    "Tyler": (TylerCovariance(), {"shrinkage": [0.1, "auto"]}),
    "Huber": (HuberCovariance(), {"quantile": [0.5, 0.9]}),
    "factors": (FactorThreshold(n_factors=1), {"n_factors": [1, 2]}),
    "factors, sparse": (FactorThreshold(n_factors=1, sparse_output=True), {"rule": ["hard", "soft"]}),
    "factors, tiles": (FactorThreshold(n_factors=1, dense_limit=0), {"tau": [1.0, 2.0]}),
    "banding": (Banding(width=2), {"width": [1, 2]}),
    "tapering": (Tapering(), {"width": [2, 4]}),
    "significant": (SignificantEdges(), {"alpha": [0.01, 0.1]}),
    "partial": (SignificantEdges(partial=True), {"method": ["bh", "bonferroni"]}),
    "neighbourhoods": (SignificantEdges(partial=True, rule="or"), {"rule": ["and", "or"]}),
    **{
        f"spectral {name}": (Spectral("hard", function=name), {"estimator": ["sample", "hard"]})
        for name in ("shrink", "clip", "density")
    },
    "decay": (HardThreshold(halflife=20.0), {"halflife": [10.0, 20.0]}),
    "decay of ranks": (HardThreshold(correlation="spearman", halflife=20.0), {"halflife": [10.0, None]}),
}
every = pytest.mark.parametrize(("covariance", "grid"), SHIFTS.values(), ids=SHIFTS)


@pytest.fixture(params=[SVNNRegressor, SVNNClassifier], ids=["regressor", "classifier"])
def kind(request):
    return request.param


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((48, 7)) + rng.standard_normal((48, 1))


def targets(X, kind):
    return X[:, 0] + X[:, 1] if kind is SVNNRegressor else np.where(X[:, 0] > 0, "high", "low")


def dense(C):
    return C.toarray() if sp.issparse(C) or isinstance(C, LowRankPlusSparse) else C


@every
def test_they_train_and_come_back_from_files(covariance, grid, kind, X, tmp_path):
    if grid.keys() == {"rule"} and isinstance(covariance, SignificantEdges):
        X = X[:7]  # so few samples that lassos choose the edges
    y = targets(X, kind)
    before = repr(covariance)
    fraction = 0.1 if len(X) > 10 else 0.0
    model = kind(covariance=covariance, validation_fraction=fraction, **QUICK).fit(X, y)
    assert repr(covariance) == before and not hasattr(covariance, "covariance_")  # the model has its own
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = svnn.load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if kind is SVNNClassifier:
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    found, kept = loaded.covariance_estimator_, model.covariance_estimator_
    assert type(found) is type(covariance) and repr(loaded.covariance) == before
    np.testing.assert_array_equal(dense(found.covariance_), dense(kept.covariance_))
    assert repr(found) == repr(kept)
    learned = {name for name in vars(kept) if name.endswith("_") and not name.startswith("_")}
    assert learned == {name for name in vars(found) if name.endswith("_") and not name.startswith("_")}
    for name in learned:
        np.testing.assert_array_equal(dense(getattr(found, name)), dense(getattr(kept, name)))
    assert isinstance(loaded.operator_, type(model.operator_))
    again = model.on(found)
    outputs = [m.predict(X) if kind is SVNNRegressor else m.predict_proba(X) for m in (again, model)]
    np.testing.assert_allclose(*outputs, rtol=1e-4)


@every
def test_they_are_cloned_and_their_parameters_set(covariance, grid, kind):
    (name, values), model = *grid.items(), kind(covariance=covariance, **QUICK)
    copy = clone(model)
    assert repr(copy) == repr(model) and copy.covariance is not covariance
    assert copy.get_params()[f"covariance__{name}"] == covariance.get_params()[name]
    for value in values:
        copy.set_params(**{f"covariance__{name}": value})
        assert getattr(copy.covariance, name) == value
    assert model.covariance.get_params()[name] == covariance.get_params()[name]
    assert type(covariance).__name__ in repr(model)


@every
def test_a_grid_search_goes_over_their_parameters(covariance, grid, kind, X):
    y = targets(X, kind)
    model = kind(covariance=covariance, use="covariance", **{**QUICK, "max_epochs": 1})
    search = GridSearchCV(model, {f"covariance__{name}": values for name, values in grid.items()}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    ((name, value),) = search.best_params_.items()
    assert getattr(search.best_estimator_.covariance_estimator_, name.removeprefix("covariance__")) == value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tyler", TylerCovariance),
        ("huber", HuberCovariance),
        ("factors", FactorThreshold),
        ("banding", Banding),
        ("tapering", Tapering),
        ("significant", SignificantEdges),
    ],
)
def test_names_are_the_defaults(name, expected, X):
    assert OURS[name] is expected and repr(resolve(name)) == f"{expected.__name__}()"
    y = X[:, 0]
    a = SVNNRegressor(covariance=name, **QUICK).fit(X, y)
    b = SVNNRegressor(covariance=expected(), **QUICK).fit(X, y)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert f"covariance='{name}'" in repr(a)


@pytest.mark.parametrize("limit", [0, 4096])
def test_factors_are_shifted_as_a_sum(limit, kind, X):
    covariance = FactorThreshold(n_factors=2, dense_limit=limit)
    model = kind(covariance=covariance, use="covariance", **QUICK).fit(X, targets(X, kind))
    assert isinstance(model.operator_, SumOperator)
    expected = dense(model.covariance_estimator_.covariance_)
    np.testing.assert_allclose(model.operator_.to_dense() * model.operator_.scale, expected, rtol=1e-4, atol=1e-6)


def test_the_half_life_of_the_covariance_reaches_the_network(X):
    """Of every sparsifier: newer rows count more in the covariance that the network shifts by."""
    for kind, options in ((HardThreshold, {}), (FactorThreshold, {}), (Banding, {"width": 2}), (SignificantEdges, {})):
        fits = [
            SVNNRegressor(covariance=kind(halflife=h, **options), use="covariance", **QUICK).fit(X, X[:, 0])
            for h in (None, 5.0)
        ]
        assert not np.allclose(*(dense(model.covariance_) for model in fits))
        assert not np.allclose(*(model.operator_.to_dense() for model in fits), atol=1e-3)


@pytest.mark.parametrize("covariance", [Banding(width=2), Tapering(width=4), SignificantEdges()], ids=str)
def test_bands_and_tests_are_updated(covariance, X):
    model = SVNNRegressor(covariance=covariance, standardize=False, validation_fraction=0, **QUICK)
    model.partial_fit(X[:30], X[:30, 0]).partial_fit(X[30:], X[30:, 0])
    np.testing.assert_allclose(model.covariance_estimator_.covariance_, clone(covariance).fit(X).covariance_)
    with pytest.raises(ValueError, match="FactorThreshold has no partial_fit"):
        SVNNRegressor(covariance="factors", **QUICK).partial_fit(X, X[:, 0])
