"""An operator is a part of the module that holds it: it is moved, cast, saved, restored and copied with it."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from svnn import as_operator
from svnn.nn import SVNN
from svnn.operators import CSROperator, DenseOperator

BACKENDS = ("dense", "csr", "lowrank")
every = pytest.mark.parametrize("backend", BACKENDS)


def matrix(n=40, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    C = np.triu(rng.standard_normal((n, n)) * (rng.random((n, n)) < density))
    return C + C.T


class Holder(nn.Module):
    """What users write."""

    def __init__(self, C, backend="auto"):
        super().__init__()
        self.shift = as_operator(C, backend=backend)
        self.network = SVNN(1, 1, hidden=(4,), order=3)

    def forward(self, x):
        return self.network(x, self.shift)


def holder(backend, seed=0):
    torch.manual_seed(seed)
    return Holder(matrix(seed=seed), backend).eval()


x = torch.randn(5, 40, 1, generator=torch.Generator().manual_seed(0))


@every
def test_tensors_are_buffers(backend):
    shift = as_operator(matrix(), backend=backend)
    assert {id(t) for t in shift.buffers()} == {id(t) for t in shift._tensors()}
    assert not list(shift.parameters())
    assert len(holder(backend).state_dict()) > len(SVNN(1, 1).state_dict())


@every
def test_the_module_moves_and_casts_in_place(backend):
    module = holder(backend)
    shift, before = module.shift, module(x)
    integers = [t.dtype for t in shift._tensors() if not t.is_floating_point()]
    for dtype, cast in ((torch.float32, module.float), (torch.float64, module.double)):
        assert cast().shift is shift and shift.dtype == dtype
        assert [t.dtype for t in shift._tensors() if not t.is_floating_point()] == integers
        torch.testing.assert_close(module(x.to(dtype)).float(), before, rtol=1e-4, atol=1e-5)
    assert module.to("meta").shift is shift and shift.device.type == "meta"


@every
def test_an_operator_alone_stays_as_it_is(backend):
    shift = as_operator(matrix(), backend=backend)
    for other in (shift.to(torch.float32), shift.float(), shift.half(), shift.to("meta")):
        assert other is not shift and (shift.dtype, shift.device.type) == (torch.float64, "cpu")
    assert shift.float().dtype == torch.float32 and shift.half().dtype == torch.float16
    assert shift.double().dtype == torch.float64 and shift.bfloat16().dtype == torch.bfloat16


@every
def test_what_was_kept_is_forgotten_when_the_matrix_moves(backend):
    """Results for the matrix before would be wrong for a matrix in another precision, or for another matrix."""
    module = holder(backend).double()
    unit = module.shift.normalized()
    module.float()
    assert module.shift.normalized() is not unit and module.shift.normalized().dtype == torch.float32
    kept = module.shift.norm()
    module.load_state_dict(holder(backend, seed=1).state_dict())
    assert module.shift.norm() == pytest.approx(as_operator(matrix(seed=1)).norm(), rel=1e-5) and kept != 0
    values = module.shift._tensors()[0]
    frozen = nn.Parameter(values.clone(), requires_grad=False)  # which torch moves without a new tensor
    learned = DenseOperator(nn.Parameter(torch.eye(3), requires_grad=False))
    learned.norm()
    nn.ModuleList([learned])._apply(lambda t: 2 * t)
    assert learned.norm() == 2 and frozen.shape == values.shape


def by_torch(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@every
@pytest.mark.parametrize("through", [dict, by_torch, lambda state: load(save(state))], ids=["", "torch", "safetensors"])
def test_a_restored_module_computes_the_same(backend, through):
    """Also on a covariance that was another one, with another number of edges."""
    module, other = holder(backend), holder(backend, seed=1)
    module.shift, other.shift = module.shift.normalized(), as_operator(np.eye(40), backend=backend)
    assert not torch.equal(other(x), module(x))
    other.load_state_dict(through(module.state_dict()))
    assert other.shift.scale == module.shift.scale
    assert torch.equal(other(x), module(x))
    other.load_state_dict(through(holder(backend).state_dict()))
    assert other.shift.scale is None


def test_restoring_one_operator_leaves_those_it_shares_tensors_with_alone():
    plain = as_operator(matrix(), backend="csr")
    unit, before = plain.normalized(), plain.to_dense()
    assert unit.columns is plain.columns
    unit.load_state_dict(as_operator(matrix(seed=3), backend="csr").state_dict())
    torch.testing.assert_close(plain.to_dense(), before)


@pytest.mark.parametrize(
    ("backend", "changed"),
    [
        ("csr", {"columns": torch.full((320,), 40)}),
        ("csr", {"row_starts": torch.arange(42)}),
        ("dense", {"matrix": torch.eye(41, dtype=torch.float64)}),
        ("lowrank", {"factor": torch.ones(41, 40, dtype=torch.float64)}),
    ],
    ids=["columns", "row_starts", "dense", "lowrank"],
)
def test_a_state_that_is_no_matrix_of_this_size_is_an_error(backend, changed):
    module = holder(backend)
    state, before = module.state_dict(), module(x)
    for name, value in changed.items():
        state[f"shift.{name}"] = value if name != "columns" else torch.full_like(state["shift.columns"], 40)
    with pytest.raises(RuntimeError, match="shift: "):
        module.load_state_dict(state)
    assert torch.equal(module(x), before)


@every
def test_a_state_of_another_backend_is_an_error(backend):
    other = BACKENDS[BACKENDS.index(backend) - 1]
    with pytest.raises(RuntimeError, match=r"Missing key.*shift\."):
        holder(backend).load_state_dict(holder(other).state_dict())


@every
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_copies_are_apart(backend, copied):
    module = holder(backend)
    before = module(x)
    other = copied(module)
    assert torch.equal(other(x), before)
    with torch.no_grad():
        for tensor in other.shift._tensors():
            tensor.zero_()
    assert torch.equal(module(x), before)
    shallow = copy.copy(module.shift)
    shallow.scale = 3.0
    shallow.register_forward_hook(lambda *_: None)
    assert module.shift.scale is None and not module.shift._forward_hooks


def test_a_learned_matrix_is_a_parameter():
    C = nn.Parameter(torch.eye(4))
    module = Holder(C).double()
    assert dict(module.named_parameters())["shift.matrix"] is C and C.dtype == torch.float64
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.randn(3, 4, 1, dtype=torch.float64)).sum().backward()
    before = C.detach().clone()
    optimizer.step()
    assert module.shift.matrix is C and not torch.equal(C, before)
    unit = module.shift.normalized()  # its matrix is made of the parameter, and is none itself
    assert not list(unit.parameters()) and unit.requires_grad and module.shift.matrix is C
    values = nn.Parameter(torch.ones(2))
    module.shift = CSROperator(values, torch.tensor([0, 1]), torch.tensor([0, 1, 2]))
    assert dict(module.named_parameters())["shift.values"] is values
    module.load_state_dict(copy.deepcopy(module.state_dict()))
    assert module.shift.values is values


def test_functional_calls_replace_the_matrix():
    module, C = holder("dense"), torch.tensor(matrix(seed=1))
    expected = module.network(x, as_operator(C))
    found = torch.func.functional_call(module, {"shift.matrix": C}, (x,))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(module(x), holder("dense")(x))


@every
def test_an_operator_can_be_called(backend):
    shift = as_operator(matrix(), backend=backend)
    assert torch.equal(shift(x), shift @ x)


def test_memory_is_given_back_at_once():
    gc.disable()
    try:
        shift = as_operator(matrix())
        shift.norm()
        held = weakref.ref(shift)
        del shift
        assert held() is None
    finally:
        gc.enable()
