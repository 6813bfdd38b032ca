"""Fitted models, each of them fitted once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import Bunch

from blended import every_part_counts
from inspected_models import QUICK, REGRESSORS, blend, network_in, numbers, signals
from svnn import BlendClassifier, SVNNClassifier


@pytest.fixture(autouse=True)
def parts():
    """Contributions of networks that do not count would be tested in vain."""
    with every_part_counts():
        yield


def fitted(kind):
    X = (signals() - 5) / 10 if kind == "not standardised" else signals()
    with every_part_counts():
        model = blend(**REGRESSORS[kind]).fit(X, numbers(X))
    return Bunch(X=X, y=numbers(X), model=model, kind=kind)


@pytest.fixture(scope="package", params=REGRESSORS)
def regression(request):
    return fitted(request.param)


@pytest.fixture(scope="package")
def default():
    return fitted("default")


@pytest.fixture(scope="package")
def sparse():
    """A model on a path of nodes, stored as a sparse operator."""
    found = fitted("given matrix")
    assert np.count_nonzero(network_in(found.model).covariance_) == 19
    return found


@pytest.fixture(scope="package")
def classification():
    X = signals()
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [4.0, 6.0])]
    with every_part_counts():
        return Bunch(X=X, y=y, model=BlendClassifier(SVNNClassifier(**QUICK)).fit(X, y))
