"""Contributions of edges of the covariance to predictions: what changes when one is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch

from svnn._types import DataLike, Matrix
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators.training import plain_torch
from svnn.functional import log_covariance
from svnn.functional._array import is_torch, to_numpy
from svnn.inspection._ablated import Ablated, Stack
from svnn.inspection._outputs import (
    Outputs,
    check_model,
    feature_names,
    feature_place,
    finite,
    outputs_of,
    standardised,
)
from svnn.inspection._results import EdgeContributions
from svnn.operators import CovarianceOperator, plain_matrix

#: Edges as the caller names them: all, so many of the largest, or pairs of features.
EdgesLike: TypeAlias = int | Sequence[tuple[Any, Any]] | np.ndarray | None

#: Numbers that a result may have: two gigabytes.
_MOST_NUMBERS = 2**28
#: Logarithms of matrices to hold at once, in numbers.
_STACKED = 2**22


@plain_torch()
def edge_contributions(
    model: CovarianceNetwork,
    X: DataLike,
    *,
    edges: EdgesLike = None,
    of: str = "covariance",
    class_: Any = None,
    logit: bool = False,
) -> EdgeContributions:
    r"""Return what every prediction loses when one edge is left out of the covariance, without another fit.

    .. math:: \phi_{ij} = f(x; C) - f(x; C - c_{ij} (e_i e_j^\top + e_j e_i^\top))

    Parameters
    ----------
    model : SVNNRegressor or SVNNClassifier
        Fitted.
    X : array or data frame of shape (t, N) or (t, N, F)
    edges : int, or pairs of features, optional
        Which edges to look at: so many with the largest absolute entries, or pairs of column numbers or of names. By
        default all that the matrix has.
    of : {"covariance", "shift"}, default="covariance"
        The matrix that loses the edge: the covariance, or ``model.operator_``, which the filters shift by. They differ
        with ``use="log"`` only, where the shift is the logarithm of the covariance.
    class_, logit
        As for :func:`feature_contributions`.

    Returns
    -------
    EdgeContributions
        ``contributions`` (t, n_edges), in the units of the target, or (t, n_edges, m) for several outputs, with
        ``edges`` and ``weights``. They do not add up to the prediction: two edges can do the same work.

    Notes
    -----
    The result is exactly that of ``model.on(C).predict(X)`` with a covariance C whose two entries of the edge are zero;
    with ``use="precision"`` it is an edge of the precision. A shift by the matrix without the edge is a shift by the
    whole matrix and a change of two nodes, in every layer, so all edges run through the network in large batches.
    Every sample passes the network once for every edge: with thousands of features, choose some edges.

    With ``use="log"`` the whole logarithm changes with an edge of the covariance, and each edge takes an
    eigendecomposition. A covariance of strongly correlated features that misses one edge often has a negative
    eigenvalue, where the logarithm is cut off, so single edges can seem to matter much. ``of="shift"`` removes the
    entry of the logarithm in its place, which is what the filters see of two features.

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> from svnn.inspection import edge_contributions
    >>> data = make_sparse_cov(n_samples=100, n_features=8, random_state=0)
    >>> model = SVNNRegressor(covariance="sample", max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> edge_contributions(model, data.X).contributions.shape
    (100, 28)
    >>> edge_contributions(model, data.X, edges=[(0, 1), (2, 5)]).names.tolist()
    ['x0 - x1', 'x2 - x5']
    """
    check_model(model)
    outputs, Z = outputs_of(model, class_, logit), standardised(model, X)
    if of not in ("covariance", "shift"):
        raise ValueError(f'of must be "covariance" or "shift", got {of!r}.')
    logarithm = of == "covariance" and model._as_trained("use") == "log"
    matrix, scale = _matrix(model, logarithm)
    names = feature_names(model)
    pairs = _kept(matrix) if edges is None else _chosen(edges, matrix, names, of)
    whole = finite(outputs.values(Z))
    if len(Z) * len(pairs) * whole.shape[1] > _MOST_NUMBERS:
        raise ValueError(
            f"{len(pairs)} edges and {len(Z)} samples are too many for one table; "
            "name fewer by edges=, or give fewer rows."
        )
    weights = np.asarray(matrix[pairs[:, 0], pairs[:, 1]], dtype=np.float64).reshape(-1)

    def shifts(part: slice) -> Shifts:
        if logarithm:
            return _by_logarithms(outputs, matrix, pairs[part])
        return _by_two_nodes(outputs, pairs[part], weights[part])

    changed = _ablated(outputs, Z, whole.shape[1], len(pairs), max(1, _STACKED // matrix.shape[0] ** 2), shifts)
    return EdgeContributions(
        outputs.shaped(whole[:, None] - changed),
        np.array([f"{names[i]} - {names[j]}" for i, j in pairs], dtype=object),
        outputs.labels,
        outputs.shaped(whole),
        pairs,
        weights * scale,
    )


def _matrix(model: CovarianceNetwork, logarithm: bool) -> tuple[Matrix, float]:
    """Return the matrix that loses its edges, in double precision, and the number that it was divided by."""
    if not logarithm:
        return plain_matrix(model.operator_).astype(np.float64), float(model.operator_.scale or 1.0)
    dense = model.covariance_ if isinstance(model.covariance_, np.ndarray) else model.covariance_.toarray()
    return np.asarray(dense, dtype=np.float64) / model._scale, model._scale


def _kept(matrix: Matrix) -> np.ndarray:
    """Return the pairs i < j of entries that are not zero, (E, 2), row by row."""
    upper = np.triu(matrix, 1) if isinstance(matrix, np.ndarray) else sp.triu(matrix, 1).tocsr()
    return np.stack(upper.nonzero(), 1).astype(np.int64)


def _chosen(edges: EdgesLike, matrix: Matrix, names: np.ndarray, of: str) -> np.ndarray:
    """Return the pairs (E, 2) that the caller asks for, or say what is wrong with them."""
    asked: Any = to_numpy(edges) if is_torch(edges) or hasattr(edges, "columns") else edges
    asked = asked.item() if np.ndim(asked) == 0 and hasattr(asked, "item") else asked
    if isinstance(asked, int):
        if asked < 1:
            raise ValueError(f"edges must be at least 1, got {asked}.")
        pairs = _kept(matrix)
        sizes = abs(np.asarray(matrix[pairs[:, 0], pairs[:, 1]])).reshape(-1)
        found: np.ndarray = pairs[np.argsort(-sizes, kind="stable")[:asked]]
        return found
    if not hasattr(asked, "__iter__"):
        raise ValueError(f"edges must be a number of edges or pairs of features, got {edges!r}.")
    chosen = []
    for edge in asked:
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise ValueError(f"edges must hold pairs of features, got {edge!r}.")
        i, j = sorted(feature_place(feature, names, "edges") for feature in edge)
        if i == j or not matrix[i, j]:
            pair = tuple(np.asarray(edge, dtype=object).tolist())
            raise ValueError(
                f"edges holds {pair}, which the model's {of} did not keep; edges=None takes all that it kept."
            )
        chosen.append((i, j))
    return np.array(chosen, dtype=np.int64).reshape(-1, 2)


#: Makes the shift for so many rows of X, each without every edge of a group in turn.
Shifts: TypeAlias = Callable[[int], CovarianceOperator]


def _by_two_nodes(outputs: Outputs, pairs: np.ndarray, weights: np.ndarray) -> Shifts:
    """Return shifts by the model's matrix, with a change of two nodes."""
    ends, lost = torch.as_tensor(pairs, device=outputs.device), outputs.tensor(weights)

    def shifts(n_rows: int) -> CovarianceOperator:
        first, second = ends.repeat_interleave(n_rows, 0).T
        return Ablated(outputs.shift, first, second, lost.repeat_interleave(n_rows))

    return shifts


def _by_logarithms(outputs: Outputs, matrix: np.ndarray, pairs: np.ndarray) -> Shifts:
    """Return shifts by the logarithms of matrices without an edge, rounded as the model's own shift is."""
    logarithms = np.empty((len(pairs), *matrix.shape), dtype=np.float32)
    for place, (i, j) in enumerate(pairs):
        without = matrix.copy()
        without[i, j] = without[j, i] = 0.0
        logarithms[place] = log_covariance(without)
    stack = Stack(outputs.tensor(logarithms), outputs.shift.scale)
    return lambda n_rows: stack


def _ablated(
    outputs: Outputs, Z: np.ndarray, n_outputs: int, n_edges: int, at_once: int, shifts: Callable[[slice], Shifts]
) -> np.ndarray:
    """Return the predictions (t, E, m) without each edge, at most ``at_once`` edges at a time."""
    x, found = outputs.tensor(Z), np.empty((len(Z), n_edges, n_outputs))
    rows = min(outputs.rows(Z.shape[1]), len(Z))
    size = max(1, min(outputs.rows(Z.shape[1]) // rows, at_once))
    for first in range(0, n_edges, size):
        edges = slice(first, min(first + size, n_edges))
        make, n = shifts(edges), edges.stop - edges.start
        for start in range(0, len(Z), rows):
            part = x[start : start + rows]
            with torch.no_grad():
                values = outputs(part.repeat(n, 1, 1), make(len(part)))
            found[start : start + rows, edges] = values.unflatten(0, (n, -1)).transpose(0, 1).cpu().numpy()
    return found
