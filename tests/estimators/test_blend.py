"""Linear models beside the networks, and how much each part counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from strategies import seeds
from svnn.estimators._blend import (
    SHRINKAGES,
    Linear,
    class_weights,
    discriminants,
    number_weights,
    ridge,
    sharpness,
    softmax,
    strongest,
)
from svnn.estimators.training import LOSSES

PENALTIES = np.logspace(-10, 2, 25)


# -- ridge regression ----------------------------------------------------------------------------------------


def table(seed, t, p, n_outputs=1):
    """Targets that are linear in some features, with noise, and weights."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((t, p)) @ rng.standard_normal((p, p)) + 3
    Y = Z[:, :2] @ rng.standard_normal((min(p, 2), n_outputs)) + rng.standard_normal((t, n_outputs)) - 7
    return Z, Y, rng.uniform(0.5, 2, t)


def largest_square(Z, weight):
    """The largest eigenvalue of the weighted, centred table."""
    A = np.sqrt(weight)[:, None] * (Z - np.average(Z, axis=0, weights=weight))
    return np.linalg.norm(A, 2) ** 2


def left_out_errors(Z, Y, weight, penalty):
    """The weighted squared errors of rows, each predicted by the others."""
    total = 0.0
    for row in range(len(Z)):
        others = np.arange(len(Z)) != row
        model = Ridge(alpha=penalty).fit(Z[others], Y[others], weight[others])
        total += weight[row] * np.square(model.predict(Z[[row]]).reshape(1, -1) - Y[row]).sum()
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("t", "p", "n_outputs"), [(40, 6, 1), (12, 30, 1), (25, 25, 2), (30, 1, 3)])
def test_ridge_is_that_of_scikit_learn_at_the_penalty_that_leaving_rows_out_finds(t, p, n_outputs, weighted):
    Z, Y, weight = table(0, t, p, n_outputs)
    weight = weight if weighted else np.ones(t)
    penalties = PENALTIES * largest_square(Z, weight)
    errors = [left_out_errors(Z, Y, weight, penalty) for penalty in penalties[8:]]  # the smallest are ill-conditioned
    chosen = np.flatnonzero(np.array(errors) <= 1.0001 * min(errors))[-1]  # the largest that is as good
    expected = Ridge(alpha=penalties[8:][chosen]).fit(Z, Y, weight)
    found = ridge(Z, Y, weight)
    assert found.weight.shape == (n_outputs, p) and found.bias.shape == (n_outputs,)
    predicted = expected.predict(Z).reshape(t, n_outputs)
    np.testing.assert_allclose(found(Z), predicted, rtol=1e-6, atol=1e-6)


@given(seeds, st.integers(3, 30), st.integers(1, 12), st.floats(1e-3, 1e3))
def test_neither_rows_without_weight_nor_the_unit_of_weights_matter_to_ridge(seed, t, p, unit):
    Z, Y, weight = table(seed, t, p)
    more = np.vstack([Z, 100 + Z[:2]]), np.vstack([Y, Y[:2] - 50])
    expected = ridge(Z, Y, weight)(Z)
    np.testing.assert_allclose(ridge(Z, Y, unit * weight)(Z), expected, rtol=1e-6, atol=1e-6)
    found = ridge(more[0], more[1], np.append(weight, [0.0, 0.0]))
    np.testing.assert_allclose(found(Z), expected, rtol=1e-6, atol=1e-6)


@given(seeds, st.integers(4, 30), st.integers(2, 12))
def test_the_order_of_the_features_does_not_matter(seed, t, p):
    Z, Y, weight = table(seed, t, p)
    order = np.random.default_rng(seed).permutation(p)
    np.testing.assert_allclose(ridge(Z[:, order], Y, weight)(Z[:, order]), ridge(Z, Y, weight)(Z), rtol=1e-6, atol=1e-6)
    labels = np.arange(t) % 2
    for one, other in zip(
        discriminants(Z, labels, 2, weight), discriminants(Z[:, order], labels, 2, weight), strict=True
    ):
        np.testing.assert_allclose(other(Z[:, order]), one(Z), rtol=1e-5, atol=1e-5)


