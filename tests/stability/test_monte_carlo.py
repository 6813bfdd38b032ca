"""Expected errors by drawing: of filters, and of trained networks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from realisations import covariance, keep_probabilities
from strategies import seeds
from svnn import ACV, RCV, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.functional import sparsify
from svnn.paper import make_sparse_cov
from svnn.stability import _monte_carlo, expected_error, monte_carlo_network
from svnn.stability._monte_carlo import monte_carlo_error

KINDS = ("uniform", "acv", "acv density", "rcv")
SIGNALS = ("random", "top eigenvector", "one-hot", "ones")
DRAWS = 10_000


def signal(kind, C, rng):
    n = len(C)
    return {
        "random": lambda: rng.standard_normal(n),
        "top eigenvector": lambda: np.linalg.eigh(C)[1][:, -1],
        "one-hot": lambda: np.eye(n)[rng.integers(n)],
        "ones": lambda: np.ones(n),
    }[kind]()


def draw_case(kind, seed, unbiased):
    rng = np.random.default_rng(seed)
    C = covariance(6, rng)
    # Rescaled entries of tiny probability have tails too heavy for a standard error to be trusted.
    return rng, C, keep_probabilities(kind, C, rng, least=0.1 if unbiased else 0.0)


def agree(error, exact):
    return abs(error.mean - exact) <= 4 * error.standard_error


# -- Monte Carlo and the closed form ----------------------------------------------------------------------


@settings(max_examples=80)
@given(seeds, st.sampled_from(KINDS), st.integers(1, 3), st.booleans(), st.sampled_from(SIGNALS), st.booleans())
def test_the_closed_form_is_within_four_standard_errors(seed, kind, K, unbiased, which, shared):
    rng, C, P = draw_case(kind, seed, unbiased)
    h, x = rng.standard_normal(K + 1), signal(which, C, rng)
    options = {"unbiased": unbiased, "shared": shared and K <= 2}
    exact = expected_error(h, C, P, x, **options)
    error = monte_carlo_error(h, C, P, x, n_draws=DRAWS, random_state=seed, **options)
    assert agree(error, exact)
    assert error.standard_error < 0.2 * exact  # it says something
    assert error.n_draws == DRAWS


@settings(max_examples=40)
@given(seeds, st.sampled_from(KINDS), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_banks_other_references_and_random_signals(seed, kind, K, unbiased, shared, bank):
    rng, C, P = draw_case(kind, seed, unbiased)
    h = rng.standard_normal((K + 1, 2, 3) if bank else K + 1)
    F = rng.standard_normal((6, 6))
    options = {"unbiased": unbiased, "shared": shared and K <= 2, "reference": covariance(6, rng)}
    for signals in ({"x": rng.standard_normal((6, 2))}, {}, {"moment": F @ F.T}):
        exact = expected_error(h, C, P, **signals, **options)
        assert agree(monte_carlo_error(h, C, P, n_draws=5000, random_state=seed, **signals, **options), exact)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_realisations_are_those_of_sparsify(shared, unbiased, rng):
    """The mean over realisations that svnn.functional draws, shared K = 3 included."""
    C, h, x = covariance(5, rng), rng.standard_normal(4), rng.standard_normal(5)
    P = keep_probabilities("rcv", C, rng, least=0.2)
    target = sum(h[k] * np.linalg.matrix_power(C, k) @ x for k in range(4))
    squares = np.empty(1500)
    for i in range(len(squares)):
        draws = [sparsify(C, P, rng, unbiased) for _ in range(1 if shared else 3)] * (3 if shared else 1)
        z, y = x, h[0] * x
        for k in range(3):
            z = draws[k] @ z
            y = y + h[k + 1] * z
        squares[i] = ((y - target) ** 2).sum()
    error = monte_carlo_error(h, C, P, x, unbiased=unbiased, shared=shared, n_draws=30_000, random_state=0)
    spread = np.hypot(error.standard_error, squares.std() / np.sqrt(len(squares)))
    assert abs(error.mean - squares.mean()) <= 4 * spread


def test_standard_errors_are_those_of_repeats(rng):
    C, h, x = covariance(5, rng), rng.standard_normal(3), rng.standard_normal(5)
    errors = [monte_carlo_error(h, C, 0.5, x, n_draws=200, random_state=i) for i in range(400)]
    means, claimed = np.array([e.mean for e in errors]), np.mean([e.standard_error for e in errors])
    assert means.std() == pytest.approx(claimed, rel=0.15)
    assert abs(means.mean() - expected_error(h, C, 0.5, x)) <= 4 * means.std() / np.sqrt(len(means))


# -- sparse covariances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("unbiased", [False, True])
def test_a_sparse_covariance_gives_the_same(shared, unbiased, rng):
    C = covariance(8, rng)
    C[abs(C) < 0.15] = 0
    P = keep_probabilities("acv density", C, rng, least=0.3)
    for options in ({"x": rng.standard_normal(8)}, {}, {"moment": covariance(8, rng, t=40)}):
        options = options | {"unbiased": unbiased, "shared": shared}
        exact = expected_error([0.5, 1.0, -0.3], C, P, **options)
        error = monte_carlo_error([0.5, 1.0, -0.3], sp.csr_array(C), P, n_draws=1000, random_state=0, **options)
        assert agree(error, exact)


def test_a_bank_on_a_sparse_covariance(rng):
    C, W, X = covariance(6, rng), rng.standard_normal((3, 2, 2)), rng.standard_normal((4, 6, 2))
    C[abs(C) < 0.1] = 0
    error = monte_carlo_error(W, sp.csr_array(C), 0.5, X, reference=np.eye(6), n_draws=2000, random_state=0)
    assert agree(error, expected_error(W, C, 0.5, X, reference=np.eye(6)))


def test_a_large_sparse_covariance_is_not_made_dense():
    """A chain of 100,000 features: N x N would be 80 GB. K = 1 and white signals, so the error is Q."""
    n = 100_000
    C = sp.diags_array([0.5, 1.0, 0.5], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    error = monte_carlo_error([0.0, 1.0], C, 0.2, n_draws=20, random_state=0)
    assert agree(error, 2 * (n - 1) * 0.25 * 0.8) and error.standard_error < 0.01 * error.mean
    assert monte_carlo_error(np.ones((4, 1, 2)), C, C * 0.5, shared=True, n_draws=2, random_state=0).mean > 0


# -- what comes in and out --------------------------------------------------------------------------------


def test_a_seed_gives_the_same_whatever_the_batches(rng, monkeypatch):
    C, h, x = covariance(5, rng), rng.standard_normal(3), rng.standard_normal(5)
    whole = monte_carlo_error(h, C, 0.5, x, shared=True, n_draws=50, random_state=3)
    monkeypatch.setattr(_monte_carlo, "_BATCH_VALUES", 200)
    np.testing.assert_allclose(monte_carlo_error(h, C, 0.5, x, shared=True, n_draws=50, random_state=3), whole)


def test_order_zero_and_nothing_dropped_are_no_error(rng):
    C = covariance(4, rng)
    for h, p in (([1.0], 0.5), ([1.0, 2.0, 3.0], 1.0)):
        for x in (None, np.ones(4)):
            for shared in (False, True):
                for matrix in (C, sp.csr_array(C)):
                    error = monte_carlo_error(h, matrix, p, x, shared=shared, n_draws=3, random_state=0)
                    np.testing.assert_allclose(error, [0, 0, 3], atol=1e-25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_draws": 1}, "n_draws must be"),
        ({"n_draws": 10.5}, "n_draws must be"),
        ({"reference": np.eye(4)}, "reference has shape"),
        ({"moment": np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])}, "moment .* negative eigenvalue"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"x": np.ones(4)}, "x must have shape"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"h": [1.0, 1.0], "C": np.eye(3) + 0.1, "P": 0.5} | change
    with pytest.raises(ValueError, match=message):
        monte_carlo_error(**arguments)


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
        "shrink": False,  # so that the output moves: the targets are nearly linear
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


def test_a_blend_moves_by_the_share_of_its_network(trained):
    Z, network, _ = trained
    model = BlendRegressor(clone(network).set_params(members=4)).fit(Z, Z[:, 0])
    rcv, part, weight = RCV(p=0.5, random_state=0).fit(Z), model.parts_["with edges"], model.blend_["with edges"]
    found, own = (monte_carlo_network(each, rcv, Z, n_draws=5, random_state=1) for each in (model, part))
    assert found.embedding == own.embedding
    assert found.output.mean == pytest.approx(weight**2 * own.output.mean)


def test_bad_input_of_a_network_is_named(trained):
    Z, model, _ = trained
    with pytest.raises(ValueError, match="estimator must be a fitted stochastic sparsifier"):
        monte_carlo_network(model, ACV(), Z)
    with pytest.raises(ValueError, match="n_draws must be"):
        monte_carlo_network(model, ACV().fit(Z), Z, n_draws=1)
