"""The comparison is fair: one training loop, one split, one budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from svnn import SVNNClassifier, SVNNRegressor
from svnn.paper import baselines

FAMILIES = ["MLP", "PCAMLP", "NeighborSampling"]


#: A network that is trained as the baselines are: alone, until it gets no better.
ALONE = {"members": 1, "shrink": False, "schedule": "constant", "patience": 100}


@pytest.fixture
def calls(monkeypatch):
    """Record what the training loop is called with, and train for an epoch."""
    from svnn.estimators import _members
    from svnn.paper.baselines import _network

    calls, train = [], _members.train

    def record(trainer, n_rows, training, draws, **more):
        calls.append((trainer.data, trainer.validation, {**vars(training), "seed": draws.initial_seed()}))
        return train(trainer, n_rows, replace(training, max_epochs=1), draws, **more)

    for module in (_members, _network):
        monkeypatch.setattr(module, "train", record)
    return calls


@pytest.mark.filterwarnings("ignore:n_components")
@pytest.mark.parametrize("task", ["Regressor", "Classifier"])
@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(12), 10)], ids=["rows", "groups"])
def test_baselines_train_as_a_single_network_does(calls, data, task, groups):
    X, y = data
    y = y if task == "Regressor" else (y > 100).astype(int)
    svnn = {"Regressor": SVNNRegressor, "Classifier": SVNNClassifier}[task]
    svnn(**ALONE, batch_norm=True, random_state=3).fit(X, y, groups=groups)
    for family in FAMILIES:
        getattr(baselines, family + task)(random_state=3).fit(X, y, groups=groups)
    expected_data, expected_validation, expected_options = calls[0]
    for found_data, found_validation, options in calls[1:]:
        assert options == expected_options
        for a, b in ((found_data, expected_data), (found_validation, expected_validation)):
            np.testing.assert_array_equal(a.y, b.y)
            np.testing.assert_array_equal(a.weight, b.weight)


def test_parameters_that_are_shared_have_the_same_defaults():
    for task, svnn in (("Regressor", SVNNRegressor(**ALONE)), ("Classifier", SVNNClassifier(**ALONE))):
        for family in ("MLP", "PCAMLP", "NeighborSampling"):
            own = getattr(baselines, family + task)().get_params()
            # The paper's networks of the baselines.
            network = {"hidden", "batch_norm"}
            shared = {k for k in own if k in svnn.get_params()} - network
            assert len(shared) == 12
            assert {k: own[k] for k in shared} == {k: svnn.get_params()[k] for k in shared}


def test_early_stopping_restores_the_best_weights(data):
    X, y = data
    model = baselines.MLPRegressor(patience=5, random_state=0)
    model.fit(X[:90], y[:90], validation_data=(X[90:], y[90:]))
    scale = model.fitted_.targets.standardizer.scale
    assert np.mean(((model.predict(X[90:]) - y[90:]) / scale) ** 2) == pytest.approx(
        min(model.history_["valid_loss"]), rel=1e-3
    )
    assert model.n_iter_ - 1 - int(np.argmin(model.history_["valid_loss"])) == 5


def test_embeddings_of_the_perceptron(data):
    X, y = data
    assert baselines.MLPRegressor(hidden=(8, 4), max_epochs=2, random_state=0).fit(X, y).embed(X).shape == (120, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden": ()}, "hidden must be a sequence of positive integers.*at least one"),
        ({"dropout": 1.0}, "dropout must be in"),
        ({"lr": 0}, "lr must be a positive number"),
        ({"callbacks": print}, "callbacks must be a sequence of callables"),
    ],
)
def test_bad_parameters_are_named(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        baselines.MLPRegressor(**parameters).fit(*data)


def test_every_name_is_documented_with_an_example():
    for name in baselines.__all__:
        estimator = getattr(baselines, name)
        assert ">>>" in estimator.__doc__ and "@" not in estimator.__doc__
