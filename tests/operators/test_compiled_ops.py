"""torch.compile: networks and filters in one graph, with the outputs and gradients that they have without it.

The graphs are run by torch's own operations ("aot_eager"), which compiles fast; one test generates code. What compiled
code calls of svnn is compared with the plain bank as well.
"""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter, Members

N = 40


def matrix(density=0.2, seed=0):
    rng = np.random.default_rng(seed)
    C = np.triu(rng.standard_normal((N, N)) * (rng.random((N, N)) < density))
    return torch.tensor(C + C.T, dtype=torch.float32)


class Held(nn.Module):
    def __init__(self, network, shift):
        super().__init__()
        self.network, self.shift = network, shift

    def forward(self, x):
        return self.network(x, self.shift)


class Graphs:
    """A backend of torch.compile that keeps what it was given."""

    def __init__(self):
        self.targets = []

    def __call__(self, graph, inputs):
        from torch._dynamo.backends.debugging import aot_eager

        self.targets.append({str(node.target) for node in graph.graph.nodes})
        return aot_eager(graph, inputs)


@pytest.fixture
def graphs():
    torch._dynamo.reset()
    yield Graphs()
    torch._dynamo.reset()


def same(module, args, backend, tolerance=1e-5):
    """Compare a step of training and a prediction, compiled in one graph, with those of the module as it is."""
    plain, other = copy.deepcopy(module).train(), copy.deepcopy(module).train()
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    results = []
    for call, own in ((plain, plain), (compiled, other)):
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        loss = call(*args).pow(2).sum() / 100
        loss.backward()
        gradients = [p.grad.clone() for p in own.parameters()]
        optimizer.step()
        own.eval()
        with torch.no_grad():
            results.append((loss.detach(), gradients, list(own.buffers()), call(*args)))
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)


def networks():
    torch.manual_seed(0)
    return {
        "two layers": SVNN(3, 2, hidden=(8, 4), order=3),
        "weighted": SVNN(3, 1, hidden=(2,), batch_norm=False, readout="weighted", n_nodes=N, heads=2),
        "eigenbasis": CovarianceFilter(8, 8, order=6),
        "narrowing": CovarianceFilter(5, 3, order=2),
    }


def signals(network):
    first = network if isinstance(network, CovarianceFilter) else network.filters[0]
    return torch.randn(6, N, first.in_features, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *(("two layers", "tensor"), ("two layers", "csr"), ("eigenbasis", "dense"), ("narrowing", "lowrank")),
        *(pytest.param(name, "csr", marks=pytest.mark.slow) for name in ("weighted", "narrowing")),
        *(pytest.param("two layers", backend, marks=pytest.mark.slow) for backend in ("dense", "lowrank")),
    ],
)
def test_a_shift_as_an_argument(graphs, name, backend):
    network = networks()[name]
    shift = matrix() / 5 if backend == "tensor" else as_operator(matrix() / 5, backend=backend)
    same(network, (signals(network), shift), graphs)
    assert graphs.targets
    if backend == "csr":  # the fast bank, not what stands in for it
        assert all("svnn" in str(targets) for targets in graphs.targets)


@pytest.mark.parametrize(
    ("backend", "ready"),
    [
        *(("dense", False), ("csr", True)),
        *(pytest.param(backend, False, marks=pytest.mark.slow) for backend in ("csr", "lowrank")),
    ],
)
def test_a_shift_that_the_module_holds(graphs, backend, ready):
    shift = as_operator(matrix(), backend=backend)
    shift = shift.normalized() if ready else shift.double()  # in another precision than the signals
    network = networks()["weighted"]
    same(Held(network, shift), (signals(network),), graphs)
    assert graphs.targets


def test_the_eigenbasis_is_found_once(graphs, monkeypatch):
    network, calls = networks()["eigenbasis"], []
    eigh = torch.linalg.eigh
    shift = as_operator(matrix() / 5, backend="dense")
    compiled = torch.compile(network, fullgraph=True, backend=graphs)
    monkeypatch.setattr(torch.linalg, "eigh", lambda C: calls.append(1) or eigh(C))
    first, again = (compiled(signals(network), shift) for _ in range(2))
    assert "svnn.spectrum" in str(graphs.targets) and len(calls) == 1
    torch.testing.assert_close(first, again)
    shift.matrix.mul_(0.5)  # which is seen
    torch.testing.assert_close(compiled(signals(network), shift), network(signals(network), shift))


