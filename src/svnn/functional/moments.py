"""Sample moments of data shaped (t, N) or (t, N, F): location, covariance, variance of products.

In three-dimensional data every sample's F values are F observations of the N nodes. They are not
independent of each other, so the number of samples is t, never t F.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from svnn.functional._array import as_floating, is_torch, like, namespace, upper_values


class Moments(NamedTuple):
    """Weighted mean and covariance of a sample.

    ``location`` has shape (N,), ``covariance`` (N, N). ``n_samples`` is the effective number of
    samples: a number, or an (N, N) array of the pairwise numbers when values are missing.
    """

    location: Any
    covariance: Any
    n_samples: Any


def sample_moments(X: Any, ddof: float = 0, sample_weight: Any = None, missing: str = "raise") -> Moments:
    r"""Return the location and the covariance :math:`\frac1t \sum_i (x_i - \mu)(x_i - \mu)^T`.

    Parameters
    ----------
    X : ndarray or Tensor of shape (t, N) or (t, N, F)
    ddof : float, default=0
        The sum is divided by ``t - ddof``; the paper divides by ``t``.
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
    X = as_floating(X)
    weight = check_weight(sample_weight, X)
    n_samples = effective_samples(weight)
    rows, row_weight = _observations(X), _repeat(weight, X)
    if bool(namespace(X).isnan(X).any()):
        if missing == "raise":
            raise ValueError('X contains NaN; pass missing="pairwise" to use the observed pairs, or impute first.')
        return _pairwise(X, rows, row_weight, ddof)
    share = row_weight / row_weight.sum()
    location = share @ rows
    centred = rows - location
    check_ddof(n_samples, ddof)
    # A product of two different arrays: OpenBLAS's symmetric product of one array with itself
    # crashes on large float64 inputs.
    covariance = (centred * share[:, None]).T @ centred
    return Moments(location, _symmetric(covariance) / (1 - ddof / n_samples), n_samples)


def product_variances(X: Any, moments: Moments, sample_weight: Any = None) -> Any:
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
    xp = namespace(X)
    X = as_floating(X)
    weight = check_weight(sample_weight, X)
    share = weight / weight.sum()
    if X.ndim == 2:
        known = ~xp.isnan(X)
        squares = xp.where(known, X - moments.location, xp.zeros_like(X)) ** 2
        second = (squares * share[:, None]).T @ squares
        if not bool(known.all()):
            known = xp.where(known, xp.ones_like(X), xp.zeros_like(X))
            seen = (known * share[:, None]).T @ known
            second = second / xp.where(seen > 0, seen, xp.ones_like(seen))
        return _non_negative(_symmetric(second) - moments.covariance**2)
    if bool(xp.isnan(X).any()):
        raise ValueError("the adaptive threshold takes missing values in (t, N) data only; impute first.")
    theta = 0 * moments.covariance
    for sample, part in zip(X - moments.location[:, None], share, strict=True):
        # Two different arrays again.
        theta = theta + part * ((sample / X.shape[2]) @ sample.T) ** 2
    return _non_negative(theta - moments.covariance**2)


def _pairwise(X: Any, rows: Any, weight: Any, ddof: float) -> Moments:
    xp = namespace(X)
    known = ~xp.isnan(rows)
    observed = (known & (weight > 0)[:, None]).any(0)
    if not bool(observed.all()):
        column = int(xp.nonzero(~observed)[0][0])
        raise ValueError(f"feature {column} has no observed value (of positive weight); drop it.")
    known = xp.where(known, xp.ones_like(rows), xp.zeros_like(rows))
    weight = weight[:, None]
    location = (xp.nan_to_num(rows) * weight * known).sum(0) / (weight * known).sum(0)
    # Centring first keeps the differences of sums below small against their terms.
    centred = xp.nan_to_num(rows - location) * known
    total = (known * weight).T @ known
    safe = xp.where(total > 0, total, xp.ones_like(total))
    mean = (centred * weight).T @ known / safe  # mean of i over the rows where j is known
    covariance = (centred * weight).T @ centred / safe - mean * mean.T
    squares = (known * weight**2).T @ known
    values = rows.shape[0] // X.shape[0]  # of a sample: not independent, so they count as one
    effective = total**2 / xp.where(squares > 0, squares, xp.ones_like(squares)) / values
    unknown = effective <= ddof  # in particular the pairs never seen together
    if bool(unknown.any()):
        warnings.warn(
            f"{int(upper_values(unknown).sum())} pairs of features are observed together in too few samples; "
            "their covariance is set to 0.",
            stacklevel=4,
        )
    effective = xp.where(unknown, ddof + xp.ones_like(effective), effective)
    covariance = xp.where(unknown, xp.zeros_like(covariance), covariance / (1 - ddof / effective))
    return Moments(location, _symmetric(covariance), effective)


def _observations(X: Any) -> Any:
    """Return the (t F, N) table of node observations, sample after sample."""
    return X if X.ndim == 2 else namespace(X).swapaxes(X, 1, 2).reshape(-1, X.shape[1])


def _repeat(weight: Any, X: Any) -> Any:
    if X.ndim == 2:
        return weight
    return weight.repeat_interleave(X.shape[2]) if is_torch(weight) else weight.repeat(X.shape[2])


def effective_samples(weight: Any) -> float:
    r"""Return the effective number of samples, :math:`(\sum w)^2 / \sum w^2`."""
    return float(weight.sum()) ** 2 / float((weight**2).sum())


def check_weight(sample_weight: Any, X: Any) -> Any:
    """Return one weight per row of ``X``, of its kind and dtype, or say what is wrong."""
    xp = namespace(X)
    if sample_weight is None:
        return xp.ones_like(X[(slice(None),) + (0,) * (X.ndim - 1)])
    weight = like(sample_weight, X)
    if weight.ndim == 0:
        weight = weight * check_weight(None, X)
    if weight.shape != (X.shape[0],):
        raise ValueError(f"sample_weight has shape {tuple(weight.shape)}, expected ({X.shape[0]},): one per row.")
    if not bool(xp.isfinite(weight).all()) or bool((weight < 0).any()) or float(weight.sum()) <= 0:
        raise ValueError("sample_weight must be finite, not negative, and not all zero.")
    return weight


def check_ddof(n_samples: float, ddof: float) -> None:
    """Raise where ``ddof`` leaves no degree of freedom."""
    if n_samples <= ddof:
        raise ValueError(f"ddof={ddof} needs more than {ddof} samples, got {n_samples:g}.")


def _symmetric(C: Any) -> Any:
    """Remove the rounding by which a matrix product misses symmetry."""
    return (C + C.T) / 2


def _non_negative(theta: Any) -> Any:
    return namespace(theta).clip(theta, 0, None)
