"""Choice of the threshold by sample splitting (Bickel & Levina 2008)."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from svnn._types import RandomState
from svnn.functional import sample_moments
from svnn.functional._array import generator, namespace
from svnn.functional.moments import check_weight

_GRID_POINTS = 41


def cross_validated_tau(
    X: Any,
    rule: Callable[[Any, Any], Any],
    n_splits: int,
    random_state: RandomState,
    sample_weight: Any = None,
    missing: str = "raise",
) -> float:
    r"""Return the :math:`\tau` whose thresholded estimate best predicts held-out correlations.

    The rows are split at random into :math:`t(1 - 1/\log t)` and :math:`t/\log t`; the risk of
    :math:`\tau` is the mean of :math:`\|\eta_{\tau/\sqrt{t_1}}(R_1) - R_2\|_F^2` over the splits.
    """
    weight = check_weight(sample_weight, X)
    X, weight = X[weight > 0], weight[weight > 0]
    t, n = len(X), X.shape[1]
    if t < 4:
        raise ValueError(f'tau="cv" needs at least 4 samples to split, got {t}; use tau="universal".')
    if isinstance(n_splits, bool) or not isinstance(n_splits, Integral) or n_splits < 1:
        raise ValueError(f"n_splits must be an integer >= 1, got {n_splits!r}.")
    held_out = min(max(round(t / math.log(t)), 2), t - 2)
    highest = min(4 * math.sqrt(math.log(max(n, 2))), math.sqrt(t - held_out))
    grid = np.linspace(0, highest, _GRID_POINTS)
    risk = np.zeros(_GRID_POINTS)
    rng = generator(random_state)
    for _ in range(n_splits):
        order = rng.permutation(t)
        try:
            train, t1 = _correlations(X, order[held_out:], weight, missing)
            test, _ = _correlations(X, order[:held_out], weight, missing)
        except ValueError as error:
            raise ValueError(f'tau="cv" cannot split this data: {error} Or use tau="universal".') from error
        for i, tau in enumerate(grid):
            risk[i] += float(((rule(train, tau / t1**0.5) - test) ** 2).sum())
    return float(grid[np.argmin(risk)])


def _correlations(X: Any, rows: np.ndarray, weight: Any, missing: str) -> tuple[Any, Any]:
    _, C, t = sample_moments(X[rows], 0, weight[rows], missing)
    sd = namespace(X).clip(C.diagonal(), 0, None) ** 0.5
    sd = namespace(X).where(sd > 0, sd, 1 + 0 * sd)
    return C / (sd[:, None] * sd), t