@pytest.mark.parametrize("backend", ["dense", "csr"])
def test_a_matrix_is_learned(graphs, backend):
    C = nn.Parameter(matrix() / 5)
    network, x = SVNN(1, 1, hidden=(4,), batch_norm=False), torch.randn(6, N, 1)
    shift = as_operator(C, backend=backend)
    leaf = shift.matrix if backend == "dense" else C
    gradients = []
    for call in (network, torch.compile(network, fullgraph=True, backend=graphs)):
        call(x, shift).sum().backward(retain_graph=True)
        gradients.append(leaf.grad.clone())
        leaf.grad = None
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_sequences_of_shifts_members_and_dropout(graphs):
    x, first, second = torch.randn(6, N, 1), as_operator(matrix(), backend="csr"), as_operator(matrix(seed=1))
    same(CovarianceFilter(1, 3, order=2), (x, [first.normalized(), second.normalized()]), graphs)
    same(Members([SVNN(1, 1, hidden=(4,)) for _ in range(2)]), (x, first.normalized()), graphs)
    network = SVNN(1, 1, dropout=0.5, node_dropout=0.5).train()
    assert torch.compile(network, fullgraph=True, backend=graphs)(x, first).shape == (6, 1)


def test_hooks_fire(graphs):
    network, x, calls = SVNN(1, 1).eval(), torch.randn(6, N, 1), []
    shift = as_operator(matrix(), backend="csr").normalized()
    expected = network(x, shift)
    for part in (network.filters[0], network.norms[0], network.activation, network.readout):
        part.register_forward_hook(lambda part, *_: calls.append(type(part).__name__))
    compiled = torch.compile(network, backend=graphs)
    torch.testing.assert_close(compiled(x, shift), expected)
    assert {"CovarianceFilter", "NodeNorm", "LeakyReLU", "Readout"} <= set(calls)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch generates C++")
def test_generated_code(graphs):
    network = networks()["weighted"]
    same(Held(network, as_operator(matrix(), backend="csr").normalized()), (signals(network),), "inductor")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_compiled_code_calls(dtype):
    """The operations agree with the plain bank, and torch's own check of such operations passes."""
    from svnn.operators import _compiled_ops

    shift = as_operator(matrix() / 5, backend="csr", dtype=dtype)
    parts, dense = shift._tensors(), shift.to_dense()
    generator = torch.Generator().manual_seed(0)
    x, u = (torch.randn(s, dtype=dtype, generator=generator).requires_grad_() for s in ((4, N, 3), (4, N, 3, 2)))
    powers = torch.stack([torch.linalg.matrix_power(dense, k) for k in range(3)])
    cases = {
        "krylov": ((x, *parts, 2), torch.einsum("knm,bmi->bnki", powers, x)),
        "horner": ((u, *parts), torch.einsum("knm,bmki->bni", powers, u)),
    }
    for name, (args, expected) in cases.items():
        operation = getattr(_compiled_ops, name)
        torch.testing.assert_close(operation(*args), expected, rtol=1e-4, atol=1e-5)
        ours, theirs = (torch.autograd.grad(y.pow(2).sum(), args[0]) for y in (operation(*args), expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    value = torch.linalg.eigvalsh(dense.double()).abs().max()
    for backend in ("dense", "csr", "lowrank"):
        v = _compiled_ops.leading(list(as_operator(dense, backend=backend)._tensors()), backend, N).double()
        assert (v * (dense.double() @ v)).sum().abs().item() == pytest.approx(value.item(), rel=1e-5)


def test_the_operations_are_registered_when_code_is_compiled_not_before():
    import subprocess
    import sys

    code = "import sys, svnn, svnn.nn, svnn.operators; print([m for m in sys.modules if m in ('svnn.operators."
    code += "_compiled_ops', 'torch._dynamo', 'sympy')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("backend", ["dense", "csr"])
def test_autocast_leaves_the_banks_alone(graphs, backend):
    layer, x = CovarianceFilter(3, 5, order=2), torch.randn(4, N, 3)
    shift = as_operator(matrix() / 5, backend=backend)
    expected = layer(x, shift)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.compile(layer, fullgraph=True, backend=graphs)(x, shift)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)
