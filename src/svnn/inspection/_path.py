"""Average gradients along the straight way from a baseline to each sample."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from svnn.inspection._closed_form import closed_form
from svnn.inspection._outputs import Outputs, finite

#: Points of the Gauss-Legendre rule on every piece of a way; how often pieces are halved at most; how many pieces of
#: a way may be left to halve.
_POINTS, _HALVINGS, _PIECES = 4, 16, 1000
#: One point is exact for a linear network. Since it may fit another one by chance, it has to fit this well.
_LINEAR = 1e-9


@dataclass(frozen=True)
class PathIntegral:
    r"""Average gradients :math:`\bar g = \int_0^1 \nabla f(b + s (z - b)) ds` and what they are multiplied with.

    ``gradient`` has the shape (t, N, F, m), ``step`` = z - b (t, N, F), ``start`` = f(b) (m,), ``end`` = f(z) (t, m).
    ``n_points`` is the largest number of points on the way to a sample.
    """

    gradient: np.ndarray
    step: np.ndarray
    start: np.ndarray
    end: np.ndarray
    n_points: int


@dataclass
class _Pieces:
    """Parts of the ways to some samples: the sample, where the part begins and ends, and the outputs there."""

    row: Tensor
    low: Tensor
    high: Tensor
    at_low: Tensor
    at_high: Tensor

    def __getitem__(self, kept: Tensor) -> _Pieces:
        return _Pieces(*(value[kept] for value in vars(self).values()))


def integrate(outputs: Outputs, Z: np.ndarray, baseline: np.ndarray, tol: float) -> PathIntegral:
    r"""Return average gradients, from as many points as each sample needs.

    On every piece of the way from u to v, the average gradient fulfils :math:`\bar g^\top (v - u) = f(v) - f(u)`. The
    pieces where a Gauss-Legendre rule of four points does not are halved, until all that is missing adds up to at most
    ``tol`` units of the output. Kinks of an activation so cost halvings of the pieces around them only. With a
    closed form, one point is enough.
    """
    if not 0 < tol < 1:
        raise ValueError(f"tol must be a number between 0 and 1, got {tol!r}.")
    start, end = outputs.values(baseline[None])[0], finite(outputs.values(Z))
    unit = np.sqrt(((end - start) ** 2).mean(0)) if outputs.unit is None else np.broadcast_to(outputs.unit, start.shape)
    # A network without any effect has the unit zero, and rounding leaves more than nothing of it.
    scale = outputs.tensor(np.maximum(unit, 1e-12 * (1 + abs(start))))
    origin, step = outputs.tensor(baseline), outputs.tensor(Z - baseline)
    closed = closed_form(outputs, origin)
    gradient = np.empty((*Z.shape, len(start)))
    n_points, missed = 1, outputs.tensor(np.zeros(0))
    size = outputs.rows(Z.shape[1])
    for rows in torch.arange(len(Z), device=outputs.device).split(size):
        ends = outputs.tensor(start).expand(len(rows), -1), outputs.tensor(end)[rows]
        found, error, points = _average(outputs, closed, origin, step[rows], ends, scale, tol)
        gradient[rows.cpu().numpy()] = found.cpu().numpy()
        missed, n_points = torch.cat([missed, error[error > tol]]), max(n_points, points)
    if len(missed):
        warnings.warn(
            f"the contributions of {len(missed)} samples do not add up: they are off by up to "
            f"{float(missed.max()):.1g} standard deviations of the output, more than tol={tol:g}; give a larger tol.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return PathIntegral(gradient, Z - baseline, start, end, n_points)


def _average(
    outputs: Outputs,
    closed: Outputs | None,
    origin: Tensor,
    step: Tensor,
    ends: tuple[Tensor, Tensor],
    scale: Tensor,
    tol: float,
) -> tuple[Tensor, Tensor, int]:
    """Return average gradients (t, N, F, m), what is missing of each sample (t,), and the largest number of points."""
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
            part = _rule(outputs, origin, step, pieces, n_points)
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
        pieces = pieces[~fine] if halving < 0 else _halved(outputs, origin, step, pieces[~fine])
    return total, spent, int(points.max())


def _rule(outputs: Outputs, origin: Tensor, step: Tensor, pieces: _Pieces, n_points: int) -> Tensor:
    """Return the integrals of the gradients over the pieces, (P, N, F, m)."""
    places, weights = np.polynomial.legendre.leggauss(n_points)
    found = []
    for part in torch.arange(len(pieces.row), device=step.device).split(outputs.rows(step.shape[1])):
        own = pieces[part]
        width = (own.high - own.low)[:, None, None]
        total: Tensor | None = None
        for place, weight in zip((1 + places) / 2, weights / 2, strict=True):
            x = origin + (own.low[:, None, None] + place * width) * step[own.row]
            term = weight * width[..., None] * _gradients(outputs, x)
            total = term if total is None else total + term
        assert total is not None
        found.append(total)
    return torch.cat(found)


def _gradients(outputs: Outputs, x: Tensor) -> Tensor:
    """Return the gradients (t, N, F, m) of every output; the rows of ``x`` do not touch one another."""
    x = x.detach().requires_grad_()
    columns = outputs(x).sum(0).unbind()
    found = [torch.autograd.grad(column, x, retain_graph=column is not columns[-1])[0] for column in columns]
    return torch.stack(found, -1)


def _halved(outputs: Outputs, origin: Tensor, step: Tensor, pieces: _Pieces) -> _Pieces:
    """Return both halves of every piece."""
    middle = (pieces.low + pieces.high) / 2
    with torch.no_grad():
        parts = torch.arange(len(middle), device=step.device).split(outputs.rows(step.shape[1]))
        at_middle = torch.cat([outputs(origin + middle[p, None, None] * step[pieces.row[p]]) for p in parts])
    first = _Pieces(pieces.row, pieces.low, middle, pieces.at_low, at_middle)
    second = _Pieces(pieces.row, middle, pieces.high, at_middle, pieces.at_high)
    both = zip(vars(first).values(), vars(second).values(), strict=True)
    return _Pieces(*(torch.cat(pair) for pair in both))
