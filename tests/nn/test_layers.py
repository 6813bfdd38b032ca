"""The small layers of a network: batch norm over nodes, and dropout from 16-bit draws with the law of torch's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from svnn.nn import Readout
from svnn.nn._layers import Dropout, NodeNorm, SeededDropout, drawing_from


def textbook(norm, u):
    """Batch norm as a formula, over all but the last axis."""
    mean, variance = u.mean((0, 1)), u.var((0, 1), correction=0)
    return (u - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize("activation", [nn.LeakyReLU(0.1), nn.ReLU(), nn.Identity(), nn.Tanh()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(300, 7, 5), (1, 2, 16), (4, 600, 3)])
def test_the_norm_its_gradients_and_its_running_statistics(activation, dtype, shape):
    norm = NodeNorm(shape[-1]).to(dtype)
    with torch.no_grad():
        norm.weight.uniform_(-2, 2)
        norm.bias.uniform_(-1, 1)
    # Single precision carries seven digits; where a value lies on the kink of the rectifier, a rounding decides.
    single = dtype == torch.float32
    u = ((3 if single else 100) + torch.randn(shape, dtype=dtype)).requires_grad_()
    gradient = torch.randn(shape, dtype=dtype)
    ours, theirs = activation(norm(u)), activation(textbook(norm, u))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 if single else 1e-9)
    leaves = (u, norm.weight, norm.bias)
    found, expected = (torch.autograd.grad(v, leaves, gradient) for v in (ours, theirs))
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().mean() <= (1e-3 if single else 1e-9) * max(1, b.abs().max())
    flat = u.detach().flatten(0, 1)
    torch.testing.assert_close(norm.running_mean, 0.1 * flat.mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * flat.var(0), rtol=1e-4, atol=1e-4)
    assert norm.num_batches_tracked == 1


def test_in_evaluation_the_running_statistics_serve():
    norm = NodeNorm(3).eval().requires_grad_(False)
    norm.running_mean.uniform_(-1, 1)
    u = torch.randn(4, 5, 3)
    torch.testing.assert_close(norm(u), (u - norm.running_mean) / (1 + norm.eps) ** 0.5)


def test_a_single_value_has_no_spread():
    norm = NodeNorm(3)
    u = torch.randn(1, 1, 3)
    torch.testing.assert_close(norm(u), u / (1 + norm.eps) ** 0.5)
    assert norm.num_batches_tracked == 0


@pytest.mark.parametrize("count", [1, 6 * 4])
@pytest.mark.parametrize("training", [True, False])
def test_a_norm_folded_into_a_filter_is_the_filter_and_then_the_norm(count, training):
    torch.manual_seed(0)
    norm = NodeNorm(3).double().train(training)
    norm.running_mean.uniform_(-1, 1)
    twin = copy.deepcopy(norm)
    z, weight = torch.randn(count, 4, dtype=torch.float64), torch.randn(2, 2, 3, dtype=torch.float64)
    moments = (z.mean(0), torch.atleast_2d(z.T.cov(correction=0))) if training and count > 1 else None
    folded, bias = norm.folded(weight, moments, count)
    torch.testing.assert_close(z @ folded.flatten(0, 1) + bias, twin((z @ weight.flatten(0, 1))[:, None])[:, 0])
    for a, b in zip(norm.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_pass_gradcheck():
    norm = NodeNorm(3).double()
    u = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: nn.functional.leaky_relu(norm(v), 0.2), (u,))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("features", [1, 5, 16, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (40, 7), (3, 5, 7)])
def test_the_readout_is_a_weighted_sum_over_the_nodes(shape, heads, features, dtype):
    u = torch.randn(*shape, features, dtype=dtype, requires_grad=True)
    readout = Readout("weighted", features, n_nodes=7, heads=heads).to(dtype)
    nn.init.normal_(readout.weight)
    pooled = readout(u)
    expected = torch.einsum("hn,...nf->...hf", readout.weight / 7, u).flatten(-2)
    assert pooled.shape == (*shape[:-1], heads * features)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(pooled, expected, rtol=tolerance, atol=tolerance)
    gradient = torch.randn_like(pooled)
    ours, theirs = (torch.autograd.grad(p, (u, readout.weight), gradient) for p in (pooled, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=10 * tolerance, atol=10 * tolerance)
    torch.testing.assert_close(Readout("mean", features)(u), u.mean(-2))


@pytest.mark.parametrize("kind", ["mean", "weighted"])
def test_dropped_nodes_are_missing_from_the_sum(kind):
    torch.manual_seed(0)
    readout = Readout(kind, 1, n_nodes=50, node_dropout=0.4)
    u = torch.eye(50)[..., None].expand(50, 50, 1)  # sample i is node i alone
    kept = readout(u)[:, 0] * 50
    assert kept.detach().unique().tolist() == pytest.approx([0, 1 / 0.6], rel=1e-4)  # the share has 16 bits


def test_first_and_second_derivatives_of_the_norm_the_activation_and_the_readout():
    norm, readout = NodeNorm(3).double(), Readout("weighted", 3, n_nodes=4, heads=2).double()
    u = torch.randn(8, 4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    for activation in (nn.LeakyReLU(0.2), nn.Identity()):

        def pooled(v, a, f=activation):
            return torch.func.functional_call(readout, {"weight": a}, (f(norm(v)),))

        assert torch.autograd.gradcheck(pooled, (u, weight))
        assert torch.autograd.gradgradcheck(pooled, (u, weight))


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
