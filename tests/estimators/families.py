"""One quick estimator of every type that trains a network or a machine, for tests of what they share."""

from __future__ import annotations

import pytest

from svnn import ACV, BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.paper import baselines

_QUICK = {"max_epochs": 2, "random_state": 0}
#: Networks of two epochs may predict no better than a constant, and be shrunk to it.
_WHOLE = {"shrink": False, **_QUICK}
_GRAPH = {"n_neighbors": 2, **_QUICK}

REGRESSORS = {
    "svnn": SVNNRegressor(members=2, **_WHOLE),
    "deep": SVNNRegressor(members=2, hidden=(8, 4), batch_norm=True, dropout=0.3, **_WHOLE),
    "stochastic": SVNNRegressor(
        members=2, covariance=ACV(density=0.5), resample="forward", readout="flatten", **_WHOLE
    ),
    "mean": SVNNRegressor(members=1, readout="mean", mlp=(), **_WHOLE),
    "blend": BlendRegressor(SVNNRegressor(members=2, **_QUICK), random_state=0),
    "mlp": baselines.MLPRegressor(hidden=(8,), dropout=0.3, **_QUICK),
    "pca": baselines.PCAMLPRegressor(n_components=3, **_QUICK),
    "kernel": baselines.PCAMLPRegressor(n_components=3, reduction="kernel", max_observations=50, **_QUICK),
    "svm": baselines.PCASVMRegressor(n_components=3, covariance=ACV(density=0.5), random_state=0),
    "graph": baselines.NeighborSamplingRegressor(dropout=0.3, **_GRAPH),
}
CLASSIFIERS = {
    "svnn": SVNNClassifier(members=2, **_WHOLE),
    "blend": BlendClassifier(SVNNClassifier(members=2, **_QUICK), random_state=0),
    "mlp": baselines.MLPClassifier(hidden=(8,), **_QUICK),
    "pca": baselines.PCAMLPClassifier(n_components=3, **_QUICK),
    "svm": baselines.PCASVMClassifier(n_components=3, random_state=0),
    "graph": baselines.NeighborSamplingClassifier(**_GRAPH),
}


def each(models: dict[str, object], *without: str) -> list[object]:
    """Return the models, but for those of these names, as parameters of a test."""
    return [pytest.param(m, id=name) for name, m in models.items() if name not in without]
