"""Dropout from 16-bit draws: the same law as torch's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from svnn.nn._dropout import Dropout, SeededDropout, drawing_from


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


@pytest.mark.parametrize("kind", [Dropout, SeededDropout])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_generator_of_its_own_gives_the_draws_of_the_global_one(kind, dtype):
    x = torch.ones(100, 7, dtype=dtype)
    layers = nn.ModuleList([kind(0.3), kind(0.3)])
    torch.manual_seed(1)
    expected = [layer(x) for layer in layers]
    before = torch.random.get_rng_state()
    with drawing_from(layers, torch.Generator().manual_seed(1)):
        found = [layer(x) for layer in layers]
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
    assert all(layer.generator is None for layer in layers)
    copy.deepcopy(layers)


def test_seeded_dropout_is_the_dropout_of_torch():
    x = torch.randn(50, 4, requires_grad=True)
    found = []
    for layer in (nn.Dropout(0.4), SeededDropout(0.4)):
        with drawing_from(layer, torch.Generator().manual_seed(5)):
            torch.manual_seed(5)
            y = layer(x)
        found.append((y, *torch.autograd.grad(y.sum(), x)))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(SeededDropout(0.4).eval()(x), x) and torch.equal(SeededDropout(0.0)(x), x)


def test_an_error_while_drawing_leaves_the_layers_as_they_were():
    layer, own = Dropout(0.5), torch.Generator()
    layer.generator = own
    with pytest.raises(KeyboardInterrupt), drawing_from(layer, torch.Generator()):
        raise KeyboardInterrupt
    assert layer.generator is own
