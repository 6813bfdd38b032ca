"""Tables of Dask, checked but not computed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from svnn._validation import reject_text_columns
from svnn.functional._array import as_floating, check_dense_real


class DaskTable:
    """An array or a data frame of Dask that is not computed yet, of shape (t, N) or (t, N, F).

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Chunked in any way. The numbers of rows of a data frame are counted, which reads it once.

    Attributes
    ----------
    array : dask.array.Array
    names : pandas.DataFrame or None
        An empty frame with the columns of ``X``, where it is a frame.
    client : distributed.Client or None
        The client of the cluster that computes; None means the threads of this process.
    """

    def __init__(self, X: Any) -> None:
        self.names = None
        if hasattr(X, "to_dask_array") and X.ndim == 2:
            self.names = X._meta
            reject_text_columns(self.names)
            kinds = {str(dtype) for dtype in X._meta.dtypes}
            X = (X if kinds in ({"float32"}, {"float64"}) else X.astype("float64")).to_dask_array(lengths=True)
        _check(X)
        self.array, self.client = X, running_client()
        self.shape: tuple[int, ...] = X.shape
        self.ndim: int = X.ndim
        single = X.dtype == np.float32
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Return some of the values, computed."""
        values: Any = as_floating(self.array[key].compute())
        return np.asarray(values, dtype=self.dtype)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the rows, chunk by chunk, all columns of them."""
        end = 0
        for rows in self.array.chunks[0]:
            start, end = end, end + rows
            yield self[start:end]

    def gathered(self, limit: int) -> np.ndarray:
        """Return all values as an array here, in a file where they take more than a quarter of ``limit``."""
        from svnn.covariance.tiles._observations import gather  # which imports this file

        return gather(self.chunks(), limit)


def _check(X: Any) -> None:
    """Raise where an array of Dask has a wrong shape or type."""
    if X.ndim not in (2, 3):
        raise ValueError(f"X must have shape (t, N) or (t, N, F), got a dask array of {X.ndim} dimension(s).")
    if any(np.isnan(size) for size in X.shape):
        raise ValueError("X is a dask array with chunks of unknown sizes; call X.compute_chunk_sizes() first.")
    if not isinstance(X._meta, np.ndarray):
        kind = f"{type(X._meta).__module__}.{type(X._meta).__name__}"
        raise ValueError(
            f"X has chunks of type {kind}, but numpy arrays are needed; convert them by X.map_blocks(...)."
        )
    check_dense_real(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}; convert it first, e.g. X.astype(float).")
    if 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}, which holds no values; none of its sizes may be 0.")
    if X.shape[0] < 2:
        raise ValueError(f"X has {X.shape[0]} sample(s); a minimum of 2 is required.")


def running_client() -> Any:
    """Return the client of Dask's cluster that is in use, or None."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise ValueError(
            "The Client of Dask is asynchronous, but fit waits for results; use Client(asynchronous=False)."
        )
    if not client.nthreads():
        raise RuntimeError("The cluster of the Dask Client has no workers; start some, or close the Client.")
    return client
