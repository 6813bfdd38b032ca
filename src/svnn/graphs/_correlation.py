"""Graphs of the largest correlations, exact, from tiles of a matrix that never exists as a whole."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from svnn._parameters import Rule, integer, memory_size, one_of, share
from svnn._types import ColumnLike, DataLike
from svnn._validation import check_data, is_dask, reject_text_columns
from svnn.functional._array import is_torch, to_numpy
from svnn.functional.correlations import TRANSFORMED
from svnn.functional.thresholds import pairs_for_density
from svnn.graphs._files import EdgeWriter, check_target, file_kind, write_edges
from svnn.graphs._graph import Graph, as_graph, unique_names, with_matrix
from svnn.sources import Table, as_table, open_table

if TYPE_CHECKING:
    from svnn.covariance.tiles import Observations, Tiles

#: Share of the free memory of a GPU that the table may take; a copy in half precision and the edges come to it.
_DEVICE_SHARE = 0.4
#: Correlations in single precision are off by up to about this, in the squared size of the correlation, and a sixteenth
#: of it: measured up to this number of samples. With more the error grows as the root of their number.
_ROUNDING, _SAMPLES = 2.0**-20, 2**14
#: What chooses the edges.
_CHOICES = {"top_k": integer(1), "density": share(), "threshold": share(), "edges": integer(1)}


def correlation_graph(
    X: DataLike | Iterator[DataLike] | Table | str | os.PathLike[str],
    *,
    top_k: int | None = None,
    density: float | None = None,
    threshold: float | None = None,
    edges: int | None = None,
    correlation: str = "pearson",
    sample_weight: ColumnLike | None = None,
    layer: str | None = None,
    dataset: str | None = None,
    device: str = "auto",
    memory_limit: float | str | None = None,
    verbose: bool = False,
    out: str | os.PathLike[str] | None = None,
) -> Graph:
    """Return the graph of the largest correlations, by absolute value, between the features of a table.

    Exactly one of ``top_k``, ``density``, ``threshold`` and ``edges`` says which. The result is exact, up to the
    rounding of float32, whatever the number of features; the matrix of all correlations is never formed. Correlations
    that are zero up to that rounding (below 1e-6) are never edges: there are fewer edges than asked for where no others
    are left.

    Parameters
    ----------
    X : array, tensor or data frame of shape (t, N), iterator of such arrays, object of :mod:`svnn.sources`, or path
        Among the objects are AnnData, datasets of h5py, arrays of zarr, Parquet files and sparse matrices of scipy.
        A path names such a file (see :func:`svnn.sources.open_table`), or one of text such as CSV. Of an array or data
        frame of Dask the workers of the active ``distributed.Client`` compute the correlations, where there is one.
        A name of a column that comes again gets a number.
    top_k : int, optional
        Keep the pairs that are among the ``top_k`` largest of either feature.
    density : float in [0, 1], optional
        Keep this share of all pairs, the largest. Of equal ones the first are kept.
    threshold : float in [0, 1], optional
        Keep the pairs whose correlation is at least this large, up to rounding.
    edges : int, optional
        Keep this number of pairs, the largest.
    correlation : {"pearson", "spearman", "biweight"}, default="pearson"
        See :class:`svnn.covariance.HardThreshold`.
    sample_weight : array of shape (t,), optional
        Weights of the rows; only ratios matter.
    layer, dataset : str, optional
        The layer of an AnnData, and the array in an HDF5, Zarr or NPZ file.
    device : str, default="auto"
        Where to multiply: "auto" is the first GPU where there is one with room for the data, "cpu" otherwise. A tensor
        on a GPU stays there.
    memory_limit : int or str, optional
        Bytes, or a text such as "1.5GB", that may be used beside ``X``. A larger table goes to a temporary file. By
        default half of the memory of the machine or container.
    verbose : bool, default=False
        Show the progress.
    out : path, optional
        A file, ``.parquet``, ``.csv`` or ``.npz``, or a folder for Parquet files, to which the edges go; see
        :func:`write_edges`. With a ``threshold`` they are written while they are found, so that their number is not
        limited by memory. The graph that is returned has no matrix then.

    Returns
    -------
    Graph
        Its ``matrix`` is a symmetric ``csr_array`` of correlations with an empty diagonal.

    Raises
    ------
    MemoryError
        Where the edges take more than ``memory_limit``.

    See Also
    --------
    svnn.covariance.HardThreshold : the same choices for covariances, as an estimator.
    svnn.covariance.SignificantEdges : edges by a test, with a false discovery rate.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.graphs import correlation_graph, edge_list
    >>> X = np.random.default_rng(0).standard_normal((100, 50))
    >>> X[:, 1] += 3 * X[:, 0]
    >>> source, target, weight = edge_list(correlation_graph(X, edges=1))
    >>> source.tolist(), target.tolist(), weight.round(2).tolist()
    ([0], [1], [0.93])
    """
    _chosen(top_k=top_k, density=density, threshold=threshold, edges=edges)
    _hold("correlation", correlation, one_of("pearson", *TRANSFORMED))
    _hold("memory_limit", memory_limit, memory_size())
    from svnn.covariance import tiles

    limit = tiles.memory_bytes(memory_limit)
    path = None if out is None else check_target(out)
    table, names = _columns(X, layer, dataset, limit)
    t, n = table.shape[:2]
    if t < 2 or n < 2:
        raise ValueError(f"X has {t} sample(s) and {n} feature(s); correlations need at least 2 of both.")
    names = unique_names(names)
    if edges is not None and edges > n * (n - 1) // 2:
        raise ValueError(f"edges={edges}, but {n} features have only {n * (n - 1) // 2} pairs.")
    try:
        data = tiles.read(table, sample_weight, correlations=True, limit=limit, kind=correlation)
    except ValueError as error:
        raise _about_missing(error, names) from None
    del table, X  # the tiles have what they need; a large table frees its memory here
    constant = np.flatnonzero(to_numpy(data.variance == 0))
    data = tiles.on_device(_as_correlations(data), where_to_multiply(data.Z, device))
    grid = tiles.over(data, limit, bool(verbose))
    more: dict[str, Any] = {"n_samples": t, "constant": constant}
    rounding = _ROUNDING * max(math.sqrt(t / _SAMPLES), 1)
    level = None if threshold is None else max(threshold - rounding * (threshold**2 + 1 / 16), rounding)
    if path is not None and level is not None and file_kind(path) != "npz":
        degrees = _write_panels(grid, level, path, names)
        return Graph(None, names, degrees, threshold=float(threshold or 0), path=path, **more)
    if top_k is not None:
        found = tiles.top_k(grid, "hard", int(top_k))
    elif level is not None:
        found = tiles.above_threshold(grid, "hard", level)
    else:
        number = int(edges) if density is None else pairs_for_density(n, density)  # type: ignore[arg-type]  # one is given
        found = tiles.at_density(grid, "hard", number)
    matrix: Any = found.matrix
    matrix = as_graph(matrix).matrix if is_torch(matrix) else matrix
    np.clip(matrix.data, -1, 1, out=matrix.data)  # rounding may lead beyond
    matrix.data[(matrix.data < rounding) & (matrix.data > -rounding)] = 0
    matrix.eliminate_zeros()
    cut: Any = found.threshold if threshold is None else float(threshold)
    graph = with_matrix(matrix, names, threshold=to_numpy(cut) if np.ndim(cut) else cut, **more)
    return graph if path is None else write_edges(graph, path)


def _chosen(**choices: Any) -> None:
    """Check that exactly one choice was made, and that its value is allowed."""
    given = {name: value for name, value in choices.items() if value is not None}
    if len(given) != 1:
        what = " and ".join(f"{name}={value!r}" for name, value in given.items()) or "none of them"
        raise ValueError(f"give one of {', '.join(_CHOICES)} to choose the edges; got {what}.")
    ((name, value),) = given.items()
    _hold(name, value, _CHOICES[name])


def _hold(name: str, value: object, rule: Rule) -> None:
    if rule.holds is not None and not rule.holds(value):
        raise ValueError(f"{name} must be {rule.words}, got {value!r}.")


def _columns(X: Any, layer: str | None, dataset: str | None, limit: int) -> tuple[Any, Any]:
    """Return the data as the tiles read it, and the names of its features, None where they have none."""
    if isinstance(X, (str, os.PathLike)):
        X = open_table(X, layer=layer, dataset=dataset)
        layer = None
    elif dataset is not None:
        raise ValueError(f"dataset={dataset!r} is for files; pass the array itself, or a path as X.")
    if isinstance(X, Iterator):
        from svnn.covariance.tiles import gather

        X = gather(X, limit)
    if is_dask(X):
        from svnn.covariance.tiles import DaskTable

        lazy = DaskTable(X)
        return (lazy.gathered(limit) if lazy.client is None else lazy), getattr(lazy.names, "columns", None)
    table = as_table(X, layer)
    if table is not None:
        return table.columns(limit), table.names
    reader: Any = _Reader()
    names: Any = None
    if hasattr(X, "set_axis") and hasattr(X, "columns"):  # a frame of pandas, whose labels may be numbers or come twice
        reject_text_columns(X)
        labels = list(X.columns)
        names = None if labels == list(range(len(labels))) else labels
        X = X.copy(deep=False)
        X.columns = range(len(labels))
    plain = is_torch(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub")
    data = check_data(reader, X, lazy=plain)
    return data, getattr(reader, "feature_names_in_", names)


#: Checks and names of tables are those of scikit-learn's estimators; messages name the function.
_Reader = type("correlation_graph", (BaseEstimator,), {})


def where_to_multiply(Z: Tensor, device: str) -> torch.device:
    """Return the device for standardised data; see the parameter of :func:`correlation_graph`."""
    if Z.device.type != "cpu" and device == "auto":
        return Z.device
    if device != "auto":
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
            first = str(error).splitlines()[0]
            raise ValueError(f'device={device!r} cannot be used: {first.rstrip(".")}. Use "auto" or "cpu".') from None
        return torch.device(device)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    free, _ = torch.cuda.mem_get_info()
    return torch.device("cuda" if _DEVICE_SHARE * free > Z.nbytes else "cpu")


def _as_correlations(data: Observations) -> Observations:
    """Return the data as what makes correlations of products, with nothing on the diagonal."""
    unit = torch.full_like(data.unit, math.sqrt(data.scale))
    return data._replace(unit=unit, variance=torch.zeros_like(data.variance))


def _write_panels(grid: Tiles, level: float, path: Path, names: np.ndarray | None) -> np.ndarray:
    """Write the pairs above a level while they are found; return the number of edges of every feature."""
    from svnn.covariance import tiles

    data, unit = grid.data, math.sqrt(grid.data.scale)
    degrees = np.zeros(len(data.Z), dtype=np.int64)
    dtype = np.dtype(str(data.dtype).removeprefix("torch."))
    panels = grid.panels_above(tiles.below_number(level / data.scale), what="threshold")
    with EdgeWriter(path, data.n_features, names) as writer:
        for start, *panel in panels:
            counts, columns, values = map(to_numpy, panel)
            rows = np.repeat(np.arange(start, start + len(counts), dtype=np.int32), counts)
            degrees[start : start + len(counts)] += counts
            degrees += np.bincount(columns, minlength=len(degrees))
            weights = np.clip(values.astype(np.float64) * unit * unit, -1, 1).astype(dtype)
            writer.add(rows, columns, weights)
    return degrees[: data.n_features]


def _about_missing(error: ValueError, names: np.ndarray | None) -> ValueError:
    """Return an error about values that are not finite with the name of the feature and the way out from here."""
    found = re.match(r"X contains (NaN|inf) \(feature (\d+)\)", str(error))
    if found is None:
        return error
    feature = found[2] if names is None else repr(names[int(found[2])])
    return ValueError(
        f"X contains {found[1]} (feature {feature}); fill in such values, or leave out their rows, first."
    )
