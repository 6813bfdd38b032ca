"""Contributions of features, and of directions of the covariance, to predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from svnn._types import DataLike, Matrix
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators.training import plain_torch
from svnn.functional.eigenvectors import leading_eigenvectors
from svnn.inspection._fitted import (
    NetworkFunction,
    check_model,
    feature_names,
    network_function,
    standardised,
    standardised_baseline,
)
from svnn.inspection._integrated_gradients import PathIntegral, integrate
from svnn.inspection._results import EigenvectorContributions, FeatureContributions

#: Features up to which all directions are looked at by default, and how many of them beyond.
_MOST_FEATURES, _DIRECTIONS = 2000, 50


@plain_torch()
def feature_contributions(
    model: CovarianceNetwork,
    X: DataLike,
    *,
    baseline: DataLike | None = None,
    class_: Any = None,
    logit: bool = False,
    tol: float = 1e-5,
) -> FeatureContributions:
    r"""Split every prediction into contributions of the features (integrated gradients).

    .. math:: \phi_i = (x_i - b_i) \int_0^1 \frac{\partial f}{\partial x_i}(b + s (x - b))\, ds,
              \qquad f(x) = f(b) + \sum_i \phi_i

    Parameters
    ----------
    model : SVNNRegressor or SVNNClassifier
        Fitted.
    X : array or data frame of shape (t, N) or (t, N, F)
    baseline : array of shape (N,) or (N, F), optional
        The sample b that others are compared with, in the units of ``X``. By default the means of the training data;
        zero where the model was fitted with ``standardize=False``.
    class_ : label, optional
        The class of a classifier whose probability is explained; by default all classes, one output each.
    logit : bool, default=False
        Explain logits in place of probabilities: the mean over the members, minus the mean over the classes.
    tol : float, default=1e-5
        How far the sum of contributions may be from what it stands for, in standard deviations of the target (of the
        outputs with ``standardize=False``), or in probability.

    Returns
    -------
    FeatureContributions
        ``contributions`` (t, N), in the units of the target, or (t, N, m) for several outputs. Where a node has
        several values, their contributions are added. ``importance`` is the mean absolute contribution, ``top(n)``
        names the largest ones, ``to_frame()`` makes a table.

    Notes
    -----
    A network of one layer with a linear head (``mlp=()``) has a closed form, for numbers and logits: the input of every
    activation moves on a straight line, and its mean slope is the quotient of differences between the two ends. For a
    linear network (``activation="identity"``) contributions are weights times values.

    Otherwise the integral is computed by Gauss-Legendre rules of four points, on pieces of the path that are halved
    until the sum is right up to ``tol``. With an activation that has kinks (relu), many points are needed, and a single
    contribution is right up to some ten times ``tol``.

    Contributions belong to the prediction, not to nature: among correlated features, they tell what this network reads.

    References
    ----------
    Sundararajan, Taly and Yan, Axiomatic attribution for deep networks, ICML 2017.

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> from svnn.inspection import feature_contributions
    >>> data = make_sparse_cov(n_samples=100, n_features=8, random_state=0)
    >>> model = SVNNRegressor(max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> found = feature_contributions(model, data.X[:3])
    >>> found.contributions.shape, len(found.top(2))
    ((3, 8), 2)
    >>> bool(abs(found.baseline + found.contributions.sum(1) - model.predict(data.X[:3])).max() < 1e-3)
    True
    """
    function, path = _path(model, X, baseline, class_, logit, tol)
    contributions = np.einsum("tnfm,tnf->tnm", path.gradient, path.step)
    return FeatureContributions(
        function.shaped(contributions),
        feature_names(model),
        function.labels,
        function.shaped(path.end),
        function.shaped(path.start),
        path.n_points,
    )


@plain_torch()
def eigenvector_contributions(
    model: CovarianceNetwork,
    X: DataLike,
    *,
    n_components: int | None = None,
    baseline: DataLike | None = None,
    class_: Any = None,
    logit: bool = False,
    tol: float = 1e-5,
) -> EigenvectorContributions:
    r"""Split every prediction into contributions of the eigenvectors of the covariance.

    Standardised samples are :math:`z = \sum_j v_j (v_j^\top z)`. With the average gradient :math:`\bar g` on the path
    from the baseline, as in :func:`feature_contributions`, direction j contributes

    .. math:: \phi_j = v_j^\top (z - b) \; v_j^\top \bar g, \qquad f(z) = f(b) + \sum_j \phi_j

    Parameters
    ----------
    model, X, baseline, class_, logit, tol
        As for :func:`feature_contributions`.
    n_components : int, optional
        How many eigenvectors to look at, those of the largest eigenvalues; the others together are ``rest``. By
        default all of them up to 2000 features, and 50 beyond.

    Returns
    -------
    EigenvectorContributions
        ``contributions`` (t, n_components) or (t, n_components, m), with ``eigenvalues``,
        ``explained_variance_ratio`` and ``eigenvectors``.

    Notes
    -----
    The directions are those of ``model.covariance_``, which has the same eigenvectors as its logarithm or its inverse.
    Where eigenvalues are equal, only the sum of their contributions means something.

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> from svnn.inspection import eigenvector_contributions
    >>> data = make_sparse_cov(n_samples=100, n_features=8, random_state=0)
    >>> model = SVNNRegressor(max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> found = eigenvector_contributions(model, data.X, n_components=3)
    >>> found.contributions.shape, found.explained_variance_ratio.shape, found.rest.shape
    ((100, 3), (3,), (100,))
    """
    check_model(model)
    n = model.n_features_in_
    size = (n if n <= _MOST_FEATURES else _DIRECTIONS) if n_components is None else n_components
    if int(size) != size or not 1 <= size <= n:
        raise ValueError(f"n_components must be an integer from 1 to {n}, the number of features; got {size!r}.")
    function, path = _path(model, X, baseline, class_, logit, tol)
    values, vectors = _directions(model.covariance_, int(size))
    coordinates = np.einsum("nj,tnf->tjf", vectors, path.step, optimize=True)
    slopes = np.einsum("nj,tnfm->tjfm", vectors, path.gradient, optimize=True)
    contributions = np.einsum("tjf,tjfm->tjm", coordinates, slopes)
    # The sum over all features, which is that over all directions.
    total = np.einsum("tnfm,tnf->tm", path.gradient, path.step)
    trace = float(model.covariance_.trace())
    return EigenvectorContributions(
        function.shaped(contributions),
        np.array([f"direction {j + 1}" for j in range(len(values))], dtype=object),
        function.labels,
        function.shaped(path.end),
        function.shaped(path.start),
        function.shaped(total - contributions.sum(1)),
        values,
        values / trace if trace else np.zeros_like(values),
        vectors,
    )


def _path(
    model: CovarianceNetwork, X: DataLike, baseline: DataLike | None, class_: Any, logit: bool, tol: float
) -> tuple[NetworkFunction, PathIntegral]:
    """Return the model as a function, and its path integral for data and baseline as the caller gave them."""
    check_model(model)
    function = network_function(model, class_, logit)
    Z = standardised(model, X)
    if baseline is None:
        return function, integrate(function, Z, np.zeros(Z.shape[1:]), tol)
    given = np.asarray(baseline, dtype=np.float64)
    expected = Z.shape[1:] if Z.shape[2] > 1 else Z.shape[1:2]
    if given.shape not in (expected, Z.shape[1:]) or not np.isfinite(given).all():
        raise ValueError(f"baseline must be one sample of shape {expected}, of finite numbers; got {given.shape}.")
    return function, integrate(function, Z, standardised_baseline(model, given.reshape(Z.shape[1:])), tol)


def _directions(C: Matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest eigenvalues, descending, and their eigenvectors, whose largest entries are positive."""
    if k == C.shape[0]:
        values, vectors = scipy.linalg.eigh(C if isinstance(C, np.ndarray) else C.toarray())
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        vectors = leading_eigenvectors(C, k)
        values = (vectors * (C @ vectors)).sum(0)
    largest = vectors[abs(vectors).argmax(0), np.arange(k)]
    return np.asarray(values, dtype=np.float64), np.asarray(vectors * np.sign(largest), dtype=np.float64)
