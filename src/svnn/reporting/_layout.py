"""Where features stand: in the rows of a heat map, and in the plane of a graph."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

#: Every feature is drawn towards so many others, those that it is most correlated with.
_NEIGHBOURS = 4
_ROUNDS = 150


def clustered_order(size: np.ndarray) -> np.ndarray:
    """Return an order in which correlated features are side by side.

    Parameters
    ----------
    size : array of shape (n, n)
        Absolute correlations.

    Examples
    --------
    >>> size = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
    >>> clustered_order(size).tolist() in ([1, 2, 0], [0, 2, 1])
    True
    """
    if len(size) < 3:
        return np.arange(len(size))
    distances = squareform(1 - np.clip((size + size.T) / 2, 0, 1), checks=False)
    tree = linkage(distances, "average")
    order: np.ndarray = leaves_list(optimal_leaf_ordering(tree, distances))
    return order


def positions(size: np.ndarray) -> np.ndarray:
    """Return a point in the unit square for every feature (n, 2): correlated ones near each other, none on another.

    Classical scaling of the distances :math:`\\sqrt{2 (1 - |r|)}` gives a start. Then points push each other away,
    and each is drawn to the few that it is most correlated with.
    """
    n = len(size)
    if n < 3:
        return np.column_stack([np.linspace(0.2, 0.8, n), np.full(n, 0.5)])
    squares = 2 * (1 - np.clip(size, 0, 1))
    np.fill_diagonal(squares, 0)
    centred = -(squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()) / 2
    values, vectors = np.linalg.eigh(centred)
    points = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-12))
    points += 1e-3 * np.random.default_rng(0).standard_normal((n, 2))
    points /= np.abs(points).max()
    pull = _pulls(size)
    length = 2 / np.sqrt(n)
    for step in np.linspace(0.1, 0.002, _ROUNDS):
        apart = points[:, None] - points
        square = np.maximum((apart**2).sum(-1), 1e-6)
        force = (length**2 / square - pull * np.sqrt(square) / length)[..., None] * apart
        move = force.sum(1) - points * 0.6  # the last holds together what nothing else does
        reach = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        points += move / reach * np.minimum(reach, step)
    low, high = points.min(0), points.max(0)
    return 0.03 + 0.94 * (points - low) / np.maximum(high - low, 1e-9)


def _pulls(size: np.ndarray) -> np.ndarray:
    others = size.copy()
    np.fill_diagonal(others, 0)
    cut = np.sort(others, axis=1)[:, -min(_NEIGHBOURS, len(size) - 1)][:, None]
    near = np.where((others >= cut) & (others > 0), others, 0)
    return np.maximum(near, near.T)
