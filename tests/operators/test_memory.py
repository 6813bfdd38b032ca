"""Tensors on used pages: theirs alone while they live, free afterwards."""

import gc

import pytest
import torch

from svnn.operators._cpu import memory

SHAPE = (2**19 + 3,)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(memory, "_free", {})


def test_living_tensors_never_share_pages():
    like = torch.empty(0)
    tensors = [memory.empty(like, *SHAPE).fill_(i) for i in range(4)]
    for i, tensor in enumerate(tensors):
        assert bool((tensor == i).all())


def test_pages_of_a_dead_tensor_serve_the_next():
    first = memory.empty(torch.empty(0), *SHAPE)
    address = first.data_ptr()
    del first
    assert memory.empty(torch.empty(0), *SHAPE).data_ptr() == address


@pytest.mark.parametrize("hold", [lambda t: t[5:10], lambda t: t.numpy()[3:], lambda t: t.view(-1, 1).T])
def test_whoever_still_holds_a_part_keeps_it(hold):
    part = hold(memory.empty(torch.empty(0), *SHAPE).fill_(1))
    gc.collect()
    memory.empty(torch.empty(0), *SHAPE).fill_(2)
    assert float(part.max()) == float(part.min()) == 1


def test_what_is_kept_has_a_limit(monkeypatch):
    monkeypatch.setattr(memory, "_KEPT_BYTES", 2**22)
    tensors = [memory.empty(torch.empty(0), 2**20) for _ in range(5)]
    del tensors
    assert sum(size * len(pages) for size, pages in memory._free.items()) <= 2**22 + 2**20 * 4


def test_dtype_shape_and_device_are_those_asked_for():
    like = torch.empty(3, dtype=torch.float64)
    made = memory.empty(like, 2**10, 2**9)
    assert made.shape == (2**10, 2**9) and made.dtype == torch.float64 and made.is_contiguous()
    assert memory.empty(like.to("meta"), 2**20).device.type == "meta"
