"""Other packages take our covariance estimators as they are: nilearn's connectomes and skfolio's portfolios."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from svnn.covariance import ACV, RCV, AdaptiveThreshold, GraphicalLasso, HardThreshold, SampleCovariance, SoftThreshold

ESTIMATORS = [
    SampleCovariance(),
    HardThreshold(),
    SoftThreshold(density=0.5),
    AdaptiveThreshold(),
    ACV(density=0.5, random_state=0, psd="shrink"),
    RCV(p=0.5, random_state=0, psd="shrink"),
    GraphicalLasso(alpha=0.2),
]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)


def series(rng, t, n):
    """Independent features, except for some pairs."""
    X = rng.standard_normal((t, n))
    X[:, 1::3] += 0.5 * X[:, 0::3][:, : X[:, 1::3].shape[1]]
    return X


@every
@pytest.mark.parametrize("kind", ["covariance", "correlation", "partial correlation", "tangent", "precision"])
def test_nilearn_connectivity(estimator, kind, rng):
    connectome = pytest.importorskip("nilearn.connectome")
    subjects = [series(rng, 150, 6) for _ in range(3)]
    measure = connectome.ConnectivityMeasure(cov_estimator=clone(estimator), kind=kind)
    matrices = measure.fit_transform(subjects)
    assert matrices.shape == (3, 6, 6) and np.isfinite(matrices).all()
    np.testing.assert_allclose(matrices, matrices.transpose(0, 2, 1), atol=1e-8)
    if kind == "covariance":
        np.testing.assert_array_equal(matrices[1], clone(estimator).fit(subjects[1]).covariance_)
    vectors = connectome.ConnectivityMeasure(cov_estimator=clone(estimator), kind=kind, vectorize=True)
    assert vectors.fit_transform(subjects).shape == (3, 21)


@every
def test_skfolio_portfolios(estimator, rng):
    skfolio_moments = pytest.importorskip("skfolio.moments")
    from skfolio.optimization import MeanRisk
    from skfolio.prior import EmpiricalPrior

    returns = 0.01 * series(rng, 250, 8) + 0.001
    ours = type(estimator)(**estimator.get_params())  # made where skfolio is in use, as people do
    assert isinstance(ours, skfolio_moments.BaseCovariance)
    prior = EmpiricalPrior(covariance_estimator=ours).fit(returns)
    expected = clone(estimator).fit(returns).covariance_
    np.testing.assert_array_equal(prior.return_distribution_.covariance, expected)
    model = MeanRisk(prior_estimator=EmpiricalPrior(covariance_estimator=ours)).fit(returns)
    assert model.weights_.sum() == pytest.approx(1)
    # The portfolio of least variance for this matrix: no other one of these has less.
    best = model.weights_ @ expected @ model.weights_
    for other in (np.full(8, 1 / 8), *np.eye(8)):
        assert best <= other @ expected @ other + 1e-8


def test_skfolio_may_be_imported_later():
    """An estimator that is made after the import counts, whichever package came first."""
    pytest.importorskip("skfolio")
    code = """
import svnn
before = svnn.HardThreshold()
from skfolio.moments import BaseCovariance
assert not isinstance(svnn.SoftThreshold, BaseCovariance)
assert isinstance(svnn.HardThreshold(), BaseCovariance) and isinstance(before, BaseCovariance)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_skfolio_is_not_imported_by_us():
    code = "import sys, svnn; svnn.HardThreshold(); assert 'skfolio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
