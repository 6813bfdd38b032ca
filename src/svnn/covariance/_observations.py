"""The data as the blocked products read it: centred, scaled, float32, feature by feature."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn.covariance._memory import empty_table
from svnn.covariance._threads import in_threads
from svnn.functional._array import is_torch
from svnn.functional._spread import check_variances, is_constant, power_of_two
from svnn.functional.moments import check_weight, effective_samples

#: Features are padded with empty ones to a multiple of this, the width of what is scanned at once.
CHUNK = 128
#: Binary order of the largest standard deviation where features are brought to a common unit.
_LARGEST = 40


class Observations(NamedTuple):
    r"""N features as rows: :math:`c_{ij} = u_i u_j \sum_k z_{ik} z_{jk}`.

    ``Z`` is float32 and has (N rounded up to whole chunks, observations) entries. ``variance`` and
    ``unit`` (the u of the formula) are float64. Thresholds apply to ``scale`` times a product of two
    rows: a correlation or a covariance. ``weight`` holds one number per sample, with mean one.
    ``dtype`` and ``as_tensor`` say what the matrix is to be.
    """

    Z: Tensor
    n_features: int
    location: Tensor
    variance: Tensor
    unit: Tensor
    scale: float
    weight: Tensor
    n_samples: float
    n_values: int
    dtype: torch.dtype
    as_tensor: bool


def standardize(X: Any, sample_weight: Any, correlation: bool, limit: int) -> Observations:
    """Read ``X``, of shape (t, N) or (t, N, F), panel by panel; raise where a value is not finite.

    Means and variances are taken in double precision. On the scale of correlations features are
    divided by their standard deviation, otherwise all by the same power of two, which is exact.
    Constant features are exactly zero, see :func:`svnn.functional._spread.is_constant`.
    """
    device = X.device if is_torch(X) else torch.device("cpu")
    like = torch.empty((X.shape[0], 1), dtype=torch.float64, device=device)
    weight = check_weight(sample_weight, like if is_torch(X) else like.numpy())
    n_samples = effective_samples(weight)
    weight = torch.as_tensor(weight)
    rows = None if bool((weight > 0).all()) else torch.nonzero(weight)[:, 0]
    if rows is not None:
        weight = weight[rows]
    weight = weight / weight.mean()
    n, n_values = X.shape[1], X.shape[2] if X.ndim == 3 else 1
    n_rows = len(weight) * n_values
    root = None if bool((weight == 1).all()) else weight.sqrt().repeat_interleave(n_values)

    Z = _allocate(n, n_rows, device, limit)
    location = torch.empty(n, dtype=torch.float64, device=device)
    variance, size = torch.empty_like(location), torch.empty_like(location)
    constant = torch.empty(n, dtype=torch.bool, device=device)
    dtype = torch.float32 if X.dtype in (np.float32, torch.float32) else torch.float64
    share = torch.full((n_rows,), 1 / n_rows, dtype=torch.float64, device=device)
    share = share if root is None else share * root**2
    width, local = _panel_width(n_rows, device), threading.local()

    def fill(a: int) -> None:
        b = min(a + width, n)
        if not hasattr(local, "panel"):
            local.panel = torch.empty((width, n_rows), dtype=torch.float64, device=device)
        part = local.panel[: b - a]
        _read(X, a, b, rows, part)
        low, high = torch.aminmax(part, dim=1)
        constant[a:b] = is_constant(low, high, torch.finfo(dtype).eps)
        size[a:b] = unit = power_of_two(torch.maximum(low.abs(), high.abs()))
        if bool((unit != 1).any()):
            part /= unit[:, None]
        mean = torch.mv(part, share)
        part -= mean[:, None]
        missed = torch.mv(part, share)  # by the rounding of the mean
        part -= missed[:, None]
        location[a:b] = ((mean + missed) * unit).clamp(low, high)
        part.masked_fill_(constant[a:b, None], 0)
        if root is not None:
            part *= root
        torch.linalg.vector_norm(part, dim=1, out=variance[a:b])
        variance[a:b] = variance[a:b] ** 2 / n_rows
        if correlation:
            part *= torch.where(variance[a:b] > 0, variance[a:b].rsqrt(), 0.0)[:, None]
        Z[a:b, :n_rows].copy_(part)

    starts = range(0, n, width)
    for _ in in_threads(fill, starts) if device.type == "cpu" else map(fill, starts):
        pass
    if not bool(torch.isfinite(variance).all()):
        _say_what_is_not_finite(X, variance)
    size = torch.where(constant, 1.0, size)  # zeros have no unit
    spread = variance.sqrt() * size
    variance = variance * size * size
    check_variances(variance, constant, dtype)
    if correlation:
        unit, scale = spread / math.sqrt(n_rows), 1 / n_rows
    else:
        power = _common_unit(spread)
        if bool((size != power).any()):
            Z[:n] *= (size / power).float()[:, None]
        unit, scale = torch.full_like(variance, power / math.sqrt(n_rows)), power**2 / n_rows
    return Observations(
        Z, n, location, variance, unit, scale, weight.float(), n_samples, n_values, dtype, as_tensor=is_torch(X)
    )


def _allocate(n: int, n_rows: int, device: torch.device, limit: int) -> Tensor:
    padded = -(-n // CHUNK) * CHUNK
    if device.type == "cpu":
        return torch.from_numpy(empty_table((padded, n_rows), limit))
    # Tensor cores want rows that start at multiples of 32 bytes.
    return torch.zeros((padded, -(-n_rows // 8) * 8), dtype=torch.float32, device=device)


def _panel_width(n_rows: int, device: torch.device) -> int:
    return min(max((2**17 if device.type == "cpu" else 2**23) // n_rows, 16), 8192)


def _read(X: Any, a: int, b: int, rows: Tensor | None, out: Tensor) -> None:
    """Write features ``a`` to ``b`` of ``X``, as rows of double precision, to ``out``."""
    if is_torch(X):
        part = X[:, a:b] if rows is None else X[rows, a:b]
        part = part if X.ndim == 2 else part.swapaxes(1, 2).reshape(-1, b - a)
        out.copy_(part.T)
        return
    part = X[:, a:b] if rows is None else X[rows.numpy(), a:b]
    part = part if X.ndim == 2 else part.swapaxes(1, 2).reshape(-1, b - a)
    np.copyto(out.numpy(), part.T, casting="unsafe")


def _common_unit(spread: Tensor) -> float:
    """Return a power of two that makes products of any two features numbers of float32, 1 where they are anyway."""
    spread = spread[spread > 0]
    if not len(spread):
        return 1.0
    smallest, largest = float(spread.min()), float(spread.max())
    if largest <= 2.0**20 and smallest >= 2.0**-50:
        return 1.0
    # Sums of products of the largest stay below the largest float32, 2^128, products of the smallest above 2^-126.
    power = 2.0 ** max(math.frexp(largest)[1] - _LARGEST, -500)  # its square is a number as well
    if smallest / power < 2.0**-60:
        raise ValueError(
            f"X has features of standard deviations from {smallest:.3g} to {largest:.3g}, too different for products "
            "in single precision; rescale them, for example to standard deviation 1, or raise dense_limit."
        )
    return power


def _say_what_is_not_finite(X: Any, variance: Tensor) -> None:
    column = int(torch.nonzero(~torch.isfinite(variance))[0, 0])
    values = torch.as_tensor(np.array(X[:, column], dtype=np.float64)) if not is_torch(X) else X[:, column].double()
    if bool(torch.isinf(values).any()):
        raise ValueError(f"X contains inf (feature {column}); remove infinite values before fitting.")
    raise ValueError(
        f'X contains NaN (feature {column}); impute them first, or use missing="pairwise" with dense_limit at '
        f"least {variance.shape[0]} (that forms N×N matrices)."
    )
