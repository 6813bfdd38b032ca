"""Average gradients along the straight path from a baseline to each sample."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from svnn.inspection._fitted import NetworkFunction, check_finite
from svnn.nn._layers import ACTIVATIONS

#: Points of the Gauss-Legendre rule on every piece of a path; how often pieces are halved at most; how many pieces of
#: a path may be left to halve.
_POINTS, _HALVINGS, _PIECES = 4, 16, 1000
#: One point is exact for a linear network. Since it may fit another one by chance, it has to fit this well.
_LINEAR = 1e-9
#: Below this change of its input, the slope of an activation is taken at the middle.
_CLOSE = 1e-6


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


@dataclass
class _Pieces:
    """Pieces of the paths to some samples: the sample, where the piece begins and ends, and the outputs there."""

    row: Tensor
    low: Tensor
    high: Tensor
    at_low: Tensor
    at_high: Tensor

    def __getitem__(self, index: Tensor) -> _Pieces:
        return _Pieces(*(value[index] for value in vars(self).values()))


def integrate(function: NetworkFunction, Z: np.ndarray, baseline: np.ndarray, tol: float) -> PathIntegral:
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
    n_points, errors = 1, function.tensor(np.zeros(0))
    for rows in torch.arange(len(Z), device=function.device).split(function.rows_at_once(Z.shape[1])):
        ends = function.tensor(start).expand(len(rows), -1), function.tensor(end)[rows]
        average, error, points = _average(function, closed, origin, step[rows], ends, scale, tol)
        gradient[rows.cpu().numpy()] = average.cpu().numpy()
        errors, n_points = torch.cat([errors, error[error > tol]]), max(n_points, points)
    if len(errors):
        warnings.warn(
            f"the contributions of {len(errors)} samples do not add up: they are off by up to "
            f"{float(errors.max()):.1g} standard deviations of the output, more than tol={tol:g}; give a larger tol.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return PathIntegral(gradient, Z - baseline, start, end, n_points)


def _average(
    function: NetworkFunction,
    closed: NetworkFunction | None,
    origin: Tensor,
    step: Tensor,
    ends: tuple[Tensor, Tensor],
    scale: Tensor,
    tol: float,
) -> tuple[Tensor, Tensor, int]:
    """Return average gradients (t, N, F, m), the error of each sample (t,), and the largest number of points."""
    n_rows, device = len(step), step.device
    total = step.new_zeros(*step.shape, len(scale))
    spent, points = step.new_zeros(n_rows), step.new_zeros(n_rows)
    rows = torch.arange(n_rows, device=device)
    pieces = _Pieces(rows, step.new_zeros(n_rows), step.new_ones(n_rows), *ends)
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
            count = torch.bincount(pieces.row, minlength=n_rows)
            whole = spent.index_add(0, pieces.row, error)
            fine = (whole <= tol)[pieces.row] | (error * count[pieces.row] <= tol / (_HALVINGS + 1))
            fine |= (count > _PIECES)[pieces.row]
        if halving == _HALVINGS:
            fine = torch.ones_like(fine)
        total.index_add_(0, pieces.row[fine], part[fine])
        spent.index_add_(0, pieces.row[fine], error[fine])
        if fine.all():
            break
        pieces = pieces[~fine] if halving < 0 else _halved(function, origin, step, pieces[~fine])
    return total, spent, int(points.max())


def _rule(function: NetworkFunction, origin: Tensor, step: Tensor, pieces: _Pieces, n_points: int) -> Tensor:
    """Return the integrals of the gradients over the pieces, (P, N, F, m)."""
    places, weights = np.polynomial.legendre.leggauss(n_points)
    integrals = []
    for index in torch.arange(len(pieces.row), device=step.device).split(function.rows_at_once(step.shape[1])):
        part = pieces[index]
        width = (part.high - part.low)[:, None, None]
        total: Tensor | float = 0.0
        for place, weight in zip((1 + places) / 2, weights / 2, strict=True):
            x = origin + (part.low[:, None, None] + place * width) * step[part.row]
            total = total + weight * width[..., None] * _gradients(function, x)
        integrals.append(torch.as_tensor(total))
    return torch.cat(integrals)


def _gradients(function: NetworkFunction, x: Tensor) -> Tensor:
    """Return the gradients (t, N, F, m) of every output; the rows of ``x`` do not affect one another."""
    x = x.detach().requires_grad_()
    columns = function(x).sum(0).unbind()
    parts = [torch.autograd.grad(column, x, retain_graph=column is not columns[-1])[0] for column in columns]
    return torch.stack(parts, -1)


def _halved(function: NetworkFunction, origin: Tensor, step: Tensor, pieces: _Pieces) -> _Pieces:
    """Return both halves of every piece."""
    middle = (pieces.low + pieces.high) / 2
    with torch.no_grad():
        parts = torch.arange(len(middle), device=step.device).split(function.rows_at_once(step.shape[1]))
        at_middle = torch.cat([function(origin + middle[p, None, None] * step[pieces.row[p]]) for p in parts])
    first = _Pieces(pieces.row, pieces.low, middle, pieces.at_low, at_middle)
    second = _Pieces(pieces.row, middle, pieces.high, at_middle, pieces.at_high)
    both = zip(vars(first).values(), vars(second).values(), strict=True)
    return _Pieces(*(torch.cat(pair) for pair in both))


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


def closed_form(function: NetworkFunction, baseline: Tensor) -> NetworkFunction | None:
    """Return a function whose gradients are the average ones on the path from a baseline (N, F), or None.

    There is one for networks of one layer with a linear head (``mlp=()``), as long as numbers or logits are explained.
    """
    if not function.linear:
        return None
    function = replace(function, module=copy.deepcopy(function.module))
    nonlinear = tuple(kind for kind in ACTIVATIONS.values() if kind is not nn.Identity)
    for network in function.networks:
        others = [part for part in network.modules() if isinstance(part, nonlinear) and part is not network.activation]
        if len(network.filters) != 1 or others:
            return None
        network.activation = Secant(network.activation)
    with torch.no_grad():
        function(baseline[None])
    return function
