"""Sums of operators: what the contract does not say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import as_operator
from svnn.functional import LowRankPlusSparse
from svnn.operators import CSROperator, DenseOperator, LowRankOperator, SumOperator
from svnn.testing import check_operator


def factored(n=200, r=3, seed=0):
    rng = np.random.default_rng(seed)
    half = sp.random_array((n, n), density=0.01, random_state=rng, data_sampler=rng.standard_normal)
    return LowRankPlusSparse(rng.standard_normal((n, r)), half + half.T + sp.eye_array(n))


def test_a_factored_matrix_is_a_sum_of_two_parts():
    C = factored()
    op = as_operator(C)
    assert isinstance(op, SumOperator) and [part.backend for part in op.parts] == ["lowrank", "csr"]
    assert op.nnz == C.loadings.size + C.residual.nnz
    np.testing.assert_allclose(op.to_dense(), C.toarray())
    C.loadings[:] = 0  # the operator has its own copy
    assert op.parts[0].factor.any()


def test_a_factored_matrix_in_other_backends():
    C = factored(40)
    for backend in ("dense", "csr", "lowrank"):
        op = as_operator(C, backend=backend)
        assert op.backend == backend
        np.testing.assert_allclose(op.to_dense(), C.toarray(), atol=1e-12)


def test_the_shift_never_forms_the_matrix(monkeypatch):
    op = as_operator(factored(3000))
    for kind in (SumOperator, CSROperator, LowRankOperator):
        monkeypatch.setattr(kind, "to_dense", lambda self: pytest.fail("the matrix was written out"))
    unit = op.normalized()
    x = torch.ones(2, 3000, 2, dtype=torch.float64)
    assert torch.isfinite(unit.filter(x, torch.ones(4, 2, 3, dtype=torch.float64))).all()
    assert abs((unit @ (op @ x) * unit.scale - op @ (op @ x)).abs().max()) < 1e-6


def test_a_small_bank_runs_on_a_dense_copy(monkeypatch):
    op = as_operator(factored(64, r=16))
    assert op.adaptive
    monkeypatch.setattr(SumOperator, "_reference_filter", lambda *args: pytest.fail("not on the dense copy"))
    op.filter(torch.ones(64, 64, 32, dtype=torch.float64), torch.ones(3, 32, 32, dtype=torch.float64))


def test_three_parts_of_any_kind():
    C = factored(12)
    parts = [*as_operator(C).parts, DenseOperator(torch.eye(12, dtype=torch.float64))]
    op = SumOperator(parts)
    check_operator(op)
    np.testing.assert_allclose(op.to_dense(), C.toarray() + np.eye(12))


def test_gradients_reach_the_parts():
    factor = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    values = torch.rand(5, dtype=torch.float64, requires_grad=True)

    def shifted(factor, values):
        rest = CSROperator(values, torch.arange(5), torch.arange(6))
        op = SumOperator([LowRankOperator(factor, factor.new_ones(2)), rest])
        x = torch.arange(10, dtype=torch.float64).view(5, 2)
        return op.filter(x, torch.ones(3, 2, 1, dtype=torch.float64)), op.normalized() @ x

    assert torch.autograd.gradcheck(shifted, (factor, values))


def test_what_is_no_sum_is_named():
    one, two = (as_operator(np.eye(n)) for n in (3, 4))
    with pytest.raises(ValueError, match="parts must have one shape"):
        SumOperator([one, two])
    with pytest.raises(ValueError, match="parts must have one dtype"):
        SumOperator([one, one.to(torch.float32)])
    with pytest.raises(ValueError, match="at least one"):
        SumOperator([])
    with pytest.raises(TypeError, match="parts must be operators, got ndarray"):
        SumOperator([np.eye(3)])


def test_a_factored_matrix_is_a_linear_operator_of_scipy():
    C, x = factored(), np.random.default_rng(1).standard_normal((200, 2))
    dense = C.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(C @ x, dense @ x)
    np.testing.assert_allclose(C.T @ x[:, 0], dense @ x[:, 0])
    np.testing.assert_allclose(C.diagonal(), dense.diagonal())
    assert C.trace() == pytest.approx(dense.trace())
    assert C.density() == 1.0
    with pytest.raises(ValueError, match=r"loadings must have shape \(N, r\)"):
        LowRankPlusSparse(np.ones((3, 1)), sp.eye_array(4))


def test_the_density_of_a_factored_matrix():
    C = LowRankPlusSparse(np.array([[1.0], [1.0], [0.0], [0.0]]), sp.csr_array(np.eye(4) + np.eye(4)[::-1]))
    dense = C.toarray()
    assert C.density() == (np.count_nonzero(dense) - 4) / 12
