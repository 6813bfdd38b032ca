"""The contract of a shift operator, as checks that say what is broken."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from svnn._types import FloatArray
from svnn.operators import CovarianceOperator, PackedOperator
from svnn.testing._expect import expect, expect_close, expect_error, run_checks

#: Makes an operator from a symmetric matrix, a float64 tensor of shape (N, N).
Factory: TypeAlias = Callable[[Tensor], CovarianceOperator]


def check_operator(
    operator: CovarianceOperator | Factory, *, matrices: Iterable[Tensor] | None = None, skip: Collection[str] = ()
) -> None:
    """Check that an operator does what svnn's networks expect of one; an ``AssertionError`` says what it does not do.

    Parameters
    ----------
    operator : CovarianceOperator, or function from a matrix to one
        An operator is compared with its own ``to_dense()``. A function gets symmetric float64 tensors of shape (N, N),
        and the operators that it returns are compared with those: this is the stronger check.
    matrices : iterable of tensors of shape (N, N) or (B, N, N), optional
        The matrices that a function gets, for operators that cannot hold every symmetric matrix. By default a sparse
        indefinite one, a covariance, the identity, the zero matrix and one of a single node. An operator with a matrix
        for each of B samples gets all of them in one tensor.
    skip : collection of str
        Names of checks to leave out.

    Notes
    -----
    These are checked one after the other:

    - ``"attributes"``: shape, dtype, device, number of stored values, density, and ``repr``;
    - ``"conversions"``: ``to_dense``, ``to_scipy`` and ``edge_index`` give the matrix;
    - ``"product"``: ``op @ x`` is the product with the matrix, for (N, F) and batches of it, in the dtype of ``x``;
    - ``"to"``: ``op.to(dtype)`` converts a copy;
    - ``"normalized"``: ``norm`` is the largest absolute eigenvalue, ``normalized`` divides a copy by it;
    - ``"filter"``: ``op.filter(x, weight, bias)`` is the sum of the powers, in single and double precision;
    - ``"gradients"``: first and second derivatives of ``op @ x`` and first ones of the filter are right;
    - ``"pickle"``: a pickled operator is the same operator;
    - ``"module"``: a module that holds the operator casts it, saves it and restores it with itself;
    - ``"errors"``: signals of a wrong shape or kind are refused by name.

    Where an operator has a matrix for each sample, its shape is (B, N, N), signals have shape (…, B, N, F),
    ``to_scipy`` and ``edge_index`` give the block-diagonal matrix, and ``normalized`` divides every matrix by its own
    norm. So it does with the blocks of packed graphs, which are otherwise one sparse matrix.

    Examples
    --------
    A covariance without edges needs to store its diagonal only:

    >>> import torch
    >>> from svnn.operators import CovarianceOperator
    >>> from svnn.testing import check_operator
    >>> class Diagonal(CovarianceOperator):
    ...     backend = "diagonal"
    ...
    ...     def __init__(self, variances):
    ...         self.variances, self.shape = variances, (len(variances), len(variances))
    ...
    ...     def _matmul(self, x):
    ...         return self.variances[:, None] * x
    ...
    ...     def _tensors(self):
    ...         return (self.variances,)
    ...
    ...     def _map(self, function, factor=1.0):
    ...         self.variances = function(self.variances) * factor
    ...
    ...     def to_dense(self):
    ...         return torch.diag(self.variances)
    >>> check_operator(Diagonal(torch.tensor([1.0, 2.0, 0.5])))

    A mistake is named:

    >>> class Forgetful(Diagonal):
    ...     def _map(self, function, factor=1.0):
    ...         self.variances = function(self.variances)
    >>> check_operator(Forgetful(torch.tensor([1.0, 2.0, 0.5])))
    Traceback (most recent call last):
        ...
    AssertionError: Forgetful: normalized(s) is not C / s; see the factor of _map. Entry (1, 1) is 2, expected 1.
    """
    if isinstance(operator, CovarianceOperator):
        if matrices is not None:
            raise ValueError("matrices are for a function that makes operators; an operator has its own matrix.")
        run_checks(CHECKS, skip, operator.to(torch.float64), _values(operator.to_dense()))
        return
    for matrix in _matrices() if matrices is None else matrices:
        made = operator(matrix.clone())
        expect(
            isinstance(made, CovarianceOperator),
            f"The function must return a CovarianceOperator, it returned {type(made).__name__}.",
        )
        run_checks(CHECKS, skip, made, _values(matrix))


def _matrices() -> list[Tensor]:
    """Return matrices on which operators went wrong before."""
    rng = np.random.default_rng(0)
    half = np.triu(rng.standard_normal((9, 9)) * (rng.random((9, 9)) < 0.6))
    data = rng.standard_normal((30, 6)) * np.linspace(0.5, 3, 6)
    found = (half + half.T, np.cov(data.T), np.eye(4), np.zeros((3, 3)), np.array([[2.0]]))
    return [torch.from_numpy(np.ascontiguousarray(matrix)) for matrix in found]


def _values(tensor: Tensor) -> FloatArray:
    values: FloatArray = tensor.detach().cpu().double().numpy()
    return values


def _named(operator: CovarianceOperator, sentence: str) -> str:
    return f"{type(operator).__name__}: {sentence}"


def check_attributes(operator: CovarianceOperator, C: FloatArray) -> None:
    """Shape, dtype, device, number of stored values, density and ``repr``."""
    n = C.shape[-1]
    expect(operator.shape == C.shape, _named(operator, f"shape is {operator.shape}, expected {C.shape}."))
    expect(operator.dtype.is_floating_point, _named(operator, f"dtype is {operator.dtype}, expected a floating one."))
    expect(isinstance(operator.backend, str), _named(operator, "backend must be a string that names the storage."))
    if C.any():
        expect(operator.nnz > 0, _named(operator, "nnz is 0 for a matrix that is not zero."))
    expect(
        operator.density == operator.nnz / C.size,
        _named(operator, f"density is {operator.density}, expected nnz / N² = {operator.nnz / C.size}."),
    )
    expect(f"N={n}" in repr(operator), _named(operator, f"repr must show N={n}, it is {operator!r}."))


def check_conversions(operator: CovarianceOperator, C: FloatArray) -> None:
    """``to_dense``, ``to_scipy`` and ``edge_index`` give the matrix."""
    whole, size = C if C.ndim == 2 else sp.block_diag(list(C)).toarray(), max(np.abs(C).max(), 1.0)
    dense, scipy = operator.to_dense(), operator.to_scipy()
    for name, found, expected in (("to_dense", _values(dense), C), ("to_scipy", scipy.toarray(), whole)):
        sentence = _named(operator, f"{name}() is not the matrix.")
        expect_close(found, expected, sentence, rtol=1e-7, atol=1e-12 * size)
    expect_close(C.swapaxes(-1, -2), C, _named(operator, "to_dense() must be symmetric."), rtol=1e-8, atol=1e-12 * size)
    expect(
        isinstance(scipy, sp.csr_array),
        _named(operator, f"to_scipy() must be a scipy.sparse.csr_array, it is {type(scipy).__name__}."),
    )
    index, weight = operator.edge_index()
    expect(
        index.shape == (2, len(weight)) and index.dtype == torch.int64,
        _named(operator, f"edge_index() must be int64 of shape (2, edges), it is {index.dtype} {tuple(index.shape)}."),
    )
    rebuilt = torch.zeros(whole.shape, dtype=weight.dtype, device=weight.device).index_put(tuple(index), weight)
    sentence = _named(operator, "edge_index() has other edges than the matrix.")
    expect_close(_values(rebuilt), whole, sentence, rtol=1e-7, atol=1e-12 * size)


def check_product(
    operator: CovarianceOperator, C: FloatArray, shapes: Iterable[tuple[int, ...]] = ((), (3,), (2, 3)), seed: int = 0
) -> None:
    """``op @ x`` is the product with the matrix, for batches of these shapes, in the dtype of ``x``."""
    rng, size = np.random.default_rng(seed), np.abs(C).max()
    for shape in shapes:
        for features in (1, 2, 3):
            x = rng.standard_normal((*shape, *C.shape[:-1], features))
            sentence = _named(operator, f"op @ x is not the product of the matrix and x, x of shape {x.shape}.")
            for dtype, rtol, atol in ((torch.float64, 1e-9, 1e-11), (torch.float32, 1e-3, 1e-4)):
                y = operator @ torch.tensor(x, dtype=dtype, device=operator.device)
                expect(y.dtype == dtype, _named(operator, f"op @ x has dtype {y.dtype} for x of {dtype}."))
                expect_close(_values(y), C @ x, sentence, rtol=rtol, atol=atol * size)


def check_to(operator: CovarianceOperator, C: FloatArray) -> None:
    """``op.to(dtype)`` converts a copy."""
    before = operator.dtype
    single = operator.to(torch.float32)
    expect(single.dtype == torch.float32, _named(operator, f"op.to(torch.float32) has dtype {single.dtype}."))
    expect(operator.dtype == before, _named(operator, "op.to(dtype) changed op itself; _map must replace tensors."))
    sentence = _named(operator, "op.to(torch.float32) has another matrix.")
    expect_close(_values(single.to_dense()), C, sentence, rtol=1e-5, atol=1e-5 * max(np.abs(C).max(), 1e-30))


def check_normalized(operator: CovarianceOperator, C: FloatArray) -> None:
    """``norm`` is the largest absolute eigenvalue; ``normalized`` divides a copy and remembers by what."""
    norms = _norms(operator, C)
    norm = norms.max()
    expect_close(operator.norm(), norm, _named(operator, "norm() is not the spectral norm."), rtol=1e-9, atol=1e-300)
    if operator.scale is not None:
        expect(operator.normalized() is operator, _named(operator, "a normalised operator must be left as it is."))
        return
    unit, expected = operator.normalized(), np.where(norms > 0, norms, 1.0)
    sentence = _named(operator, "normalized() changed the operator itself; _map must replace tensors.")
    expect_close(_values(operator.to_dense()), C, sentence, rtol=1e-7, atol=1e-12 * max(norm, 1.0))
    sentence = _named(operator, "normalized().scale is not the norm.")
    expect_close(_scale(unit), expected, sentence, rtol=1e-6, atol=0)
    expect(unit.normalized() is unit, _named(operator, "a normalised operator must be left as it is."))
    if not operator.requires_grad:
        expect(operator.normalized() is unit, _named(operator, "normalized() must be computed once and kept."))
    for scale, divided in ((expected, unit), (np.full_like(expected, 2.0), unit.normalized(2.0))):
        expect_close(_scale(divided), scale, _named(operator, "scale is wrong."), rtol=1e-6, atol=0)
        sentence = _named(operator, "normalized(s) is not C / s; see the factor of _map.")
        expect_close(_values(divided.to_dense()), C / _spread(operator, scale), sentence, rtol=1e-9, atol=1e-9)
    with expect_error(ValueError, _named(operator, "normalized(0.0) must be a ValueError.")):
        operator.normalized(0.0)


def check_filter(
    operator: CovarianceOperator,
    C: FloatArray,
    shapes: Iterable[tuple[int, ...]] = ((), (1,), (70,)),
    features: Iterable[tuple[int, int]] = ((4, 3), (1, 3), (3, 1)),
) -> None:
    """``op.filter(x, weight, bias)`` is the sum of powers, here of the matrix divided by five times its norm."""
    rng = np.random.default_rng(0)
    scale = 5 * float(np.linalg.norm(C, 2, axis=(-2, -1)).max()) or 1.0
    unit, divided = C / scale, operator.normalized(scale * (1.0 if operator.scale is None else operator.scale))
    for shape, (n_in, n_out) in ((shape, pair) for shape in shapes for pair in features):
        for taps in (1, 4):
            sizes = ((*shape, *C.shape[:-1], n_in), (taps, n_in, n_out), (n_out,))
            x, weight, bias = (rng.standard_normal(size) for size in sizes)
            terms = [np.linalg.matrix_power(unit, k) @ x @ weight[k] for k in range(taps)]
            sentence = _named(operator, f"op.filter is not the sum of C^k x W_k, x of shape {x.shape}, K = {taps - 1}.")
            for dtype, rtol, atol in ((torch.float64, 1e-9, 1e-12), (torch.float32, 1e-3, 1e-5)):
                tensors = [torch.tensor(a, dtype=dtype, device=operator.device) for a in (x, weight, bias)]
                for with_bias in (True, False):
                    y = divided.filter(*tensors[: 2 + with_bias])
                    expect(y.dtype == dtype, _named(operator, f"op.filter has dtype {y.dtype} for x of {dtype}."))
                    expect_close(_values(y), sum(terms) + with_bias * bias, sentence, rtol=rtol, atol=atol)


def check_gradients(operator: CovarianceOperator, C: FloatArray) -> None:
    """First and second derivatives of the product, and first ones of the filter, are right."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        drawn = torch.randn(shape, dtype=torch.float64, generator=generator)
        return drawn.to(operator.device).requires_grad_()

    x, weight, bias = random(2, *C.shape[:-1], 3), random(3, 3, 2), random(2)
    unit = operator.normalized()
    for what, holds in (
        ("gradient of op @ x", lambda: torch.autograd.gradcheck(lambda x: unit @ x, (x,))),
        ("second derivative of op @ x", lambda: torch.autograd.gradgradcheck(lambda x: unit @ x, (x,))),
        ("gradient of op.filter", lambda: torch.autograd.gradcheck(unit.filter, (x, weight, bias))),
    ):
        try:
            holds()
        except RuntimeError as error:
            raise AssertionError(_named(operator, f"the {what} is wrong. {error}")) from error


