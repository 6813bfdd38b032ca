"""The fused norm is torch's batch norm."""

import copy

import pytest
import torch
from torch import nn

from svnn.nn._norm import NodeNorm, norm_then


def name(dtype):
    return "norm32" if dtype == torch.float32 else "norm64"


@pytest.mark.parametrize("activation", [nn.LeakyReLU(0.1), nn.ReLU(), nn.Identity(), nn.Tanh()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(300, 7, 5), (1, 2, 16), (4, 600, 3)])
def test_fused_equals_separate(activation, dtype, shape, kernels):
    torch.manual_seed(0)
    norm = NodeNorm(shape[-1]).to(dtype)
    with torch.no_grad():
        norm.weight.uniform_(-2, 2)
        norm.bias.uniform_(-1, 1)
    twin = copy.deepcopy(norm)
    # Single precision carries seven digits; where a value lies on the kink of the rectifier, a rounding decides.
    single = dtype == torch.float32
    u = ((3 if single else 100) + torch.randn(shape, dtype=dtype)).requires_grad_()
    gradient = torch.randn(shape, dtype=dtype)
    fused, separate = norm_then(norm, activation, u), activation(twin(u))
    torch.testing.assert_close(fused, separate, rtol=0, atol=1e-4 if single else 1e-9)
    ours = torch.autograd.grad(fused, (u, norm.weight, norm.bias), gradient)
    theirs = torch.autograd.grad(separate, (u, twin.weight, twin.bias), gradient)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().mean() <= (1e-3 if single else 1e-9) * max(1, b.abs().max())
    for a, b in zip(norm.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4 if single else 1e-9, atol=1e-4 if single else 1e-9)
    if not isinstance(activation, nn.Tanh):  # which is no rectifier
        kernels.must_have_run(name(dtype), on_threads=min(kernels.n_threads, shape[0]))


def test_in_evaluation_the_running_statistics_serve(kernels):
    norm = NodeNorm(3).eval().requires_grad_(False)
    u = torch.randn(4, 5, 3)
    torch.testing.assert_close(norm_then(norm, nn.ReLU(), u), nn.functional.relu(u / (1 + norm.eps) ** 0.5))
    kernels.must_have_run("norm32")


def test_a_single_value_has_no_spread():
    norm = NodeNorm(3)
    u = torch.randn(1, 1, 3)
    torch.testing.assert_close(norm_then(norm, nn.Identity(), u), u / (1 + norm.eps) ** 0.5)


def test_gradients_pass_gradcheck(kernels):
    norm = NodeNorm(3).double()
    u = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: norm_then(norm, nn.LeakyReLU(0.2), v), (u,))
    kernels.must_have_run("norm64")


@pytest.mark.parametrize("normed", ["batch", "running", "none"])
@pytest.mark.parametrize("pool_shape", [(1, 7), (3, 7), (40, 3, 7)])
@pytest.mark.parametrize("features", [1, 5, 16, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_fused_readout_equals_separate_steps(normed, pool_shape, features, dtype, kernels):
    torch.manual_seed(0)
    norm = None if normed == "none" else NodeNorm(features).to(dtype)
    if normed == "running":
        norm.eval().requires_grad_(False)
        norm.running_mean.uniform_(-1, 1)
    twin = copy.deepcopy(norm)
    u = torch.randn(40, 7, features, dtype=dtype)
    pool = torch.randn(pool_shape, dtype=dtype, requires_grad=normed != "running")
    activation = nn.LeakyReLU(0.1)
    if normed != "running":  # with running statistics the fused pass is for evaluation
        u.requires_grad_()
    fused = norm_then(norm, activation, u, pool)
    separate = (pool @ activation(u if twin is None else twin(u))).flatten(-2)
    assert fused.shape == (40, pool_shape[-2] * features)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(fused, separate, rtol=tolerance, atol=tolerance)
    kernels.must_have_run(name(dtype))
    if normed == "running":
        return
    gradient = torch.randn_like(fused)
    ours = torch.autograd.grad(fused, [u, pool, *([] if norm is None else norm.parameters())], gradient)
    theirs = torch.autograd.grad(separate, [u, pool, *([] if twin is None else twin.parameters())], gradient)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=10 * tolerance, atol=30 * tolerance)


def test_the_readouts_gradients_pass_gradcheck(kernels):
    norm = NodeNorm(3).double()
    u = torch.randn(8, 4, 3, dtype=torch.float64, requires_grad=True)
    pool = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, a: norm_then(norm, nn.LeakyReLU(0.2), v, a), (u, pool))
    kernels.must_have_run("norm64")
