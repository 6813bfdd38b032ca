from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import covariances, densities, tied_matrices
from svnn import functional as F
from svnn.functional.thresholds import RULES

thresholds = st.floats(0, 20)


def off(C):
    return C[~np.eye(len(C), dtype=bool)]


@given(covariances(), thresholds)
def test_hard_keeps_or_drops(C, s):
    H = F.hard_threshold(C, s)
    np.testing.assert_array_equal(off(H), np.where(abs(off(C)) >= s, off(C), 0))
    np.testing.assert_array_equal(np.diag(H), np.diag(C))


@given(covariances(), thresholds)
def test_soft_moves_both_signs_towards_zero(C, s):
    S = F.soft_threshold(C, s)
    kept = abs(off(C)) > s
    np.testing.assert_allclose(abs(off(S))[kept], abs(off(C))[kept] - s, atol=1e-12)
    assert (np.sign(off(S))[kept] == np.sign(off(C))[kept]).all()
    assert (off(S)[~kept] == 0).all()
    np.testing.assert_array_equal(np.diag(S), np.diag(C))


@pytest.mark.parametrize("make", [np.array, torch.tensor])
@pytest.mark.parametrize("value", [0.25, -0.25])
def test_an_entry_at_the_threshold(make, value):
    """Hard thresholding keeps what is as large as the threshold (>=); the others bring it to zero."""
    C = make([[1.0, value], [value, 1.0]])
    assert float(F.hard_threshold(C, 0.25)[0, 1]) == value
    assert float(F.hard_threshold(C, 0.250001)[0, 1]) == 0
    for rule in (F.soft_threshold, F.scad_threshold, F.adaptive_lasso_threshold):
        assert float(rule(C, 0.25)[0, 1]) == 0
        assert float(rule(C, 0.125)[0, 1]) != 0


def test_soft_shrinks_negatives():
    C = np.array([[1.0, -0.6], [-0.6, 1.0]])
    assert F.soft_threshold(C, 0.2)[0, 1] == pytest.approx(-0.4)


def test_literal_definition_thresholds_the_diagonal():
    C = np.diag([1.0, 0.1])
    np.testing.assert_array_equal(F.hard_threshold(C, 0.5, keep_diagonal=False), np.diag([1.0, 0.0]))
    np.testing.assert_array_equal(F.soft_threshold(C, 0.5, keep_diagonal=False), np.diag([0.5, 0.0]))


@given(covariances(), st.floats(0.01, 20))
def test_scad_and_adaptive_lasso_lie_between_soft_and_hard(C, s):
    soft, hard = abs(F.soft_threshold(C, s)), abs(F.hard_threshold(C, s))
    for rule in (F.scad_threshold, F.adaptive_lasso_threshold):
        result = abs(rule(C, s))
        assert (result >= soft - 1e-9 * abs(C)).all()
        assert (result <= hard + 1e-9 * abs(C)).all()


@pytest.mark.parametrize("rule", RULES)
def test_rules_leave_large_entries_nearly_alone(rule):
    C = np.array([[1.0, 1.0], [1.0, 1.0]])
    expected = 0.99 if rule == "soft" else 1.0
    assert RULES[rule](C, 0.01)[0, 1] == pytest.approx(expected, abs=1e-7)


def test_scad_is_continuous_at_its_knots():
    s, a = 0.1, 3.7
    for knot in (2 * s, a * s):
        below, above = (F.scad_threshold(np.array([[1, c], [c, 1]]), s)[0, 1] for c in (knot - 1e-9, knot + 1e-9))
        assert below == pytest.approx(above, abs=1e-7)


@given(tied_matrices() | covariances(), densities)
def test_largest_pairs_is_exact_and_symmetric(C, density):
    mask = F.largest_pairs(C, density)
    n = len(C)
    kept = mask[np.triu_indices(n, 1)]
    assert kept.sum() == F.pairs_for_density(n, density) == round(density * n * (n - 1) / 2)
    assert (mask == mask.T).all() and mask.diagonal().all()
    sizes = abs(C[np.triu_indices(n, 1)])
    if kept.any() and not kept.all():
        assert sizes[kept].min() >= sizes[~kept].max()


@given(covariances(), densities)
def test_threshold_for_density_serves_hard_and_soft(C, density):
    threshold = F.threshold_for_density(C, density)
    expected = F.pairs_for_density(len(C), density)
    for rule in (F.hard_threshold, F.soft_threshold):
        assert np.count_nonzero(np.triu(rule(C, threshold), 1)) == expected


def test_universal_threshold_is_scale_times_root_log_n_over_t():
    assert F.universal_threshold(100, 50, scale=3) == pytest.approx(3 * np.sqrt(np.log(50) / 100))


@given(covariances(), thresholds, densities)
def test_torch_gives_the_same_numbers(C, s, density):
    T = torch.tensor(C)
    for rule in RULES.values():
        result = rule(T, s)
        assert isinstance(result, torch.Tensor) and result.device == T.device
        np.testing.assert_allclose(result.numpy(), rule(C, s), rtol=1e-14)
    np.testing.assert_array_equal(F.largest_pairs(T, density).numpy(), F.largest_pairs(C, density))
    assert F.threshold_for_density(T, density) == F.threshold_for_density(C, density)


def test_float32_stays_float32():
    assert F.soft_threshold(np.eye(2, dtype=np.float32), 0.1).dtype == np.float32
    assert F.soft_threshold(torch.eye(2), 0.1).dtype == torch.float32


@pytest.mark.parametrize(
    ("C", "threshold", "message"),
    [
        (np.eye(2), -0.1, "threshold must be a number >= 0"),
        (np.eye(2), np.nan, "threshold must be a number >= 0"),
        (np.ones((2, 3)), 0.1, "square"),
        (np.array([[1, np.nan], [np.nan, 1]]), 0.1, "NaN"),
        (np.array([["a", "b"], ["b", "c"]]), 0.1, "real numbers"),
    ],
)
def test_bad_input_is_named(C, threshold, message):
    with pytest.raises(ValueError, match=message):
        F.hard_threshold(C, threshold)


@pytest.mark.parametrize("density", [-0.1, 1.1, "half", None, True])
def test_density_must_be_a_share(density):
    with pytest.raises(ValueError, match="density must be a number between 0 and 1"):
        F.threshold_for_density(np.eye(3), density)
