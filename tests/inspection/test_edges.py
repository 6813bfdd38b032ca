"""Contributions of edges are the differences to predictions by ``model.on`` without them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from inspected_models import QUICK, N, blend, network_in, signals
from svnn import BlendClassifier, SVNNClassifier, SVNNRegressor
from svnn.inspection import edge_contributions


def without(C, i, j):
    C = C.copy()
    C[i, j] = C[j, i] = 0.0
    return C


def matrix(model):
    network = network_in(model)
    return network.covariance_estimator_.precision_ if network.use == "precision" else network.covariance_


def test_every_edge_against_a_prediction_without_it(regression):
    model, X = regression.model, regression.X[:9]
    C = matrix(model)
    found = edge_contributions(model, X)
    kept = np.argwhere(np.triu(C, 1))
    np.testing.assert_array_equal(found.edges, kept)
    np.testing.assert_allclose(found.weights, C[tuple(kept.T)], rtol=1e-6)
    for (i, j), contribution in zip(kept, found.contributions.T, strict=True):
        expected = model.predict(X) - model.on(without(C, i, j)).predict(X)
        np.testing.assert_allclose(contribution, expected, atol=1e-6 * regression.y.std())
    if regression.kind != "no shifts":
        assert abs(found.contributions).max() > 1e-4 * regression.y.std()
    else:
        assert abs(found.contributions).max() < 1e-12 * regression.y.std()


def test_several_values_classes_and_small_batches(monkeypatch):
    X = signals(n_values=2)
    model = BlendClassifier(SVNNClassifier(**QUICK | {"use": "covariance", "hidden": (4, 3)}))
    model.fit(X, X[:, 0, 0] > 5)
    whole = edge_contributions(model, X)
    i, j = whole.edges[2]
    expected = model.predict_proba(X) - model.on(without(matrix(model), i, j)).predict_proba(X)
    np.testing.assert_allclose(whole.contributions[:, 2], expected, atol=1e-9)
    monkeypatch.setattr("svnn.inspection._fitted._VALUES", 500)
    small = edge_contributions(model, X)
    np.testing.assert_allclose(small.contributions, whole.contributions, atol=1e-12)


def test_small_batches_of_logarithms(monkeypatch, default):
    whole = edge_contributions(default.model, default.X)
    monkeypatch.setattr("svnn.inspection._edges._STACKED", 3 * N**2)
    np.testing.assert_allclose(
        edge_contributions(default.model, default.X).contributions, whole.contributions, atol=1e-9
    )


def test_edges_of_the_logarithm_itself(default):
    X = default.X
    model = SVNNRegressor(**QUICK | {"shrink": False}).fit(X, default.y)
    found = edge_contributions(model, X, of="shift", edges=[(0, 1)])
    log = model.operator_.to_dense().numpy()
    assert found.weights[0] == pytest.approx(log[0, 1])
    other = SVNNRegressor(**QUICK | {"use": "covariance", "shrink": False}).fit(X, default.y)
    other = other.on(without(log, 0, 1) * other.operator_.scale)
    other.fitted_ = model.fitted_
    np.testing.assert_allclose(found.contributions[:, 0], model.predict(X) - other.predict(X), atol=1e-4)
    assert abs(found.contributions).max() > 0.1


def test_a_sparse_operator(sparse):
    stored = sparse.model.on(sp.csr_array(matrix(sparse.model)))
    found, expected = (edge_contributions(model, sparse.X) for model in (stored, sparse.model))
    assert found.edges.tolist() == [[i, i + 1] for i in range(N - 1)]
    np.testing.assert_allclose(found.contributions, expected.contributions, atol=1e-6)


def test_the_largest_edges_and_edges_by_name(default):
    import pandas as pd

    model = blend().fit(pd.DataFrame(default.X, columns=list("abcdefg")), default.y)
    X = pd.DataFrame(default.X, columns=list("abcdefg"))
    whole, three = edge_contributions(model, X), edge_contributions(model, X, edges=3)
    order = np.argsort(-abs(whole.weights))[:3]
    np.testing.assert_array_equal(three.edges, whole.edges[order])
    np.testing.assert_allclose(three.contributions, whole.contributions[:, order], atol=1e-9)
    i, j = three.edges[0]
    named = edge_contributions(model, X, edges=[("abcdefg"[j], "abcdefg"[i])])
    assert named.names.tolist() == [f"{'abcdefg'[i]} - {'abcdefg'[j]}"] == [three.names[0]]
    np.testing.assert_allclose(named.contributions, three.contributions[:, :1], atol=1e-12)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 2)], r"edges holds \(0, 2\), which the model's covariance did not keep"),
        ([(1, 1)], "did not keep"),
        ([(0, 9)], "edges holds the column 9, but there are 7 features"),
        ([(0, "age")], "edges holds 'age', which is not the name of a feature, such as 'x0'"),
        ([(0, 1, 2)], "edges must hold pairs of features"),
        (["ab"], "edges must hold pairs of features"),
        ([1, 2], "edges must hold pairs of features, got 1"),
        (0, "edges must be at least 1, got 0"),
        (1.5, "edges must be a number of edges or pairs of features, got 1.5"),
        (np.array([[0, 1], [0, 2]]), r"edges holds \(0, 2\), which the model's covariance did not keep"),
        (np.array([[0, 1, 1], [1, 2, 3]]), "edges must hold pairs of features"),
    ],
)
def test_edges_that_are_not_there(sparse, edges, message):
    with pytest.raises(ValueError, match=message):
        edge_contributions(sparse.model, sparse.X, edges=edges)


def test_edges_in_every_form(sparse):
    import pandas as pd

    pairs = edge_contributions(sparse.model, sparse.X).edges[1:4]
    expected = edge_contributions(sparse.model, sparse.X, edges=pairs.tolist())
    named = np.array([[f"x{i}" for i in pair] for pair in pairs])
    for form in (pairs, pairs[:, ::-1], torch.tensor(pairs), named, named.astype(object), pd.DataFrame(pairs)):
        found = edge_contributions(sparse.model, sparse.X, edges=form)
        np.testing.assert_array_equal(found.edges, pairs)
        np.testing.assert_array_equal(found.contributions, expected.contributions)
    for two in (np.int64(2), np.array(2)):
        assert len(edge_contributions(sparse.model, sparse.X, edges=two).edges) == 2
    for none in ([], np.empty((0, 2), dtype=int)):
        assert edge_contributions(sparse.model, sparse.X, edges=none).contributions.shape == (60, 0)


def test_no_edges_and_too_many(sparse, monkeypatch):
    empty = edge_contributions(sparse.model.on(np.eye(N)), sparse.X)
    assert empty.contributions.shape == (60, 0) and empty.top() == []
    monkeypatch.setattr("svnn.inspection._edges._MOST_NUMBERS", 100)
    with pytest.raises(ValueError, match="6 edges and 60 samples are too many for one table"):
        edge_contributions(sparse.model, sparse.X)
    with pytest.raises(ValueError, match='of must be "covariance" or "shift"'):
        edge_contributions(sparse.model, sparse.X, of="graph")
