"""The statistics of ``make rivals``, against examples worked by hand and against scipy."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from _ranks import alike, critical_difference, friedman, mean, paired, ranks
from scipy.stats import friedmanchisquare, sem

#: Errors of three models on four tables. The ranks are (1, 2, 3), (1, 3, 2), (2, 1, 3), (1, 2, 3): sums 5, 8, 11.
WORKED = [[0.1, 0.2, 0.3], [5.0, 7.0, 6.0], [2.0, 1.0, 3.0], [1.0, 2.0, 9.0]]


def test_friedman_of_an_example_worked_by_hand():
    ranked = ranks(WORKED)
    assert ranked.tolist() == [[1, 2, 3], [1, 3, 2], [2, 1, 3], [1, 2, 3]]
    assert ranked.mean(0).tolist() == [1.25, 2.0, 2.75]
    # 12 / (n k (k + 1)) · Σ R² − 3 n (k + 1) = 12 / 48 · (25 + 64 + 121) − 48 = 4.5; with k − 1 = 2 the tail of χ² is
    # exp(−4.5 / 2).
    statistic, p = friedman(ranked)
    assert statistic == pytest.approx(4.5)
    assert p == pytest.approx(exp(-2.25))


def test_nemenyi_of_the_same_example():
    # The table of Demšar (2006) has 2.343 for three models at 5 %; sqrt(3 · 4 / (6 · 4)) = sqrt(1 / 2).
    difference = critical_difference(models=3, tables=4)
    assert difference == pytest.approx(2.343 * sqrt(0.5), rel=1e-3)
    assert alike([1.25, 2.0, 2.75], difference) == [(0, 2)]


@pytest.mark.parametrize(
    ("models", "level", "q"), [(2, 0.05, 1.960), (5, 0.05, 2.728), (9, 0.05, 3.102), (4, 0.1, 2.291)]
)
def test_the_quantiles_are_those_of_the_printed_table(models, level, q):
    assert critical_difference(models, 1, level) == pytest.approx(q * sqrt(models * (models + 1) / 6), rel=1e-3)


def test_ties_share_their_ranks_and_are_corrected_for(rng):
    assert ranks([[1.0, 1.0, 2.0], [3.0, 3.0, 3.0]]).tolist() == [[1.5, 1.5, 3.0], [2.0, 2.0, 2.0]]
    scores = rng.integers(0, 4, size=(12, 5)).astype(float)
    expected = friedmanchisquare(*scores.T)
    assert friedman(ranks(scores)) == pytest.approx((expected.statistic, expected.pvalue))
    assert friedman(ranks(np.ones((3, 4)))) == (0.0, 1.0)


def test_paired_differences_by_hand():
    assert paired([3.0, 5.0, 7.0], [2.0, 3.0, 4.0]) == pytest.approx((2.0, 1 / sqrt(3)))
    assert paired([1.0, 2.0], [1.0, 2.0]) == (0.0, 0.0)
    one, unknown = paired([2.0], [1.5])
    assert one == 0.5 and np.isnan(unknown)
    with pytest.raises(ValueError, match=r"zip\(\) argument 2 is shorter"):
        paired([1.0, 2.0], [1.0])


def test_the_standard_error_is_that_of_scipy(rng):
    a, b = rng.standard_normal((2, 10))
    assert paired(a, b)[1] == pytest.approx(sem(a - b))


def test_a_mean_does_not_depend_on_the_order(rng):
    values = rng.standard_normal(50) * 10.0 ** rng.integers(-8, 9, 50)
    assert mean(values) == mean(values[::-1]) == mean(np.sort(values))
    assert mean([1.0, 2.0, 6.0]) == 3.0


@pytest.mark.parametrize(
    ("mean_ranks", "difference", "groups"),
    [
        ([1.0, 2.0, 3.0, 4.0], 1.0, [(0, 1), (1, 2), (2, 3)]),
        ([4.0, 1.0, 3.9, 2.0], 1.5, [(0, 1), (2, 3)]),
        ([1.0, 1.5, 1.9, 6.0], 1.0, [(0, 2)]),
        ([1.0, 3.0, 5.0], 0.5, []),
    ],
)
def test_groups_are_as_long_as_they_can_be(mean_ranks, difference, groups):
    assert alike(mean_ranks, difference) == groups
