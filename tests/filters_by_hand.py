"""Filters and matrices as a page of paper has them: explicit powers, no library."""

from __future__ import annotations

import numpy as np

#: What inequalities may miss by rounding.
SLACK = 1 + 1e-9


def polynomial(h, C):
    """The filter h_0 I + h_1 C + … + h_K C^K as a matrix."""
    return sum(tap * np.linalg.matrix_power(C, k) for k, tap in enumerate(h))


def symmetric(rng, n):
    """A random symmetric matrix, with eigenvalues of both signs."""
    A = rng.standard_normal((n, n))
    return A + A.T


def random_filter(rng, K, trial):
    """Random coefficients; in every third trial those of the power K alone."""
    return np.eye(K + 1)[K] if trial % 3 == 0 else rng.standard_normal(K + 1)
