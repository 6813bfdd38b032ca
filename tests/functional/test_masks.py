from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from strategies import covariances, densities, seeds, tied_matrices
from svnn import functional as F

DRAWS = 4000


@pytest.fixture(scope="module")
def C():
    X = np.random.default_rng(1).standard_normal((20, 12)) * np.linspace(0.5, 2, 12)
    return np.cov(X.T, ddof=0)


@given(covariances() | tied_matrices(), densities, seeds)
def test_realisations_are_symmetric_keep_the_diagonal_and_the_support(C, p, seed):
    S = F.sparsify(C, F.rcv_probabilities(C, p, seed), seed)
    assert (S == S.T).all()
    np.testing.assert_array_equal(S.diagonal(), C.diagonal())
    assert ((S == 0) | (S == C)).all()


@pytest.mark.parametrize("method", ["acv", "acv density", "rcv", "uniform"])
def test_keep_rates_equal_the_probabilities(C, method):
    P = {
        "acv": F.acv_probabilities(C),
        "acv density": F.acv_probabilities(C, 0.3),
        "rcv": F.rcv_probabilities(C, 0.4, 0),
        "uniform": np.where(np.eye(len(C)), 1, 0.25),
    }[method]
    rng = np.random.default_rng(0)
    kept = np.zeros_like(C)
    counts = np.zeros(DRAWS)
    for i in range(DRAWS):
        mask = F.sparsify(C, P, rng) != 0
        kept += mask
        counts[i] = mask.sum()
    error = np.sqrt(P * (1 - P) / DRAWS)
    assert (abs(kept / DRAWS - P) <= 4 * error + 1e-12).all()
    # Expected non-zeros: N + the sum of p over the off-diagonal entries.
    expected = len(C) + (P.sum() - len(C))
    assert abs(counts.mean() - expected) <= 4 * counts.std() / np.sqrt(DRAWS)


def test_unbiased_has_the_covariance_as_its_mean(C):
    P = F.acv_probabilities(C)
    rng = np.random.default_rng(0)
    draws = np.stack([F.sparsify(C, P, rng, unbiased=True) for _ in range(DRAWS)])
    error = draws.std(0) / np.sqrt(DRAWS)
    assert (abs(draws.mean(0) - C) <= 4 * error + 1e-12).all()
    biased = np.stack([F.sparsify(C, P, rng) for _ in range(DRAWS)])
    assert (abs(biased.mean(0) - P * C) <= 4 * biased.std(0) / np.sqrt(DRAWS) + 1e-12).all()


def test_unbiased_weights_stay_finite_at_zero_probability(C):
    P = np.eye(len(C))
    draws = [F.sparsify(C, P, seed, unbiased=True) for seed in range(200)]
    assert np.isfinite(draws).all()
    assert max(abs(d / C).max() for d in draws) == pytest.approx(1000)


@given(covariances(), seeds)
def test_numpy_and_torch_draw_the_same_mask(C, seed):
    P = F.rcv_probabilities(C, 0.5, seed)
    for unbiased in (False, True):
        a = F.sparsify(torch.tensor(C), torch.tensor(P), seed, unbiased)
        assert isinstance(a, torch.Tensor)
        np.testing.assert_allclose(a.numpy(), F.sparsify(C, P, seed, unbiased), rtol=1e-12)


def test_seeds_of_every_kind(C):
    P = F.rcv_probabilities(C, 0.5, 0)
    for make in (lambda: 3, lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)):
        np.testing.assert_array_equal(F.sparsify(C, P, make()), F.sparsify(C, P, make()))
    draws = [F.sparsify(C, P, torch.Generator().manual_seed(3)) for _ in range(2)]
    np.testing.assert_array_equal(*draws)
    with pytest.raises(ValueError, match="random_state must be"):
        F.sparsify(C, P, "seed")


def test_probabilities_are_checked(C):
    with pytest.raises(ValueError, match="probabilities has shape"):
        F.sparsify(C, np.eye(3))
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.sparsify(C, np.full_like(C, 1.5))


def test_a_probability_of_one_is_kept_in_every_precision():
    for dtype in (np.float16, np.float32):
        C = np.ones((400, 400), dtype=dtype)
        assert F.sparsify(C, C, 0).all()
