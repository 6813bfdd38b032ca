"""Every baseline learns what there is to learn, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

#: The mean over the nodes tells none of them from the others.
BLIND = "NeighborSampling"


def test_numbers(regressor, diabetes):
    X, y, X_test, y_test = diabetes
    if type(regressor).__name__.startswith(BLIND):
        y, y_test = (rows.std(1) for rows in (X, X_test))
    assert regressor.fit(X, y).score(X_test, y_test) > 0.3


def test_numbers_shuffled(regressor, diabetes, rng):
    X, y, X_test, y_test = diabetes
    assert regressor.fit(X, rng.permutation(y)).score(X_test, y_test) < 0.1


def test_labels(classifier, digits):
    X, y, X_test, y_test = digits
    if type(classifier).__name__.startswith(BLIND):
        y, y_test = (rows.mean(1) > X.mean() for rows in (X, X_test))
    assert classifier.fit(X, y).score(X_test, y_test) > 0.6  # chance is 0.1, or a half


def test_labels_shuffled(classifier, digits, rng):
    X, y, X_test, y_test = digits
    assert classifier.fit(X, rng.permutation(y)).score(X_test, y_test) < 0.2


def test_a_seed_fixes_everything(regressor, diabetes):
    X, y, X_test, _ = diabetes
    regressor.set_params(**({"max_epochs": 5} if "max_epochs" in regressor.get_params() else {}))
    first, second = (clone(regressor).fit(X, y).predict(X_test) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_signals_with_several_values_a_node(classifier, rng):
    level = rng.standard_normal(200)
    X = level[:, None, None] + 2 * rng.standard_normal((200, 6, 5))
    y = np.where(level > 0, "up", "down")
    assert classifier.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.7
    with pytest.raises(ValueError, match="fitted with 5 values per node"):
        classifier.predict(X[:, :, :4])


def check_it_takes_everything(model, X, y, X_test, y_test):
    model.set_params(**({"max_epochs": 3} if "max_epochs" in model.get_params() else {}))
    model.fit(X, y, np.linspace(0.1, 1, len(y)), validation_data=(X_test, y_test))
    assert model.fit(X, y, groups=np.arange(len(y)) // 10).predict(X_test).shape == (len(X_test),)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        model.fit(X, y, sample_weight=np.zeros(len(y)))


def test_regressors_are_called_alike(regressor, diabetes):
    """Weights, a validation set and groups are taken by every one."""
    check_it_takes_everything(regressor, *diabetes)


def test_classifiers_are_called_alike(classifier, diabetes):
    X, y, X_test, y_test = diabetes
    check_it_takes_everything(classifier, X, y > 150, X_test, y_test > 150)
