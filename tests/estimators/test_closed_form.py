"""Ridge regression, linear discriminants, and their update by new rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge

from strategies import seeds
from svnn.estimators._closed_form import (
    SHRINKAGES,
    Linear,
    discriminants,
    gram_matrix,
    ridge,
    strongest,
    updated_linear,
)
from svnn.estimators._units import softmax

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
        discriminants(Z, labels, weight, 2), discriminants(Z[:, order], labels, weight, 2), strict=True
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
    found = discriminants(Z, labels, np.ones(t), 3)
    assert len(found) == len(SHRINKAGES)
    for shrinkage, linear in zip(SHRINKAGES, found, strict=True):
        theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(Z / unit, labels)
        np.testing.assert_allclose(softmax(linear(Z)), theirs.predict_proba(Z / unit), rtol=1e-5, atol=1e-7)


def test_units_and_constant_features_do_not_matter_to_discriminants():
    Z, labels = clusters(1)
    more = np.hstack([Z * [1e-3, 1.0, 1e3, 10.0, 0.1], np.full((60, 2), 4.0)])
    for one, other in zip(
        discriminants(Z, labels, np.ones(60), 3), discriminants(more, labels, np.ones(60), 3), strict=True
    ):
        np.testing.assert_allclose(softmax(other(more)), softmax(one(Z)), rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(other.weight[:, 5:], 0)


def test_rows_without_weight_do_not_count_in_discriminants():
    Z, labels = clusters(2)
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    weight[::4] = 0
    kept = weight > 0
    pairs = zip(
        discriminants(Z, labels, weight, 3), discriminants(Z[kept], labels[kept], 7 * weight[kept], 3), strict=True
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
    two = discriminants(Z[seen], labels[seen] // 2, np.ones(seen.sum()), 2)
    three = discriminants(Z[seen], labels[seen], np.ones(seen.sum()), 3)
    for linear, expected in zip(three, two, strict=True):
        probabilities = softmax(linear(far))
        assert (probabilities[:, 1] < 1e-9).all()
        np.testing.assert_allclose(probabilities[:, [0, 2]], softmax(expected(far)), rtol=1e-6, atol=1e-9)


def test_a_linear_function_of_a_table():
    linear = Linear(np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]), np.array([0.5, 0.0, 1.0]))
    np.testing.assert_allclose(linear(np.array([[1.0, 1.0], [0.0, 2.0]])), [[3.5, -1, 4], [4.5, -2, 1]])


# -- new rows ------------------------------------------------------------------------------------------------


def spread(gram):
    """The penalty that an update adds to the second moments: 0.3 of the mean variance, in every direction."""
    mean = gram[-1, :-1] / gram[-1, -1]
    variances = gram.diagonal()[:-1] / gram[-1, -1] - mean**2
    return 0.3 * gram[-1, -1] * variances.mean()


@given(seeds, st.integers(1, 3))
def test_an_update_of_least_squares_is_the_fit_of_all_rows(seed, n_outputs):
    """Up to the penalty on changes, in which all features count as varying a little."""
    Z, Y, weight = table(seed, 60, 4, n_outputs)
    old, new = slice(0, 40), slice(40, 60)
    first = LinearRegression().fit(Z[old], Y[old], weight[old])
    linear = Linear(first.coef_.reshape(n_outputs, -1), np.atleast_1d(first.intercept_))
    gram = gram_matrix(Z[old], weight[old])
    found = updated_linear(linear, Z[new], Y[new], weight[new], gram)
    # The same penalty on changes, as rows of a table.
    extra = np.sqrt(spread(gram)) * np.eye(4, 5)
    A = np.column_stack([Z, np.ones(60)])
    theta = np.column_stack(linear).T
    root = np.sqrt(weight)[:, None]
    expected = np.linalg.lstsq(np.vstack([root * A, extra]), np.vstack([root * Y, extra @ theta]), rcond=None)[0]
    np.testing.assert_allclose(np.column_stack(found), expected.T, rtol=1e-5, atol=1e-6)


def test_an_update_of_classes_minimises_its_objective():
    Z, labels = clusters(3)
    gram, linear = gram_matrix(Z[:40], np.ones(40)), discriminants(Z[:40], labels[:40], np.ones(40), 3)[4]
    weight = np.random.default_rng(0).uniform(0.5, 2, 20)
    new = (labels[40:] + (np.arange(20) % 3 == 0)) % 3  # a third of them other than before
    found = np.column_stack(updated_linear(linear, Z[40:], new, weight, gram))
    start, A = np.column_stack(linear), np.column_stack([Z[40:], np.ones(20)])
    M = (gram + spread(gram) * np.diag([1.0] * 5 + [0.0])) / 4

    def objective(flat):
        theta = flat.reshape(3, 6)
        surprise = -np.log(softmax(A @ theta.T)[np.arange(20), new])
        return weight @ surprise + np.einsum("ij,jk,ik->", theta - start, M, theta - start) / 2

    best = minimize(objective, start.ravel(), method="BFGS")
    assert objective(found.ravel()) <= best.fun + 1e-3 < objective(start.ravel())
    np.testing.assert_allclose(A @ found.T, A @ best.x.reshape(3, 6).T, atol=0.05)


def test_rows_without_weight_and_rows_that_fit_change_nothing():
    Z, Y, weight = table(0, 40, 4)
    linear, gram = ridge(Z, Y, weight), gram_matrix(Z, weight)
    same = updated_linear(linear, Z[:5] + 1, Y[:5], np.zeros(5), gram)
    np.testing.assert_allclose(np.column_stack(same), np.column_stack(linear))
    same = updated_linear(linear, Z[:5] + 1, linear(Z[:5] + 1), weight[:5], gram)
    np.testing.assert_allclose(np.column_stack(same), np.column_stack(linear), rtol=1e-6, atol=1e-8)
    other = updated_linear(linear, Z[:5] + 1, Y[:5] + 9, weight[:5], gram)
    assert abs(other(Z) - linear(Z)).max() > 0.1


def test_grams_add_up():
    Z, _, weight = table(0, 40, 4)
    np.testing.assert_allclose(
        gram_matrix(Z[:10], weight[:10]) + gram_matrix(Z[10:], weight[10:]), gram_matrix(Z, weight)
    )
    assert gram_matrix(Z, weight)[-1, -1] == pytest.approx(weight.sum())
