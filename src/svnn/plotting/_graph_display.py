"""The pairs of features that a sparsifier kept, as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from svnn.estimators._base import BaseSVNN
from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import network_of, trained_use
from svnn.plotting import _style as style
from svnn.plotting._matrices import correlation, edges_of, shown_matrix

if TYPE_CHECKING:
    from svnn._types import Matrix, MatrixLike
    from svnn.plotting._style import Axes

#: Edges of each node that are shown by default, and the least and the most edges.
_PER_NODE, _FEWEST, _MOST = 3, 60, 2000
#: Steps of the forces, and the number of nodes beyond which all their distances take too long: they stay on a circle.
_STEPS, _MOST_NODES = 150, 3000
#: How far nodes push each other, in distances between neighbours.
_REACH = 4
#: Distances of a name from its node that are tried, in widths of the picture.
_DISTANCES = (0.012, 0.03, 0.055, 0.09, 0.13, 0.18, 0.24, 0.3)


class GraphDisplay(style.Display):
    """The covariance as a graph: features are nodes, pairs that were kept are edges.

    Edges are the wider and the less transparent the larger their weight is, and coloured by its sign. Nodes are the
    larger the more their edges weigh. Features without an edge that is shown are left out, and counted in the title.

    Parameters
    ----------
    weights : ndarray or csr_array of shape (N, N)
        Weights of the edges; the diagonal does not count.
    names : sequence of str, optional
    quantity : str, default="correlation"
        What the weights are.

    Attributes
    ----------
    positions_ : ndarray of shape (shown nodes, 2)
    nodes_ : ndarray
        The features that are shown.
    edges_ : ndarray of shape (shown edges, 2)
        The ends of the edges, strongest first.
    named_ : list of str
        The names that are written, that of the most connected feature first.
    ax_, figure_ : Axes and Figure of matplotlib

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.plotting import GraphDisplay
    >>> C = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.2], [0.0, -0.2, 1.0]])
    >>> display = GraphDisplay.from_matrix(C, names=["a", "b", "c"])
    >>> display.edges_.tolist(), display.named_
    ([[0, 1], [1, 2]], ['b', 'a', 'c'])
    """

    def __init__(self, weights: Matrix, names: Sequence[str] | None = None, *, quantity: str = "correlation") -> None:
        self.weights = weights
        self.names = style.feature_names(weights.shape[0], names)
        self.quantity = quantity

    @classmethod
    def from_estimator(
        cls, estimator: object, *, names: Sequence[str] | None = None, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the graph of a fitted S-VNN, blend or covariance estimator.

        Weights are correlations; for an S-VNN with ``use="precision"``, entries of the precision with unit diagonal.
        """
        matrix = shown_matrix(estimator)
        network = network_of(estimator)
        precision = isinstance(network, BaseSVNN) and trained_use(network) == "precision"
        called = style.feature_names(matrix.shape[0], names, estimator)
        quantity = "scaled precision" if precision else "correlation"
        return cls(correlation(matrix), called, quantity=quantity).plot(ax, **kwargs)

    @classmethod
    def from_matrix(
        cls, C: MatrixLike, *, names: Sequence[str] | None = None, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the graph of a covariance, weighted by its correlations."""
        return cls(correlation(numpy_matrix(C)), names).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, max_edges: int | None = None, n_names: int = 12) -> Self:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        max_edges : int, optional
            The strongest edges up to this number are shown; by default three for each feature, but at least 60 and at
            most 2000.
        n_names : int, default=12
            How many of the most connected features are named.

        Returns
        -------
        self
        """
        n = self.weights.shape[0]
        first, second, weight = edges_of(self.weights)
        most = min(max(_PER_NODE * n, _FEWEST), _MOST) if max_edges is None else int(max_edges)
        a, b, w = first[:most], second[:most], weight[:most]
        self.edges_ = np.stack([a, b], -1)
        self.nodes_ = np.unique(self.edges_)
        place = {int(node): i for i, node in enumerate(self.nodes_)}
        a, b = (np.array([place[int(i)] for i in ends], dtype=int) for ends in (a, b))
        size = len(self.nodes_)
        W = sp.csr_array((np.r_[w, w], (np.r_[a, b], np.r_[b, a])), shape=(size, size))
        self.positions_ = force_layout(W) if size else np.empty((0, 2))
        strength = np.asarray(abs(W).sum(0)).ravel()
        with style.context():
            (axis,) = self._start(ax, (6.4, 5.6))
            style.dress(axis, grid=False)
            self._draw_edges(axis, a, b, w)
            top = strength.max() if size else 1.0
            marks = (10 + 70 * strength / top) * min(1.0, 100 / max(size, 1)) ** 0.7
            x, y = self.positions_.T
            axis.scatter(x, y, s=marks, color="white", edgecolor=style.GREY, linewidth=0.8, zorder=2)
            axis.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xticks=[], yticks=[], aspect="equal")
            for spine in axis.spines.values():
                spine.set_visible(False)
            self._write_names(axis, strength, n_names)
            style.note(axis, self._title(n, len(weight), len(w), size))
        return self

    def _draw_edges(self, axis: Axes, a: np.ndarray, b: np.ndarray, w: np.ndarray) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import to_rgba
        from matplotlib.lines import Line2D

        share = abs(w) / abs(w).max() if len(w) else w
        handles = []
        for sign, colour, word in ((1, style.POSITIVE, "positive"), (-1, style.NEGATIVE, "negative")):
            mine = np.flatnonzero(np.sign(w) == sign)[::-1]  # strong ones on top of weak ones
            lines = np.stack([self.positions_[a[mine]], self.positions_[b[mine]]], 1)
            colours = [to_rgba(colour, 0.15 + 0.65 * each**2) for each in share[mine]]
            widths = (0.3 + 2.2 * share[mine] ** 2) * min(1.0, 100 / max(len(self.nodes_), 1)) ** 0.5
            edges = LineCollection(list(lines), linewidths=widths, colors=colours, zorder=1)
            edges.set_label(word)
            axis.add_collection(edges)
            if len(mine):
                handles.append(Line2D([], [], color=colour, linewidth=2, label=f"{word} {self.quantity}"))
        names = [str(handle.get_label()) for handle in handles]
        style.legend(axis, handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)

    def _write_names(self, axis: Axes, strength: np.ndarray, n_names: int) -> None:
        from matplotlib.patheffects import withStroke

        top = np.argsort(-strength, kind="stable")[:n_names]
        short = style.short_names(self.names)
        self.named_ = [self.names[self.nodes_[i]] for i in top]
        texts = [short[self.nodes_[i]] for i in top]
        box = axis.get_window_extent()
        side = min(box.width, box.height) * 72 / self.figure_.dpi / 2.3  # points for a unit of the picture
        letter = 8.0
        sizes = [(0.58 * letter * len(text) / side, 1.3 * letter / side) for text in texts]
        for i, text, place in zip(top, texts, name_places(self.positions_[top], sizes, self.positions_), strict=True):
            node = self.positions_[i]
            axis.annotate(
                text,
                xy=(float(node[0]), float(node[1])),
                xytext=place,
                fontsize=letter,
                ha="center",
                va="center",
                zorder=4,
                **style.plain(text),
                path_effects=[withStroke(linewidth=2.5, foreground="white")],
                arrowprops={"arrowstyle": "-", "color": style.GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
            )

    @staticmethod
    def _title(n: int, n_edges: int, n_shown: int, n_nodes: int) -> str:
        share = 100 * n_edges / max(n * (n - 1) // 2, 1)
        edges = f"{n_edges} edges between {n} features, {share:.3g} % of all pairs"
        more = [f"the {n_shown} strongest are shown"] if n_shown < n_edges else []
        if n_nodes < n:
            left = n - n_nodes
            count = f"{left} features" if left > 1 else "one feature"
            more.append(f"{count} without {'them' if more else 'edges'} {'are' if left > 1 else 'is'} left out")
        return edges + ("\n" + ", ".join(more) if more else "")


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
    middles = []
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
        middles.append(best)
    return middles
