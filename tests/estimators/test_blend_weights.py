"""How much each part of a blend counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn.estimators._blend_weights import blend_in_words, class_weights, number_weights, sharpness, with_doubt
from svnn.estimators._units import softmax
from svnn.estimators.training import LOSSES


@given(seeds, st.floats(0.2, 5))
def test_sharpness_finds_how_sure_a_model_should_be(seed, factor):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((3000, 3))
    labels = np.array([rng.choice(3, p=each) for each in softmax(logits)])
    found, surprise = sharpness(factor * logits, labels, np.ones(3000))
    assert found * factor == pytest.approx(1, rel=0.2)
    expected = -np.log(softmax(found * factor * logits)[np.arange(3000), labels]).sum()
    assert surprise == pytest.approx(expected, rel=1e-6)


# -- weights of the parts --------------------------------------------------------------------------------------


def simplex(n, steps=100):
    """All weights of n parts on a grid."""
    if n == 1:
        return np.ones((1, 1))
    if n == 2:
        first = np.arange(steps + 1) / steps
        return np.stack([first, 1 - first], 1)
    return np.array([[i, j, steps - i - j] for i in range(steps + 1) for j in range(steps + 1 - i)]) / steps


def number_losses(weights, outputs, targets, weight, loss):
    """The mean loss of every row of ``weights``."""
    mixed = torch.from_numpy(np.tensordot(weights, outputs, 1))
    values = LOSSES[loss](mixed, torch.from_numpy(np.broadcast_to(targets, mixed.shape).copy())).mean(-1).numpy()
    return values @ weight / weight.sum()


@st.composite
def predictions(draw):
    """Outputs of some parts (parts, t, n_outputs), of differing quality; targets and weights."""
    rng = np.random.default_rng(draw(seeds))
    n, t, n_outputs = draw(st.integers(1, 3)), draw(st.integers(20, 60)), draw(st.integers(1, 2))
    targets = rng.standard_normal((t, n_outputs))
    errors = rng.uniform(0.2, 1.5, (n, 1, 1)) * rng.standard_normal((n, t, n_outputs))
    return targets * rng.uniform(0, 1, (n, 1, 1)) + errors, targets, rng.uniform(0.2, 1, t)


@pytest.mark.parametrize("loss", LOSSES)
@given(predictions())
def test_weights_have_the_least_loss_of_all(loss, problem):
    outputs, targets, weight = problem
    found = number_weights(outputs, targets, weight, loss)
    assert (found >= 0).all() and found.sum() == pytest.approx(1)
    grid = simplex(len(outputs))
    losses = number_losses(grid, outputs, targets, weight, loss)
    slack = 1 + (0.01 if loss == "absolute" else 1e-3)  # the absolute loss is rounded off near zero
    assert number_losses(found[None], outputs, targets, weight, loss)[0] <= slack * losses.min()
    if loss == "squared":  # so curved that its minimum is clear
        np.testing.assert_allclose(found, grid[losses.argmin()], atol=0.02)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_do_not_depend_on_the_unit_of_weights(loss):
    rng = np.random.default_rng(0)
    outputs, targets, weight = rng.standard_normal((3, 40, 2)), rng.standard_normal((40, 2)), rng.uniform(0, 1, 40)
    expected = number_weights(outputs, targets, weight, loss)
    np.testing.assert_allclose(number_weights(outputs, targets, 1e-6 * weight, loss), expected, atol=1e-8)
    more = np.concatenate([outputs, 9 + outputs[:, :5]], 1), np.concatenate([targets, -targets[:5]])
    np.testing.assert_allclose(number_weights(*more, np.append(weight, np.zeros(5)), loss), expected, atol=1e-8)


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1e3, 1e9, 1e30])
def test_weights_of_the_squared_loss_do_not_depend_on_the_unit_of_targets(unit):
    rng = np.random.default_rng(0)
    outputs, targets = rng.standard_normal((3, 40, 1)), rng.standard_normal((40, 1))
    outputs[0] += targets
    expected = number_weights(outputs, targets, np.ones(40), "squared")
    assert 0.3 < expected.max() < 0.95
    np.testing.assert_allclose(number_weights(unit * outputs, unit * targets, np.ones(40), "squared"), expected)


def test_a_part_without_errors_has_all_weight():
    targets = np.linspace(-1, 1, 30)[:, None]
    for loss in LOSSES:
        found = number_weights(np.array([targets + 1, targets]), targets, np.ones(30), loss)
        np.testing.assert_allclose(found, [0, 1], atol=1e-12)
        found = number_weights(np.array([targets, targets]), targets, np.ones(30), loss)  # no error at all
        assert (found >= 0).all() and found.sum() == pytest.approx(1)


@given(seeds, st.integers(1, 3), st.integers(2, 4))
def test_weights_of_classifiers_make_labels_most_likely(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    labels, weight = rng.integers(0, n_classes, 80), rng.uniform(0.2, 1, 80)
    logits = rng.standard_normal((n, 80, n_classes))
    logits[:, np.arange(80), labels] += rng.uniform(0, 3, (n, 80))
    found = class_weights(logits, labels, weight)
    assert (found >= 0).all() and found.sum() == pytest.approx(1)
    sure = [own * sharpness(own, labels, weight)[0] for own in logits]
    each = np.array([softmax(own)[np.arange(80), labels] for own in sure])

    def surprise(weights):
        return -np.log(weights @ each) @ weight / weight.sum()

    grid = simplex(n)
    assert surprise(found[None])[0] <= surprise(grid).min() + 1e-3
    assert surprise(found[None])[0] <= surprise(np.eye(n)).min() + 1e-6  # no part alone is better


def test_a_few_rows_do_not_outvote_the_prior():
    weights, prior = np.array([0.9, 0.1]), np.array([0.0, 1.0])
    np.testing.assert_allclose(with_doubt(weights, prior, 10), (weights + prior) / 2)
    np.testing.assert_allclose(with_doubt(weights, prior, 0), prior)
    np.testing.assert_allclose(with_doubt(weights, prior, 10**6), weights, atol=1e-6)


def test_probabilities_of_zero_do_not_matter():
    """Those of trees are often exactly 0, and the logarithm of what stands for them is very small."""
    log_probabilities = np.log(np.maximum(np.array([np.eye(3)[[0, 1, 2, 2]], np.full((4, 3), 1 / 3)]), 1e-12))
    found = class_weights(log_probabilities, np.array([0, 1, 2, 0]), np.ones(4))
    assert np.isfinite(found).all() and found.sum() == pytest.approx(1)


def test_a_blend_in_words():
    assert blend_in_words({"a": 0.5, "b": 0.495, "c": 0.005}) == "50 % a, 50 % b, 0 % c"
