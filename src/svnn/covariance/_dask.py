"""Tables of Dask as estimators take them: computed, or left where they are; and their moments, merged in a tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from svnn._types import ColumnLike
from svnn.covariance._running_moments import Totals, decaying, merge, totals
from svnn.covariance.tiles import DaskTable
from svnn.functional.moments import check_weight

#: Totals that one task merges; each is an N×N matrix.
_AT_ONCE = 4
#: Least number of bytes of a chunk of rows, where there are so many.
_CHUNK_BYTES = 2**26


def take(estimator: Any, X: object, stays: Callable[[DaskTable], bool], limit: int) -> DaskTable | np.ndarray:
    """Return a table of Dask as it is where it ``stays``, or else all its rows; set the names of its columns."""
    table = DaskTable(X)
    names = table.names if table.names is not None else np.empty((0, 0))
    validate_data(estimator, names, reset=True, skip_check_array=True)
    estimator.n_features_in_ = table.shape[1]
    return table if stays(table) else table.gathered(limit)


@totals.register(DaskTable)
def totals_of_chunks(X: DaskTable, sample_weight: ColumnLike | None, halflife: float | None = None) -> Totals:
    """Return the totals of a table of Dask, which never is in one place.

    A chunk has at least as many rows as there are features, so that its totals are no larger than it.
    """
    from dask.delayed import delayed

    weight = decaying(sample_weight, halflife, X)
    if weight is not None:
        check_weight(weight, np.empty((len(X), 1)))
        weight = np.asarray(weight, dtype=np.float64)
    row_bytes = X.array.nbytes // len(X)
    height = max(X.array.chunks[0][0], X.shape[1], _CHUNK_BYTES // max(row_bytes, 1))
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
    found: Totals = parts[0].compute()
    return found


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
