"""Every fit draws from generators of its own: threads do not disturb each other, nor the caller's draws."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone

from estimators.families import CLASSIFIERS, REGRESSORS, each
from svnn import SVNNRegressor, load
from svnn.estimators.training import Training, draw_weights, train
from svnn.nn import SVNN
from svnn.paper.baselines._mlp import MLP
from svnn.paper.baselines._neighbor_sampling import GCN


def states():
    """Return where the global generators stand."""
    kind, keys, position, *rest = np.random.get_state()  # noqa: NPY002
    return [torch.random.get_rng_state().tolist(), (kind, keys.tolist(), position, *rest), random.getstate()]


@pytest.mark.parametrize("model", each(REGRESSORS))
def test_fits_in_threads_are_those_of_one_after_the_other(model, data):
    X, y = data

    def fit(seed):
        return clone(model).set_params(random_state=seed).fit(X, y).predict(X)

    seeds = [0, 1, 0, 1]
    expected = {seed: fit(seed) for seed in set(seeds)}
    before = states()
    with ThreadPoolExecutor(4) as pool:
        for seed, found in zip(seeds, pool.map(fit, seeds), strict=True):
            np.testing.assert_array_equal(found, expected[seed])
    found = joblib.Parallel(4, backend="threading")(joblib.delayed(fit)(seed) for seed in seeds)
    for seed, predicted in zip(seeds, found, strict=True):
        np.testing.assert_array_equal(predicted, expected[seed])
    assert states() == before


@pytest.mark.parametrize("model", each(REGRESSORS) + each(CLASSIFIERS))
@pytest.mark.parametrize("seed", [0, None], ids=str)
def test_no_global_generator_moves(model, seed, data, tmp_path):
    X, y = data
    y = (y > 100).astype(int) if "Classifier" in type(model).__name__ else y
    before = states()
    fitted = clone(model).set_params(random_state=seed).fit(X, y)
    fitted.predict(X)
    if hasattr(fitted, "embed"):
        fitted.embed(X)
    if hasattr(fitted, "save"):
        fitted.save(tmp_path / "model.safetensors")
        load(tmp_path / "model.safetensors")
    assert states() == before


def test_what_the_global_generators_hold_does_not_matter(data):
    X, y = data
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        found.append(clone(REGRESSORS["svnn"]).fit(X, y).predict(X))
    np.testing.assert_array_equal(*found)


def test_random_states_of_every_kind(data):
    X, y = data
    for make in (np.random.RandomState, np.random.default_rng, torch.Generator().manual_seed):
        before = states()
        a, b = (SVNNRegressor(members=2, max_epochs=3, random_state=make(seed)).fit(X, y).predict(X) for seed in (5, 5))
        assert states() == before
        np.testing.assert_array_equal(a, b)
    a, b = (SVNNRegressor(members=2, max_epochs=3, shrink=False).fit(X, y).predict(X) for _ in range(2))
    assert not np.array_equal(a, b)


NETWORKS = {
    "svnn": lambda: SVNN(2, 3, hidden=(4, 5), readout="weighted", heads=2, n_nodes=6, mlp=(7,)),
    "without norm": lambda: SVNN(2, 3, hidden=(4,), batch_norm=False, mlp=()),
    "mlp": lambda: MLP(12, 3, (8, 4)),
    "graph": lambda: GCN(2, 3, (4, 5), dropout=0.1, mlp=6),
    "graph without norm": lambda: GCN(2, 3, (4,), batch_norm=False),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_drawn_as_the_constructors_draw_them(name):
    torch.manual_seed(7)
    expected = NETWORKS[name]().state_dict()
    with torch.device("meta"):
        network = NETWORKS[name]()
    network.to_empty(device="cpu")
    for values in network.state_dict().values():
        values.copy_(torch.full_like(values, 13))  # nothing may be left over
    draw_weights(network, torch.Generator().manual_seed(7))
    assert list(network.state_dict()) == list(expected)
    for key, values in network.state_dict().items():
        torch.testing.assert_close(values, expected[key], rtol=0, atol=0)


def test_a_layer_whose_weights_nobody_draws_is_an_error():
    with pytest.raises(TypeError, match="Conv1d is not known"):
        draw_weights(torch.nn.Conv1d(1, 1, 1), torch.Generator())


def test_a_trained_network_draws_from_the_global_generator_again(data):
    for name in ("svnn", "deep"):
        readout = clone(REGRESSORS[name]).fit(*data).fitted_.networks[0].train().readout
        u = torch.ones(50, 6, 4)
        torch.manual_seed(3)
        first = readout(u)
        torch.manual_seed(3)
        assert torch.equal(readout(u), first) and not torch.equal(readout(u), first)


@pytest.mark.parametrize("model", each(REGRESSORS, "svm", "blend"))
def test_the_seed_decides_where_training_starts(model, data):
    """With validation rows of their own and steps too small to move anything, only the initial weights are left."""
    X, y = data

    def start(seed):
        still = clone(model).set_params(random_state=seed, lr=1e-30, max_epochs=1, batch_size=None)
        fitted = still.fit(X, y, validation_data=(X, y))
        return torch.cat([p.detach().flatten() for p in fitted.module_.parameters()])

    assert torch.equal(start(3), start(3))
    assert not torch.equal(start(3), start(4))


def test_the_generator_decides_the_order_of_batches():
    class Trainer:
        n_members, watched = 1, np.array([False])
        validate = staticmethod(lambda members: np.zeros(1))
        keep = restore = staticmethod(lambda *_: None)
        monitored = staticmethod(lambda losses: losses)

        def epoch(self, order, ends, rates, members):
            self.order = order.tolist()
            return np.zeros(1)

    def order(seed):
        trainer, generator = Trainer(), torch.Generator().manual_seed(seed)
        train(trainer, 40, Training(lr=1.0, schedule="constant", max_epochs=1, patience=1, batch_size=7), generator)
        return trainer.order

    assert sorted(order(0)) == list(range(40))
    assert order(0) == order(0) != order(1)
