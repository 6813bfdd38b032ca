"""Where the nodes of a graph are drawn, and where their names have room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

#: Steps of the forces. Beyond so many nodes all their distances take too long, and the spectral layout stays.
_STEPS, _MOST_NODES = 150, 2000
#: Distances of a name from its node that are tried, in widths of the picture.
_DISTANCES = (0.012, 0.03, 0.055, 0.09, 0.13, 0.18)


def spectral_layout(W: sp.csr_array) -> np.ndarray:
    """Return places (N, 2) from the two smoothest eigenvectors of the normalised Laplacian of weights |w|.

    Examples
    --------
    >>> two = sp.csr_array(np.kron(np.eye(2), np.ones((3, 3))) + 0.01)
    >>> places = spectral_layout(two)
    >>> places.shape, bool(np.sign(places[0, 0]) != np.sign(places[5, 0]))
    ((6, 2), True)
    """
    n = W.shape[0]
    if n < 4:
        angles = 2 * np.pi * np.arange(n) / max(n, 1)
        return np.stack([np.cos(angles), np.sin(angles)], -1)
    W = abs(W)
    scale = 1 / np.sqrt(np.maximum(np.asarray(W.sum(0)).ravel(), 1e-12))
    D = sp.dia_array((scale[None], [0]), shape=W.shape)
    smooth = D @ W @ D
    if n <= _MOST_NODES:
        vectors = np.linalg.eigh(smooth.toarray())[1][:, -3:-1]
    else:
        from scipy.sparse.linalg import eigsh

        values, found = eigsh(smooth, k=3, v0=np.ones(n), which="LA")
        vectors = found[:, np.argsort(values)[:2]]
    vectors = vectors[:, ::-1] * scale[:, None]
    vectors = vectors * np.where(vectors[abs(vectors).argmax(0), [0, 1]] < 0, -1, 1)  # eigenvectors have no sign
    return _unit(vectors)


def force_layout(W: sp.csr_array) -> np.ndarray:
    """Return places (N, 2) where edges pull, nodes push each other away, and all are drawn to the middle.

    It starts from a circle in the order of the spectral layout and draws nothing at random.
    """
    start, n = spectral_layout(W), W.shape[0]
    if n < 4 or n > _MOST_NODES:
        return start
    angles = np.empty(n)
    angles[np.argsort(np.arctan2(start[:, 1], start[:, 0]), kind="stable")] = 2 * np.pi * np.arange(n) / n
    places = np.stack([np.cos(angles), np.sin(angles)], -1) + 0.2 * start
    coo = sp.coo_array(sp.triu(abs(W), 1))
    a, b, pull = coo.row, coo.col, coo.data / coo.data.max() if coo.nnz else coo.data
    ideal = 1.8 / np.sqrt(n)
    for step in range(_STEPS):
        gap = places[:, None] - places
        square = (gap**2).sum(-1) + 1e-4 * ideal**2
        force = (gap * (ideal**2 / square)[..., None]).sum(1)
        along = places[a] - places[b]
        along *= (np.sqrt((along**2).sum(-1)) * (0.3 + 0.7 * pull) / ideal)[:, None]
        np.add.at(force, a, -along)
        np.add.at(force, b, along)
        force -= 0.6 * places
        length = np.sqrt((force**2).sum(-1, keepdims=True)) + 1e-12
        places += force / length * np.minimum(length, 0.25 * (1 - step / _STEPS) + 1e-3)
    return _unit(places)


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
                cost = 100 * overlaps + covered + 10 * distance + 50 * outside + 0.2 * inwards
                if cost < least:
                    best, least, chosen = (float(x), float(y)), cost, box
        taken.append(chosen)
        found.append(best)
    return found


def _unit(places: np.ndarray) -> np.ndarray:
    """Return places moved and stretched to fill [-1, 1] in both directions."""
    low, high = places.min(0), places.max(0)
    return np.asarray(2 * (places - low) / np.maximum(high - low, 1e-12) - 1)
