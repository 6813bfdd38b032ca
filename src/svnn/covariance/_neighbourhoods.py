"""Neighbourhood selection: which features a lasso needs to predict each of them (Meinshausen & Bühlmann 2006)."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning

from svnn._types import BoolArray, FloatArray


def neighbourhoods(Z: FloatArray, n_samples: float, alpha: float, rule: str) -> BoolArray:
    """Return which pairs of standardised features (rows, N) are neighbours: a symmetric (N, N) matrix.

    Each feature is predicted from the others with the same penalty. With the rule "and" two features are neighbours
    where each needs the other, with "or" where one does.
    """
    from sklearn.linear_model import Lasso  # slow to import

    n = Z.shape[1]
    penalty = float(-ndtri(alpha / (2 * n**2))) / n_samples**0.5
    chosen = np.zeros((n, n), dtype=bool)
    table = np.asfortranarray(Z, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the support is settled long before the coefficients
        for i in range(n):
            target = table[:, i].copy()
            table[:, i] = 0.0  # then it gets no coefficient
            lasso = Lasso(alpha=penalty, fit_intercept=False, max_iter=300, copy_X=False).fit(table, target)
            table[:, i] = target
            chosen[i] = lasso.coef_ != 0
    return chosen & chosen.T if rule == "and" else chosen | chosen.T
