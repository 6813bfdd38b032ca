"""Sample moments as an estimator asks for them: incremental, of other correlations, by other estimators, of splits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from svnn._types import AnyArray, Array, ColumnLike
from svnn.functional import Moments, kendall_tau, sample_moments
from svnn.functional._array import generator, is_torch, like, namespace, to_numpy
from svnn.functional._centring import centre, check_variances, deviation, is_constant, scaled
from svnn.functional._matrix import numpy_matrix, stored_as
from svnn.functional.correlations import transformed_rows
from svnn.functional.moments import (
    check_ddof,
    check_weight,
    effective_samples,
    fill_missing,
    observations,
    weighted_moments,
)

#: The values of ``correlation``.
CORRELATIONS = ("pearson", "spearman", "kendall", "biweight")
#: Values of a table that are ranked at once.
_VALUES = 2**20


# -- incremental moments --------------------------------------------------------------------------


class Totals(NamedTuple):
    """Mean, covariance, smallest and largest values of the rows so far, and the sums of their weights and squares.

    Weights are in units of ``largest``, the largest of them.
    """

    location: AnyArray
    covariance: AnyArray
    low: AnyArray
    high: AnyArray
    weight: float
    squares: float
    largest: float

    def moments(self, ddof: float = 0) -> Moments:
        """Return the sample moments of the rows so far; constant features have covariances of exactly zero."""
        low: Any = self.low  # arrays or tensors, all of the same type
        high: Any = self.high
        variance: Any = self.covariance.diagonal()
        n_samples = self.weight**2 / self.squares
        if ddof:
            check_ddof(n_samples, ddof)
        constant = is_constant(low, high)
        check_variances(variance, constant)
        covariance = self.covariance / (1 - ddof / n_samples)
        if bool(constant.any()):
            varies = ~constant
            covariance = namespace(covariance).where(varies[:, None] & varies, covariance, 0 * covariance)
        return Moments(self.location, covariance, n_samples)


def decaying(sample_weight: ColumnLike | None, halflife: float | None, X: Any) -> ColumnLike | None:
    r"""Return weights times :math:`2^{-a/h}`, with ``a`` the age of a row: the last one has age 0, the first ``t - 1``.

    Without a half-life the weights come back as they are. A factor below the square of the rounding unit, relative to
    the newest row of some weight, is zero: such a row's part of a covariance is lost in rounding.

    Examples
    --------
    >>> import numpy as np
    >>> decaying(None, 1, np.zeros((3, 2)))
    array([0.25, 0.5 , 1.  ])
    """
    if halflife is None:
        return sample_weight
    t = X.shape[0]
    given, largest = (
        check_weight(sample_weight, np.empty((t, 1))),
        1.0 if sample_weight is None else float(to_numpy(sample_weight).max()),
    )
    newest = int(np.flatnonzero(given)[-1])
    factor = 0.5 ** (np.maximum(newest - np.arange(t), 0) / float(halflife))
    single = str(X.dtype).endswith("float32")
    factor[factor < np.finfo(np.float32 if single else np.float64).eps ** 2] = 0
    if np.count_nonzero(given) > 1 == np.count_nonzero(given * factor):
        raise ValueError(
            f"halflife={halflife!r} rows leaves only the newest one of {t}, of which there is no covariance; use a "
            "larger number."
        )
    # Rows of weight zero may be newer, so many that the decay factor of all others underflows.
    left = max(largest * 0.5 ** ((t - 1 - newest) / float(halflife)), np.finfo(np.float64).tiny)
    return given * factor * left


def totals(X: Any, sample_weight: ColumnLike | None) -> Totals:
    """Return the totals of a table (t, N) or (t, N, F)."""
    weight, largest = (
        check_weight(sample_weight, X),
        1.0 if sample_weight is None else float(to_numpy(sample_weight).max()),
    )
    centred, covariance = weighted_moments(X, weight)
    sums = float(weight.sum()), float((weight**2).sum())
    return Totals(centred.location, covariance, centred.low, centred.high, *sums, largest)


def merge(a: Totals, b: Totals, decay: float = 1.0) -> Totals:
    """Combine two batches, the second one newer (Chan, Golub & LeVeque 1983).

    ``decay`` multiplies the weights of the first.
    A feature that varied long ago and is constant since becomes constant when its remaining spread is rounding:
    deviations of the first batch shrink with the root of ``decay``, as they do in the variance.
    """
    first = a.largest * decay
    largest = max(first, b.largest)
    weight_a, weight_b = a.weight * (first / largest), b.weight * (b.largest / largest)
    weight = weight_a + weight_b
    share_a, share_b = weight_a / weight, weight_b / weight
    shift = b.location - a.location
    with np.errstate(over="ignore", invalid="ignore"):  # reported when the variances are checked
        between = (share_a * shift)[:, None] * (share_b * shift)
        covariance = share_a * a.covariance + share_b * b.covariance + between
    squares = a.squares * (first / largest) ** 2 + b.squares * (b.largest / largest) ** 2
    location, low, high = a.location + share_b * shift, a.low, a.high
    if decay < 1:
        left = decay**0.5
        low, high = location - (location - low) * left, location + (high - location) * left
    xp = namespace(shift)
    return Totals(location, covariance, xp.minimum(low, b.low), xp.maximum(high, b.high), weight, squares, largest)


def add_rows(
    before: Totals | None, X: Array, sample_weight: ColumnLike | None, halflife: float | None = None
) -> Totals:
    """Return the totals of the rows so far and of new ones; every row makes those before it count less."""
    batch = totals(X, decaying(sample_weight, halflife, X))
    if before is None:
        return batch
    return merge(before, batch, 1.0 if halflife is None else 0.5 ** (X.shape[0] / float(halflife)))


# -- the moments of an estimator ------------------------------------------------------------------


class Sample(NamedTuple):
    """The data of an estimator: rows, their moments and weights, the location, and running moments where rows add up.

    With Spearman's and the biweight correlation the rows are those of a transformed table.
    """

    rows: AnyArray
    moments: Moments
    weight: ColumnLike | None
    location: AnyArray
    totals: Totals | None = None


def why_not_incremental(estimator: Any) -> str:
    """Return why rows cannot be added one after the other, and an alternative; "" where they can."""
    if estimator.correlation != "pearson":
        return (
            f"with correlation={estimator.correlation!r} new rows change the correlations of earlier ones; fit all "
            'rows at once, or use correlation="pearson"'
        )
    if getattr(estimator, "base", None) is not None:
        return "its base covariance needs all rows; fit them at once, or use base=None"
    return str(estimator._needs_rows())


def sample_of(estimator: Any, X: Any, sample_weight: ColumnLike | None, ddof: float = 0) -> Sample:
    """Return the moments of data as the parameters ``correlation``, ``missing`` and ``base`` ask for them.

    With Spearman's and the biweight correlation they are those of a transformed table, see
    :mod:`svnn.functional.correlations`. Ranks and weights of a feature are those among its known values.
    """
    correlation, base = estimator.correlation, getattr(estimator, "base", None)
    if (
        correlation == "pearson" and base is None and estimator.missing == "raise"
    ):  # by way of moments that partial_fit updates
        if isinstance(X, np.ndarray) or is_torch(X):
            so_far = totals(X, sample_weight)
        else:
            from svnn.covariance._tables import totals_of_table

            so_far, X = totals_of_table(estimator, X, sample_weight)
            sample_weight = None
        return Sample(X, so_far.moments(ddof), sample_weight, so_far.location, so_far)
    if base is not None or correlation in ("pearson", "kendall"):
        moments = moments_by(estimator, X, sample_weight, ddof)
        return Sample(X, moments, sample_weight, moments.location)
    table, weight, location = transformed_table(X, sample_weight, correlation)
    return Sample(table, sample_moments(table, ddof, weight, estimator.missing), weight, location)


def needs_products(estimator: Any) -> None:
    """Raise where covariances are not means of products of a table, as the estimator needs them to be."""
    if estimator.base is not None or estimator.correlation == "kendall":
        what = 'correlation="kendall"' if estimator.base is None else f"base={estimator.base!r}"
        raise ValueError(
            f"{type(estimator).__name__} needs the products behind every covariance, which {what} does not have; use "
            'correlation="spearman" or "biweight", or HardThreshold.'
        )


def moments_by(estimator: Any, X: Array, sample_weight: ColumnLike | None, ddof: float = 0) -> Moments:
    """Return the moments of a table: by the parameter ``base``, with Kendall's correlations, or the sample moments."""
    base = getattr(estimator, "base", None)
    if base is None:
        moments = sample_moments(X, ddof, sample_weight, estimator.missing)
        if estimator.correlation != "kendall":
            return moments
        R = namespace(X).sin(math.pi / 2 * kendall_tau(X, sample_weight))
        sd = namespace(X).clip(moments.covariance.diagonal(), 0, None) ** 0.5
        return moments._replace(covariance=scaled(R, sd[:, None], sd))
    from svnn.covariance._resolve import fit_covariance, resolve  # it imports all estimators, which use this file

    weight = None if sample_weight is None else check_weight(sample_weight, X)
    fitted = fit_covariance(resolve(base), to_numpy(X), None if weight is None else to_numpy(weight))
    location = getattr(fitted, "location_", None)  # not every package has one
    location = sample_moments(X, 0, weight, "pairwise").location if location is None else location
    n_samples = float(X.shape[0]) if weight is None else effective_samples(weight)
    return Moments(like(location, X), like(stored_as(numpy_matrix(fitted.covariance_), False), X), n_samples)


