from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import HardThreshold
from svnn.functional import hard_threshold, soft_threshold
from svnn.nn import SVNN, CovarianceFilter, LearnedSparsifier
from svnn.nn._learned import MODES
from svnn.operators import as_operator

EVERY = [("soft", "edge"), ("soft", "node"), ("soft", "matrix"), ("straight-through", "edge"), ("concrete", "edge")]


def covariance(n=6, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2 * n, n))
    return A.T @ A / (2 * n)


def sparsifier(C, mode, per, **options):
    return LearnedSparsifier(C, mode, per=per, **{"dtype": torch.float64, **options})


def moved(made, seed=1):
    """The same with other parameters, so that nothing is as at the start."""
    made = copy.deepcopy(made)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        made.parameter.add_(torch.from_numpy(rng.standard_normal(made.parameter.shape)))
    return made


# -- the start ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "per"), EVERY)
@pytest.mark.parametrize("threshold", [0.0, 0.25])
def test_it_starts_at_the_thresholded_covariance(mode, per, threshold):
    C = covariance()
    rule = soft_threshold if mode == "soft" else hard_threshold
    expected = rule(C, threshold)
    made = sparsifier(C, mode, per, threshold=threshold).eval()
    np.testing.assert_allclose(made().detach(), expected, atol=1e-14)
    assert 0 < made.density <= 1 and made.density == np.count_nonzero(np.triu(expected, 1)) / 15


@pytest.mark.parametrize("mode", MODES)
def test_pairs_that_are_zero_stay_zero_and_cost_nothing(mode):
    C = hard_threshold(covariance(), 0.2)
    made = LearnedSparsifier(sp.csr_array(C), mode, dtype=torch.float64).eval()
    assert len(made.parameter) == np.count_nonzero(np.triu(C, 1)) < 15
    np.testing.assert_allclose(made().detach(), C, atol=1e-14)
    assert (moved(made)().detach().numpy()[C == 0] == 0).all()


def test_matrices_of_every_kind():
    C = covariance()
    fitted = HardThreshold(density=0.5).fit(np.random.default_rng(0).standard_normal((30, 6)))
    for given, expected in ((as_operator(C), C), (torch.as_tensor(C), C), (fitted, fitted.covariance_)):
        np.testing.assert_allclose(LearnedSparsifier(given)().detach(), expected, atol=1e-6)
    assert LearnedSparsifier(C)().dtype == torch.float32


@pytest.mark.parametrize("C", [[[2.0]], np.eye(3)])
@pytest.mark.parametrize("mode", MODES)
def test_without_edges(C, mode):
    made = LearnedSparsifier(C, mode)
    np.testing.assert_array_equal(made().detach(), C)
    assert made.density == 0 and made.penalty().item() == 0 and made.to_operator().shape == (len(C),) * 2


# -- what always holds ----------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "per"), EVERY)
def test_it_is_symmetric_and_keeps_the_diagonal(mode, per):
    C = covariance()
    S = moved(sparsifier(C, mode, per, threshold=0.1)).train()().detach().numpy()
    np.testing.assert_array_equal(S, S.T)
    np.testing.assert_array_equal(np.diag(S), np.diag(C))


@pytest.mark.parametrize(("mode", "per"), EVERY)
def test_everything_can_become_zero_and_all_edges_can_be_kept(mode, per):
    C = covariance()
    made = sparsifier(C, mode, per).eval()
    low, high = (-50.0, 50.0) if mode == "soft" else (50.0, -50.0)
    with torch.no_grad():
        made.parameter.fill_(high)
        np.testing.assert_array_equal(made(), np.diag(np.diag(C)))
        assert made.density == 0 and made.penalty().item() < 1e-9
        made.parameter.fill_(low)
    assert made.density == 1 and made.penalty().item() == pytest.approx(1)


@pytest.mark.parametrize(("mode", "per"), EVERY)
def test_the_order_of_the_features_does_not_count(mode, per):
    C = covariance(8)
    order = np.random.default_rng(3).permutation(8)
    x = torch.from_numpy(np.random.default_rng(4).standard_normal((5, 8)))

    def trained(C, x):
        made = sparsifier(C, mode, per, threshold=0.1).eval()
        optimizer = torch.optim.SGD(made.parameters(), lr=0.5)
        for _ in range(5):
            optimizer.zero_grad()
            ((x @ made()).square().mean() + made.penalty()).backward()
            optimizer.step()
        return made().detach().numpy()

    plain = trained(C, x)
    np.testing.assert_allclose(trained(C[np.ix_(order, order)], x[:, order]), plain[np.ix_(order, order)], atol=1e-12)


@pytest.mark.parametrize(("mode", "per"), EVERY)
def test_another_unit_changes_nothing_else(mode, per):
    C = covariance()
    made, large = (sparsifier(unit * C, mode, per, threshold=0.2 * unit) for unit in (1.0, 1e6))
    torch.testing.assert_close(large.parameter, made.parameter)
    torch.testing.assert_close(moved(large).eval()(), 1e6 * moved(made).eval()())
    torch.testing.assert_close(large.penalty(), made.penalty())


# -- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("per", ["edge", "node", "matrix"])
def test_gradients_of_soft_thresholds_are_exact(per):
    made = sparsifier(covariance(), "soft", per, threshold=0.15)

    def outputs(parameter):
        return torch.func.functional_call(made, {"parameter": parameter}, ())

    assert torch.autograd.gradcheck(outputs, (made.parameter.detach().requires_grad_(),))


