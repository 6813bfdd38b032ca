"""Correlations other than Pearson's, and other covariances, in the place of the sample moments."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from svnn._types import AnyArray, Array, ColumnLike, HasFit
from svnn.functional import Moments, kendall_tau, sample_moments
from svnn.functional._array import is_torch, like, namespace, to_numpy
from svnn.functional._centring import centre, deviation, scaled
from svnn.functional._matrix import numpy_matrix
from svnn.functional.moments import check_weight, effective_samples, fill_missing, observations
from svnn.functional.stand_ins import stand_in

#: What ``correlation=`` takes.
CORRELATIONS = ("pearson", "spearman", "kendall", "biweight")
#: Its sentence of documentation.
DOC = r"""The correlations R of the covariance :math:`D R D`, on which thresholds for correlations act.
"pearson" is the usual covariance. "spearman" correlates ranks; equal values share their average rank.
"kendall" is :math:`\sin(\frac\pi2 \tau_b)`, the correlation behind normal data and monotone functions of it.
"biweight" correlates deviations from the median, in which outliers have no weight.
D has the standard deviations; with "biweight" it has the roots of the biweight midvariances, and ``location_`` has the
medians. See :func:`svnn.functional.kendall_tau` and :mod:`svnn.functional.stand_ins`."""
#: Values of a table that are ranked at once.
_VALUES = 2**20


def not_plain(correlation: str) -> str:
    """Say why rows cannot be added one after the other, and the way out; "" where they can."""
    if correlation == "pearson":
        return "its base covariance needs all rows; fit them at once, or use base=None"
    return (
        f"new rows change what correlation={correlation!r} makes of earlier ones; fit all rows at once, or use "
        'correlation="pearson"'
    )


def needs_products(name: str, correlation: str, base: object) -> None:
    """Raise an error where covariances do not come from products of a table, which the estimator ``name`` needs."""
    if base is not None or correlation == "kendall":
        what = 'correlation="kendall"' if base is None else f"base={base!r}"
        raise ValueError(
            f"{name} needs the products behind every covariance, which {what} has not; use "
            'correlation="spearman" or "biweight", or HardThreshold.'
        )


class Seen(NamedTuple):
    """What a sparsifier sees: a table, its moments, its weights; and the location of the data itself."""

    X: AnyArray
    moments: Moments
    weight: ColumnLike | None
    location: AnyArray


def see(
    X: AnyArray,
    sample_weight: ColumnLike | None,
    correlation: str,
    missing: str,
    base: str | HasFit | None = None,
    ddof: float = 0,
) -> Seen:
    """Return the table and the moments by which a covariance of this kind is estimated.

    With Spearman's and the biweight correlation the table is another one, see :mod:`svnn.functional.stand_ins`. Ranks
    and weights of a feature are those among its known values.
    """
    table: Any = X
    if base is not None or correlation == "kendall":
        moments = moments_by(table, sample_weight, correlation, missing, base, ddof)
        return Seen(X, moments, sample_weight, moments.location)
    if correlation == "pearson":
        moments = sample_moments(table, ddof, sample_weight, missing)
        return Seen(X, moments, sample_weight, moments.location)
    table, weight, location = stand_in_table(table, sample_weight, correlation)
    return Seen(table, sample_moments(table, ddof, weight, missing), weight, location)


def moments_by(
    X: Array,
    sample_weight: ColumnLike | None,
    correlation: str,
    missing: str,
    base: str | HasFit | None = None,
    ddof: float = 0,
) -> Moments:
    """Return the moments of a table as it is: by another estimator, with Kendall's correlations, or plainly.

    Of a table that stands in for the data, these are the plain ones.
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
    from svnn.covariance._resolve import fit_covariance, resolve  # it knows all estimators, this file's users too

    weight = None if sample_weight is None else check_weight(sample_weight, X)
    fitted = fit_covariance(resolve(base), to_numpy(X), None if weight is None else to_numpy(weight))
    C = numpy_matrix(fitted.covariance_)
    location = getattr(fitted, "location_", None)  # not every package has one
    location = sample_moments(X, 0, weight, "pairwise").location if location is None else location
    n_samples = float(X.shape[0]) if weight is None else effective_samples(weight)
    return Moments(like(location, X), like(C if isinstance(C, np.ndarray) else C.toarray(), X), n_samples)


def stand_in_table(X: Array, sample_weight: ColumnLike | None, correlation: str) -> tuple[Array, Array | None, Array]:
    """Return the table that stands in for the data, the weights of its rows, and the location of the data.

    Its covariance is :math:`D R D`. Rows of weight zero are left out. Missing values stay so.
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
