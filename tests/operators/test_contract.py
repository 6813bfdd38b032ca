"""One contract for every backend: the same matrix, the same numbers, the same errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import covariances, seeds, tied_matrices
from svnn import as_operator
from svnn.operators import CSROperator, LowRankOperator, SumOperator
from svnn.testing import check_operator
from svnn.testing._operators import (
    check_attributes,
    check_conversions,
    check_gradients,
    check_normalized,
    check_pickle,
    check_product,
    check_to,
)

BACKENDS = ("dense", "csr", "lowrank", "sum")
every = pytest.mark.parametrize("backend", BACKENDS)
devices = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def matrix(n=9, seed=0, density=0.6):
    """Symmetric, sparse, indefinite."""
    rng = np.random.default_rng(seed)
    C = np.triu(rng.standard_normal((n, n)) * (rng.random((n, n)) < density))
    return C + C.T


def made(C, backend, **where):
    """The matrix as an operator; a sum is its first eigenvector, in low rank, and the sparse rest."""
    if backend != "sum":
        return as_operator(C, backend=backend, **where)
    C = torch.as_tensor(C)
    values, vectors = torch.linalg.eigh(C)
    first = LowRankOperator(vectors[:, :1], values[:1])
    return as_operator(SumOperator([first, CSROperator.from_dense(C - first.to_dense())]), **where)


@every
def test_every_backend_passes_the_check_for_operators(backend):
    check_operator(lambda C: made(C, backend))


@every
@given(C=covariances() | tied_matrices(), seed=seeds, shape=st.sampled_from([(), (3,), (2, 3)]))
def test_product_is_that_of_the_matrix(backend, C, seed, shape):
    check_product(made(C, backend), C, [shape], seed)


@every
@pytest.mark.parametrize("device", devices)
def test_attributes_and_conversions(backend, device):
    C = matrix()
    op = made(C, backend, device=device)
    assert (op.shape, op.backend, op.device.type, op.dtype) == ((9, 9), backend, device, torch.float64)
    assert backend.lower() in type(op).__name__.lower()
    for check in (check_attributes, check_conversions, check_to):
        check(op, C)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(9, 4), (1, 9, 4), (70, 9, 1)], ids=str)
def test_a_filter_is_that_of_the_matrix(backend, dtype, shape, kernels):
    C = matrix() / 5
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(size) for size in (shape, (4, shape[-1], 3), (3,)))
    expected = sum(np.linalg.matrix_power(C, k) @ x @ weight[k] for k in range(4)) + bias
    tensors = (torch.tensor(a, dtype=dtype) for a in (x, weight, bias))
    found = made(C, backend, dtype=dtype).filter(*tensors).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 if dtype == torch.float32 else 1e-12)
    if backend == "csr":
        kernels.must_have_run("bank32" if dtype == torch.float32 else "bank64")


@every
def test_gradients(backend):
    C = matrix(5)
    check_gradients(made(C, backend), C)


def test_the_dense_matrix_itself_can_be_learned():
    C = torch.eye(4, dtype=torch.float64, requires_grad=True)
    x = torch.ones(4, 1, dtype=torch.float64)
    (as_operator(C, backend="dense") @ x).sum().backward()
    torch.testing.assert_close(C.grad, torch.ones(4, 4, dtype=torch.float64))


@every
def test_normalized(backend):
    C = matrix()
    op = made(C, backend)
    check_normalized(op, C)
    assert op.scale is None
    with pytest.raises(ValueError, match="scale must be a positive number"):
        op.normalized(0.0)


@every
def test_the_zero_matrix(backend):
    op = made(np.zeros((3, 3)), backend)
    assert op.norm() == 0
    assert op.normalized().scale == 1
    assert not (op @ torch.ones(3, 1)).any()


@every
def test_pickles(backend):
    check_pickle(made(matrix(), backend), matrix())


@every
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.ones(8, 1), ValueError, r"\(\.\.\., 9, F\)"),
        (torch.ones(9), ValueError, r"\(\.\.\., 9, F\)"),
        (np.ones((9, 1)), TypeError, "torch tensors"),
    ],
)
def test_bad_signals_are_named(backend, x, error, message):
    op = made(matrix(), backend)
    with pytest.raises(error, match=message):
        op @ x
    with pytest.raises(TypeError, match="floating dtype"):
        op.to(torch.int64)
