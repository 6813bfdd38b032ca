"""Several networks, and perhaps a linear function, that predict together."""

from __future__ import annotations

import pytest
import torch

from svnn import as_operator
from svnn.nn import SVNN, Members
from svnn.nn._shifted import ShiftedSignals


def test_no_members_are_an_error():
    with pytest.raises(ValueError, match="at least one network"):
        Members([])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("order", [0, 2])
def test_a_module_of_members_is_their_mean(normalize, order):
    networks = [SVNN(2, 3, hidden=(4, 5), order=order, normalize=normalize).eval() for _ in range(3)]
    both, x, C = Members(networks), torch.randn(6, 7, 2), torch.randn(7, 7)
    C = C @ C.T
    for grad in (True, False):  # without gradients, signals are shifted once for all
        with torch.set_grad_enabled(grad):
            outputs = torch.stack([network(x, C) for network in networks])
            torch.testing.assert_close(both(x, C), outputs.mean(0), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(both.outputs(x, C), outputs, rtol=1e-4, atol=1e-4)
            embedded = torch.cat([network.embed(x, C) for network in networks], -1)
            torch.testing.assert_close(both.embed(x, C), embedded, rtol=1e-4, atol=1e-4)
    both.train()(x, C).sum().backward()
    assert all(p.grad is not None for network in networks for p in network.parameters())


def test_signals_of_other_shapes_pass_the_members_too():
    networks = [SVNN(1, 2, hidden=(4,), order=2).eval() for _ in range(2)]
    both, C = Members(networks), torch.eye(5)
    with torch.no_grad():
        for x in (torch.randn(5, 1), torch.randn(3, 4, 5, 1)):
            expected = torch.stack([network(x, C) for network in networks]).mean(0)
            torch.testing.assert_close(both(x, C), expected)
        x = torch.randn(4, 5, 1)
        realisations = [torch.eye(5), torch.diag(torch.arange(5.0))]
        expected = torch.stack([network(x, realisations) for network in networks]).mean(0)
        torch.testing.assert_close(both(x, realisations), expected)


# -- weights and a linear function ------------------------------------------------------------------------


def parts(n_members=3):
    """Networks, a linear function, signals and a covariance."""
    torch.manual_seed(0)
    networks = [SVNN(2, 3, hidden=(4,), order=2, batch_norm=False).eval() for _ in range(n_members)]
    linear = torch.randn(3, 10, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    C = torch.randn(5, 5)
    return networks, linear, torch.randn(6, 5, 2), C @ C.T


@pytest.mark.parametrize("grad", [True, False])
def test_outputs_are_weighed(grad):
    networks, (A, b), x, C = parts()
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    mixed = Members(networks, weights.tolist(), (A, b))
    with torch.set_grad_enabled(grad):
        expected = torch.stack([*(network(x, C) for network in networks), x.flatten(1) @ A.float().T + b.float()])
        torch.testing.assert_close(mixed.outputs(x, C), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(mixed(x, C), torch.tensordot(weights, expected, 1), rtol=1e-4, atol=1e-4)
        without = Members(networks, [0.5, 0.25, 0.25])
        expected = torch.tensordot(torch.tensor([0.5, 0.25, 0.25]), expected[:3], 1)
        torch.testing.assert_close(without(x, C), expected, rtol=1e-4, atol=1e-4)
    assert mixed.embed(x, C).shape == (6, 5, 12)


def test_signals_of_other_shapes_pass_the_linear_function_too():
    networks, linear, _, C = parts()
    mixed = Members(networks, [0.25] * 4, linear).double()
    x = torch.randn(2, 3, 5, 2, dtype=torch.float64)
    for each in (x, x[0, 0]):
        expected = torch.stack([network(each, C.double()) for network in networks]).sum(0)
        expected = (expected + each.flatten(-2) @ linear[0].T + linear[1]) / 4
        torch.testing.assert_close(mixed(each, C.double()), expected)


def test_the_linear_function_does_not_see_the_covariance():
    networks, linear, x, C = parts()
    mixed = Members(networks, [0.25] * 4, linear)
    before, after = mixed.outputs(x, C), mixed.outputs(x, torch.eye(5))
    assert torch.equal(before[3], after[3])
    assert all(not torch.equal(before[i], after[i]) for i in range(3))


def test_weights_and_the_linear_function_are_part_of_the_state():
    networks, linear, x, C = parts()
    mixed = Members(networks, [0.1, 0.2, 0.3, 0.4], linear)
    assert {"weights", "linear_weight", "linear_bias"} <= set(mixed.state_dict())
    other = Members(parts()[0], [0.25] * 4, tuple(torch.zeros_like(part) for part in linear))
    other.load_state_dict(mixed.state_dict())
    assert torch.equal(other(x, C), mixed(x, C))
    assert [name for name in Members(networks).state_dict() if not name.startswith("members.")] == ["weights"]
    assert len(list(mixed.parameters())) == len(list(Members(networks).parameters()))  # nothing more to train


def test_shifted_signals_cannot_pass_the_linear_function():
    networks, linear, x, C = parts()
    operator = as_operator(C).normalized()
    shifted = ShiftedSignals.of(x, operator, 2)
    with pytest.raises(ValueError, match="the linear function takes plain ones; give a tensor"):
        Members(networks, [0.25] * 4, linear).outputs(shifted, operator)


def test_weights_that_do_not_fit_are_errors():
    networks, linear, _, _ = parts()
    with pytest.raises(ValueError, match="a linear function needs weights"):
        Members(networks, linear=linear)
    with pytest.raises(ValueError, match="weights holds 2 numbers for 3 parts"):
        Members(networks, [0.5, 0.5])
    with pytest.raises(ValueError, match="weights holds 3 numbers for 4 parts"):
        Members(networks, [0.5, 0.25, 0.25], linear)
