"""What could go wrong around kernels that trust their addresses."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import as_operator
from svnn.operators import CSROperator, DenseOperator


def operator(n=200, backend="csr", seed=0):
    A = torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
    return as_operator(A @ A.T / n**1.5, backend=backend)


def tensors(n=200, n_in=8, n_out=16, taps=3, batch=4):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, n, n_in, generator=generator), torch.randn(taps, n_in, n_out, generator=generator)


@pytest.mark.parametrize("backend", ["csr", "dense"])
def test_signals_on_another_device_are_an_error(backend):
    x, weight = (t.to("meta") for t in tensors())
    with pytest.raises(ValueError, match="x is on meta, the operator on cpu"):
        operator(backend=backend).filter(x, weight)
    with pytest.raises(ValueError, match="weight must have shape"):
        operator(backend=backend).filter(tensors()[0], weight)
    with pytest.raises(ValueError, match=r"weight must have shape \(K \+ 1, 8, out\)"):
        operator(backend=backend).filter(tensors()[0], torch.randn(3, 5, 4))


def test_the_default_device_does_not_matter():
    op, (x, weight) = operator(20), tensors(20)
    expected = op.filter(x, weight)
    with torch.device("meta"):
        assert torch.equal(op.filter(x, weight), expected)


@pytest.mark.parametrize("backend", ["csr", "dense"])
def test_inference_mode_leaves_nothing_behind_that_training_cannot_use(backend):
    op, (x, weight) = operator(seed=5, backend=backend), tensors(taps=6)
    with torch.inference_mode():
        op.filter(x, weight)
        op.filter(x.double(), weight.double())
    for dtype in (torch.float32, torch.float64):
        w = weight.detach().to(dtype, copy=True).requires_grad_()
        op.filter(x.to(dtype), w).sum().backward()
        assert w.grad is not None


@pytest.mark.parametrize("taps", [3, 9])
def test_a_matrix_changed_in_place_is_seen(taps):
    A = torch.randn(30, 30)
    C = A @ A.T / 900
    op, (x, weight) = DenseOperator(C), tensors(30, taps=taps)
    op.filter(x, weight)
    op.norm()
    C.mul_(0.5)
    torch.testing.assert_close(op.filter(x, weight), as_operator(C.clone(), backend="dense").filter(x, weight))
    assert op.norm() == pytest.approx(as_operator(C.clone()).norm())


def aliases(C):
    """Every way to hand over the matrix of a numpy array, most of them sharing its memory."""
    tensor = torch.from_numpy(C)
    return {
        "array": C,
        "tensor": tensor,
        "its data": tensor.data,
        "a view": tensor.view(-1).view(C.shape),
        "sparse array": sp.csr_array(C),
        "sparse tensor": tensor.to_sparse_coo(),
    }


@pytest.mark.parametrize("source", aliases(np.eye(2)))
@pytest.mark.parametrize("backend", ["dense", "csr", "lowrank", "auto"])
@pytest.mark.parametrize("taps", [3, 9])
def test_what_happens_to_the_matrix_later_does_not_change_the_operator(source, backend, taps):
    A = np.random.default_rng(0).standard_normal((30, 30))
    C = A @ A.T / 900
    given = aliases(C)[source]
    op, (x, weight) = as_operator(given, backend=backend), tensors(30, taps=taps)
    x, weight = x.double(), weight.double()
    before, norm = op.filter(x, weight), op.norm()
    C *= 0.5  # torch does not see it
    if hasattr(given, "data") and isinstance(given, sp.csr_array):
        given.data *= 0.5
    torch.testing.assert_close(op.filter(x, weight), before)
    assert op.norm() == norm
    torch.testing.assert_close(op.filter(x.float(), weight.float()), before.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["dense", "csr", "lowrank"])
def test_what_an_operator_hands_out_is_not_its_own(backend):
    op, (x, weight) = operator(20, backend), tensors(20, taps=9)
    before = op.filter(x, weight)
    op.to_dense().numpy()[:] = 0
    op.to_scipy().data[:] = 0
    op.edge_index()[1].zero_()
    torch.testing.assert_close(op.filter(x, weight), before)
    torch.testing.assert_close(op @ x, operator(20, backend) @ x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["dense", "csr", "lowrank"])
@pytest.mark.parametrize("kept", ["in single precision", "in half precision"])
def test_half_precision(dtype, backend, kept):
    """Half precision works alike on every backend, and is as exact as its digits allow."""
    op, (x, weight) = operator(40, backend), tensors(40)
    unit = op.normalized()
    half = unit.to(dtype) if kept == "in half precision" else unit
    for run in (lambda o, t: o @ t, lambda o, t: o.filter(t, weight.to(t.dtype))):
        y = run(half, x.to(dtype))
        expected = run(unit, x)
        assert y.dtype == dtype
        error = (y.float() - expected).abs().max() / expected.abs().max()
        assert error < 8 * torch.finfo(dtype).eps
    assert half.norm() == pytest.approx(1, rel=4 * torch.finfo(dtype).eps)
    assert half.to_scipy().shape == (40, 40)
    signal = x.to(dtype).requires_grad_()
    assert torch.autograd.grad((half @ signal).sum(), signal)[0].dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["dense", "csr", "auto"])
def test_matrices_in_half_precision(dtype, backend):
    C = torch.eye(4, dtype=dtype)
    for given in (C, C.to_sparse_coo()):
        op = as_operator(given, backend=backend)
        assert op.dtype == dtype
        torch.testing.assert_close(op @ torch.ones(4, 1, dtype=dtype), torch.ones(4, 1, dtype=dtype))


def test_complex_matrices_are_an_error():
    C = torch.eye(3, dtype=torch.complex64)
    for given in (C, C.numpy(), C.to_sparse_coo(), sp.csr_array(C.numpy())):
        with pytest.raises(ValueError, match="real"):
            as_operator(given)


def test_strided_arrays_and_weights_are_taken():
    op, (x, weight) = operator(), tensors()
    strided = CSROperator(*(torch.stack([t, t], 1)[:, 0] for t in op._tensors()))
    torch.testing.assert_close(strided.filter(x, weight), op.filter(x, weight))
    permuted = weight.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    torch.testing.assert_close(op.filter(x, permuted), op.filter(x, weight))


@pytest.mark.parametrize(
    ("columns", "starts"),
    [([0, 5], [0, 1, 2]), ([0, -1], [0, 1, 2]), ([0, 1], [0, 3, 2]), ([0, 1], [0, 1, 5]), ([0, 1], [1, 1, 2])],
)
def test_arrays_that_are_no_matrix_are_an_error(columns, starts):
    with pytest.raises(ValueError, match="CSR"):
        CSROperator(torch.ones(2), torch.tensor(columns), torch.tensor(starts))


@pytest.mark.parametrize("backend", ["csr", "dense", "lowrank"])
@pytest.mark.parametrize("taps", [3, 9])
def test_autocast_leaves_the_banks_alone(kernels, backend, taps):
    op, (x, weight) = operator(40, backend), tensors(40, taps=taps)
    weight.requires_grad_()
    expected, shifted = op.filter(x, weight), op @ x
    (gradient,) = torch.autograd.grad(expected.sum(), weight)
    with torch.autocast("cpu", torch.bfloat16):
        y = op.filter(x, weight)
        assert torch.equal(y, expected)
        assert torch.equal(op @ x, shifted)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), weight)[0], gradient)
