"""Contributions of features, and of directions of the covariance, to predictions: integrated gradients."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from svnn._types import DataLike, Matrix
from svnn.estimators.training import plain_torch
from svnn.functional.spectrum import leading_eigenvectors
from svnn.inspection._fitted import (
    LinearMap,
    Model,
    PartFunction,
    check_finite,
    check_model,
    feature_names,
    network_part,
    part_functions,
    signals_of,
    units_of,
)
from svnn.inspection._results import EigenvectorContributions, FeatureContributions

#: Features up to which all directions are looked at by default, and how many of them beyond.
_MOST_FEATURES, _DIRECTIONS = 2000, 50
#: Points of the Gauss-Legendre rule on every piece of a path; how often pieces are halved at most; how many pieces of
#: a path may be left to halve.
_POINTS, _HALVINGS, _PIECES = 4, 16, 1000
#: One point is exact for a linear network. Since it may fit another one by chance, it has to fit this well.
_LINEAR = 1e-9
#: Below this change of its input, the slope of an activation is taken at the middle.
_CLOSE = 1e-6


@plain_torch()
def feature_contributions(
    model: Model,
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
    model : S-VNN or blend
        Fitted. A blend's contributions are the weighted sum of those of its parts, which have to be S-VNNs or linear.
    X : array or data frame of shape (t, N) or (t, N, F)
    baseline : array of shape (N,) or (N, F), optional
        The sample b that others are compared with, in the units of ``X``. By default the means of the training data;
        zero where the S-VNN was fitted with ``standardize=False``.
    class_ : label, optional
        The class of a classifier whose probability is explained; by default all classes, one output each.
    logit : bool, default=False
        Explain logits in place of probabilities: the mean over the parts and their members, minus the mean over the
        classes.
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
    contribution is right up to some ten times ``tol``, a few up to a hundred times.

    Contributions belong to the prediction, not to nature: among correlated features, they tell what this network reads.

    References
    ----------
    Sundararajan, Taly and Yan, Axiomatic attribution for deep networks, ICML 2017.

    Examples
    --------
    >>> from svnn import SVNNRegressor, inspection
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=100, n_features=8, random_state=0)
    >>> model = SVNNRegressor(max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> found = inspection.feature_contributions(model, data.X[:3])
    >>> found.contributions.shape, len(found.top(2))
    ((3, 8), 2)
    >>> bool(abs(found.baseline + found.contributions.sum(1) - model.predict(data.X[:3])).max() < 1e-3)
    True
    """
    function, path = _path(model, X, baseline, class_, logit, tol)
    contributions = function.shaped(np.einsum("tnfm,tnf->tnm", path.gradient, path.step))
    start, end = function.shaped(path.start), function.shaped(path.end)
    return FeatureContributions(contributions, feature_names(model), function.labels, end, start, path.n_points)


