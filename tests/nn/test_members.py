"""Several networks that predict together."""

from __future__ import annotations

import pytest
import torch

from svnn.nn import SVNN, Members


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


def test_the_state_is_that_of_the_networks():
    both = Members([SVNN(1, 2, hidden=(4,)) for _ in range(2)])
    assert {name.split(".")[0] for name in both.state_dict()} == {"members"}
    assert both.widest == 4 and len(both.networks) == 2
