"""Hard thresholding, and how it and soft thresholding choose their one threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from svnn._parameters import boolean, declared, either, fitted, integer, number, parameter, seed, share
from svnn._types import AnyArray, Array, ColumnLike, Numbers, RandomState
from svnn.covariance._correlation import moments_by, stand_in_table
from svnn.covariance._sparsifier import Estimate, Sparsifier
from svnn.functional import (
    Moments,
    largest_pairs,
    pairs_for_density,
    threshold_for_density,
    top_k_pairs,
    top_k_thresholds,
    universal_threshold,
)
from svnn.functional._array import as_floating, generator, namespace
from svnn.functional.moments import check_weight
from svnn.functional.thresholds import RULES

if TYPE_CHECKING:
    from svnn.covariance._soft_threshold import SoftThreshold

#: Features that tau="cv" looks at when there are more than dense_limit.
_CV_FEATURES = 1024
_NO_EDGE = "tau={:g} leaves no edge: every covariance is below tau/sqrt(t). The result is diagonal; use a smaller tau."
#: Values of tau that tau="cv" compares.
_GRID_POINTS = 41


@declared
class HardThreshold(Sparsifier):
    r"""Sample covariance without its small entries.

    .. math:: \tilde c_{ij} = \hat c_{ij} \text{ if } |\hat c_{ij}| \ge \tau / \sqrt t, \text{ else } 0

    which is Definition 2 of the paper. Variances are kept, unless ``keep_diagonal`` is False.

    See Also
    --------
    SoftThreshold : also shrinks what it keeps.
    AdaptiveThreshold : gives every entry a threshold of its own.

    Notes
    -----
    A ``tau`` so large that no edge survives leaves a diagonal matrix, with a warning.

    With more than ``dense_limit`` features, ``tau="cv"`` looks at 1024 of them, drawn at random, and missing values are
    an error. Tensors on a GPU are multiplied there: in half precision first, and again in single precision where the
    result may count, so that it is that of single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import HardThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> X[:, 1] += X[:, 0]
    >>> HardThreshold().fit(X).covariance_.round(1)
    array([[0.8, 0.8, 0. , 0. , 0. ],
           [0.8, 1.8, 0. , 0. , 0. ],
           [0. , 0. , 0.9, 0. , 0. ],
           [0. , 0. , 0. , 1.1, 0. ],
           [0. , 0. , 0. , 0. , 1. ]])
    """

    tau: float | str = parameter(
        default="universal",
        rule=either(number(0), "universal", "cv"),
        doc=r"""A number is the tau of the paper: the threshold :math:`\tau/\sqrt t` applies to covariances. "universal"
        takes :math:`\text{scale}\sqrt{\log N/t}`, and "cv" finds the best tau by splitting the samples (Bickel & Levina
        2008). These two apply to correlations, so that units do not matter.""",
    )
    density: float | None = parameter(
        default=None,
        rule=either(share(), None),
        doc="""Keep exactly the ``round(density * N(N-1)/2)`` largest off-diagonal pairs instead (all that are not zero,
        where these are fewer); the paper calls that thresholding "at p". Of equal ones at the cut the first are kept,
        and none of them becomes zero, see :func:`svnn.functional.threshold_for_density`. Not together with a
        ``tau``.""",
        instead_of=("tau",),
    )
    top_k: int | None = parameter(
        default=None,
        rule=either(integer(1), None),
        doc="""Keep the pairs that are among the ``top_k`` largest covariances of either feature instead, see
        :func:`svnn.functional.top_k_pairs`. Not together with a ``tau`` or a ``density``.""",
        instead_of=("density", "tau"),
    )
    keep_diagonal: bool = parameter(
        default=True,
        rule=boolean(),
        doc="Never threshold the variances. False is the definition of the paper, word by word.",
    )
    scale: float = parameter(default=2.0, rule=number(0), doc="Factor of the universal threshold.")
    n_splits: int = parameter(default=10, rule=integer(1), doc='Number of random splits for ``tau="cv"``.')
    random_state: RandomState = parameter(default=None, rule=seed(), doc="Seed of those splits.")

    threshold_: float | AnyArray = fitted(
        kind="float or array",
        doc="""The threshold that was applied: to correlations with ``tau="universal"`` and "cv", to covariances
        otherwise. It is an (N, N) array where missing values make t differ between pairs, and an (N,) array with
        ``top_k``, where the threshold of a pair is the smaller one of its two.""",
    )
    tau_: float = fitted(kind="float", doc='The value that was chosen, with ``tau="cv"`` only.')

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        return threshold_moments(self, "hard", X, moments, sample_weight)

    def _needs_rows(self) -> str:
        return needs_rows(self)

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        return threshold_tiles(self, "hard", X, sample_weight)


class Chosen(NamedTuple):
    """A threshold as it is reported and as it applies to covariances, the tau behind it, and the pairs that may stay.

    The mask of the pairs breaks ties at the threshold, so that their number is exact.
    """

    threshold: float | AnyArray
    of_pairs: float | AnyArray
    tau: float | None = None
    pairs: AnyArray | None = None


def needs_rows(estimator: HardThreshold | SoftThreshold) -> str:
    """Say why means and covariances are not enough, where they are not."""
    if estimator.density is not None or estimator.top_k is not None or estimator.tau != "cv":
        return ""
    return (
        'tau="cv" splits all rows, not only their means and covariances; use tau="universal" or a number (such as the '
        "tau_ of an earlier fit), or fit them at once"
    )


def threshold_moments(
    estimator: HardThreshold | SoftThreshold,
    rule: str,
    X: AnyArray,
    moments: Moments,
    sample_weight: ColumnLike | None,
) -> Estimate:
    """Return the sample covariance with a rule applied to it, "hard" or "soft"."""
    chosen = choose(estimator, rule, X, moments, sample_weight)
    C = RULES[rule](moments.covariance, chosen.of_pairs, estimator.keep_diagonal)
    if chosen.pairs is not None:
        C = namespace(C).where(chosen.pairs, C, 0 * C)
    learned = {"threshold_": chosen.threshold, "tau_": chosen.tau}
    warning = _NO_EDGE.format(estimator.tau) if isinstance(estimator.tau, Real) else ""
    return Estimate(C, moments.location, learned, warning)


def threshold_tiles(
    estimator: HardThreshold | SoftThreshold, rule: str, X: AnyArray, sample_weight: ColumnLike | None
) -> Estimate:
    """Return what :func:`threshold_moments` does, from tiles of the covariance."""
    from svnn.covariance import tiles

    correlations = estimator.density is None and estimator.top_k is None and isinstance(estimator.tau, str)
    limit, tau = tiles.memory_bytes(estimator.memory_limit), None
    data = tiles.read(X, sample_weight, correlations=correlations, limit=limit, kind=estimator.correlation)
    grid, keep = tiles.over(data, limit, bool(estimator.verbose)), bool(estimator.keep_diagonal)
    if estimator.density is not None:
        found = tiles.at_density(grid, rule, pairs_for_density(X.shape[1], estimator.density), keep)
    elif estimator.top_k is not None:
        found = tiles.top_k(grid, rule, estimator.top_k, keep)
    else:
        threshold, tau = one_threshold(estimator, rule, X, data.n_samples, sample_weight)
        found = tiles.above_threshold(grid, rule, float(threshold), keep)
    learned = {"threshold_": found.threshold, "tau_": tau}
    warning = _NO_EDGE.format(estimator.tau) if isinstance(estimator.tau, Real) else ""
    return Estimate(found.matrix, found.location, learned, warning)


def choose(
    estimator: HardThreshold | SoftThreshold,
    rule: str,
    X: AnyArray,
    moments: Moments,
    sample_weight: ColumnLike | None,
) -> Chosen:
    """Return the threshold that the parameters ask for."""
    C, xp = moments.covariance, namespace(moments.covariance)
    if estimator.density is not None:
        cut = threshold_for_density(C, estimator.density)
        return Chosen(cut, cut, pairs=largest_pairs(C, estimator.density))
    if estimator.top_k is not None:
        of_features = top_k_thresholds(C, estimator.top_k)
        of_pairs = xp.minimum(of_features[:, None], of_features)
        return Chosen(of_features, of_pairs, pairs=top_k_pairs(C, estimator.top_k))
    threshold, tau = one_threshold(estimator, rule, X, moments.n_samples, sample_weight)
    if isinstance(estimator.tau, Real):
        return Chosen(threshold, threshold)
    sd = xp.clip(C.diagonal(), 0, None) ** 0.5
    return Chosen(threshold, threshold * (sd[:, None] * sd), tau)


def one_threshold(
    estimator: HardThreshold | SoftThreshold,
    rule: str,
    X: AnyArray,
    n_samples: Numbers,
    sample_weight: ColumnLike | None,
) -> tuple[Numbers, float | None]:
    """Return the threshold by ``tau``, and the tau that cross-validation found where it was asked for."""
    if isinstance(estimator.tau, Real):
        return estimator.tau / n_samples**0.5, None
    if estimator.tau == "universal":
        return universal_threshold(n_samples, X.shape[1], estimator.scale), None
    if X.shape[1] > estimator.dense_limit:  # its correlations would be N×N matrices
        if X.shape[1] > _CV_FEATURES:
            X = X[:, np.sort(generator(estimator.random_state).choice(X.shape[1], _CV_FEATURES, replace=False))]
        X = as_floating(X)
        if estimator.correlation != "pearson":  # up to dense_limit features the table stands in already
            table: Any = X
            X, sample_weight, _ = stand_in_table(table, sample_weight, estimator.correlation)
    seen: Any = X  # an array or a tensor
    tau = cross_validated_tau(estimator, rule, seen, sample_weight)
    return tau / n_samples**0.5, tau


def cross_validated_tau(
    estimator: HardThreshold | SoftThreshold, rule: str, X: Array, sample_weight: ColumnLike | None
) -> float:
    r"""Return the :math:`\tau` whose thresholded estimate best predicts held-out correlations (Bickel & Levina 2008).

    The rows are split at random into :math:`t(1 - 1/\log t)` and :math:`t/\log t`; the risk of :math:`\tau` is the mean
    of :math:`\|\eta_{\tau/\sqrt{t_1}}(R_1) - R_2\|_F^2` over the splits.
    """
    t, n = int((check_weight(sample_weight, X) > 0).sum()), X.shape[1]
    highest = min(4 * math.sqrt(math.log(max(n, 2))), math.sqrt(max(t - _held_out(t), 1)))
    grid = np.linspace(0, highest, _GRID_POINTS)
    risk = np.zeros(_GRID_POINTS)
    for train, t1, test in held_out_correlations(estimator, X, sample_weight, 'tau="cv"', 'tau="universal"'):
        for i, tau in enumerate(grid):
            thresholded = RULES[rule](train, tau / t1**0.5, estimator.keep_diagonal)
            risk[i] += float(((thresholded - test) ** 2).sum())
    return float(grid[np.argmin(risk)])


def _held_out(t: int) -> int:
    return min(max(round(t / math.log(max(t, 2))), 2), t - 2)


def held_out_correlations(
    estimator: Any, X: Array, sample_weight: ColumnLike | None, choice: str, instead: str
) -> Iterator[tuple[Array, Any, Array]]:
    r"""Yield the correlations of some rows, their number, and the correlations of the others, for random splits.

    Of t rows :math:`t/\log t` are held out. The estimator says ``n_splits``, ``random_state`` and what to do about
    missing values. ``choice`` is the parameter that wants this, ``instead`` what to use where it cannot be had.
    """
    weight = check_weight(sample_weight, X)
    X, weight = X[weight > 0], weight[weight > 0]
    t = len(X)
    if t < 4:
        raise ValueError(f"{choice} needs at least 4 samples to split, got {t}; use {instead}.")
    held_out, rng = _held_out(t), generator(estimator.random_state)
    for _ in range(estimator.n_splits):
        order = rng.permutation(t)
        try:
            train, t1 = _correlations(estimator, X, order[held_out:], weight)
            test, _ = _correlations(estimator, X, order[:held_out], weight)
        except ValueError as error:
            raise ValueError(f"{choice} cannot split this data: {error} Or use {instead}.") from error
        yield train, t1, test


def _correlations(
    estimator: HardThreshold | SoftThreshold, X: Array, rows: np.ndarray, weight: Array
) -> tuple[Array, Any]:
    part: Any = X[rows]
    _, C, t = moments_by(part, weight[rows], estimator.correlation, estimator.missing, estimator.base)
    sd = namespace(X).clip(C.diagonal(), 0, None) ** 0.5
    sd = namespace(X).where(sd > 0, sd, 1 + 0 * sd)
    return C / (sd[:, None] * sd), t