@plain_torch()
def eigenvector_contributions(
    model: Model,
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
    The directions are those of the covariance of the S-VNN, in a blend of the part ``model.network_part``; it has the
    same eigenvectors as its logarithm or its inverse. All parts of a blend contribute.
    Where eigenvalues are equal, only the sum of their contributions means something.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from svnn import SVNNRegressor, inspection
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SVNNRegressor(max_epochs=5, random_state=0).fit(X, y)
    >>> found = inspection.eigenvector_contributions(model, X[:100], n_components=3)
    >>> found.contributions.shape, found.explained_variance_ratio.shape, found.rest.shape
    ((100, 3), (3,), (100,))
    """
    check_model(model)
    n = model.n_features_in_
    size = (n if n <= _MOST_FEATURES else _DIRECTIONS) if n_components is None else n_components
    if int(size) != size or not 1 <= size <= n:
        raise ValueError(f"n_components must be an integer from 1 to {n}, the number of features; got {size!r}.")
    C = network_part(model)[1].covariance_
    function, path = _path(model, X, baseline, class_, logit, tol)
    values, vectors = _directions(C, int(size))
    coordinates = np.einsum("nj,tnf->tjf", vectors, path.step, optimize=True)
    slopes = np.einsum("nj,tnfm->tjfm", vectors, path.gradient, optimize=True)
    contributions = np.einsum("tjf,tjfm->tjm", coordinates, slopes)
    # The sum over all features, which is that over all directions.
    total = np.einsum("tnfm,tnf->tm", path.gradient, path.step)
    trace = float(C.trace())
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


# -- average gradients along the straight path from a baseline to each sample ------------------------


@dataclass(frozen=True)
class PathIntegral:
    r"""Average gradients :math:`\bar g = \int_0^1 \nabla f(b + s (z - b)) ds` and what they are multiplied with.

    ``gradient`` has the shape (t, N, F, m), ``step`` = z - b (t, N, F), ``start`` = f(b) (m,), ``end`` = f(z) (t, m).
    ``n_points`` is the largest number of points on the path to a sample.
    """

    gradient: np.ndarray
    step: np.ndarray
    start: np.ndarray
    end: np.ndarray
    n_points: int


class _Pieces(NamedTuple):
    """Pieces of the paths to some samples: the sample, where the piece begins and ends, and the outputs there."""

    row: Tensor
    low: Tensor
    high: Tensor
    at_low: Tensor
    at_high: Tensor

    def some(self, index: Tensor) -> _Pieces:
        return _Pieces(*(value[index] for value in self))


def _path(
    model: Model, X: DataLike, baseline: DataLike | None, class_: Any, logit: bool, tol: float
) -> tuple[PartFunction, PathIntegral]:
    """Return the function of a part of a model, and the path integral of all parts in the units of the model."""
    check_model(model)
    functions, signals, units = part_functions(model, class_, logit), signals_of(model, X), units_of(model)
    shape = signals.shape[1:]
    given = np.broadcast_to(units.mean, shape) if baseline is None else np.asarray(baseline, dtype=np.float64)
    expected = shape if shape[1] > 1 else shape[:1]
    if given.shape not in (expected, shape) or not np.isfinite(given).all():
        raise ValueError(f"baseline must be one sample of shape {expected}, of finite numbers; got {given.shape}.")
    given, paths = given.reshape(shape), []
    for weight, own, function in functions:
        path = integrate(function, check_finite(np.asarray(own(signals), dtype=np.float64)), own(given), tol)
        gradient = weight * np.asarray(units.scale / own.scale)[..., None] * path.gradient
        paths.append((gradient, weight * path.start, weight * path.end, path.n_points))
    gradient, start, end = (sum(parts) for parts in list(zip(*paths, strict=True))[:3])
    step = units(signals) - units(given)
    return functions[0][2], PathIntegral(gradient, step, start, end, max(path[3] for path in paths))


def integrate(function: PartFunction, Z: np.ndarray, baseline: np.ndarray, tol: float) -> PathIntegral:
    r"""Return average gradients, from as many points as each sample needs.

    On every piece of the path from u to v, the average gradient fulfils :math:`\bar g^\top (v - u) = f(v) - f(u)`. The
    pieces where a Gauss-Legendre rule of four points does not are halved, until the errors add up to at most ``tol``
    units of the output. So kinks of an activation cost halvings of the pieces around them only. With a closed form, one
    point is enough.
    """
    if not 0 < tol < 1:
        raise ValueError(f"tol must be a number between 0 and 1, got {tol!r}.")
    start, end = function.values(baseline[None])[0], check_finite(function.values(Z))
    change = np.sqrt(((end - start) ** 2).mean(0))
    unit = change if function.unit is None else np.broadcast_to(function.unit, start.shape)
    # A network without any effect has the unit zero, and rounding leaves more than nothing of it.
    scale = function.tensor(np.maximum(unit, 1e-12 * (1 + abs(start))))
    origin, step = function.tensor(baseline), function.tensor(Z - baseline)
    closed = closed_form(function, origin)
    gradient = np.empty((*Z.shape, len(start)))
    n_points, errors = 1, []
    for rows in torch.arange(len(Z), device=step.device).split(function.rows_at_once(Z.shape[1])):
        ends = function.tensor(start).expand(len(rows), -1), function.tensor(end)[rows]
        average, error, points = _average(function, closed, origin, step[rows], ends, scale, tol)
        gradient[rows.cpu().numpy()] = average.cpu().numpy()
        n_points = max(n_points, points)
        errors += error[error > tol].tolist()
    if errors:
        warnings.warn(
            f"the contributions of {len(errors)} samples do not add up: they are off by up to {max(errors):.1g} "
            f"standard deviations of the output, more than tol={tol:g}; give a larger tol.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return PathIntegral(gradient, Z - baseline, start, end, n_points)


def _average(
    function: PartFunction,
    closed: PartFunction | None,
    origin: Tensor,
    step: Tensor,
    ends: tuple[Tensor, Tensor],
    scale: Tensor,
    tol: float,
) -> tuple[Tensor, Tensor, int]:
    """Return average gradients (t, N, F, m), the error of each sample (t,), and the largest number of points."""
    none = step.new_zeros(len(step))
    total, spent, points = step.new_zeros(*step.shape, len(scale)), none.clone(), none.clone()
    pieces = _Pieces(torch.arange(len(step), device=step.device), none, none + 1, *ends)
    for halving in range(-1, _HALVINGS + 1):
        n_points = 1 if halving < 0 else _POINTS
        if halving < 0 and closed is not None:
            part = _gradients(closed, origin + step)
        else:
            part = _rule(function, origin, step, pieces, n_points)
        points.index_add_(0, pieces.row, torch.full_like(pieces.low, n_points))
        sums = torch.einsum("pnfm,pnf->pm", part, step[pieces.row])
        error = ((sums - (pieces.at_high - pieces.at_low)).abs() / scale).amax(1)
        if halving < 0:
            fine = error <= (_LINEAR if closed is None else tol)
        else:
            count = torch.bincount(pieces.row, minlength=len(step))[pieces.row]
            fine = spent.index_add(0, pieces.row, error)[pieces.row] <= tol
            fine |= (error * count <= tol / (_HALVINGS + 1)) | (count > _PIECES)
        if halving == _HALVINGS:
            fine = torch.ones_like(fine)
        total.index_add_(0, pieces.row[fine], part[fine])
        spent.index_add_(0, pieces.row[fine], error[fine])
        if fine.all():
            break
        pieces = pieces.some(~fine) if halving < 0 else _halved(function, origin, step, pieces.some(~fine))
    return total, spent, int(points.max())


def _rule(function: PartFunction, origin: Tensor, step: Tensor, pieces: _Pieces, n_points: int) -> Tensor:
    """Return the integrals of the gradients over the pieces, (P, N, F, m)."""
    places, weights = np.polynomial.legendre.leggauss(n_points)
    integrals = []
    for index in torch.arange(len(pieces.row), device=step.device).split(function.rows_at_once(step.shape[1])):
        part = pieces.some(index)
        width = (part.high - part.low)[:, None, None]
        total: Tensor | float = 0.0
        for place, weight in zip((1 + places) / 2, weights / 2, strict=True):
            x = origin + (part.low[:, None, None] + place * width) * step[part.row]
            total = total + weight * width[..., None] * _gradients(function, x)
        integrals.append(torch.as_tensor(total))
    return torch.cat(integrals)


def _gradients(function: PartFunction, x: Tensor) -> Tensor:
    """Return the gradients (t, N, F, m) of every output; the rows of ``x`` do not affect one another."""
    x = x.detach().requires_grad_()
    columns = function(x).sum(0).unbind()
    parts = [torch.autograd.grad(column, x, retain_graph=column is not columns[-1])[0] for column in columns]
    return torch.stack(parts, -1)


def _halved(function: PartFunction, origin: Tensor, step: Tensor, pieces: _Pieces) -> _Pieces:
    """Return both halves of every piece."""
    middle = (pieces.low + pieces.high) / 2
    with torch.no_grad():
        parts = torch.arange(len(middle), device=step.device).split(function.rows_at_once(step.shape[1]))
        at_middle = torch.cat([function(origin + middle[p, None, None] * step[pieces.row[p]]) for p in parts])
    first = pieces._replace(high=middle, at_high=at_middle)
    second = pieces._replace(low=middle, at_low=at_middle)
    return _Pieces(*(torch.cat(pair) for pair in zip(first, second, strict=True)))


class Secant(nn.Module):
    r"""An activation with another derivative: its mean slope on the path from the baseline.

    The input of the only activation moves on a straight line from :math:`a_0` to :math:`a`, so that

    .. math:: \int_0^1 \sigma'(a_0 + s (a - a_0)) ds = \frac{\sigma(a) - \sigma(a_0)}{a - a_0}

    The first call is for the baseline alone, and stores :math:`a_0`.
    """

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.start: Tensor | None = None

    def forward(self, a: Tensor) -> Tensor:
        value: Tensor = self.activation(a)
        if self.start is None:
            self.start = a.detach()
            return value
        value, here = value.detach(), a.detach()
        change = here - self.start
        close = change.abs() < _CLOSE
        middle = ((here + self.start) / 2).requires_grad_()
        (slope,) = torch.autograd.grad(self.activation(middle).sum(), middle)
        secant = (value - self.activation(self.start)) / torch.where(close, 1.0, change)
        return value + torch.where(close, slope, secant) * (a - here)


def closed_form(function: PartFunction, baseline: Tensor) -> PartFunction | None:
    """Return a function whose gradients are the average ones on the path from a baseline (N, F), or None.

    There is one for networks of one layer with a linear head (``mlp=()``), as long as numbers or logits are explained.
    """
    networks = function.networks
    if not function.is_linear or len(networks.filters) > 1 or len(networks.head) > 1:
        return None
    if isinstance(networks, LinearMap):
        return function
    networks = copy.deepcopy(networks, {id(networks.powers): networks.powers})  # on the same shift
    networks.activation = Secant(networks.activation)
    function = replace(function, networks=networks)
    with torch.no_grad():
        function(baseline[None])
    return function
