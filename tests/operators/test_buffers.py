"""Large tensors belong to whoever holds them; temporary buffers are used again, up to a limit."""

import io
import mmap
import threading
import weakref

import pytest
import torch

from svnn import as_operator
from svnn._compiled import load
from svnn.operators import _buffers


@pytest.fixture(autouse=True)
def no_buffers():
    _buffers._local.__dict__.clear()


def held_bytes():
    return sum(t.untyped_storage().nbytes() for t in _buffers._local.__dict__.values())


def test_dtype_shape_and_device_are_those_asked_for():
    like = torch.empty(3, dtype=torch.float64)
    made = _buffers.empty(like, 2**10, 2**10)
    assert made.shape == (2**10, 2**10) and made.dtype == torch.float64 and made.is_contiguous()
    assert _buffers.empty(like.to("meta"), 2**20).device.type == "meta"


def test_living_tensors_never_share_memory():
    tensors = [_buffers.empty(torch.empty(0), 2**20 + 3).fill_(i) for i in range(4)]
    for i, tensor in enumerate(tensors):
        assert bool((tensor == i).all())


def test_nothing_is_kept_of_a_tensor_that_died():
    tensor = _buffers.empty(torch.empty(0), 2**20)
    died = weakref.ref(tensor.untyped_storage())
    assert tensor.untyped_storage().resizable()  # torch's own memory, not somebody else's
    del tensor
    assert died() is None
    assert held_bytes() == 0


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


def test_a_buffer_is_used_again_and_grows():
    first = _buffers.workspace("a", (100,), torch.float32)
    assert _buffers.workspace("a", (10, 5), torch.float32).data_ptr() == first.data_ptr()
    assert _buffers.workspace("b", (100,), torch.float32).data_ptr() != first.data_ptr()
    assert _buffers.workspace("a", (100,), torch.float64).data_ptr() != first.data_ptr()
    assert _buffers.workspace("a", (1000,), torch.float32).shape == (1000,)


def test_all_buffers_together_keep_to_the_limit(monkeypatch):
    monkeypatch.setattr(_buffers, "_KEPT_BYTES", 2**16)
    for i in range(20):
        buffer = _buffers.workspace(f"role {i % 7}", (2**10 * (1 + i % 5),), torch.float64)
        buffer.fill_(i)
        assert held_bytes() <= 2**16
    _buffers.workspace("too large", (2**20,), torch.float32)
    assert held_bytes() <= 2**16


def test_threads_have_buffers_of_their_own():
    mine = _buffers.workspace("a", (100,), torch.float32)
    theirs = []
    thread = threading.Thread(target=lambda: theirs.append(_buffers.workspace("a", (100,), torch.float32)))
    thread.start()
    thread.join()
    assert theirs[0].data_ptr() != mine.data_ptr()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="huge pages are for Linux")
def test_large_tensors_ask_for_huge_pages_and_small_ones_do_not(monkeypatch):
    asked = []
    monkeypatch.setattr(_buffers, "_madvise", lambda: lambda *arguments: asked.append(arguments))
    large = _buffers.empty(torch.empty(0), 2**20)
    (start, size, advice) = asked.pop()
    assert large.data_ptr() <= start and start + size <= large.data_ptr() + 2**22
    assert size >= 2**22 - 2 * mmap.PAGESIZE and advice == mmap.MADV_HUGEPAGE
    _buffers.workspace("large", (2**20,), torch.float32)
    assert len(asked) == 1
    _buffers.empty(torch.empty(0), 2**18)
    _buffers.workspace("small", (2**18,), torch.float32)
    assert len(asked) == 1


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="huge pages are for Linux")
def test_the_system_takes_the_advice():
    tensor = _buffers.empty(torch.empty(0), 2**22)
    start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    assert _buffers._madvise()(start, 2**20, mmap.MADV_HUGEPAGE) in (0, -1)  # -1 where the kernel has no huge pages


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="huge pages are for Linux")
@pytest.mark.parametrize("backend", ["csr", "dense"])
@pytest.mark.parametrize(("n_in", "order"), [(32, 5), (1, 2)])
def test_filter_banks_make_large_tensors_on_huge_pages(monkeypatch, backend, n_in, order):
    sizes = []
    monkeypatch.setattr(_buffers, "_madvise", lambda: lambda start, size, advice: sizes.append(size))
    operator = as_operator(torch.eye(300), backend=backend)
    operator.filter(torch.randn(200, 300, n_in), torch.randn(order + 1, n_in, 32))  # 7.7 MB out
    if backend == "dense" or load("svnn.operators._cpu_kernels") is not None:
        assert max(sizes) > 7e6
