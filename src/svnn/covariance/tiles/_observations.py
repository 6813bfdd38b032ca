"""The data of the tiles: centred, scaled, in float32, one row per feature, within a limit of memory."""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from svnn._parameters import MEMORY_SIZE
from svnn._threads import in_threads
from svnn._types import AnyArray, ColumnLike, DataLike
from svnn.functional._array import as_floating, is_torch, to_numpy
from svnn.functional._centring import check_variances, is_constant, power_of_two
from svnn.functional.correlations import transformed_rows
from svnn.functional.moments import check_weight, effective_samples
from svnn.sources._memory import process_memory

if TYPE_CHECKING:
    from svnn.covariance.tiles._dask_panels import Panels

#: Features are padded with empty ones to a multiple of this, the width of what is scanned at once.
CHUNK = 128
#: Binary order of the largest standard deviation where features are brought to a common unit.
_LARGEST = 40
#: Features that are moved to a device at once.
_ROWS = 2**16
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


class Observations(NamedTuple):
    r"""N features as rows: :math:`c_{ij} = u_i u_j \sum_k z_{ik} z_{jk}`.

    ``Z`` is float32 and has (N rounded up to whole chunks, observations) entries. ``variance`` and ``unit`` (the u of
    the formula) are float64. Thresholds apply to ``scale`` times a product of two rows, which is a correlation where
    ``correlations`` says so and a covariance otherwise. ``weight`` holds one number per sample, with mean one.
    ``dtype`` and ``as_tensor`` say what the resulting matrix is to be. Where the workers of a cluster hold the rows,
    ``panels`` knows them, and ``Z`` has no columns.
    """

    Z: Tensor
    n_features: int
    location: Tensor
    variance: Tensor
    unit: Tensor
    scale: float
    correlations: bool
    weight: Tensor
    n_samples: float
    n_values: int
    dtype: torch.dtype
    as_tensor: bool
    panels: Panels | None = None


