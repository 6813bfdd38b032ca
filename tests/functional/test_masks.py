"""Stochastic sparsification: probabilities of keeping entries, realisations, random numbers by position."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strategies import covariances, densities, seeds, tied_matrices
from svnn import functional as F
from svnn._compiled import load
from svnn.functional import pair_uniforms


def upper(C):
    return C[np.triu_indices(len(C), 1)]


def check_probabilities(P):
    assert ((P >= 0) & (P <= 1)).all()
    assert (P == P.T).all()
    assert (P.diagonal() == 1).all()


@given(covariances())
def test_acv_is_the_absolute_value_over_the_largest_entry(C):
    P = F.acv_probabilities(C)
    check_probabilities(P)
    np.testing.assert_allclose(upper(P), upper(abs(C)) / abs(C).max(), rtol=1e-12)


@given(covariances())
def test_acv_over_the_off_diagonal_reaches_one(C):
    P = F.acv_probabilities(C, max_over="offdiagonal")
    check_probabilities(P)
    assert upper(P).max() == pytest.approx(1)


def test_one_large_variance_empties_the_graph_unless_the_maximum_is_off_diagonal():
    C = np.array([[1e6, 0.5, 0.2], [0.5, 1, 0.4], [0.2, 0.4, 1]])
    assert upper(F.acv_probabilities(C)).max() < 1e-6
    assert upper(F.acv_probabilities(C, max_over="offdiagonal")).max() == 1


@given(covariances(), densities)
def test_acv_density_is_exact(C, density):
    P = F.acv_probabilities(C, density)
    check_probabilities(P)
    assert upper(P).mean() == pytest.approx(density, abs=1e-12)
    inside = upper(P) < 1
    if inside.any() and density > 0:
        slopes = upper(P)[inside] / upper(abs(C))[inside]
        np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)
        assert (upper(abs(C))[~inside] * slopes[0] >= 1 - 1e-9).all()


@given(tied_matrices(), densities)
def test_acv_density_stays_inside_the_support(C, density):
    P = F.acv_probabilities(C, density)
    check_probabilities(P)
    available = (upper(C) != 0).mean()
    assert upper(P).mean() == pytest.approx(min(density, available), abs=1e-12)
    assert (upper(P)[upper(C) == 0] == 0).all()


def test_acv_of_a_diagonal_matrix_has_no_edges():
    np.testing.assert_array_equal(F.acv_probabilities(np.eye(3)), np.eye(3))
    np.testing.assert_array_equal(F.acv_probabilities(np.eye(3), density=0.5), np.eye(3))
    np.testing.assert_array_equal(F.acv_probabilities(np.eye(3), max_over="offdiagonal"), np.eye(3))


@given(covariances(), densities, seeds)
def test_rcv_orders_probabilities_by_absolute_value(C, p, seed):
    P = F.rcv_probabilities(C, p, seed)
    check_probabilities(P)
    order = np.argsort(upper(abs(C)), kind="stable")
    assert (np.diff(upper(P)[order]) >= 0).all()


@given(tied_matrices(), seeds)
def test_rcv_breaks_ties_in_row_order(C, seed):
    P = upper(F.rcv_probabilities(C, 0.5, seed))
    sizes = upper(abs(C))
    for value in np.unique(sizes):
        assert (np.diff(P[sizes == value]) >= 0).all()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
def test_rcv_draws_from_the_stated_normal(p):
    C = np.cov(np.random.default_rng(0).standard_normal((50, 200)).T)
    values = upper(F.rcv_probabilities(C, p, 0))
    sd = min((1 - p) / 3, p / 3)
    error = sd / np.sqrt(len(values))
    assert abs(values.mean() - p) <= 4 * error
    assert values.std() == pytest.approx(sd, rel=0.03, abs=1e-12)


@given(covariances(), densities, seeds)
def test_torch_gives_the_same_numbers(C, p, seed):
    T = torch.tensor(C)
    for a, b in [
        (F.acv_probabilities(T), F.acv_probabilities(C)),
        (F.acv_probabilities(T, p), F.acv_probabilities(C, p)),
        (F.rcv_probabilities(T, p, seed), F.rcv_probabilities(C, p, seed)),
    ]:
        assert isinstance(a, torch.Tensor)
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-12)


@given(st.sampled_from([-0.5, 1.5, None, "x"]))
def test_p_must_be_a_share(p):
    with pytest.raises(ValueError, match="p must be a number between 0 and 1"):
        F.rcv_probabilities(np.eye(3), p)


def test_max_over_is_checked():
    with pytest.raises(ValueError, match="max_over must be"):
        F.acv_probabilities(np.eye(3), max_over="diagonal")


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


def test_numbers_are_uniform_and_independent_along_rows_columns_and_seeds():
    i = np.arange(1000)
    u = pair_uniforms(7, i[:, None], i)
    assert (u >= 0).all() and (u < 1).all()
    assert abs(u.mean() - 0.5) < 4 / np.sqrt(12 * u.size)
    counts = np.histogram(u, 1000, (0, 1))[0]
    assert 0.001 < stats.chisquare(counts).pvalue < 0.999
    other = pair_uniforms(8, i[:, None], i)
    for a, b in ((u[:, 1:], u[:, :-1]), (u[1:], u[:-1]), (u, u.T), (u, other)):
        off = ~np.eye(*a.shape, dtype=bool)
        assert abs(np.corrcoef(a[off], b[off])[0, 1]) < 4 / np.sqrt(off.sum())
    # Pairs of neighbours fill the square.
    square = np.histogram2d(u[:, 1:].ravel(), u[:, :-1].ravel(), 30, ((0, 1), (0, 1)))[0]
    assert 0.001 < stats.chisquare(square.ravel()).pvalue < 0.999


@pytest.mark.parametrize("seeds", [np.arange(4000), np.arange(4000) << 40])
def test_a_pair_is_uniform_over_neighbouring_seeds(seeds):
    i, j = np.triu_indices(8, 1)
    u = np.stack([pair_uniforms(int(seed), i, j) for seed in seeds])
    kept = (u < 0.3).mean(0)
    z = (kept - 0.3) / np.sqrt(0.21 / len(seeds))
    assert 0.001 < stats.chi2.sf((z**2).sum(), len(i)) < 0.999
    correlations = np.corrcoef(u.T)[np.triu_indices(len(i), 1)]
    assert abs(correlations).max() < 5 / np.sqrt(len(seeds))


def test_torch_and_the_kernels_agree():
    rows, columns = np.arange(5, 25), np.arange(100_000, 100_128)
    for seed in (0, 12345, 2**63 - 1, 2**64 - 1):
        expected = pair_uniforms(seed, rows[:, None], columns)
        found = pair_uniforms(seed, torch.tensor(rows)[:, None], torch.tensor(columns))
        np.testing.assert_array_equal(found.numpy(), expected)


def test_the_compiled_draw_keeps_the_same_pairs():
    compiled = load("svnn.covariance.tiles._tile_kernels")
    if compiled is None:
        pytest.skip("numba is switched off or not installed")
    tile = np.random.default_rng(0).standard_normal((20, 128)).astype(np.float32)
    kept = tile.copy()
    compiled.draw(kept, 5, 100, 0.4, 0.0, 2**62 + 1)
    u = pair_uniforms(2**62 + 1, np.arange(5, 25)[:, None], np.arange(100, 228))
    np.testing.assert_array_equal(kept, np.where(u < 0.4 * abs(tile).astype(np.float64), tile, 0))


def test_single_pairs_and_python_integers():
    assert pair_uniforms(0, 3, 2) == pair_uniforms(0, 3, np.arange(4))[2]
    assert pair_uniforms(2**64 + 5, 1, 2) == pair_uniforms(5, 1, 2)
