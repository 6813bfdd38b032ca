"""Dropout from 16-bit draws: the same law as torch's."""

from __future__ import annotations

import pytest
import torch

from svnn.nn._dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.75])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_share_scale_and_independence(p, dtype):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(1000, 403, dtype=dtype))  # no multiple of four
    dropped = (y == 0).double()
    assert y.dtype == dtype and y.shape == (1000, 403)
    assert y.max().item() == pytest.approx(1 / (1 - p), rel=1e-4)
    error = (p * (1 - p) / y.numel()) ** 0.5
    assert abs(dropped.mean().item() - p) < 4 * error + 2**-17
    # Neighbours, which may share an integer of the generator, and rows do not know of each other.
    assert abs((dropped[:, 1:] * dropped[:, :-1]).mean().item() - p * p) < 8 * error
    assert abs((dropped[1:] * dropped[:-1]).mean().item() - p * p) < 8 * error
    for lane in range(4):
        assert abs(dropped.flatten()[lane::4].mean().item() - p) < 8 * error + 2**-17


def test_gradients_pass_where_values_do():
    torch.manual_seed(0)
    x = torch.randn(50, 7, requires_grad=True)
    y = Dropout(0.5)(x)
    y.sum().backward()
    assert torch.equal(x.grad == 0, y == 0) and torch.equal(x.grad.unique(), torch.tensor([0.0, 2.0]))


def test_seeds_make_it_repeatable():
    x = torch.ones(100, 3)
    layer = Dropout(0.5)
    first, other = ((torch.manual_seed(seed), layer(x))[1] for seed in (1, 2))
    torch.manual_seed(1)
    assert torch.equal(layer(x), first) and not torch.equal(first, other)


def test_nothing_is_dropped_without_need():
    x = torch.randn(5, 3)
    assert torch.equal(Dropout(0.5).eval()(x), x) and torch.equal(Dropout(0.0)(x), x)
    assert not Dropout(1.0)(x).any() and Dropout(0.5)(torch.empty(0, 3)).shape == (0, 3)
