"""Trained networks on random realisations of their covariance."""

from __future__ import annotations

import numpy as np
import pytest

from svnn import ACV, RCV, SVNNClassifier, SVNNRegressor
from svnn.paper import make_sparse_cov
from svnn.stability import expected_error, monte_carlo_network

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")


@pytest.fixture(scope="module")
def trained():
    data = make_sparse_cov(n_samples=80, n_features=10, random_state=0)
    Z = (data.X - data.X.mean(0)) / data.X.std(0)
    labels = (data.y > np.median(data.y)).astype(int)
    options = {
        "covariance": "sample",
        "use": "covariance",
        "standardize": False,
        "hidden": (4,),
        "blend": False,  # so that the output moves: the targets are nearly linear
        "max_epochs": 10,
        "random_state": 0,
    }
    return Z, SVNNRegressor(**options).fit(Z, data.y), SVNNClassifier(**options).fit(Z, labels)


@pytest.mark.parametrize("which", ["regressor", "classifier"])
def test_a_network_on_fresh_realisations(trained, which):
    Z, regressor, classifier = trained
    model = {"regressor": regressor, "classifier": classifier}[which]
    rcv = RCV(p=0.5, random_state=0).fit(Z)
    error = monte_carlo_network(model, rcv, Z, n_draws=40, random_state=1)

    rng = np.random.default_rng(1)
    others = [model.on(rcv.sample(rng)) for _ in range(40)]
    outputs = (lambda m: m.predict_proba(Z)) if which == "classifier" else (lambda m: m.predict(Z))
    embeddings = [((other.embed(Z) - model.embed(Z)) ** 2).sum() / len(Z) for other in others]
    predictions = [((outputs(other) - outputs(model)) ** 2).sum() / len(Z) for other in others]
    for part, values in ((error.embedding, embeddings), (error.output, predictions)):
        np.testing.assert_allclose(part, [np.mean(values), np.std(values, ddof=1) / np.sqrt(40), 40], rtol=1e-10)
        assert 0 < part.standard_error < part.mean


def test_a_network_moves_less_the_more_is_kept(trained):
    Z, model, _ = trained
    errors = [
        monte_carlo_network(model, RCV(p=p, random_state=0).fit(Z), Z, n_draws=30, random_state=0) for p in (0.2, 0.9)
    ]
    assert errors[1].embedding.mean < 0.3 * errors[0].embedding.mean
    kept = monte_carlo_network(model, RCV(p=1.0).fit(Z), Z, reference=RCV(p=1.0).fit(Z), n_draws=2)
    assert kept.embedding.mean == kept.output.mean == 0


def test_a_linear_network_has_the_closed_form_of_its_filter(trained):
    """One linear layer of order 2: its embedding's error is that of its bank with a shared realisation."""
    Z, _, _ = trained
    model = SVNNRegressor(
        covariance="sample", use="covariance", members=1, standardize=False, hidden=(3,), activation="identity",
        max_epochs=3, random_state=0,
    ).fit(Z, Z[:, 0])  # fmt: skip
    acv = ACV(density=0.5).fit(Z)
    error = monte_carlo_network(model, acv, Z, reference=acv.sample_covariance_, n_draws=400, random_state=0)
    weight = model.module_.filters[0].weight.detach().double().numpy()
    C = acv.sample_covariance_ / model.operator_.scale
    exact = expected_error(weight, C, acv.probabilities_, Z[:, :, None], shared=True) / len(Z)
    assert abs(error.embedding.mean - exact) <= 4 * error.embedding.standard_error


def test_bad_input_of_a_network_is_named(trained):
    Z, model, _ = trained
    with pytest.raises(ValueError, match="estimator must be a fitted stochastic sparsifier"):
        monte_carlo_network(model, ACV(), Z)
    with pytest.raises(ValueError, match="n_draws must be"):
        monte_carlo_network(model, ACV().fit(Z), Z, n_draws=1)
