"""Large tensors belong to whoever holds them; temporary buffers are used again, up to a limit."""

import io
import threading
import weakref

import pytest
import torch

from svnn import as_operator
from svnn.operators import _buffers as memory


@pytest.fixture(autouse=True)
def no_buffers():
    memory._local.__dict__.clear()


def held_bytes():
    return sum(t.untyped_storage().nbytes() for t in memory._local.__dict__.values())


def test_dtype_shape_and_device_are_those_asked_for():
    like = torch.empty(3, dtype=torch.float64)
    made = memory.empty(like, 2**10, 2**10)
    assert made.shape == (2**10, 2**10) and made.dtype == torch.float64 and made.is_contiguous()
    assert memory.empty(like.to("meta"), 2**20).device.type == "meta"


def test_living_tensors_never_share_memory():
    tensors = [memory.empty(torch.empty(0), 2**20 + 3).fill_(i) for i in range(4)]
    for i, tensor in enumerate(tensors):
        assert bool((tensor == i).all())


def test_nothing_is_kept_of_a_tensor_that_died():
    tensor = memory.empty(torch.empty(0), 2**20)
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
    first = memory.workspace("a", (100,), torch.float32)
    assert memory.workspace("a", (10, 5), torch.float32).data_ptr() == first.data_ptr()
    assert memory.workspace("b", (100,), torch.float32).data_ptr() != first.data_ptr()
    assert memory.workspace("a", (100,), torch.float64).data_ptr() != first.data_ptr()
    assert memory.workspace("a", (1000,), torch.float32).shape == (1000,)


def test_all_buffers_together_keep_to_the_limit(monkeypatch):
    monkeypatch.setattr(memory, "_KEPT_BYTES", 2**16)
    for i in range(20):
        buffer = memory.workspace(f"role {i % 7}", (2**10 * (1 + i % 5),), torch.float64)
        buffer.fill_(i)
        assert held_bytes() <= 2**16
    memory.workspace("too large", (2**20,), torch.float32)
    assert held_bytes() <= 2**16


def test_threads_have_buffers_of_their_own():
    mine = memory.workspace("a", (100,), torch.float32)
    theirs = []
    thread = threading.Thread(target=lambda: theirs.append(memory.workspace("a", (100,), torch.float32)))
    thread.start()
    thread.join()
    assert theirs[0].data_ptr() != mine.data_ptr()