def test_ridge_of_constant_features_is_the_mean():
    Y = np.arange(6.0)[:, None]
    found = ridge(np.full((6, 3), 2.0), Y, np.ones(6))
    np.testing.assert_allclose(found(np.zeros((2, 3))), 2.5)
    np.testing.assert_array_equal(found.weight, 0)


def test_the_last_of_equal_errors_is_the_strongest():
    assert strongest([3.0, 1.0, 2.0]) == 1
    assert strongest([3.0, 1.0, 1.0 + 1e-12, 2.0]) == 2
    assert strongest([0.0, 0.0, 1.0]) == 1


# -- linear discriminants ------------------------------------------------------------------------------------


def clusters(seed, t=60, p=5, n_classes=3):
    rng = np.random.default_rng(seed)
    labels = np.arange(t) % n_classes
    centres = 2 * rng.standard_normal((n_classes, p))
    return (rng.standard_normal((t, p)) + centres[labels]) @ rng.standard_normal((p, p)) + 5, labels


@pytest.mark.parametrize(("t", "p"), [(60, 5), (20, 30), (40, 1)])
def test_discriminants_are_those_of_scikit_learn(t, p):
    Z, labels = clusters(0, t, p)
    within = np.concatenate([Z[labels == k] - Z[labels == k].mean(0) for k in range(3)])
    unit = np.sqrt(np.mean(within**2, axis=0))
    found = discriminants(Z, labels, 3, np.ones(t))
    assert len(found) == len(SHRINKAGES)
    for shrinkage, linear in zip(SHRINKAGES, found, strict=True):
        theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(Z / unit, labels)
        np.testing.assert_allclose(softmax(linear(Z)), theirs.predict_proba(Z / unit), rtol=1e-5, atol=1e-7)


def test_units_and_constant_features_do_not_matter_to_discriminants():
    Z, labels = clusters(1)
    more = np.hstack([Z * [1e-3, 1.0, 1e3, 10.0, 0.1], np.full((60, 2), 4.0)])
    for one, other in zip(
        discriminants(Z, labels, 3, np.ones(60)), discriminants(more, labels, 3, np.ones(60)), strict=True
    ):
        np.testing.assert_allclose(softmax(other(more)), softmax(one(Z)), rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(other.weight[:, 5:], 0)


def test_rows_without_weight_do_not_count_in_discriminants():
    Z, labels = clusters(2)
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    weight[::4] = 0
    kept = weight > 0
    pairs = zip(
        discriminants(Z, labels, 3, weight), discriminants(Z[kept], labels[kept], 3, 7 * weight[kept]), strict=True
    )
    for one, other in pairs:
        np.testing.assert_allclose(one(Z), other(Z), rtol=1e-6, atol=1e-8)


@given(seeds, st.floats(1, 20))
def test_a_class_without_rows_is_never_the_most_likely(seed, distance):
    """Also far from all classes, where the logits of the others are small."""
    rng = np.random.default_rng(seed)
    Z, labels = clusters(seed)
    seen = labels != 1
    far = distance * rng.standard_normal((50, 5)) + Z.mean(0)
    two = discriminants(Z[seen], labels[seen] // 2, 2, np.ones(seen.sum()))
    three = discriminants(Z[seen], labels[seen], 3, np.ones(seen.sum()))
    for linear, expected in zip(three, two, strict=True):
        probabilities = softmax(linear(far))
        assert (probabilities[:, 1] < 1e-9).all()
        np.testing.assert_allclose(probabilities[:, [0, 2]], softmax(expected(far)), rtol=1e-6, atol=1e-9)


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


def test_a_linear_function_of_a_table():
    linear = Linear(np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]), np.array([0.5, 0.0, 1.0]))
    np.testing.assert_allclose(linear(np.array([[1.0, 1.0], [0.0, 2.0]])), [[3.5, -1, 4], [4.5, -2, 1]])