def test_gradients_of_drawn_masks_are_exact_for_a_draw():
    made = sparsifier(covariance(), "concrete", "edge", threshold=0.15).train()

    def outputs(parameter):
        return torch.func.functional_call(made, {"parameter": parameter}, (torch.Generator().manual_seed(0),))

    assert torch.autograd.gradcheck(outputs, (made.parameter.detach().requires_grad_(),))


def test_gradients_pass_straight_through_as_those_of_sigmoids():
    C = covariance()
    made = sparsifier(C, "straight-through", "edge", threshold=0.2)
    made().sum().backward()
    smooth = torch.sigmoid(made.parameter.detach() / made.temperature)
    expected = 2 * made.entries * smooth * (1 - smooth) / made.temperature
    torch.testing.assert_close(made.parameter.grad, expected)


@pytest.mark.parametrize("mode", MODES)
def test_networks_and_filters_pass_gradients_on(mode):
    torch.manual_seed(0)
    C, x = covariance(), torch.randn(5, 6, 1)
    for network in (
        SVNN(1, 2, hidden=(4,)),
        SVNN(1, 2, hidden=(4, 3), normalize=False),
        CovarianceFilter(1, 2, order=2),
    ):
        made = LearnedSparsifier(C, mode, threshold=0.1)
        network(x, made()).square().sum().backward()
        assert made.parameter.grad is not None and made.parameter.grad.abs().max() > 0


# -- chance ---------------------------------------------------------------------------------------


def test_masks_are_drawn_in_training_only_and_by_the_generator():
    made = sparsifier(covariance(), "concrete", "edge", threshold=0.2)
    first, again, other = (made(torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    made.eval()
    assert torch.equal(made(torch.Generator().manual_seed(0)), made())
    for mode in ("soft", "straight-through"):
        fixed = sparsifier(covariance(), mode, "edge", threshold=0.2)
        assert torch.equal(fixed(), fixed()) and torch.equal(fixed(), fixed.eval()())


def test_the_penalty_of_concrete_masks_is_the_expected_share_of_edges():
    made = moved(sparsifier(covariance(8), "concrete", "edge", threshold=0.2))
    with torch.no_grad():
        made.parameter.mul_(0.5)
        g = torch.Generator().manual_seed(0)
        seen = np.mean([float((made(g).triu(1) != 0).sum()) for _ in range(4000)]) / 28
        assert made.penalty().item() == pytest.approx(seen, abs=0.01)  # four standard errors are below 0.006


# -- the result -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "per"), EVERY)
def test_the_sparse_result_is_that_of_evaluation(mode, per):
    made = moved(sparsifier(covariance(), mode, per, threshold=0.2))
    S = made.sparsified()
    assert isinstance(S, sp.csr_array)
    np.testing.assert_array_equal(S.toarray(), made.eval()().detach())
    assert np.count_nonzero(np.triu(S.toarray(), 1)) / 15 == made.density
    assert S.nnz == np.count_nonzero(S.toarray())
    operator = made.to_operator()
    assert not operator.requires_grad
    torch.testing.assert_close(operator.to_dense(), made().detach())


def test_state_is_stored_and_restored():
    C = covariance()
    made, fresh = moved(sparsifier(C, "soft", "node")), sparsifier(2 * C, "soft", "node")
    fresh.load_state_dict(made.state_dict())
    torch.testing.assert_close(fresh(), made())
    assert "soft, N=6, edges=15, per=node" in repr(made)


def test_bad_requests_say_what_is_wrong():
    C = covariance()
    with pytest.raises(ValueError, match="mode must be one of"):
        LearnedSparsifier(C, "hard")
    for options in ({"per": "row"}, {"mode": "concrete", "per": "node"}):
        with pytest.raises(ValueError, match="per must be"):
            LearnedSparsifier(C, **options)
    for threshold in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="threshold must be a number >= 0"):
            LearnedSparsifier(C, threshold=threshold)
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        LearnedSparsifier(C, temperature=0)
    with pytest.raises(ValueError, match="covariance"):
        LearnedSparsifier(C[:, :3])


# -- learning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_edges_are_found(mode, seed):
    """Signals are shifted by a matrix of 10 planted edges; the start has 95 others, as large as these."""
    rng = np.random.default_rng(seed)
    n = 15
    rows, columns = np.triu_indices(n, 1)
    planted = np.zeros(len(rows), dtype=bool)
    planted[rng.choice(len(rows), 10, replace=False)] = True
    sizes = rng.uniform(0.2, 0.4, len(rows)) * rng.choice([-1, 1], len(rows))
    truth, start = np.eye(n), np.eye(n)
    truth[rows, columns] = truth[columns, rows] = np.where(planted, sizes, 0)
    start[rows, columns] = start[columns, rows] = sizes
    x = torch.from_numpy(rng.standard_normal((200, n)))
    y = x @ torch.from_numpy(truth) + 0.5 * torch.from_numpy(rng.standard_normal((200, n)))
    made = LearnedSparsifier(start, mode, dtype=torch.float64)
    assert made.density == 1
    optimizer = torch.optim.Adam(made.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(seed)
    for _ in range(300):
        optimizer.zero_grad()
        ((x @ made(draws) - y).square().mean() + 0.05 * made.penalty()).backward()
        optimizer.step()
    kept = made.sparsified().toarray()[rows, columns] != 0
    assert made.density < 0.4
    assert kept[planted].mean() > 0.6 and kept[~planted].mean() < 0.3