def check_pickle(operator: CovarianceOperator, C: FloatArray) -> None:
    """A pickled operator is the same operator, also after results were kept in it."""
    x = torch.ones(*C.shape[:-1], 1, dtype=operator.dtype, device=operator.device)
    before = operator @ x
    operator.normalized()
    kind = type(operator)
    found: object = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    # pickle finds classes by their names only, which those written in a function or a console do not have.
    again = pickle.loads(pickle.dumps(operator)) if found is kind else copy.deepcopy(operator)
    expect(bool((again @ x == before).all()), _named(operator, "a pickled operator gives other products."))


def check_module(operator: CovarianceOperator, C: FloatArray) -> None:
    """A module that holds the operator casts it, saves it and restores it with itself."""
    x = torch.ones(*C.shape[:-1], 1, dtype=operator.dtype, device=operator.device)
    scale = 1.0 if operator.scale is None else operator.scale
    holder, other = nn.Module(), nn.Module()
    holder.shift, other.shift = copy.deepcopy(operator), operator.normalized(2.0 * scale)
    missing = len(operator._tensors()) - len(list(holder.buffers())) - len(list(holder.parameters()))
    expect(missing <= 0, _named(operator, f"{missing} of its tensors are no attributes, and not saved with a module."))
    other.load_state_dict(holder.state_dict())
    restored = other.shift
    expect(
        bool((restored @ x == operator @ x).all()), _named(operator, "restored from a state, it gives other products.")
    )
    same = np.array_equal(_scale(restored), _scale(operator), equal_nan=True)
    expect(same, _named(operator, f"its scale is {restored.scale} when it is restored."))
    holder.float()
    expect(holder.shift.dtype == torch.float32, _named(operator, "holder.float() left it as it was."))
    sentence = _named(operator, "holder.float() made another matrix of it.")
    expect_close(_values(holder.shift.to_dense()), C, sentence, rtol=1e-5, atol=1e-5 * max(np.abs(C).max(), 1e-30))