def read(
    X: Any,
    sample_weight: ColumnLike | None,
    *,
    correlations: bool,
    limit: int,
    kind: str,
    first: int = 0,
    total: int | None = None,
) -> Observations:
    """Read ``X``, of shape (t, N) or (t, N, F), some features at a time; raise where a value is not finite.

    ``kind`` is "pearson", or the correlation that data are transformed for, see :mod:`svnn.functional.correlations`.
    The features of a table of Dask stay with its workers.

    Means and variances are taken in double precision. On the scale of correlations features are divided by their
    standard deviation, otherwise all by the same power of two, which is exact. Constant features become exactly zero,
    see :func:`svnn.functional._centring.is_constant`. A table of more than half of ``limit`` bytes goes to a file.

    ``X`` may be some of the ``total`` features of a table, from ``first`` on: errors name a feature by its place there.
    """
    if hasattr(X, "client"):  # a table of Dask
        from svnn.covariance.tiles._dask_panels import read_panels

        return read_panels(X, sample_weight, correlations=correlations, limit=limit, kind=kind)
    device = X.device if is_torch(X) else torch.device("cpu")
    n, n_values = X.shape[1], X.shape[2] if X.ndim == 3 else 1
    weight, n_samples = torch.ones(X.shape[0], dtype=torch.float64, device=device), float(X.shape[0])
    rows = root = None
    if sample_weight is not None:
        like: Any = weight[:, None] if is_torch(X) else weight[:, None].numpy()
        weight = torch.as_tensor(check_weight(sample_weight, like))
        n_samples = effective_samples(weight)
        rows = None if bool((weight > 0).all()) else torch.nonzero(weight)[:, 0]
        weight = weight if rows is None else weight[rows]
        weight = weight / weight.mean()
        root = weight.sqrt().repeat_interleave(n_values)
    n_rows = len(weight) * n_values

    padded = -(-n // CHUNK) * CHUNK
    if device.type != "cpu":  # tensor cores want rows that start at multiples of 32 bytes
        Z = torch.zeros((padded, -(-n_rows // 8) * 8), dtype=torch.float32, device=device)
    elif 4 * padded * n_rows <= limit // 2:
        Z = torch.from_numpy(np.zeros((padded, n_rows), dtype=np.float32))
    else:
        with tempfile.TemporaryFile(prefix="svnn-") as file:  # has no name: it disappears together with the table
            Z = torch.from_numpy(np.memmap(file, dtype=np.float32, mode="w+", shape=(padded, n_rows)))
    location = torch.empty(n, dtype=torch.float64, device=device)
    variance, size = torch.empty_like(location), torch.empty_like(location)
    constant = torch.empty(n, dtype=torch.bool, device=device)
    dtype = torch.float32 if X.dtype in (np.float32, torch.float32) else torch.float64
    share = torch.full((n_rows,), 1 / n_rows, dtype=torch.float64, device=device)
    share = share if root is None else share * root**2
    width = min(max((2**17 if device.type == "cpu" else 2**23) // n_rows, 16), 8192)
    local = threading.local()

    def fill(a: int) -> None:
        b = min(a + width, n)
        if not hasattr(local, "panel"):
            local.panel = torch.empty((width, n_rows), dtype=torch.float64, device=device)
        part = local.panel[: b - a]
        table = X[:, a:b] if rows is None else X[rows if is_torch(X) else rows.numpy(), a:b]
        table = table if X.ndim == 2 else table.swapaxes(1, 2).reshape(-1, b - a)
        if is_torch(X):
            part.copy_(table.T)
        else:
            np.copyto(part.numpy(), table.T, casting="unsafe")
        low, high = torch.aminmax(part, dim=1)
        constant[a:b] = is_constant(low, high, torch.finfo(dtype).eps)
        size[a:b] = unit = power_of_two(torch.maximum(low.abs(), high.abs()))
        if bool((unit != 1).any()):
            part /= unit[:, None]
        values = None if kind == "pearson" else part.clone()
        mean = torch.mv(part, share)
        part -= mean[:, None]
        missed = torch.mv(part, share)  # by the rounding of the mean
        part -= missed[:, None]
        location[a:b] = ((mean + missed) * unit).clamp(low, high)
        part.masked_fill_(constant[a:b, None], 0)
        if values is not None:
            deviation = torch.mv(part**2, share).sqrt()
            given: list[Any] = [values, share, mean + missed, deviation]
            if device.type == "cpu":  # numpy sorts several times faster
                given = [each.numpy() for each in given]
            found = transformed_rows(given[0], given[1], kind, given[2], given[3])
            middle, part[:] = map(torch.as_tensor, found)
            location[a:b] = (middle * unit).clamp(low, high)
        if root is not None:
            part *= root
        torch.linalg.vector_norm(part, dim=1, out=variance[a:b])
        variance[a:b] = variance[a:b] ** 2 / n_rows
        if correlations:
            part *= torch.where(variance[a:b] > 0, variance[a:b].rsqrt(), 0.0)[:, None]
        Z[a:b, :n_rows].copy_(part)

    starts = range(0, n, width)
    threaded = device.type == "cpu" and torch.get_num_threads() > 1
    for _ in in_threads(fill, starts) if threaded else map(fill, starts):
        pass
    if not bool(torch.isfinite(variance).all()):
        _raise_not_finite(X, variance, first, total or n)
    size = torch.where(constant, 1.0, size)  # zeros have no unit
    spread = variance.sqrt() * size
    variance = variance * size * size
    check_variances(variance, constant, dtype)
    if correlations:
        unit, scale = spread / math.sqrt(n_rows), 1 / n_rows
    else:
        power = common_unit(spread)
        if bool((size != power).any()):
            Z[:n] *= (size / power).float()[:, None]
        unit, scale = torch.full_like(variance, power / math.sqrt(n_rows)), power**2 / n_rows
    return Observations(
        *(Z, n, location, variance, unit, scale, correlations),
        *(weight.float(), n_samples, n_values, dtype, is_torch(X)),
    )


def common_unit(spread: Tensor) -> float:
    """Return a power of two that brings products of any two features into the range of float32, mostly 1."""
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


def _raise_not_finite(X: AnyArray, variance: Tensor, first: int, total: int) -> None:
    column = int(torch.nonzero(~torch.isfinite(variance))[0, 0])
    values = X[:, column].double() if is_torch(X) else torch.as_tensor(np.array(X[:, column], dtype=np.float64))
    if bool(torch.isinf(values).any()):
        raise ValueError(f"X contains inf (feature {first + column}); remove infinite values before fitting.")
    raise ValueError(
        f'X contains NaN (feature {first + column}); impute them first, or use missing="pairwise" with dense_limit at '
        f"least {total} (that forms N×N matrices)."
    )


def on_device(data: Observations, device: torch.device) -> Observations:
    """Return standardised data on a device."""
    if data.panels is not None or data.Z.device == device:
        return data
    moved: dict[str, Any] = {
        name: part.to(device) for name, part in data._asdict().items() if isinstance(part, Tensor) and name != "Z"
    }
    n, size = data.Z.shape
    Z = torch.zeros((n, -(-size // 8) * 8), device=device)  # tensor cores want rows of whole 32 bytes
    for a in range(0, n, _ROWS):
        Z[a : a + _ROWS, :size] = data.Z[a : a + _ROWS].to(device)
    return data._replace(Z=Z, **moved)


# -- memory ---------------------------------------------------------------------------------------


def memory_bytes(limit: float | str | None) -> int:
    """Return a memory limit in bytes: a number, a text such as "1.5GB", or for None half of what this process may use.

    Examples
    --------
    >>> memory_bytes("1.5GB"), memory_bytes("64 MiB"), memory_bytes(1000)
    (1500000000, 67108864, 1000)
    """
    if limit is None:
        return _half_of_memory()
    if isinstance(limit, str):
        match = MEMORY_SIZE.fullmatch(limit.upper())
        assert match is not None, "the rule of the parameter has been checked"
        return int(float(match[1]) * _UNITS[match[2] or ""])
    return int(limit)


@cache
def _half_of_memory() -> int:
    return process_memory() // 2


def gather(chunks: Iterator[DataLike], limit: int) -> np.ndarray:
    """Return the rows of all chunks as one array: in memory up to a quarter of ``limit``, else in a file.

    The file has no name any more: it disappears together with the array.
    """
    parts: list[np.ndarray] = []
    file: BinaryIO | None = None
    shape, dtype, n_rows, size = None, None, 0, 0
    for chunk in chunks:
        part = as_floating(to_numpy(chunk))
        shape, dtype = shape or part.shape[1:], dtype or part.dtype
        if part.ndim not in (2, 3) or part.shape[1:] != shape:
            raise ValueError(f"chunk {len(parts)} of X has shape {part.shape}, expected (rows, *{shape}).")
        parts.append(part.astype(dtype, copy=False))
        n_rows, size = n_rows + len(part), size + part.nbytes
        if file is None and size > limit // 4:
            file = tempfile.TemporaryFile(prefix="svnn-")  # noqa: SIM115 - the array returned keeps it
        if file is not None:
            for part in parts:
                part.tofile(file)
            parts.clear()
    if shape is None or dtype is None:
        raise ValueError("X is an iterator that yields nothing; found 0 sample(s).")
    if file is None:
        return np.concatenate(parts)
    file.flush()
    return np.memmap(file, dtype=dtype, mode="r", shape=(n_rows, *shape))
