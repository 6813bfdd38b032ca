"""Every way to compute a filter bank gives the same numbers, forward and backward."""

import io
import weakref
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernel_spy import Kernels
from svnn import as_operator
from svnn.operators import _cpu_passes
from svnn.operators._cpu_passes import CPUMatrix
from svnn.operators._csr import GPUMatrix
from svnn.operators._filter_banks import shift_filter_bank

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def covariance(n: int, density: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n, n)) * (rng.random((n, n)) < density)
    C = np.triu(C) + np.triu(C, 1).T
    return C / max(np.abs(C).sum(0).max(), 1e-12)


def textbook(C, x, weight, bias):
    powers = [x]
    for _ in range(len(weight) - 1):
        powers.append(C @ powers[-1])
    return sum(p @ w for p, w in zip(powers, weight, strict=True)) + bias


def gradients(bank, *tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    y = bank(*leaves)
    torch.manual_seed(1)
    return [y.detach(), *torch.autograd.grad(y, leaves, torch.randn(y.shape, dtype=y.dtype))]


def assert_same(ours, theirs, dtype):
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert float((a - b).abs().max()) <= TOLERANCE[dtype] * max(float(b.abs().max()), 1.0)


def a_bank_equals_the_textbook(backend):
    @given(
        dtype=st.sampled_from([torch.float32, torch.float64]),
        batch=st.sampled_from([1, 2, 5, 70]),
        n=st.sampled_from([1, 3, 20, 133]),
        n_in=st.sampled_from([1, 3, 8, 16, 33]),
        n_out=st.sampled_from([1, 5, 16, 32]),
        order=st.integers(0, 4),
        density=st.sampled_from([0.0, 0.1, 1.0]),
    )
    # Both precisions on all threads, whatever else is drawn.
    @example(dtype=torch.float32, batch=70, n=133, n_in=8, n_out=16, order=2, density=0.1)
    @example(dtype=torch.float64, batch=70, n=133, n_in=8, n_out=16, order=2, density=0.1)
    @settings(deadline=None, max_examples=40)
    def check(dtype, batch, n, n_in, n_out, order, density):
        torch.manual_seed(0)
        C = covariance(n, density)
        operator = as_operator(C, backend=backend, dtype=dtype)
        x, weight = torch.randn(batch, n, n_in, dtype=dtype), torch.randn(order + 1, n_in, n_out, dtype=dtype)
        bias = torch.randn(n_out, dtype=dtype)
        ours = gradients(operator.filter, x, weight, bias)
        theirs = gradients(lambda *t: textbook(torch.tensor(C, dtype=dtype), *t), x, weight, bias)
        assert_same(ours, theirs, dtype)

    check()


def test_a_bank_equals_the_textbook(kernels):
    a_bank_equals_the_textbook("csr")
    kernels.must_have_run("bank32", "bank64", on_threads=kernels.n_threads)


def test_a_dense_bank_equals_the_textbook(monkeypatch):
    spy = Kernels("numba", 1)
    spy.watch(monkeypatch)
    a_bank_equals_the_textbook("dense")
    assert not spy.ran  # dense products are torch's own


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 32), (32, 32), (40, 7)])
def test_many_chunks_equal_one(monkeypatch, kernels, n_in, n_out):
    """A batch that is worked on in pieces gives what it gives at once."""
    C, order = covariance(24, 0.4), 3
    tensors = torch.randn(50, 24, n_in), torch.randn(order + 1, n_in, n_out), torch.randn(n_out)
    for backend in ("csr", "dense"):
        operator = as_operator(C, backend=backend, dtype=torch.float32)
        once = gradients(operator.filter, *tensors)
        with monkeypatch.context() as patch:
            patch.setattr("svnn.operators._dense._CHUNK_BYTES", 1)
            patch.setattr(CPUMatrix, "chunk_bytes", 1)
            assert_same(gradients(operator.filter, *tensors), once, torch.float32)
    kernels.must_have_run("bank32")


