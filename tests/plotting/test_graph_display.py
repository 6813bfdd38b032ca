from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from matplotlib.colors import to_hex

from svnn import SVNNRegressor
from svnn.plotting import GraphDisplay
from svnn.plotting._graph_display import force_layout, name_places
from svnn.plotting._style import NEGATIVE, POSITIVE


def chain(weights):
    """A path of nodes with these correlations between neighbours."""
    C = np.eye(len(weights) + 1)
    for i, w in enumerate(weights):
        C[i, i + 1] = C[i + 1, i] = w
    return C


def lines_of(display, word):
    (found,) = (c for c in display.ax_.collections if c.get_label() == word)
    return found


def test_edges_are_those_of_the_matrix_strongest_first():
    display = GraphDisplay.from_matrix(chain([0.2, -0.9, 0.5]))
    assert display.edges_.tolist() == [[1, 2], [2, 3], [0, 1]]
    assert len(lines_of(display, "positive").get_segments()) == 2
    (segment,) = lines_of(display, "negative").get_segments()
    np.testing.assert_allclose(segment, display.positions_[[1, 2]])
    assert to_hex(lines_of(display, "negative").get_colors()[0]).upper() == NEGATIVE
    assert to_hex(lines_of(display, "positive").get_colors()[0]).upper() == POSITIVE


def test_stronger_edges_are_wider():
    display = GraphDisplay.from_matrix(chain([0.2, 0.8]))
    thin, wide = np.sort(lines_of(display, "positive").get_linewidths())
    assert wide > 3 * thin


def test_the_most_connected_features_are_named():
    C = np.eye(6)
    C[2, :] = C[:, 2] = 0.3
    C[2, 2] = 1
    C[0, 1] = C[1, 0] = 0.2
    display = GraphDisplay.from_matrix(C, names=list("abcdef"), n_names=3)
    assert display.named_ == ["c", "a", "b"]
    assert {text.get_text() for text in display.ax_.texts} == {"a", "b", "c"}


def test_weak_edges_and_lonely_features_are_left_out_and_counted():
    display = GraphDisplay.from_matrix(chain([0.9, 0.1, 0.8, 0.1]), max_edges=2)
    assert display.edges_.tolist() == [[0, 1], [2, 3]] and display.nodes_.tolist() == [0, 1, 2, 3]
    title = display.ax_.get_title(loc="left")
    assert "4 edges between 5 features, 40 % of all pairs" in title
    assert "the 2 strongest are shown, one feature without them is left out" in title


def test_a_graph_without_edges_says_so():
    display = GraphDisplay.from_matrix(np.eye(4))
    assert len(display.edges_) == 0 and "0 edges between 4 features" in display.ax_.get_title(loc="left")
    display.figure_.canvas.draw()


def test_the_graph_of_a_model_is_that_of_its_shift(model, blocks):
    display = GraphDisplay.from_estimator(model, max_edges=100)
    assert len(display.edges_) == np.count_nonzero(np.triu(model.covariance_, 1))
    X, y, _ = blocks
    other = SVNNRegressor(
        covariance="graphical_lasso", use="precision", members=1, max_epochs=2, device="cpu", random_state=0
    ).fit(X, y)
    display = GraphDisplay.from_estimator(other, max_edges=100)
    assert len(display.edges_) == np.count_nonzero(np.triu(other.covariance_estimator_.precision_, 1))
    assert "scaled precision" in display.ax_.get_legend().get_texts()[0].get_text()


def test_places_follow_from_the_graph_alone():
    W = sp.csr_array(np.abs(np.corrcoef(np.random.default_rng(0).standard_normal((20, 40)).T)))
    first, second = force_layout(W), force_layout(W)
    np.testing.assert_array_equal(first, second)
    assert first.shape == (40, 2) and np.abs(first).max() <= 1 + 1e-9
    gaps = np.linalg.norm(first[:, None] - first, axis=-1) + 9 * np.eye(40)
    assert gaps.min() > 0.02  # no two nodes on top of each other


def test_linked_nodes_are_closer_than_others():
    W = np.kron(np.eye(3), np.ones((5, 5)))
    places = force_layout(sp.csr_array(W))
    gaps = np.linalg.norm(places[:, None] - places, axis=-1)
    linked = W.astype(bool) & ~np.eye(15, dtype=bool)
    assert gaps[linked].mean() < 0.6 * gaps[W == 0].mean()


def test_names_do_not_cover_each_other():
    nodes = np.random.default_rng(0).uniform(-0.2, 0.2, (10, 2))
    sizes = [(0.3, 0.06)] * 10
    places = np.array(name_places(nodes, sizes, nodes))
    apart = np.abs(places[:, None] - places)
    overlap = (apart[..., 0] < 0.3 - 1e-9) & (apart[..., 1] < 0.06 - 1e-9) & ~np.eye(10, dtype=bool)
    assert not overlap.any()


def test_names_stay_inside_the_picture():
    C = chain([0.5] * 20)
    names = [f"a rather long name number {i}" for i in range(21)]
    display = GraphDisplay.from_matrix(C, names=names)
    figure = display.figure_
    figure.canvas.draw()
    width, height = figure.bbox.width, figure.bbox.height
    for text in display.ax_.texts:
        box = text.get_window_extent()
        assert box.x0 > -5 and box.x1 < width + 5 and box.y0 > -5 and box.y1 < height + 5
    plt.close(figure)
