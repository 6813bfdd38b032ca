"""A matrix for each sample: a batch is what a loop over its samples is."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn import as_operator
from svnn.operators import BatchedOperator, DenseOperator, _batched
from svnn.testing import check_operator


def batch(b=4, n=5, seed=0):
    """Symmetric, sparse, indefinite matrices of very different norms; the second is zero."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((b, n, n)) * (rng.random((b, n, n)) < 0.7) * 10.0 ** rng.integers(-3, 4, (b, 1, 1))
    half[1:2] = 0
    return torch.from_numpy(half + half.swapaxes(1, 2))


def signals(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_batches_pass_the_check_for_operators():
    check_operator(as_operator, matrices=[batch(), batch(1), batch(3, 1), torch.eye(3).double().expand(2, 3, 3)])


@pytest.fixture(params=["repeated", "together"])
def way(request, monkeypatch):
    """Both ways of a selection, whatever its size."""
    monkeypatch.setattr(_batched, "_SAVED_ENTRIES", 10**9 if request.param == "repeated" else 0)


@pytest.mark.parametrize("normalized", [False, True])
def test_selections_pass_the_check_for_operators(way, normalized):
    chosen = as_operator(batch())[[2, 0, 0, 2, 1]]
    check_operator(chosen.normalized() if normalized else chosen)


@given(
    seed=seeds, b=st.integers(1, 5), n=st.integers(1, 7), f=st.integers(1, 3), lead=st.sampled_from([(), (1,), (3,)])
)
def test_a_batch_is_a_loop(seed, b, n, f, lead):
    C, x, weight = batch(b, n, seed % 1000), signals(*lead, b, n, f, seed=seed), signals(3, f, 2, seed=seed + 1)
    operator, unit = as_operator(C), as_operator(C).normalized()
    for i in range(b):
        one = as_operator(C[i])
        own = x[..., i, :, :]
        torch.testing.assert_close((operator @ x)[..., i, :, :], one @ own)
        torch.testing.assert_close(unit.filter(x, weight)[..., i, :, :], one.normalized().filter(own, weight))
        assert float(unit.scale[i]) == pytest.approx(one.normalized().scale, rel=1e-12)
        assert float(operator.norms()[i]) == pytest.approx(one.norm(), rel=1e-12)


@given(seed=seeds)
def test_nodes_have_no_order(seed):
    C, x, weight = batch(seed=seed % 1000), signals(4, 5, 2, seed=seed), signals(3, 2, 2, seed=seed + 1)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(5))
    plain = as_operator(C).normalized().filter(x, weight)
    moved = as_operator(C[:, order][:, :, order]).normalized().filter(x[:, order], weight)
    torch.testing.assert_close(moved, plain[:, order])


@pytest.mark.parametrize("index", [None, [2, 0, 0, 2]], ids=["all", "selected"])
@pytest.mark.parametrize("normalize", [False, True])
def test_gradients_reach_the_matrices(way, index, normalize):
    half = signals(3, 4, 4, seed=1)
    rows = 3 if index is None else len(index)
    x, weight = signals(rows, 4, 2, seed=2), signals(3, 2, 2, seed=3)

    def filtered(half, x, weight):
        operator = as_operator(half + half.mT)
        operator = operator if index is None else operator[index]
        return (operator.normalized() if normalize else operator).filter(x, weight)

    inputs = [v.requires_grad_() for v in (half, x, weight)]
    assert torch.autograd.gradcheck(filtered, inputs)
    if not normalize:
        assert torch.autograd.gradgradcheck(filtered, inputs)


