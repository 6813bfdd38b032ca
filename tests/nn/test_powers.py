"""Signals with their shifts: by an operator, and by plain operations that can be exported."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svnn.nn import _powers
from svnn.nn._powers import DenseProduct, LowRankProduct, Powers, SparseProduct, StackedPowers, SumProduct, plain_powers
from svnn.operators import CSROperator, LowRankOperator, SumOperator, as_operator, from_data

N = 30


def random_matrix(n, density=1.0):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, n)) * (rng.random((n, n)) < density)
    return A + A.T + 3 * np.eye(n)


def filtered(powers, x, weight):
    return powers(x) @ powers.rewritten(weight).flatten(0, 1)


def dense():
    return as_operator(random_matrix(N), backend="dense")


def csr():
    return as_operator(random_matrix(N, 0.02), backend="csr")


def low_rank():
    return from_data(np.random.default_rng(0).standard_normal((5, N)))


def signed_low_rank():
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((N, 4)))[0]
    return as_operator((U * [2, 1, -1, -3]) @ U.T, backend="lowrank")


def both():
    factors = LowRankOperator(torch.ones(N, 1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    return SumOperator([factors, CSROperator.from_dense(torch.diag(torch.arange(float(N), dtype=torch.float64)))])


OPERATORS = {
    "stacked": (dense, StackedPowers),
    "dense": (dense, DenseProduct),
    "csr": (csr, SparseProduct),
    "lowrank": (low_rank, LowRankProduct),
    "signed lowrank": (signed_low_rank, LowRankProduct),
    "sum": (both, SumProduct),
}


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("order", [0, 1, 4])
def test_all_are_the_operator(kind, order, monkeypatch):
    monkeypatch.setattr(_powers, "DENSE_NODES", 10)
    monkeypatch.setattr(_powers, "STACKED_VALUES", 10_000 if kind == "stacked" else -1)
    make, expected = OPERATORS[kind]
    operator = make()
    rng = np.random.default_rng(0)
    x, weight = (torch.from_numpy(rng.standard_normal(shape)) for shape in ((4, N, 2), (order + 1, 2, 3)))
    wanted = operator.filter(x, weight)
    close = {"rtol": 0, "atol": 1e-9 * float(wanted.abs().max())}
    torch.testing.assert_close(filtered(Powers(operator, order), x, weight), wanted, **close)
    powers = plain_powers(operator, order, operator.to_dense().numpy())
    torch.testing.assert_close(filtered(powers, x, weight), wanted, **close)
    assert not order or isinstance(powers if kind == "stacked" else powers.product, expected)
    assert powers(x).abs().max() < 100  # whatever the size of the matrix
    assert torch.equal(torch.fx.symbolic_trace(powers, {"own": None})(x, None), powers(x))


def test_sparse_matrices_that_are_small_or_full_are_stored_dense(monkeypatch):
    small, full = (random_matrix(50, density) for density in (0.02, 0.4))
    assert isinstance(plain_powers(as_operator(small, backend="csr"), 2, small), StackedPowers)
    assert isinstance(plain_powers(both(), 2, both().to_dense().numpy()), StackedPowers)
    monkeypatch.setattr(_powers, "DENSE_NODES", 10)
    assert isinstance(plain_powers(as_operator(small, backend="csr"), 2, small).product, SparseProduct)
    assert isinstance(plain_powers(as_operator(full, backend="csr"), 2, full), StackedPowers)


@pytest.mark.parametrize("C", [np.eye(4), np.zeros((4, 4)), np.diag([1.0, 1, 1, 1 + 1e-12]), np.array([[2.0]])])
def test_matrices_without_a_spread_of_eigenvalues(C):
    operator = as_operator(C)
    x = torch.arange(len(C), dtype=torch.float64).add(1)[None, :, None]
    weight = torch.tensor([0.5, -2.0, 1.5], dtype=torch.float64)[:, None, None]
    torch.testing.assert_close(filtered(plain_powers(operator, 2, C), x, weight), operator.filter(x, weight))


def test_rows_with_their_own_matrices():
    x = torch.randn(3, N, 2, dtype=torch.float64)
    matrices = torch.randn(3, N, N, dtype=torch.float64)
    expected = torch.cat([x, matrices @ x, matrices @ (matrices @ x)], -1)
    for powers in (Powers(None, 2), plain_powers(dense(), 2, np.eye(N))):
        torch.testing.assert_close(powers(x, matrices), expected)
