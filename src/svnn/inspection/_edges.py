"""Contributions of edges of the covariance to predictions: the change when one is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from svnn._types import DataLike, Matrix
from svnn.estimators.training import plain_torch
from svnn.functional import log_covariance
from svnn.functional._array import is_torch, to_numpy
from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import (
    Model,
    PartFunction,
    check_finite,
    check_model,
    feature_index,
    feature_names,
    network_part,
    part_function,
    part_functions,
    signals_of,
    standardised,
)
from svnn.inspection._results import EdgeContributions
from svnn.operators import BatchedOperator, CovarianceOperator, plain_matrix

#: Edges as the caller names them: all, a number of the largest, or pairs of features.
EdgesLike: TypeAlias = int | Sequence[tuple[Any, Any]] | np.ndarray | None

#: Numbers that a result may have: two gigabytes.
_MOST_NUMBERS = 2**28
#: Logarithms of matrices to hold at once, in numbers.
_STACKED = 2**22


@plain_torch()
def edge_contributions(
    model: Model,
    X: DataLike,
    *,
    edges: EdgesLike = None,
    of: str = "covariance",
    class_: Any = None,
    logit: bool = False,
) -> EdgeContributions:
    r"""Return by how much every prediction changes when an edge is left out of the covariance, without another fit.

    .. math:: \phi_{ij} = f(x; C) - f(x; C - c_{ij} (e_i e_j^\top + e_j e_i^\top))

    Parameters
    ----------
    model : S-VNN or blend
        Fitted. In a blend the edge is left out of the S-VNN ``model.network_part``; its parts have to be S-VNNs or
        linear models.
    X : array or data frame of shape (t, N) or (t, N, F)
    edges : int, or pairs of features, optional
        Which edges to look at: the number of those with the largest absolute entries, or pairs of column numbers or of
        names. By default all that the matrix has.
    of : {"covariance", "shift"}, default="covariance"
        The matrix that loses the edge: the covariance, or ``operator_``, which the filters shift by. They differ with
        ``use="log"`` only, where the shift is the logarithm of the covariance.
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
    eigendecomposition. A covariance of strongly correlated features without one of its edges often has a negative
    eigenvalue, where the logarithm is cut off, so single edges can seem to matter much. ``of="shift"`` removes the
    entry of the logarithm in its place, which is all that the filters see of two features.

    Examples
    --------
    >>> from svnn import SVNNRegressor, inspection
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=100, n_features=8, random_state=0)
    >>> model = SVNNRegressor(covariance="sample", max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> inspection.edge_contributions(model, data.X).contributions.shape
    (100, 28)
    >>> inspection.edge_contributions(model, data.X, edges=[(0, 1), (2, 5)]).names.tolist()
    ['x0 - x1', 'x2 - x5']
    """
    check_model(model)
    weight, network = network_part(model)
    functions, signals = part_functions(model, class_, logit), signals_of(model, X)
    function, Z = part_function(network, class_, logit), standardised(model, X)
    if of not in ("covariance", "shift"):
        raise ValueError(f'of must be "covariance" or "shift", got {of!r}.')
    operator, names = network.operator_, feature_names(model)
    by_logarithm = of == "covariance" and network.shift_.use == "log"
    if by_logarithm:
        scale = network.shift_.scale
        matrix = numpy_matrix(network.covariance_) / scale
        matrix = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    else:
        scale, matrix = float(operator.scale or 1.0), plain_matrix(operator).astype(np.float64)
    pairs = _kept(matrix) if edges is None else _chosen(edges, matrix, names, of)
    whole = check_finite(function.values(Z))
    if len(Z) * len(pairs) * whole.shape[1] > _MOST_NUMBERS:
        raise ValueError(
            f"{len(pairs)} edges and {len(Z)} samples are too many for one table; "
            "name fewer by edges=, or give fewer rows."
        )
    weights = np.asarray(matrix[pairs[:, 0], pairs[:, 1]], dtype=np.float64).reshape(-1)
    ablated = np.empty((len(Z), len(pairs), whole.shape[1]))
    _fill(ablated, function, function.tensor(Z), pairs, weights, matrix if by_logarithm else operator)
    predictions = [share * part.values(units(signals)) for share, units, part in functions]
    return EdgeContributions(
        function.shaped(weight * (whole[:, None] - ablated)),
        np.array([f"{names[i]} - {names[j]}" for i, j in pairs], dtype=object),
        function.labels,
        function.shaped(np.sum(predictions, 0)),
        pairs,
        weights * scale,
    )


def _kept(matrix: Matrix) -> np.ndarray:
    """Return the pairs i < j of entries that are not zero, (E, 2), row by row."""
    upper = np.triu(matrix, 1) if isinstance(matrix, np.ndarray) else sp.triu(matrix, 1).tocsr()
    return np.stack(upper.nonzero(), 1).astype(np.int64)


def _chosen(edges: EdgesLike, matrix: Matrix, names: np.ndarray, of: str) -> np.ndarray:
    """Return the pairs (E, 2) that the caller asks for, or raise an error that says what is wrong with them."""
    asked: Any = to_numpy(edges) if is_torch(edges) or hasattr(edges, "columns") else edges
    asked = asked.item() if np.ndim(asked) == 0 and hasattr(asked, "item") else asked
    if isinstance(asked, int):
        if asked < 1:
            raise ValueError(f"edges must be at least 1, got {asked}.")
        pairs = _kept(matrix)
        sizes = abs(np.asarray(matrix[pairs[:, 0], pairs[:, 1]])).reshape(-1)
        largest: np.ndarray = pairs[np.argsort(-sizes, kind="stable")[:asked]]
        return largest
    if not hasattr(asked, "__iter__"):
        raise ValueError(f"edges must be a number of edges or pairs of features, got {edges!r}.")
    chosen = []
    for edge in asked:
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise ValueError(f"edges must hold pairs of features, got {edge!r}.")
        i, j = sorted(feature_index(feature, names, "edges") for feature in edge)
        if i == j or not matrix[i, j]:
            pair = tuple(np.asarray(edge, dtype=object).tolist())
            raise ValueError(
                f"edges holds {pair}, which the model's {of} did not keep; edges=None takes all that it kept."
            )
        chosen.append((i, j))
    return np.array(chosen, dtype=np.int64).reshape(-1, 2)


def _fill(
    ablated: np.ndarray,
    function: PartFunction,
    x: Tensor,
    pairs: np.ndarray,
    weights: np.ndarray,
    of: np.ndarray | CovarianceOperator,
) -> None:
    """Write the predictions (t, E, m) without each edge to ``ablated``.

    Edges are left out of the operator, or of a covariance whose logarithm is the shift.
    """
    most = function.rows_at_once(x.shape[1])
    rows = min(most, len(x))
    size = max(1, min(most // rows, _STACKED // x.shape[1] ** 2))
    for first in range(0, len(pairs), size):
        some = slice(first, first + size)
        shift, n = _shifts(function, of, pairs[some], weights[some]), len(pairs[some])
        for start in range(0, len(x), rows):
            part = x[start : start + rows]
            with torch.no_grad():
                edge = torch.arange(n, device=x.device).repeat_interleave(len(part))
                values = function(part.repeat(n, 1, 1), shift(edge)).unflatten(0, (n, -1))
            ablated[start : start + rows, some] = values.transpose(0, 1).cpu().numpy()


def _shifts(
    function: PartFunction, of: np.ndarray | CovarianceOperator, pairs: np.ndarray, weights: np.ndarray
) -> Callable[[Tensor], CovarianceOperator]:
    """Return a function that makes a shift without an edge for each sample, from the numbers of these edges."""
    if isinstance(of, CovarianceOperator):
        operator, ends, weight = of, function.tensor(pairs).long(), function.tensor(weights)
        return lambda edge: WithoutEdge(operator, ends[edge, 0], ends[edge, 1], weight[edge])
    logarithms = np.empty((len(pairs), *of.shape), dtype=np.float32)  # rounded as the shift of a model is
    for place, (i, j) in enumerate(pairs):
        without = of.copy()
        without[i, j] = without[j, i] = 0.0
        logarithms[place] = log_covariance(without)
    return BatchedOperator(function.tensor(logarithms)).normalized(1.0).__getitem__


class WithoutEdge(CovarianceOperator):
    r"""A shift for a batch of signals (B, N, F) that lacks an edge, another one for each signal.

    .. math:: x_b \mapsto C x_b - c_b (e_{i_b} e_{j_b}^\top + e_{j_b} e_{i_b}^\top) x_b

    This is exact: powers and layers of it are those of the matrix without the edge, and no such matrix is made.

    Parameters
    ----------
    shift : CovarianceOperator
        C.
    first, second : Tensor of shape (B,), integers
        i and j.
    weight : Tensor of shape (B,), double precision
        The entry of C.
    """

    backend = "without edge"

    def __init__(self, shift: CovarianceOperator, first: Tensor, second: Tensor, weight: Tensor) -> None:
        self.base, self.first, self.second, self.weight = shift, first, second, weight
        self.shape, self.scale = shift.shape, shift.scale

    def _batched_matmul(self, x: Tensor) -> Tensor:
        rows = torch.arange(len(x), device=x.device)
        weight = self.weight[:, None]
        shifted = (self.base @ x).contiguous()
        shifted[rows, self.first] -= weight * x[rows, self.second]
        shifted[rows, self.second] -= weight * x[rows, self.first]
        return shifted

    def _matmul(self, x: Tensor) -> Tensor:
        return self._batched_matmul(x[None])[0]

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.weight, self.first, self.second

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        raise NotImplementedError

    def to_dense(self) -> Tensor:
        raise NotImplementedError
