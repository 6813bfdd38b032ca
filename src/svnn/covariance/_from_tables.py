"""Covariances of tables in files: moments row by row, or columns for the tiles; see :mod:`svnn.sources`."""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn._types import ColumnLike
from svnn.covariance._running_moments import Totals, add_rows, decaying
from svnn.functional.moments import check_weight
from svnn.sources import Table


def moments_of_table(estimator: Any, table: Table, sample_weight: ColumnLike | None) -> tuple[Totals, np.ndarray]:
    """Return the running moments of all rows, of which some are in memory at a time, and the last of these.

    Their memory does not grow with the number of rows. The result is that of all rows at once, up to rounding.
    """
    _check_shape(estimator, table)
    like = np.empty((table.shape[0], 1), dtype=np.float32 if table.dtype == np.float32 else np.float64)
    weight = decaying(sample_weight, estimator.halflife, like)
    if weight is not None:
        check_weight(weight, like)
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), table.shape[:1])
    found, rows, start = None, np.empty((0, table.shape[1])), 0
    for part in table.rows(_limit(estimator)):
        rows = estimator._check(part, reset=False, min_samples=1)
        of_rows = None if weight is None else weight[start : start + len(rows)]
        start += len(rows)
        if of_rows is None or of_rows.any():
            found = add_rows(found, rows, of_rows)
    assert found is not None, "the shape has been checked, and so have the weights"
    _set_names(estimator, table)
    return found, rows


def read_table(
    estimator: Any, table: Table, dense_limit: float = np.inf, memory_limit: float | str | None = None
) -> Any:
    """Return the dense table, checked; with more than ``dense_limit`` features its columns, unread."""
    from svnn.covariance.tiles import memory_bytes

    _check_shape(estimator, table)
    limit = memory_bytes(memory_limit)
    wide = table.shape[1] > dense_limit
    data = table.columns(limit) if wide else estimator._check(table.stored(limit), reset=False)
    _set_names(estimator, table)
    return data


def _check_shape(estimator: Any, table: Table, least: int = 2) -> None:
    """Check the shape of a table, and set the number of features; names would have to be those of every piece."""
    name, (t, n) = type(estimator).__name__, table.shape
    if t < least or n < 1:
        raise ValueError(
            f"{name}: found {t} sample(s) and {n} feature(s) (shape={table.shape}); a minimum of {least} samples and 1 "
            "feature is required."
        )
    estimator.n_features_in_ = n
    estimator.__dict__.pop("feature_names_in_", None)


def _set_names(estimator: Any, table: Table) -> None:
    if table.names is not None:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)


def _limit(estimator: Any) -> int:
    from svnn.covariance.tiles import memory_bytes

    return memory_bytes(getattr(estimator, "memory_limit", None))
