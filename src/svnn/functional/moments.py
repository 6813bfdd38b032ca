"""Sample moments of data shaped (t, N) or (t, N, F): location, covariance, variance of products.

In three-dimensional data the F values of a sample are F observations of the N nodes. They are not independent of each
other, so the number of samples is t, never t F.
"""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from svnn._types import AnyArray, Array, ColumnLike, DataLike
from svnn.functional._array import as_floating, is_torch, like, namespace, to_numpy, upper_values
from svnn.functional._centring import Centred, centre, check_variances, in_units, power_of_two


class Moments(NamedTuple):
    """Weighted mean and covariance of a sample, as arrays or tensors like the data.

    ``location`` has shape (N,), ``covariance`` (N, N). ``n_samples`` is the effective number of
    samples: a number, or an (N, N) array with one number for each pair of features when values are missing.
    """

    location: Any
    covariance: Any
    n_samples: Any


def sample_moments(
    X: DataLike, ddof: float = 0, sample_weight: ColumnLike | None = None, missing: str = "raise"
) -> Moments:
    r"""Return the location and the covariance :math:`\frac1t \sum_i (x_i - \mu)(x_i - \mu)^T`.

    Parameters
    ----------
    X : ndarray or Tensor of shape (t, N) or (t, N, F)
    ddof : float, default=0
        The sum is divided by ``t - ddof``. The paper divides it by ``t``.
    sample_weight : array of shape (t,), optional
        Only ratios matter. The effective number of samples is :math:`(\sum w)^2 / \sum w^2`.
    missing : {"raise", "pairwise"}, default="raise"
        "pairwise" takes each covariance over the observations where both features are known.

    Examples
    --------
    >>> import numpy as np
    >>> sample_moments(np.array([[1.0, 2.0], [3.0, 6.0]])).covariance
    array([[1., 2.],
           [2., 4.]])
    """
    if missing not in ("raise", "pairwise"):
        raise ValueError(f'missing must be "raise" or "pairwise", got {missing!r}.')
    sample: Any = as_floating(X)
    if sample.ndim not in (2, 3) or 0 in sample.shape:
        raise ValueError(f"X must have shape (t, N) or (t, N, F) without a size of 0, got {tuple(sample.shape)}.")
    weight = check_weight(sample_weight, sample)
    n_samples = effective_samples(weight)
    check_ddof(n_samples, ddof)
    if bool(namespace(sample).isnan(sample).any()):
        if missing == "raise":
            raise ValueError('X contains NaN; pass missing="pairwise" to use the observed pairs, or impute first.')
        return _pairwise_moments(sample, weight, ddof)
    centred, covariance = weighted_moments(sample, weight)
    check_variances(covariance.diagonal(), centred.constant)
    return Moments(centred.location, covariance / (1 - ddof / n_samples), n_samples)


def weighted_moments(X: Array, weight: Array) -> tuple[Centred[Array], Array]:
    """Return the centred observations of data without NaN, and their covariance.

    Covariances that overflow are infinite; :func:`svnn.functional._centring.check_variances` rejects them.
    """
    rows, weight = observations(X, weight)
    share = weight / weight.sum()
    centred = centre(rows, share)
    # A product of two different arrays: OpenBLAS's symmetric product of one array with itself
    # crashes on large float64 inputs.
    covariance = (centred.rest * share[:, None]).T @ centred.rest
    covariance = (covariance + covariance.T) / 2  # the product is symmetric only up to rounding
    return centred, in_units(covariance, centred.unit)


def _pairwise_moments(X: Array, weight: Array, ddof: float) -> Moments:
    """Return the moments of data with missing values, each pair over the rows where both features are known."""
    xp = namespace(X)
    rows, weight = observations(X, weight)
    filled, known = fill_missing(rows)
    weight = weight[:, None]
    location, rest, unit, constant, *_ = centre(filled, weight * known / (weight * known).sum(0))
    rest = rest * known
    total = (known * weight).T @ known
    safe = xp.where(total > 0, total, xp.ones_like(total))
    mean = (rest * weight).T @ known / safe  # entry i, j: the mean of feature i over the rows where j is known
    # The means were subtracted before, so these two terms are not large numbers with a small difference.
    covariance = in_units((rest * weight).T @ rest / safe - mean * mean.T, unit)
    squares = (known * weight**2).T @ known
    values = X.shape[2] if X.ndim == 3 else 1  # the values of one sample are not independent, so they count as one
    effective = total**2 / xp.where(squares > 0, squares, xp.ones_like(squares)) / values
    unknown = effective <= ddof  # in particular the pairs never seen together
    if bool(unknown.any()):
        warnings.warn(
            f"{int(upper_values(unknown).sum())} pairs of features are observed together in too few samples; "
            "their covariance is set to 0.",
            stacklevel=4,
        )
    check_variances(covariance.diagonal(), constant | unknown.diagonal())
    effective = xp.where(unknown, ddof + xp.ones_like(effective), effective)
    covariance = xp.where(unknown, xp.zeros_like(covariance), covariance / (1 - ddof / effective))
    return Moments(location, (covariance + covariance.T) / 2, effective)


def fill_missing(rows: Array) -> tuple[Array, Array]:
    """Return a table with the smallest value of its column for every NaN, and a table of ones that is zero there."""
    xp = namespace(rows)
    known = ~xp.isnan(rows)
    if not bool(known.any(0).all()):
        column = int(xp.nonzero(~known.any(0))[0][0])
        raise ValueError(f"feature {column} has no observed value (of positive weight); drop it.")
    filled = xp.where(known, rows, xp.amin(xp.where(known, rows, xp.inf + xp.zeros_like(rows)), 0))
    return filled, xp.where(known, xp.ones_like(rows), xp.zeros_like(rows))


