"""Graphs of the largest correlations, exact, from tiles of a matrix that never exists as a whole."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from svnn._parameters import Rule, integer, memory_size, one_of, share
from svnn._types import ColumnLike, DataLike
from svnn._validation import check_data
from svnn.functional._array import is_torch, to_numpy
from svnn.functional.stand_ins import STAND_INS
from svnn.functional.thresholds import pairs_for_density
from svnn.graphs._files import write_edges
from svnn.graphs._graph import Graph, as_graph, unique_names, with_matrix
from svnn.graphs._reading import open_any
from svnn.graphs._writer import EdgeWriter, check_target, streams
from svnn.sources import Table, as_table

if TYPE_CHECKING:
    from svnn.covariance.tiles import Observations, Tiles

#: What chooses the edges.
_CHOICES = {
    "top_k": integer(1),
    "density": share(),
    "threshold": share(),
    "edges": integer(1),
}


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
    memory_limit: float | str | None = None,
    verbose: bool = False,
    out: str | os.PathLike[str] | None = None,
) -> Graph:
    """Return the graph of the largest correlations, by absolute value, between the features of a table.

    Exactly one of ``top_k``, ``density``, ``threshold`` and ``edges`` says which. The result is exact, up to the
    rounding of float32, whatever the number of features; the matrix of all correlations is never formed.

    Parameters
    ----------
    X : array, tensor or data frame of shape (t, N), iterator of such arrays, object of :mod:`svnn.sources`, or path
        Among the objects are AnnData, datasets of h5py, arrays of zarr, Parquet files and sparse matrices of scipy.
        A path names such a file (see :func:`svnn.sources.open_table`), or one of text such as CSV.
    top_k : int, optional
        Keep the pairs that are among the ``top_k`` largest of either feature.
    density : float in [0, 1], optional
        Keep this share of all pairs, the largest. Of equal ones the first are kept.
    threshold : float in [0, 1], optional
        Keep the pairs whose correlation is at least this large.
    edges : int, optional
        Keep this number of pairs, the largest.
    correlation : {"pearson", "spearman", "biweight"}, default="pearson"
        See :class:`svnn.covariance.HardThreshold`.
    sample_weight : array of shape (t,), optional
        Weights of the rows; only ratios matter.
    layer, dataset : str, optional
        The layer of an AnnData, and the array in an HDF5, Zarr or NPZ file.
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
    _hold("correlation", correlation, one_of("pearson", *STAND_INS))
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
    grid = tiles.over(_as_correlations(data), limit, bool(verbose))
    more: dict[str, Any] = {"n_samples": t, "constant": constant}
    if path is not None and threshold is not None and streams(path):
        degrees = _write_panels(grid, threshold, path, names)
        return Graph(None, names, degrees, threshold=float(threshold), path=path, **more)
    if top_k is not None:
        found = tiles.top_k(grid, "hard", int(top_k))
    elif threshold is not None:
        found = tiles.above_threshold(grid, "hard", float(threshold))
    else:
        number = int(edges) if density is None else pairs_for_density(n, density)  # type: ignore[arg-type]  # one is given
        found = tiles.at_density(grid, "hard", number)
    matrix: Any = found.matrix
    matrix = as_graph(matrix).matrix if is_torch(matrix) else matrix
    np.clip(matrix.data, -1, 1, out=matrix.data)  # rounding may lead beyond
    cut: Any = found.threshold
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
        X = open_any(X, layer=layer, dataset=dataset)
        layer = None
    elif dataset is not None:
        raise ValueError(f"dataset={dataset!r} is for files; pass the array itself, or a path as X.")
    if isinstance(X, Iterator):
        from svnn.covariance.tiles import gather

        X = gather(X, limit)
    table = as_table(X, layer)
    if table is not None:
        return table.columns(limit), table.names
    reader = _Reader()
    plain = is_torch(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub")
    data = check_data(reader, X, lazy=plain)
    return data, getattr(reader, "feature_names_in_", None)


#: Checks and names of tables are those of scikit-learn's estimators; messages name the function.
_Reader = type("correlation_graph", (BaseEstimator,), {})


def _as_correlations(data: Observations) -> Observations:
    """Return the data as what makes correlations of products, with nothing on the diagonal."""
    from torch import full_like, zeros_like

    unit = full_like(data.unit, math.sqrt(data.scale))
    return data._replace(unit=unit, variance=zeros_like(data.variance))


def _write_panels(grid: Tiles, threshold: float, path: Path, names: np.ndarray | None) -> np.ndarray:
    """Write the pairs above a threshold while they are found; return the number of edges of every feature."""
    from svnn.covariance import tiles

    data, unit = grid.data, math.sqrt(grid.data.scale)
    degrees = np.zeros(len(data.Z), dtype=np.int64)
    dtype = np.dtype(str(data.dtype).removeprefix("torch."))
    panels = tiles.panels_above(grid, tiles.below_number(threshold / data.scale), what="threshold")
    with EdgeWriter(path, data.n_features, names) as writer:
        for panel, (counts, columns, values) in zip(grid.panels, panels, strict=True):
            start = panel[0].row
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
