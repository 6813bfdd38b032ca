"""Shifting once gives the network that shifting every time gives."""

import copy

import numpy as np
import pytest
import torch

from svnn import as_operator
from svnn.nn import SVNN, ShiftedSignals
from svnn.nn._shifted import PowerSignals, SpectralSignals

CASES = [(1, 2, "csr", PowerSignals), (1, 2, "dense", PowerSignals), (20, 3, "dense", SpectralSignals)]


def problem(n_values, backend, n=12, batch=9):
    rng = np.random.default_rng(0)
    C = np.cov(rng.standard_normal((n, 30)))
    torch.manual_seed(0)
    x = 3 + torch.randn(batch, n, n_values)  # a mean that the variances must not feel
    return x, as_operator(C, backend=backend, dtype=torch.float32).normalized()


@pytest.mark.parametrize(("n_values", "order", "backend", "kind"), CASES)
@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_outputs_gradients_and_statistics_are_the_same(n_values, order, backend, kind, batch_norm, training):
    x, shift = problem(n_values, backend)
    network = SVNN(n_values, 2, hidden=(8, 4), order=order, batch_norm=batch_norm).train(training)
    twin = copy.deepcopy(network)
    signals = ShiftedSignals.of(x, shift, order)
    assert isinstance(signals, kind) and len(signals) == 9 and signals.shape == tuple(x.shape)
    for _ in range(2):
        for net, data in ((network, x), (twin, signals)):
            net.zero_grad()
            net(data, shift).square().sum().backward()
    assert torch.allclose(network(x, shift), twin(signals, shift), atol=1e-4)
    for a, b in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, atol=2e-3, rtol=2e-3)
    for a, b in zip(network.buffers(), twin.buffers(), strict=True):
        assert torch.allclose(a.float(), b.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("n_values", "order", "backend", "kind"), CASES)
def test_rows_can_be_taken(n_values, order, backend, kind):
    x, shift = problem(n_values, backend)
    network = SVNN(n_values, 2, order=order)
    signals = ShiftedSignals.of(x, shift, order)
    for rows in (slice(2, 5), torch.tensor([7, 0, 3])):
        expected = copy.deepcopy(network)(x[rows], shift)
        assert torch.allclose(copy.deepcopy(network)(signals[rows], shift), expected, atol=1e-4)
        assert torch.allclose(network(signals.to(torch.device("cpu"))[rows], shift), expected, atol=1e-4)


def test_moments_are_those_of_the_shifted_values():
    for n_values, order, backend, _kind in CASES:
        x, shift = problem(n_values, backend)
        powers = (
            PowerSignals.from_shift(x.double(), shift.to(dtype=torch.float64), order).powers[..., :-1].flatten(0, 1)
        )
        mean, covariance = ShiftedSignals.of(x, shift, order).moments
        assert torch.allclose(mean.double(), powers.mean(0), atol=1e-5)
        assert torch.allclose(covariance.double(), torch.atleast_2d(powers.T.cov(correction=0)), atol=1e-4)


def test_another_order_or_width_is_an_error():
    x, shift = problem(1, "dense")
    with pytest.raises(ValueError, match="shifted 1 times"):
        SVNN(1, 1, order=2)(ShiftedSignals.of(x, shift, 1), shift)
    with pytest.raises(ValueError, match="takes 3"):
        SVNN(3, 1, order=2)(ShiftedSignals.of(x, shift, 2), shift)


def test_signals_of_another_scale_are_an_error():
    x, shift = problem(1, "dense")
    raw = as_operator(shift.to_dense() * 3)
    with pytest.raises(ValueError, match="another scale"):
        SVNN(1, 1)(ShiftedSignals.of(x, raw, 2), raw)
    with pytest.raises(ValueError, match="another scale"):
        SVNN(1, 1)(ShiftedSignals.of(x, raw.normalized(), 2), shift)
    with pytest.raises(ValueError, match="another scale"):
        SVNN(1, 1)(ShiftedSignals.of(x, shift, 2), [shift, shift])
    with pytest.raises(ValueError, match="need a shift"):
        ShiftedSignals.of(x, None, 2)


def test_signals_of_another_precision_are_cast():
    x, shift = problem(20, "dense")
    signals = ShiftedSignals.of(x.double(), shift, 3)
    assert isinstance(signals, SpectralSignals)
    assert SVNN(20, 1, order=3).double()(signals, shift).dtype == torch.float64
