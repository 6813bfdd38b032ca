"""Sample moments as an estimator asks for them: with another correlation, by another estimator, of held-out rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from svnn._types import AnyArray, Array, ColumnLike, HasFit
from svnn.covariance._running_moments import Totals, totals
from svnn.functional import Moments, kendall_tau, sample_moments
from svnn.functional._array import generator, is_torch, like, namespace, to_numpy
from svnn.functional._centring import centre, deviation, scaled
from svnn.functional._matrix import numpy_matrix
from svnn.functional.moments import check_weight, effective_samples, fill_missing, observations
from svnn.functional.stand_ins import stand_in

#: The values of ``correlation``.
CORRELATIONS = ("pearson", "spearman", "kendall", "biweight")
#: Values of a table that are ranked at once.
_VALUES = 2**20


class Sample(NamedTuple):
    """The data of an estimator: rows, their moments and weights, the location, and running moments where rows add up.

    With Spearman's and the biweight correlation the rows are those of a transformed table.
    """

    rows: AnyArray
    moments: Moments
    weight: ColumnLike | None
    location: AnyArray
    totals: Totals | None = None


def is_plain(estimator: Any) -> bool:
    """Return whether an estimator starts from the sample covariance itself."""
    return estimator.correlation == "pearson" and getattr(estimator, "base", None) is None


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


def sample_of(
    estimator: Any, X: Any, sample_weight: ColumnLike | None, *, base: str | HasFit | None = None, ddof: float = 0
) -> Sample:
    """Return the moments of data as the parameters ``correlation``, ``missing`` and ``base`` ask for them.

    With Spearman's and the biweight correlation they are those of a transformed table, see
    :mod:`svnn.functional.stand_ins`. Ranks and weights of a feature are those among its known values.
    """
    correlation, missing = estimator.correlation, estimator.missing
    if is_plain(estimator) and missing == "raise":
        return _with_totals(estimator, X, sample_weight, ddof)
    if base is not None or correlation in ("pearson", "kendall"):
        moments = moments_by(X, sample_weight, correlation, missing, base, ddof)
        return Sample(X, moments, sample_weight, moments.location)
    table, weight, location = transformed_table(X, sample_weight, correlation)
    return Sample(table, sample_moments(table, ddof, weight, missing), weight, location)


def _with_totals(estimator: Any, X: Any, sample_weight: ColumnLike | None, ddof: float) -> Sample:
    """Return the moments by way of running ones, which ``partial_fit`` can update."""
    rows, weight = X, sample_weight
    if isinstance(X, np.ndarray) or is_torch(X):
        found = totals(X, sample_weight)
    else:
        from svnn.covariance._tables import totals_of_table

        found, rows = totals_of_table(estimator, X, sample_weight)
        weight = None
    return Sample(rows, found.moments(ddof), weight, found.location, found)


def needs_products(name: str, correlation: str, base: object) -> None:
    """Raise where covariances are not means of products of a table, as the estimator ``name`` needs them to be."""
    if base is not None or correlation == "kendall":
        what = 'correlation="kendall"' if base is None else f"base={base!r}"
        raise ValueError(
            f"{name} needs the products behind every covariance, which {what} does not have; use "
            'correlation="spearman" or "biweight", or HardThreshold.'
        )


def moments_by(
    X: Array,
    sample_weight: ColumnLike | None,
    correlation: str,
    missing: str,
    base: str | HasFit | None = None,
    ddof: float = 0,
) -> Moments:
    """Return the moments of a table: by another estimator, with Kendall's correlations, or the sample moments.

    Tables of ranks and of winsorised data are transformed already: theirs are the sample moments.
    """
    if base is not None:
        return _moments_of_base(X, sample_weight, base)
    moments = sample_moments(X, ddof, sample_weight, missing)
    if correlation != "kendall":
        return moments
    R = namespace(X).sin(math.pi / 2 * kendall_tau(X, sample_weight))
    sd = namespace(X).clip(moments.covariance.diagonal(), 0, None) ** 0.5
    return moments._replace(covariance=scaled(R, sd[:, None], sd))


def _moments_of_base(X: Array, sample_weight: ColumnLike | None, base: str | HasFit) -> Moments:
    """Return the location and covariance of a fitted estimator of any package, in the form of ``X``."""
    from svnn.covariance._resolve import fit_covariance, resolve  # it imports all estimators, which use this file

    weight = None if sample_weight is None else check_weight(sample_weight, X)
    fitted = fit_covariance(resolve(base), to_numpy(X), None if weight is None else to_numpy(weight))
    C = numpy_matrix(fitted.covariance_)
    location = getattr(fitted, "location_", None)  # not every package has one
    location = sample_moments(X, 0, weight, "pairwise").location if location is None else location
    n_samples = float(X.shape[0]) if weight is None else effective_samples(weight)
    return Moments(like(location, X), like(C if isinstance(C, np.ndarray) else C.toarray(), X), n_samples)


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
        middle, values = stand_in(
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
    _, C, t = moments_by(part, weight[rows], estimator.correlation, estimator.missing, estimator.base)
    sd = namespace(X).clip(C.diagonal(), 0, None) ** 0.5
    sd = namespace(X).where(sd > 0, sd, 1 + 0 * sd)
    return C / (sd[:, None] * sd), t
