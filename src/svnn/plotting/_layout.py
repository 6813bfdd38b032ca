"""Where the nodes of a graph are drawn, and where their names have room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

#: Steps of the forces. Beyond so many nodes all their distances take too long, and they stay on a circle.
_STEPS, _MOST_NODES = 150, 3000
#: How far nodes push each other, in distances between neighbours.
_REACH = 4
#: Distances of a name from its node that are tried, in widths of the picture.
_DISTANCES = (0.012, 0.03, 0.055, 0.09, 0.13, 0.18, 0.24, 0.3)


def force_layout(W: sp.csr_array) -> np.ndarray:
    """Return places (N, 2) in [-1, 1] where edges pull, close nodes push each other away, and all are drawn inwards.

    Nothing is drawn at random. Nodes start on a circle, one connected part after the other, each in the order of its
    smoothest eigenvector. An edge pulls less where its ends have many, so that dense parts do not collapse; nodes far
    from each other do not push, so that separate parts stay close.

    Examples
    --------
    >>> two = sp.csr_array(np.kron(np.eye(2), np.ones((4, 4))))
    >>> places = force_layout(two)
    >>> middles = places.reshape(2, 4, 2).mean(1)
    >>> bool(np.linalg.norm(middles[0] - middles[1]) > 2 * np.linalg.norm(places[:4] - middles[0], axis=1).max())
    True
    """
    n = W.shape[0]
    angles = np.empty(n)
    angles[_smooth_order(W)] = 2 * np.pi * np.arange(n) / n
    x, y = np.cos(angles), np.sin(angles)
    if n < 3 or n > _MOST_NODES:
        return np.stack([x, y], -1)
    coo = sp.coo_array(sp.triu(abs(W), 1))
    a, b = coo.row, coo.col
    degree = np.bincount(np.concatenate([a, b]), minlength=n)
    pull = (0.3 + 0.7 * coo.data / coo.data.max()) / np.sqrt(np.maximum(degree[a] * degree[b], 1))
    ideal = 2 / np.sqrt(n)
    for step in range(_STEPS):
        dx, dy = x[:, None] - x, y[:, None] - y
        square = dx**2 + dy**2
        push = np.where(square < (_REACH * ideal) ** 2, ideal**2 / (square + 1e-4 * ideal**2), 0)
        along = 2 * pull * np.hypot(x[a] - x[b], y[a] - y[b]) / ideal
        fx, fy = (push * dx).sum(1) - 0.8 * x, (push * dy).sum(1) - 0.8 * y
        for force, gap in ((fx, along * (x[a] - x[b])), (fy, along * (y[a] - y[b]))):
            force += np.bincount(b, gap, n) - np.bincount(a, gap, n)
        length = np.hypot(fx, fy) + 1e-12
        move = np.minimum(length, 0.2 * (1 - step / _STEPS) + 1e-3) / length
        x, y = x + fx * move, y + fy * move
    places = np.stack([x, y], -1)
    low, high = places.min(0), places.max(0)
    return np.asarray(2 * (places - low) / np.maximum(high - low, 1e-12) - 1)


def _smooth_order(W: sp.csr_array) -> np.ndarray:
    """Return the nodes, part by part, each part in the order of the second eigenvector of its weights."""
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(W, directed=False)[1]
    order = []
    for part in np.argsort(-np.bincount(labels), kind="stable"):
        nodes = np.flatnonzero(labels == part)
        if 2 < len(nodes) <= _MOST_NODES:
            inside = abs(W[nodes][:, nodes]).toarray()
            scale = 1 / np.sqrt(inside.sum(0))
            second = scale * np.linalg.eigh(inside * scale * scale[:, None])[1][:, -2]
            second *= np.sign(second[abs(second).argmax()])  # an eigenvector has no sign
            nodes = nodes[np.argsort(second.round(9), kind="stable")]
        order.append(nodes)
    return np.concatenate(order)


def name_places(
    nodes: np.ndarray, sizes: Sequence[tuple[float, float]], others: np.ndarray, text: float = 1.0
) -> list[tuple[float, float]]:
    """Return the middle of the name of each of some nodes: close to it, over no other name, over few nodes.

    Parameters
    ----------
    nodes : ndarray of shape (n, 2), in [-1, 1]
    sizes : widths and heights of the names, in the same units
    others : ndarray of shape (N, 2)
        All nodes.
    text : float
        How far names stay from each other, in heights.
    """
    taken: list[tuple[float, float, float, float]] = []
    found = []
    directions = [(np.cos(t), np.sin(t)) for t in np.pi * np.arange(12) / 6]
    for node, (width, height) in zip(nodes, sizes, strict=True):
        best, least = (float(node[0]), float(node[1])), np.inf
        for distance in _DISTANCES:
            for dx, dy in directions:
                x = node[0] + dx * (2 * distance + width / 2)
                y = node[1] + dy * (2 * distance + height / 2)
                box = (x - width / 2, x + width / 2, y - text * height / 2, y + text * height / 2)
                overlaps = sum(
                    min(box[1], o[1]) > max(box[0], o[0]) and min(box[3], o[3]) > max(box[2], o[2]) for o in taken
                )
                covered = ((abs(others[:, 0] - x) < width / 2) & (abs(others[:, 1] - y) < height / 2)).sum()
                outside = max(0, -1.1 - box[0], box[1] - 1.1, -1.1 - box[2], box[3] - 1.1)
                inwards = -(dx * node[0] + dy * node[1])
                cost = 100 * overlaps + 3 * covered + 10 * distance + 50 * outside + 0.6 * inwards
                if cost < least:
                    best, least, chosen = (float(x), float(y)), cost, box
        taken.append(chosen)
        found.append(best)
    return found