def test_the_norm_of_learned_matrices_has_no_second_derivative():
    C = batch().requires_grad_()
    y = (as_operator(C).normalized() @ signals(4, 5, 1)).square().sum()
    (gradient,) = torch.autograd.grad(y, C, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        gradient.sum().backward()


def test_large_matrices_are_normalised_as_in_a_loop():
    C = batch(3, 140)
    unit = as_operator(C).normalized()
    expected = torch.linalg.eigvalsh(C).abs().amax(1)
    torch.testing.assert_close(unit.scale, torch.where(expected > 0, expected, 1), rtol=1e-6, atol=0)


def test_norms_are_found_once(monkeypatch):

    calls, found = [], _batched.leading_of_batch
    monkeypatch.setattr(_batched, "leading_of_batch", lambda *args: calls.append(1) or found(*args))
    operator = as_operator(batch())
    operator.norms(), operator.normalized(), operator.normalized(), operator[[0, 0, 1]].normalized()
    operator[[2, 3]].normalized() @ signals(2, 5, 1).float()
    assert len(calls) == 1
    operator.matrices.mul_(2)
    torch.testing.assert_close(operator.normalized().scale[0], as_operator(batch()).normalized().scale[0] * 2)


def test_scales_can_be_given():
    operator = as_operator(batch())
    for scale in (2.0, torch.tensor([1.0, 2.0, 3.0, 4.0])):
        divided = operator.normalized().normalized(scale)
        expected = batch() / torch.as_tensor(scale).double().expand(4)[:, None, None]
        torch.testing.assert_close(divided.to_dense(), expected)
        chosen = operator[[3, 3, 3, 0]].normalized(scale)
        expected = batch()[[3, 3, 3, 0]] / torch.as_tensor(scale).double().expand(4)[:, None, None]
        torch.testing.assert_close(chosen.to_dense(), expected)
    chosen = operator[[3, 3, 0]].normalized()
    again = chosen.normalized(2 * chosen.scale)
    assert type(again) is type(chosen) and torch.equal(again.scale, 2 * chosen.scale)
    torch.testing.assert_close(again.to_dense(), chosen.to_dense() / 2)
    for wrong in (0.0, -1.0, float("nan"), torch.ones(3), torch.tensor([1.0, 0.0, 1.0, 1.0])):
        with pytest.raises(ValueError, match="scale must be a positive number or 4 of them"):
            operator.normalized(wrong)


def test_rows_of_one_matrix_are_filtered_together(monkeypatch):
    """The fast path is used, gives what the plain one gives, and repeats no matrix."""
    index = torch.tensor([0, 2] * 8)
    operator, x, weight = as_operator(batch(4, 100)), signals(2, 16, 100, 2), signals(3, 2, 3) * 1e-4
    together = operator[index]
    products, filtered = together @ x, together.filter(x, weight)
    assert "matrices" not in together.__dict__["_memo"]
    monkeypatch.setattr(_batched, "_SAVED_ENTRIES", 10**9)
    repeated = operator[index]
    torch.testing.assert_close(repeated @ x, products)
    torch.testing.assert_close(repeated.filter(x, weight), filtered)
    assert "matrices" in repeated.__dict__["_memo"]
    torch.testing.assert_close(products, batch(4, 100)[index] @ x)


def test_selecting():
    operator = as_operator(batch()).normalized()
    assert isinstance(operator[1], DenseOperator) and operator[1].scale == float(operator.scale[1])
    assert [float(one.scale) for one in operator] == operator.scale.tolist()
    dense = operator.to_dense()
    for index in (slice(1, 3), [3, 0], np.array([0, 0]), torch.tensor([True, False, True, False])):
        torch.testing.assert_close(operator[index].to_dense(), dense[index])
        torch.testing.assert_close(operator[index].scale, operator.scale[index])
    torch.testing.assert_close(operator[[3, 0, 1]][[2, 2]].to_dense(), dense[[1, 1]])
    torch.testing.assert_close(operator[[3, 0, 1]][1].to_dense(), dense[0])
    assert operator[[3, 0]].normalized() is not operator and operator[-1].scale == float(operator.scale[3])
    for wrong in (4, [4], -5):
        with pytest.raises(IndexError):
            operator[wrong]
    with pytest.raises(ValueError, match="selects no sample"):
        operator[[]]


def test_the_operator_owns_its_matrices():
    for source in (batch(), batch().numpy()):
        operator = as_operator(source)
        source[0, 0, 0] = 100
        assert operator.matrices[0, 0, 0] == batch()[0, 0, 0]
    learned = batch().requires_grad_()
    assert as_operator(learned).matrices is learned


def test_kinds_and_precision():
    assert as_operator(batch().numpy().astype(np.float32)).dtype == torch.float32
    assert as_operator(np.ones((2, 3, 3), dtype=int)).dtype == torch.float64
    assert as_operator(torch.ones(2, 3, 3, dtype=torch.int64)).dtype == torch.float64
    assert as_operator(batch(), dtype=torch.float32).dtype == torch.float32
    operator = as_operator(batch())
    assert as_operator(operator) is operator and isinstance(operator, BatchedOperator) and len(operator) == 4
    rounded = batch() * (1 + 1e-9 * signals(4, 5, 5))
    assert torch.equal(as_operator(rounded).matrices, as_operator(rounded).matrices.mT)
    for again in (pickle.loads(pickle.dumps(operator.normalized())), copy.deepcopy(operator.normalized())):
        assert torch.equal(again.scale, operator.normalized().scale)


def wrong_at(i, change):
    C = batch()
    change(C[i])
    return C


@pytest.mark.parametrize(
    ("C", "message"),
    [
        (wrong_at(2, lambda c: c.fill_(torch.nan)), r"C\[2\] holds NaN"),
        (wrong_at(3, lambda c: c[0].fill_(torch.inf)), r"C\[3\] holds NaN or infinite"),
        (wrong_at(1, lambda c: c[0, 1].add_(1)), r"C\[1\] is not symmetric: entries differ by up to 1"),
        (torch.ones(2, 3, 4), r"square matrix for each sample, got shape \(2, 3, 4\)"),
        (torch.ones(0, 3, 3), "at least one"),
        (torch.ones(2, 3, 3, dtype=torch.complex64), "complex"),
        (np.full((2, 3, 3), "a"), "real numbers"),
        ([batch()[0], batch()[1]], r"svnn.operators.pack\(C\)"),
    ],
)
def test_bad_batches_name_the_sample(C, message):
    with pytest.raises(ValueError, match=message):
        as_operator(C)


def test_numbers_whose_sum_is_too_large_are_numbers():
    C = torch.full((2, 3, 3), 3e38)
    assert float(as_operator(C).norms()[0]) == pytest.approx(9e38)


@pytest.mark.parametrize("shape", [(5, 1), (3, 5, 1), (4, 6, 1), (4, 5)])
def test_bad_signals_are_named(shape):
    with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., 4, 5, F\).*4 samples on 5 nodes"):
        as_operator(batch()) @ torch.ones(shape)


def test_other_backends_are_refused():
    for C in (batch(), as_operator(batch())):
        with pytest.raises(ValueError, match=r"svnn\.operators\.pack"):
            as_operator(C, backend="csr")
    with pytest.raises(ValueError, match=r"shape \(B, N, N\)"):
        BatchedOperator(torch.ones(3, 3))
