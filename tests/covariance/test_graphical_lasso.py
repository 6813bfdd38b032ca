from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.covariance
import torch
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

import svnn
from strategies import seeds
from svnn import SVNNRegressor
from svnn.covariance import ConvergenceError, GraphicalLasso, HardThreshold, SampleCovariance, resolve

#: Networks of a few epochs predict no better than a constant, and would not count.
pytestmark = pytest.mark.usefixtures("every_part_counts")

SOLVER = {"tol": 1e-7, "enet_tol": 1e-10, "max_iter": 1000}


def blocks(rng, t=300, sizes=(5, 4, 2, 1, 1), noise=0.7):
    """Data whose features share a factor within blocks and are independent between them; in random order."""
    parts = [rng.standard_normal((t, 1)) + noise * rng.standard_normal((t, size)) for size in sizes]
    order = rng.permutation(sum(sizes))
    labels = np.repeat(np.arange(len(sizes)), sizes)[order]
    return np.hstack(parts)[:, order] * rng.uniform(0.01, 100, len(order)), labels


def lasso_of(X, **parameters):
    """Fit without the warning about a ridge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GraphicalLasso(**parameters).fit(X)


def check_matrices(fitted):
    """Both are finite, symmetric, positive definite, and inverse to each other on the correlation scale."""
    C, P = fitted.covariance_, fitted.precision_
    sd = np.sqrt(C.diagonal())
    W, T = C / np.outer(sd, sd), P * np.outer(sd, sd)
    for matrix in (W, T):
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
        assert np.linalg.eigvalsh(matrix)[0] > 0
    np.testing.assert_array_equal(C, C.T)
    np.testing.assert_array_equal(P, P.T)
    np.testing.assert_allclose(W @ T, np.eye(len(W)), atol=1e-8)


@pytest.mark.parametrize("alpha", [0.06, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_unscreened_solver(alpha, seed):
    X, _ = blocks(np.random.default_rng(seed))
    fitted = GraphicalLasso(alpha=alpha, **SOLVER).fit(X)
    _, T = graphical_lasso(np.corrcoef(X.T), alpha, **SOLVER)
    sd = np.outer(X.std(0), X.std(0))
    np.testing.assert_allclose(fitted.precision_ * sd, T, atol=1e-5)
    # scikit-learn's covariance lags behind its precision; the inverse of that does not.
    np.testing.assert_allclose(fitted.covariance_ / sd, np.linalg.inv(T), atol=1e-5)
    assert fitted.ridge_ == 0
    check_matrices(fitted)


@given(seeds, st.floats(0.1, 0.95))
def test_the_solution_meets_its_optimality_conditions(seed, alpha):
    rng = np.random.default_rng(seed)
    X, _ = blocks(rng, t=60, sizes=rng.integers(1, 5, 4))
    fitted = GraphicalLasso(alpha=alpha, **SOLVER).fit(X)
    assert fitted.ridge_ == 0
    W = fitted.covariance_ / np.outer(X.std(0), X.std(0))
    sign = np.sign(fitted.precision_)
    difference = W - np.corrcoef(X.T)
    np.testing.assert_allclose(difference.diagonal(), 0, atol=1e-12)
    # w = r + alpha sign(θ) where θ is not zero, and within alpha of r where it is.
    np.fill_diagonal(difference, 0)
    np.fill_diagonal(sign, 0)
    assert np.abs(difference).max() <= alpha + 1e-4
    off = sign != 0
    np.testing.assert_allclose(difference[off], alpha * sign[off], atol=1e-3)


def test_components(rng):
    X, labels = blocks(rng, sizes=(5, 4, 2, 1, 1))
    sparse = GraphicalLasso(alpha=0.3, sparse_output=True).fit(X)
    assert isinstance(sparse.covariance_, sp.csr_array) and isinstance(sparse.precision_, sp.csr_array)
    fitted = GraphicalLasso(alpha=0.3).fit(X)
    np.testing.assert_array_equal(sparse.covariance_.toarray(), fitted.covariance_)
    np.testing.assert_array_equal(sparse.precision_.toarray(), fitted.precision_)
    assert fitted.n_components_ == 5
    np.testing.assert_array_equal(fitted.covariance_ != 0, labels[:, None] == labels)
    edges = (fitted.precision_ != 0) & ~np.eye(13, dtype=bool)
    assert not edges[labels[:, None] != labels].any()
    assert fitted.density_ == pytest.approx(edges.sum() / (13 * 12))
    assert fitted.n_iter_ >= 1


def test_components_in_parallel_are_the_same(rng):
    X, _ = blocks(rng)
    one = GraphicalLasso(alpha=0.3).fit(X)
    with parallel_config(backend="threading"):
        two = GraphicalLasso(alpha=0.3, n_jobs=2).fit(X)
    np.testing.assert_array_equal(one.precision_, two.precision_)


def test_no_edges(rng):
    X = rng.standard_normal((200, 30)) * rng.uniform(1, 9, 30)
    fitted = GraphicalLasso(alpha=0.9).fit(X)
    assert (fitted.n_components_, fitted.n_iter_, fitted.density_, fitted.ridge_) == (30, 0, 0.0, 0.0)
    np.testing.assert_allclose(fitted.covariance_, np.diag(X.var(0)))
    np.testing.assert_allclose(fitted.precision_, np.diag(1 / X.var(0)))


def test_two_features_have_a_closed_form(rng):
    X, _ = blocks(rng, sizes=(2,))
    fitted = GraphicalLasso(alpha=0.2).fit(X)
    W, T = graphical_lasso(np.corrcoef(X.T), 0.2, **SOLVER)
    sd = np.outer(X.std(0), X.std(0))
    np.testing.assert_allclose(fitted.covariance_ / sd, W, atol=1e-6)
    np.testing.assert_allclose(fitted.precision_ * sd, T, atol=1e-5)
    assert fitted.n_iter_ == 0


@given(seeds)
def test_units_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    X, _ = blocks(rng, t=80)
    unit = 10.0 ** rng.integers(-4, 5, X.shape[1])
    a, b = GraphicalLasso(alpha=0.2, **SOLVER).fit(X), GraphicalLasso(alpha=0.2, **SOLVER).fit(X * unit + 1)
    sd = np.outer(X.std(0), X.std(0))
    np.testing.assert_allclose(b.covariance_ / np.outer(unit, unit) / sd, a.covariance_ / sd, atol=1e-5)
    np.testing.assert_allclose(b.precision_ * np.outer(unit, unit) * sd, a.precision_ * sd, atol=1e-4)


@pytest.mark.parametrize("n", [68, 100])
def test_converges_where_the_inner_default_does_not(n, rng):
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, n)) + rng.standard_normal((200, n))
    fitted = GraphicalLasso().fit(X)
    assert fitted.ridge_ == 0
    check_matrices(fitted)


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01, 1e-4])
@pytest.mark.parametrize("kind", ["few rows", "copies", "low rank"])
def test_singular_data_end_in_a_result_or_a_typed_error(alpha, kind, rng):
    X = rng.standard_normal((8, 20))
    if kind == "copies":
        X = np.hstack([rng.standard_normal((30, 4))] * 3)
    elif kind == "low rank":
        X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    try:
        fitted = lasso_of(X, alpha=alpha)
    except ConvergenceError:
        assert alpha < 0.1, "the default penalty should do"
    else:
        check_matrices(fitted)
        np.testing.assert_allclose(fitted.covariance_.diagonal(), X.var(0))


def test_a_ridge_is_recorded_and_said(rng):
    X = np.hstack([rng.standard_normal((30, 4))] * 3)
    with pytest.warns(ConvergenceWarning, match=r"alpha=0.001 needed a ridge of 0\.\d+"):
        fitted = GraphicalLasso(alpha=0.001).fit(X)
    assert 0 < fitted.ridge_ <= 0.1
    check_matrices(fitted)


@pytest.mark.parametrize("failure", [FloatingPointError("ill-conditioned"), OverflowError(), np.linalg.LinAlgError()])
def test_a_solver_that_breaks_down_is_a_typed_error(failure, rng, monkeypatch):
    def broken(*args, **options):
        raise failure

    monkeypatch.setattr(sklearn.covariance, "graphical_lasso", broken)
    X, _ = blocks(rng, sizes=(7, 1))
    with pytest.raises(ConvergenceError, match=r"alpha=0\.1 did not converge on a component of 7 features"):
        GraphicalLasso().fit(X)


def test_too_few_sweeps_are_a_typed_error(rng):
    X, _ = blocks(rng, sizes=(12,), noise=0.1)
    with pytest.raises(ConvergenceError, match=r"larger max_iter \(now 1\)"):
        GraphicalLasso(max_iter=1, tol=1e-9).fit(X)


def test_a_gap_that_is_small_by_accident_is_not_convergence():
    """scikit-learn stops after two sweeps here, at a gap of -2e-8 and entries that are off by 5e-3."""
    X, _ = blocks(np.random.default_rng(52), t=80)
    loose, tight = GraphicalLasso(alpha=0.2).fit(X), GraphicalLasso(alpha=0.2, **SOLVER).fit(X)
    sd = np.outer(X.std(0), X.std(0))
    np.testing.assert_allclose(loose.covariance_ / sd, tight.covariance_ / sd, atol=1e-4)
    assert loose.ridge_ == tight.ridge_ == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *(({"alpha": alpha}, r"alpha must be a number in \(0, 1\]") for alpha in (0, -0.1, 1.5, np.nan, "0.1", True)),
        *(({"max_iter": value}, "max_iter must be a positive integer") for value in (0, 2.5)),
        ({"tol": 0}, "tol must be a positive number, got 0"),
        ({"enet_tol": -1.0}, r"enet_tol must be a positive number, got -1\.0"),
        ({"missing": "drop"}, "missing must be one of"),
    ],
)
def test_bad_parameters_are_named(parameters, message, rng):
    with pytest.raises(ValueError, match=message):
        GraphicalLasso(**parameters).fit(rng.standard_normal((10, 3)))


def test_constant_features_have_rows_of_zeros(rng):
    X, _ = blocks(rng, sizes=(4, 1))
    X = np.c_[X, np.full(len(X), 0.1), np.full(len(X), 1e6 / 3)]
    fitted = GraphicalLasso(alpha=0.3).fit(X)
    assert fitted.n_components_ == 4
    for matrix in (fitted.covariance_, fitted.precision_):
        assert not matrix[5:].any() and not matrix[:, 5:].any()
    np.testing.assert_allclose(fitted.precision_[:5, :5], GraphicalLasso(alpha=0.3).fit(X[:, :5]).precision_)
    assert not GraphicalLasso().fit(np.ones((5, 3))).covariance_.any()


def test_weights_repeat_rows(rng):
    X, _ = blocks(rng, t=60)
    w = rng.integers(0, 4, len(X))
    a = GraphicalLasso(alpha=0.2, **SOLVER).fit(X, sample_weight=w)
    b = GraphicalLasso(alpha=0.2, **SOLVER).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(a.covariance_, b.covariance_, rtol=1e-4)


def test_values_of_a_node_are_rows(rng):
    X, _ = blocks(rng, t=120)
    nodes = X.reshape(40, 3, -1).transpose(0, 2, 1)
    a, b = GraphicalLasso(alpha=0.2).fit(nodes), GraphicalLasso(alpha=0.2).fit(X)
    np.testing.assert_allclose(a.precision_, b.precision_, rtol=1e-6)


def test_missing_values_take_the_observed_pairs(rng):
    X, _ = blocks(rng)
    full = GraphicalLasso(alpha=0.2).fit(X)
    pairwise = GraphicalLasso(alpha=0.2, missing="pairwise")
    np.testing.assert_allclose(pairwise.fit(X).precision_, full.precision_, rtol=1e-6)
    X[rng.random(X.shape) < 0.05] = np.nan
    check_matrices(pairwise.fit(X))
    assert pairwise.n_components_ == full.n_components_


def test_tensors_and_single_precision(rng):
    X, _ = blocks(rng)
    expected = GraphicalLasso(alpha=0.2).fit(X).precision_
    fitted = GraphicalLasso(alpha=0.2).fit(torch.tensor(X))
    assert fitted.precision_.layout == torch.strided
    np.testing.assert_allclose(fitted.precision_, expected)
    sparse = GraphicalLasso(alpha=0.2, sparse_output=True).fit(torch.tensor(X))
    assert sparse.precision_.layout == torch.sparse_csr
    np.testing.assert_allclose(sparse.precision_.to_dense(), expected)
    single = GraphicalLasso(alpha=0.2).fit(X.astype(np.float32)).precision_
    np.testing.assert_allclose(single, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def test_name_and_network(rng, tmp_path):
    assert isinstance(resolve("graphical_lasso"), GraphicalLasso)
    X, _ = blocks(rng, t=60)
    for covariance in ("graphical_lasso", GraphicalLasso(alpha=0.4, n_jobs=1)):
        model = SVNNRegressor(covariance=covariance, use="precision", max_epochs=3, random_state=0).fit(X, X[:, 0])
        assert isinstance(model.covariance_, np.ndarray)
        model.save(tmp_path / "model.safetensors")
        again = svnn.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert str(again.covariance) == str(covariance)
        assert np.isfinite(again.on(resolve(covariance), X).predict(X)).all()


def test_the_graph_is_that_of_thresholded_correlations(rng):
    X, _ = blocks(rng)
    Z = (X - X.mean(0)) / X.std(0)
    graph = HardThreshold(tau=0.25 * len(X) ** 0.5).fit(Z).covariance_
    n_components, _ = sp.csgraph.connected_components(graph)
    assert GraphicalLasso(alpha=0.25).fit(X).n_components_ == n_components


def test_a_screen_in_tiles_gives_the_same(rng):
    X, _ = blocks(rng)
    w = rng.uniform(1, 2, len(X))
    whole = GraphicalLasso(alpha=0.2).fit(X, sample_weight=w)
    tiles = GraphicalLasso(alpha=0.2, dense_limit=4, sparse_output=False).fit(X, sample_weight=w)
    assert tiles.n_components_ == whole.n_components_
    np.testing.assert_allclose(tiles.location_, whole.location_)
    np.testing.assert_allclose(tiles.precision_, whole.precision_, rtol=1e-6)


def test_a_small_penalty_is_near_the_sample_covariance(rng):
    X = rng.standard_normal((500, 6))
    C = SampleCovariance().fit(X).covariance_
    np.testing.assert_allclose(GraphicalLasso(alpha=1e-4).fit(X).covariance_, C, atol=1e-3)