def transformed_table(
    X: Array, sample_weight: ColumnLike | None, correlation: str
) -> tuple[Array, Array | None, Array]:
    """Return the table of ranks or winsorised data, the weights of its rows, and the location of the data.

    Its covariance is :math:`D R D`. Rows of weight zero are left out. Missing values stay missing.
    """
    xp = namespace(X)
    weight = check_weight(sample_weight, X)
    X, weight = X[weight > 0], weight[weight > 0]
    rows, row_weight = observations(X, weight)
    result, location = xp.empty_like(rows), xp.empty_like(rows[0])
    width = max(_VALUES // len(rows), 1)
    for a in range(0, rows.shape[1], width):
        part = rows[:, a : a + width]
        filled, known = fill_missing(part)
        of_values = row_weight[:, None] * known
        share = of_values / of_values.sum(0)
        centred = centre(filled, share)
        spread = deviation(centred, share)
        unit = centred.unit
        middle, values = transformed_rows(
            _double((filled / unit).T),
            _double(of_values.T),
            correlation,
            _double(centred.location / unit),
            _double(spread / unit),
        )
        location[a : a + width] = like(middle, X) * unit
        result[:, a : a + width] = xp.where(known > 0, like(values.T, X) * unit, xp.nan + 0 * filled)
    if X.ndim == 3:
        result = xp.swapaxes(result.reshape(X.shape[0], X.shape[2], X.shape[1]), 1, 2)
    return result, None if sample_weight is None else weight, location


def _double(values: Array) -> Array:
    return values.double() if is_torch(values) else values.astype("float64")


def held_out_size(t: int) -> int:
    """Return how many of ``t`` rows are held out by :func:`held_out_correlations`."""
    return min(max(round(t / math.log(max(t, 2))), 2), t - 2)


def held_out_correlations(
    estimator: Any, X: Array, sample_weight: ColumnLike | None, choice: str, instead: str
) -> Iterator[tuple[Array, Any, Array]]:
    r"""Yield the correlations of some rows, their number, and the correlations of the others, for random splits.

    Of t rows :math:`t/\log t` are held out. ``n_splits``, ``random_state``, ``missing``, ``correlation`` and ``base``
    are those of the estimator. Errors name the parameter ``choice`` and the alternative ``instead``.
    """
    weight = check_weight(sample_weight, X)
    X, weight = X[weight > 0], weight[weight > 0]
    t = len(X)
    if t < 4:
        raise ValueError(f"{choice} needs at least 4 samples to split, got {t}; use {instead}.")
    held_out, rng = held_out_size(t), generator(estimator.random_state)
    for _ in range(estimator.n_splits):
        order = rng.permutation(t)
        try:
            train, t1 = _correlations(estimator, X, order[held_out:], weight)
            test, _ = _correlations(estimator, X, order[:held_out], weight)
        except ValueError as error:
            raise ValueError(f"{choice} cannot split this data: {error} Or use {instead}.") from error
        yield train, t1, test


def _correlations(estimator: Any, X: Array, rows: np.ndarray, weight: Array) -> tuple[Array, Any]:
    part: Any = X[rows]
    _, C, t = moments_by(estimator, part, weight[rows])
    sd = namespace(X).clip(C.diagonal(), 0, None) ** 0.5
    sd = namespace(X).where(sd > 0, sd, 1 + 0 * sd)
    return C / (sd[:, None] * sd), t
