from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from svnn._compiled import load
from svnn.functional import pair_uniforms


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