# -- variances of products ------------------------------------------------------------------------


def product_variances(X: DataLike, moments: Moments, sample_weight: ColumnLike | None = None) -> Any:
    r"""Return :math:`\theta_{ij}`, the variance over samples of the products behind ``c_ij``.

    .. math:: \theta_{ij} = \frac1t \sum_k \left[(x_{ki} - \mu_i)(x_{kj} - \mu_j) - c_{ij}\right]^2

    For data of shape (t, N, F) the product is first averaged over a sample's F values.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    >>> product_variances(X, sample_moments(X))
    array([[2.25]])
    """
    theta, unit = _product_variances(X, moments, sample_weight)
    result = in_units(in_units(theta, unit), unit)
    if not bool(namespace(result).isfinite(result).all()) or bool(((result == 0) & (theta > 0)).any()):
        raise ValueError("X has values too large or too small for their fourth powers; rescale its features.")
    return result


def product_deviations(X: DataLike, moments: Moments, sample_weight: ColumnLike | None = None) -> Any:
    r"""Return :math:`\sqrt{\theta_{ij}}`, see :func:`product_variances`; it is finite wherever the covariances are."""
    theta, unit = _product_variances(X, moments, sample_weight)
    return in_units(theta**0.5, unit)


def _product_variances(X: DataLike, moments: Moments, sample_weight: ColumnLike | None) -> tuple[Any, Any]:
    """Return theta of the features divided by powers of two, and these powers."""
    sample: Any = as_floating(X)
    xp = namespace(sample)
    weight = check_weight(sample_weight, sample)
    share = weight / weight.sum()
    variance = moments.covariance.diagonal()
    unit = power_of_two(xp.clip(variance, 0, None) ** 0.5)
    C = in_units(moments.covariance, 1 / unit)
    per_feature = (slice(None), None) if sample.ndim == 3 else slice(None)
    rest = (sample - moments.location[per_feature]) / unit[per_feature]
    rest = xp.where((variance == 0)[per_feature], 0 * rest, rest)  # constants, up to rounding
    if sample.ndim == 3:
        if bool(xp.isnan(sample).any()):
            raise ValueError("the adaptive threshold takes missing values in (t, N) data only; impute first.")
        theta = 0 * C
        for values, part in zip(rest, share, strict=True):
            # A product of two different arrays, for the reason given in weighted_moments.
            theta = theta + part * ((values / sample.shape[2]) @ values.T) ** 2
        return xp.clip(theta - C**2, 0, None), unit
    known = ~xp.isnan(sample)
    squares = xp.where(known, rest, xp.zeros_like(sample)) ** 2
    theta = (squares * share[:, None]).T @ squares
    if not bool(known.all()):
        known = xp.where(known, xp.ones_like(sample), xp.zeros_like(sample))
        seen = (known * share[:, None]).T @ known
        theta = theta / xp.where(seen > 0, seen, xp.ones_like(seen))
    return xp.clip((theta + theta.T) / 2 - C**2, 0, None), unit


# -- samples and their weights --------------------------------------------------------------------


def observations(X: Array, weight: Array) -> tuple[Array, Array]:
    """Return the observations of positive weight as a (t F, N) table, sample after sample, and their weights."""
    if not bool((weight > 0).all()):
        X, weight = X[weight > 0], weight[weight > 0]
    if X.ndim == 2:
        return X, weight
    rows = namespace(X).swapaxes(X, 1, 2).reshape(-1, X.shape[1])
    return rows, weight.repeat_interleave(X.shape[2]) if is_torch(weight) else weight.repeat(X.shape[2])


def check_weight(sample_weight: ColumnLike | None, X: Array) -> Array:
    """Return one weight per row of ``X``, divided by the largest one.

    The weights are an array or a tensor of the dtype of ``X``; without ``sample_weight`` all of them are 1.
    """
    if sample_weight is None:
        return namespace(X).ones_like(X[(slice(None),) + (0,) * (X.ndim - 1)])
    weight: Any = as_floating(sample_weight if is_torch(X) else to_numpy(sample_weight), "sample_weight")
    weight = weight.to(X.device).double() if is_torch(weight) else weight.astype(np.float64)
    if weight.ndim == 0:
        weight = namespace(weight).broadcast_to(weight, (X.shape[0],))
    if weight.shape != (X.shape[0],):
        raise ValueError(f"sample_weight has shape {tuple(weight.shape)}, expected ({X.shape[0]},): one per row.")
    largest = float(weight.max())
    if not (0 < largest < math.inf) or not bool((weight >= 0).all()):
        raise ValueError("sample_weight must be finite, not negative, and not all zero.")
    return like(weight / largest, X)


def effective_samples(weight: AnyArray) -> float:
    r"""Return the effective number of samples, :math:`(\sum w)^2 / \sum w^2`."""
    weight = weight / weight.max()  # then no square overflows or vanishes
    return float(weight.sum()) ** 2 / float((weight**2).sum())


def check_ddof(n_samples: float, ddof: float) -> None:
    """Raise an error where ``ddof`` leaves no degree of freedom."""
    if isinstance(ddof, bool) or not isinstance(ddof, Real) or not abs(ddof) < math.inf:
        raise ValueError(f"ddof must be a number, got {ddof!r}.")
    if n_samples <= ddof:
        raise ValueError(f"ddof={ddof} needs more than {ddof} samples, got {n_samples:g}.")