def check_errors(operator: CovarianceOperator, C: FloatArray) -> None:
    """Signals of a wrong shape or kind are refused by name."""
    n = C.shape[-1]
    for x in (torch.ones(*C.shape[:-2], n + 1, 1), torch.ones(n), *([torch.ones(len(C) + 1, n, 1)] * (C.ndim - 2))):
        sentence = f"op @ x must be a ValueError for x of shape {tuple(x.shape)} on {n} nodes."
        with expect_error(ValueError, _named(operator, sentence)):
            _ = operator @ x.to(operator.device)
    with expect_error(TypeError, _named(operator, "op @ x must be a TypeError for a numpy array.")):
        _ = operator @ np.ones((n, 1))  # type: ignore[operator]
    with expect_error(TypeError, _named(operator, "op.to(torch.int64) must be a TypeError.")):
        operator.to(torch.int64)


def _norms(operator: CovarianceOperator, C: FloatArray) -> FloatArray:
    """Return the spectral norm, or those of the matrices of all samples."""
    if not isinstance(operator, PackedOperator):
        return np.asarray(np.abs(np.linalg.eigvalsh(C)).max(-1))
    ends = np.cumsum(operator.sizes)
    blocks = [C[end - size : end, end - size : end] for end, size in zip(ends, operator.sizes, strict=True)]
    return np.array([np.abs(np.linalg.eigvalsh(block)).max() for block in blocks])


def _scale(operator: CovarianceOperator) -> FloatArray:
    return np.asarray(np.nan if operator.scale is None else operator.scale, dtype=np.float64)


def _spread(operator: CovarianceOperator, scale: FloatArray) -> FloatArray:
    """Return what the entries of the dense matrix are divided by."""
    if isinstance(operator, PackedOperator):
        return scale.repeat(operator.sizes)[:, None]
    return scale if not scale.ndim else scale[:, None, None]


CHECKS: dict[str, Callable[[CovarianceOperator, FloatArray], None]] = {
    "attributes": check_attributes,
    "conversions": check_conversions,
    "product": check_product,
    "to": check_to,
    "normalized": check_normalized,
    "filter": check_filter,
    "gradients": check_gradients,
    "pickle": check_pickle,
    "module": check_module,
    "errors": check_errors,
}