@pytest.mark.parametrize("openmp", [True, False])
def test_the_number_and_kind_of_threads_do_not_matter(monkeypatch, kernels, openmp):
    if not openmp:
        monkeypatch.setattr(_cpu_passes, "_gnu_parallel", lambda: None)
    C = covariance(300, 0.1)
    operator = as_operator(C, backend="csr", dtype=torch.float32)
    for shape in [(7, 300, 16), (1, 300, 16), (5, 300, 1)]:
        tensors = torch.randn(shape), torch.randn(3, shape[-1], 16), torch.randn(16)
        torch.set_num_threads(1)
        alone = operator.filter(*tensors)
        for n_threads in (kernels.n_threads, 3):
            torch.set_num_threads(n_threads)
            assert torch.allclose(operator.filter(*tensors), alone, rtol=0, atol=1e-5)
            kernels.must_have_run("bank32", on_threads=n_threads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("streamed_bytes", [0, 2**23])
@pytest.mark.parametrize(("batch", "n", "n_in"), [(70, 7, 1), (3, 130, 1), (5, 20, 5), (1, 1, 1)])
def test_few_values_are_mixed_by_the_pass_that_shifts_them(monkeypatch, kernels, dtype, streamed_bytes, batch, n, n_in):
    """Past the caches or not, with the shifts that the gradient of the weight needs, or without."""
    jobs = []
    if kernels.kind == "numba":
        run = _cpu_passes.run
        monkeypatch.setattr(_cpu_passes, "run", lambda *a: (jobs.append(list(a[1])), run(*a)))
        monkeypatch.setattr(_cpu_passes, "mix", None)
        monkeypatch.setattr(_cpu_passes, "_STREAMED_BYTES", streamed_bytes)
    C = torch.tensor(covariance(n, 0.3), dtype=dtype)
    operator = as_operator(C, backend="csr")
    tensors = [torch.randn(s, dtype=dtype) for s in [(batch, n, n_in), (3, n_in, 64), (64,)]]
    expected = textbook(C, *tensors)
    assert_same([operator.filter(*tensors), operator.filter(*tensors[:2]) + tensors[2]], [expected] * 2, dtype)
    if kernels.kind == "numba":
        fields = _cpu_passes.kernels()
        assert all(job[fields.OUT] == 0 and job[fields.STREAMED] == (streamed_bytes == 0) for job in jobs)
        jobs.clear()
    assert_same(gradients(operator.filter, *tensors), gradients(lambda *t: textbook(C, *t), *tensors), dtype)
    if kernels.kind == "numba":
        assert jobs[0][fields.OUT] != 0


def test_memory_of_a_pass_lives_until_the_pass_is_done(monkeypatch, kernels):
    """The kernels know its address only; freed too early, large memory goes back to the system at once."""
    if kernels.kind == "plain":
        pytest.skip("about the kernels")
    made, empty, run = [], torch.empty, _cpu_passes.run

    def recorded(*args, **kwargs):
        tensor = empty(*args, **kwargs)
        made.append(weakref.ref(tensor.untyped_storage()))
        return tensor

    def checked(*args):
        assert made and made[-1]() is not None
        run(*args)

    monkeypatch.setattr(torch, "empty", recorded)
    monkeypatch.setattr(_cpu_passes, "run", checked)
    C = torch.tensor(covariance(20, 0.3))
    tensors = [torch.randn(s).double() for s in [(5, 20, 1), (3, 1, 5), (5,)]]
    assert_same([as_operator(C, backend="csr").filter(*tensors)], [textbook(C, *tensors)], torch.float64)
    assert made


@pytest.mark.parametrize("backend", ["csr", "dense"])
def test_signals_learn_alone(backend, kernels):
    """Where only x asks for a gradient, the gradient of the weight has nothing kept for it."""
    C = torch.tensor(covariance(9, 0.5))
    x, weight = torch.randn(4, 9, 1).double().requires_grad_(), torch.randn(3, 1, 32).double()
    y = as_operator(C, backend=backend).filter(x, weight)
    dy = torch.randn_like(y)
    expected = torch.autograd.grad(textbook(C, x, weight, 0), x, dy)
    torch.testing.assert_close(torch.autograd.grad(y, x, dy), expected)


def test_a_large_dense_bank_of_one_value():
    C = torch.tensor(covariance(68, 1.0))
    operator = as_operator(C, backend="dense")
    tensors = [torch.randn(s).double() for s in [(200, 68, 1), (3, 1, 32), (32,)]]  # 3.5 MB out
    ours = gradients(operator.filter, *tensors)
    assert_same(ours, gradients(lambda *t: textbook(C, *t), *tensors), torch.float64)


def test_gradients_of_the_passes_by_torch_pass_gradcheck():
    C = torch.tensor(covariance(6, 0.6))
    bank = partial(shift_filter_bank, GPUMatrix(C.to_sparse_csr()))
    for n_in, n_out in [(1, 3), (2, 3), (3, 1)]:
        inputs = [
            torch.randn(s, dtype=torch.float64, requires_grad=True) for s in [(2, 6, n_in), (4, n_in, n_out), (n_out,)]
        ]
        assert_same(gradients(bank, *inputs), gradients(partial(textbook, C), *inputs), torch.float64)
        assert torch.autograd.gradcheck(bank, inputs)
        assert torch.autograd.gradgradcheck(bank, inputs)


def test_gradients_of_the_banks_pass_gradcheck(kernels):
    C = covariance(6, 0.6)
    for backend in ("csr", "dense"):
        operator = as_operator(C, backend=backend)
        for n_in, n_out in [(2, 3), (3, 2), (2, 2), (1, 3), (1, 16)]:
            inputs = [
                torch.randn(s, dtype=torch.float64, requires_grad=True)
                for s in [(2, 6, n_in), (4, n_in, n_out), (n_out,)]
            ]
            assert torch.autograd.gradcheck(operator.filter, inputs)
            assert torch.autograd.gradgradcheck(operator.filter, inputs)
    kernels.must_have_run("bank64")


@pytest.mark.parametrize(
    ("n", "order", "n_in", "n_out", "used"),
    [(117, 3, 128, 32, True), (1000, 8, 24, 24, True), (68, 2, 1, 32, False), (500, 1, 32, 32, False)],
)
def test_the_eigenbasis_is_used_where_it_takes_fewer_operations(n, order, n_in, n_out, used):
    operator = as_operator(covariance(n, 1.0), backend="dense", dtype=torch.float32)
    operator.filter(torch.randn(2, n, n_in), torch.randn(order + 1, n_in, n_out))
    assert ("spectrum" in operator.__dict__.get("_memo", {})) == used


def test_a_filter_of_a_fleeting_operator_prepares_nothing():
    operator = as_operator(covariance(20, 1.0), backend="dense")
    operator.fleeting = True
    operator.filter(torch.randn(2, 20, 8).double(), torch.randn(5, 8, 8).double())
    assert "spectrum" not in operator.__dict__.get("_memo", {})


def test_wide_index_types_and_empty_rows_are_taken(kernels):
    C = sp.csr_array(covariance(40, 0.05))
    C.indices, C.indptr = C.indices.astype(np.int64), C.indptr.astype(np.int64)
    tensors = torch.randn(2, 40, 16).double(), torch.randn(3, 16, 16).double(), torch.zeros(16).double()
    y = as_operator(C, backend="csr").filter(*tensors)
    assert torch.allclose(y, textbook(torch.tensor(C.toarray()), *tensors))
    kernels.must_have_run("bank64")


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 32), (32, 32), (40, 7)])
def test_the_passes_of_the_gpu_without_triton(n_in, n_out):
    """Where Triton is missing torch makes the shifts; that also runs on a CPU."""
    C = torch.tensor(covariance(24, 0.4))
    matrix = GPUMatrix(C.to_sparse_csr())
    tensors = [torch.randn(s, dtype=torch.float64) for s in [(5, 24, n_in), (4, n_in, n_out), (n_out,)]]
    ours = gradients(lambda *t: shift_filter_bank(matrix, *t), *tensors)
    assert_same(ours, gradients(lambda *t: textbook(C, *t), *tensors), torch.float64)


@pytest.mark.parametrize(("batch", "n_in", "n_out", "order"), [(64, 1, 32, 2), (64, 40, 24, 2), (64, 16, 16, 9)])
@pytest.mark.parametrize("backend", ["csr", "dense"])
def test_results_hold_their_own_values_only(batch, n_in, n_out, order, backend):
    """What a filter returns can be stored without the values of earlier tensors beside it."""
    operator = as_operator(torch.eye(300), backend=backend)
    x = torch.randn(batch, 300, n_in, requires_grad=True)
    weight = torch.randn(order + 1, n_in, n_out, requires_grad=True)
    y = operator.filter(x, weight)
    gradients = torch.autograd.grad(y.sum(), (x, weight))
    for tensor in (y, *gradients):
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    file = io.BytesIO()
    torch.save(y.detach(), file)
    assert file.tell() < y.numel() * y.element_size() + 2**14
