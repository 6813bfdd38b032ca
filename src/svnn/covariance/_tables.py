"""Tables in files and on Dask clusters: their moments row by row or chunk by chunk, or their columns for the tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from svnn._types import ColumnLike
from svnn._validation import is_dask
from svnn.covariance._moments import Totals, add_rows, merge, totals
from svnn.covariance.tiles import DaskTable, gather, memory_bytes
from svnn.functional.moments import check_weight
from svnn.sources import Table, as_table

#: Totals that one task merges; each is an N×N matrix.
_AT_ONCE = 4
#: Least number of bytes of a chunk of rows, where the table is that large.
_CHUNK_BYTES = 2**26


def read_table(estimator: Any, X: Any, dense_limit: float, streams: bool) -> Any:
    """Return the rows of an iterator or a table, checked; None where ``X`` is neither.

    With more than ``dense_limit`` features the columns come unread. Where moments suffice (``streams``) a table stays
    where it is, and so does a table of Dask whose tiles the workers compute (``on_cluster``).
    """
    limit = memory_bytes(getattr(estimator, "memory_limit", None))
    if isinstance(X, Iterator):
        return estimator._check(gather(X, limit), dense_limit=dense_limit)
    if is_dask(X):
        return _read_dask(estimator, DaskTable(X), streams, dense_limit, limit)
    table = as_table(X)
    if table is None:
        return None
    name, (t, n) = type(estimator).__name__, table.shape
    if t < 2 or n < 1:
        raise ValueError(
            f"{name}: found {t} sample(s) and {n} feature(s) (shape={table.shape}); a minimum of 2 samples and 1 "
            "feature is required."
        )
    estimator.n_features_in_ = n
    estimator.__dict__.pop("feature_names_in_", None)  # they would have to be those of every piece
    if n > dense_limit:
        data: Any = table.columns(limit)
    else:
        data = table if streams else estimator._check(table.stored(limit), reset=False)
    if data is not table:
        _set_names(estimator, table)
    return data


def _read_dask(estimator: Any, table: DaskTable, streams: bool, dense_limit: float, limit: int) -> Any:
    names = table.names if table.names is not None else np.empty((0, 0))
    validate_data(estimator, names, reset=True, skip_check_array=True)
    estimator.n_features_in_ = table.shape[1]
    wide, tiled_there = table.shape[1] > dense_limit, getattr(estimator, "_tiles_on_cluster", False)
    if (table.client is not None and tiled_there) if wide else streams:
        return table
    kept = getattr(estimator, "feature_names_in_", None)
    data = estimator._check(table.gathered(limit), dense_limit=dense_limit)
    if kept is not None:
        estimator.feature_names_in_ = kept
    return data


def _set_names(estimator: Any, table: Table) -> None:
    if table.names is not None:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)


def totals_of_table(estimator: Any, table: Any, weight: ColumnLike | None) -> tuple[Totals, Any]:
    """Return the running moments of all rows, few of which are in memory at a time, and the rows read last.

    Memory does not grow with the number of rows. The result is that of all rows at once, up to rounding.
    """
    if weight is not None:
        check_weight(weight, np.empty((table.shape[0], 1), dtype=np.float32 if table.dtype == np.float32 else None))
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), table.shape[:1])
    if isinstance(table, DaskTable):
        return _totals_of_chunks(table, weight), table
    so_far, rows, start = None, np.empty((0, table.shape[1])), 0
    for part in table.rows(memory_bytes(getattr(estimator, "memory_limit", None))):
        rows = estimator._check(part, reset=False, min_samples=1)
        of_rows = None if weight is None else weight[start : start + len(rows)]
        start += len(rows)
        if of_rows is None or of_rows.any():
            so_far = add_rows(so_far, rows, of_rows)
    assert so_far is not None, "the shape has been checked, and so have the weights"
    _set_names(estimator, table)
    return so_far, rows


def _totals_of_chunks(X: DaskTable, weight: np.ndarray | None) -> Totals:
    """Return the totals of a table of Dask, merged in a tree, so that the table is never in one place.

    A chunk has at least as many rows as there are features, so that its totals are no larger than it.
    """
    from dask.delayed import delayed

    height = max(X.array.chunks[0][0], X.shape[1], _CHUNK_BYTES // max(X.array.nbytes // len(X), 1))
    table = X.array.rechunk({0: min(height, len(X)), **dict.fromkeys(range(1, X.ndim), -1)})
    parts, end = [], 0
    for block, rows in zip(table.to_delayed().ravel(), table.chunks[0], strict=True):
        start, end = end, end + rows
        of_rows = None if weight is None else weight[start:end]
        if of_rows is None or of_rows.any():
            parts.append(delayed(_totals_of_chunk, pure=False)(block, of_rows, str(X.dtype)))
    while len(parts) > 1:
        groups = (parts[k : k + _AT_ONCE] for k in range(0, len(parts), _AT_ONCE))
        parts = [group[0] if len(group) == 1 else delayed(_merged, pure=False)(group) for group in groups]
    merged: Totals = parts[0].compute()
    return merged


def _totals_of_chunk(rows: Any, weight: np.ndarray | None, dtype: str) -> Totals:
    """Return the totals of some rows of a table."""
    rows = np.asarray(rows, dtype=dtype)
    if not np.isfinite(rows).all():
        if np.isinf(rows).any():
            raise ValueError("X contains inf; remove infinite values before fitting.")
        raise ValueError('X contains NaN; pass missing="pairwise" to use the observed pairs, or impute them first.')
    return totals(rows, weight)


def _merged(parts: list[Totals]) -> Totals:
    first, *others = parts
    for other in others:
        first = merge(first, other)
    return first
