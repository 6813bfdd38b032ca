"""The contract of a shift operator, and its spectral norm with its gradient."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from svnn.functional._lanczos import leading_eigenpair
from svnn.functional._matrix import numpy_values
from svnn.operators._tracing import TensorModule, compiling, traced

Kept = TypeVar("Kept")

#: Up to this size, and with at least this many values per node, a product per sample is faster than one for all.
_PER_SAMPLE_LIMIT, _PER_SAMPLE_VALUES = 256, 16
_NOTHING = nullcontext()
#: Up to this size all eigenvalues are computed.
EXACT_LIMIT = 128
#: Operators of up to this many stored values are copied to double precision, so that rounding hides nothing.
_DOUBLE_VALUES = 2**25


class CovarianceOperator(TensorModule, ABC):
    r"""A symmetric N×N matrix as the shift of a graph signal: ``op @ x``, or ``op(x)``.

    A backend gives a name and four methods: ``_matmul`` on an (N, M) tensor, ``_map`` that applies
    a function to its stored tensors, ``_tensors`` that lists them, and ``to_dense``. Everything
    else is written here once.

    An operator is a torch module. Its tensors are buffers, an ``nn.Parameter`` is a parameter: a module that holds an
    operator moves, casts, saves and restores it with itself. An operator alone stays as it is: its own ``to``,
    ``double`` and the like return another one. Where ``torch.compile`` needs another one, it calls the class with the
    tensors of ``_tensors``.

    Attributes
    ----------
    shape : tuple (N, N)
    nnz : int
        Number of stored values that are not zero; for ``lowrank`` those of its factors.
    density : float
        ``nnz / N**2``.
    backend : str
    dtype, device : of the stored values
    scale : float or None
        For a normalised operator, the number that its matrix was divided by; see :meth:`normalized`.
    """

    backend: ClassVar[str]
    shape: tuple[int, ...]
    scale: float | None = None
    adaptive: bool = False  #: free to run a filter bank in another backend where that is faster
    fleeting: bool = False  #: used once or twice only, as a random realisation is: prepare nothing for it

    @abstractmethod
    def _matmul(self, x: Tensor) -> Tensor:
        """Apply the matrix to x of shape (N, M)."""

    @abstractmethod
    def _tensors(self) -> tuple[Tensor, ...]:
        """Return the stored tensors, the floating ones first."""

    @abstractmethod
    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        """Replace every stored tensor by ``function(tensor)`` and multiply the matrix by ``factor``."""

    @abstractmethod
    def to_dense(self) -> Tensor:
        """Return the (N, N) matrix as a tensor."""

    @property
    def dtype(self) -> torch.dtype:
        return self._tensors()[0].dtype

    @property
    def device(self) -> torch.device:
        return self._tensors()[0].device

    @property
    def requires_grad(self) -> bool:
        """Whether the matrix itself is being learned."""
        for tensor in self._tensors():  # noqa: SIM110 - any(...) takes twice as long
            if tensor.requires_grad:
                return True
        return False

    @property
    def nnz(self) -> int:
        return int(torch.count_nonzero(self._tensors()[0]))

    @property
    def density(self) -> float:
        return self.nnz / self.shape[0] ** 2

    def __matmul__(self, x: Tensor) -> Tensor:
        """Shift ``x`` of shape (N, F) or (…, N, F); the result has the shape and dtype of ``x``, autocast or not."""
        operator = self._in_dtype_of(x)
        with _without_autocast(x):
            return operator._matmul(x) if x.ndim == 2 else operator._batched_matmul(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``op @ x``: in code for ``torch.compile``, which does not know the ``@`` of an operator, ``op(x)``."""
        return self.__matmul__(x)

    def _in_dtype_of(self, x: Tensor) -> CovarianceOperator:
        """Check that ``x`` can be shifted and return the operator in its dtype."""
        n, own = self.shape[-1], self._tensors()[0]
        if not isinstance(x, Tensor):
            raise TypeError(f"the operator shifts torch tensors, got {type(x).__name__}; use torch.as_tensor.")
        if x.ndim < 2 or x.shape[-2] != n:
            raise ValueError(f"x must have shape (..., {n}, F) for an operator on {n} nodes, got {tuple(x.shape)}.")
        if x.device != own.device:
            raise ValueError(f"x is on {x.device}, the operator on {own.device}; move one with .to(device).")
        if x.dtype == own.dtype:
            return self
        return self._cached(x.dtype, lambda: self.to(dtype=x.dtype))

    def _batched_matmul(self, x: Tensor) -> Tensor:
        """Apply the matrix to x of shape (…, N, F): as one product on (N, … F)."""
        nodes_first = x.movedim(-2, 0)
        shifted = self._matmul(nodes_first.reshape(self.shape[0], -1))
        return shifted.reshape(nodes_first.shape).movedim(0, -2)

    def filter(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        r"""Apply a bank of polynomial filters, :math:`\sum_k C^k x W_k + b`.

        ``x`` has shape (…, N, in), ``weight`` (K + 1, in, out), ``bias`` (out,). Backends have faster ways where they
        can, which can be differentiated any number of times; ``_reference_filter`` is the readable version.
        """
        operator = self._in_dtype_of(x)
        if weight.ndim != 3 or weight.shape[1] != x.shape[-1] or weight.device != x.device:
            raise ValueError(
                f"weight must have shape (K + 1, {x.shape[-1]}, out) and be on {x.device}, "
                f"got {tuple(weight.shape)} on {weight.device}."
            )
        taps, n_in, n_out = weight.shape
        batch = x.reshape(-1, self.shape[-1], n_in)
        if traced():
            with _without_autocast(x):
                return operator._traced_filter(batch, weight, bias).view(*x.shape[:-1], n_out)
        if operator.adaptive:
            from svnn.operators._build import suited  # it knows all backends

            operator = suited(operator, n_in, n_out, taps - 1, len(batch))
        fused = taps > 1 and len(batch) > 0 and x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)
        with _without_autocast(x):
            run = operator._filter if fused and not operator.requires_grad else operator._reference_filter
            return run(batch, weight, bias).view(*x.shape[:-1], n_out)

    def _filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the filtered (B, N, out) signals in the fastest way, where the matrix itself is not learned.

        ``x`` and ``weight`` are both in single or both in double precision, the order is at least 1.
        """
        return self._reference_filter(x, weight, bias)

    def _traced_filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the filtered (B, N, out) signals where torch compiles, exports or transforms the code."""
        return self._reference_filter(x, weight, bias)

    def _reference_filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        taps, n_in, n_out = weight.shape
        # Shift the narrower side: the cost of a shift is proportional to its number of columns.
        if n_in <= n_out:
            powers = [x]
            for _ in range(taps - 1):
                powers.append(self._batched_matmul(powers[-1]))
            if n_in == 1:  # powers one after the other are quicker to write, and to multiply with, than side by side
                columns, first = torch.stack([power.reshape(-1) for power in powers]).T, weight[:, 0]
                y = columns @ first if bias is None else torch.addmm(bias, columns, first)
                return y.view(*x.shape[:-1], n_out)
            return torch.nn.functional.linear(torch.cat(powers, -1), weight.flatten(0, 1).T, bias)
        y = x @ weight[-1]
        for k in range(taps - 2, -1, -1):
            y = self._batched_matmul(y) + x @ weight[k]
        return y if bias is None else y + bias

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the operator on another device or in another floating dtype, as ``Tensor.to`` does."""
        target = self._tensors()[0].new_empty(0).to(*args, **kwargs)
        if not target.is_floating_point():
            raise TypeError(f"an operator needs a floating dtype, got {target.dtype}.")
        return self._mapped(lambda v: v.to(target.device, target.dtype if v.is_floating_point() else v.dtype))

    def _mapped(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> Self:
        """Return a copy after ``_map``."""
        if torch.compiler.is_compiling():  # which can make objects, but not copy them
            other = type(self)(*self._tensors())
            other.scale, other.fleeting = self.scale, True
        else:
            other = copy.copy(self)
        other._map(function, factor)
        return other

    def normalized(self, scale: float | None = None) -> CovarianceOperator:
        r"""Return the operator of :math:`C / s`, which remembers ``s`` as its ``scale``.

        Parameters
        ----------
        scale : float, optional
            ``s``; the spectral norm of ``C`` by default (1 for the zero matrix). An operator that
            has a scale already is returned as it is when none is given.

        Notes
        -----
        A filter with coefficients :math:`h_k s^k` on :math:`C/s` is the filter :math:`h_k` on
        :math:`C`: pass one matrix's ``scale`` to the other to compare the same filter on both.

        Where the matrix is learned, gradients pass through its norm as well, once: a second derivative of the norm
        is an error. Give a number for ``scale`` where gradients of gradients are needed.
        """
        divisor: float | Tensor = 1.0
        if scale is None:
            if self.scale is not None:
                return self
            if traced():
                norm = traced_norm(self)
                result = self._mapped(lambda v: v, 1 / torch.where(norm > 0, norm, 1.0))
                result.scale = math.nan  # a number that is not known yet
                return result
            if not self.requires_grad:
                return self._cached("normalized", lambda: self.normalized(self.norm() or 1.0))
            norm = differentiable_norm(self)
            scale = float(norm.detach()) or 1.0
            divisor = norm if norm.detach() else divisor
        elif scale > 0 and np.isfinite(scale):
            divisor = scale / (1.0 if self.scale is None else self.scale)
        else:
            raise ValueError(f"scale must be a positive number, got {scale!r}.")
        result = self._mapped(lambda v: v, 1 / divisor)
        result.scale = float(scale)
        return result

    def norm(self) -> float:
        """Return the spectral norm of the matrix, the largest absolute value of its eigenvalues."""
        return abs(self._cached("leading", partial(leading, self))[0])

    def to_scipy(self) -> sp.csr_array:
        """Return the matrix as ``scipy.sparse.csr_array``."""
        return sp.csr_array(numpy_values(self.to_dense()))

    def edge_index(self) -> tuple[Tensor, Tensor]:
        """Return ``(index, weight)``, of shapes (2, nnz) and (nnz,), as PyTorch Geometric takes them."""
        dense = self.to_dense()
        index = dense.nonzero().T.contiguous()
        return index, dense[index[0], index[1]]

    def _cached(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return what ``make`` returns, made once for the matrix as it is now."""
        if self.requires_grad or torch.compiler.is_compiling():
            return make()  # a matrix that is being learned changes under the operator
        tensors = self._tensors()
        memo: dict[Hashable, Any] = self.__dict__.setdefault("_memo", {})
        versions = [(id(t), None if t.is_inference() else t._version) for t in tensors]
        if memo.get("versions", versions) != versions:  # other tensors, or changed in place
            memo.clear()
        memo["versions"], memo["of"] = versions, tensors  # kept: no other tensor gets the identity of one of them
        if key not in memo:
            if traced():
                return make()  # of use now only
            with torch.inference_mode(False):  # what is kept has to serve in training as well
                memo[key] = make()
        kept: Kept = memo[key]
        return kept

    def get_extra_state(self) -> Tensor:
        """Return the scale, which is part of the state, as a number; NaN for none."""
        return torch.tensor(np.nan if self.scale is None else self.scale, dtype=torch.float64, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Take the scale from a state."""
        self.scale = None if bool(state.isnan()) else float(state)

    def _check_tensors(self) -> None:
        """Raise an error where the stored tensors do not make an N×N matrix."""
        self._matmul(self._tensors()[0].new_zeros(self.shape[0], 1))

    def __repr__(self) -> str:
        scaled = "" if self.scale is None else f", scale={self.scale:.4g}"
        return (
            f"{type(self).__name__}(N={self.shape[0]}, density={self.density:.3g}, "
            f"{str(self.dtype).removeprefix('torch.')}, {self.device}{scaled})"
        )


# Asked here: torch.compile does not trace the question with every version.
_WITH_AUTOCAST = frozenset(
    kind for kind in ("cpu", "cuda", "hpu", "mps", "mtia", "xla", "xpu") if torch.amp.is_autocast_available(kind)
)


def _without_autocast(x: Tensor) -> AbstractContextManager[None]:
    kind = x.device.type
    if kind in _WITH_AUTOCAST and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return _NOTHING


def batch_product(matrix: Tensor, x: Tensor) -> Tensor:
    """Return the products of an (N, N) matrix with each sample of x (…, N, F).

    One product per sample needs no rearranging. One product for all samples has long rows, which pays where a sample
    has few values per node or the matrix is large.
    """
    n, values = x.shape[-2:]
    if values == 1:  # the nodes can stay last
        return (x[..., 0] @ matrix.T)[..., None]
    if n <= _PER_SAMPLE_LIMIT and values >= _PER_SAMPLE_VALUES:
        return torch.matmul(matrix, x)
    nodes_first = x.movedim(-2, 0)
    return (matrix @ nodes_first.reshape(n, -1)).view(nodes_first.shape).movedim(0, -2)


# -- the spectral norm ----------------------------------------------------------------------------


@torch.no_grad()
def leading(operator: CovarianceOperator) -> tuple[float, Tensor]:
    """Return the eigenvalue of largest absolute value of a symmetric operator, and its eigenvector (N, 1)."""
    n = operator.shape[0]
    own = operator._tensors()[0]
    if own.numel() <= _DOUBLE_VALUES and own.device.type in ("cpu", "cuda"):
        operator = operator.to(dtype=torch.float64)
    if n <= EXACT_LIMIT:
        values, vectors = np.linalg.eigh(operator.to_dense().detach().cpu().double().numpy())
        best = int(np.abs(values).argmax())
        return float(values[best]), torch.from_numpy(vectors[:, best : best + 1].copy())
    target, unit = operator._tensors()[0], 1.0

    def product(q: np.ndarray) -> np.ndarray:
        shifted = operator @ torch.from_numpy(q)[:, None].to(target.device, target.dtype)
        return shifted.detach().cpu().double().numpy()[:, 0] / unit

    # Squares of very large or very small numbers are no longer numbers: the unit is about the size of the entries.
    unit = float(np.abs(product(np.random.default_rng(0).standard_normal(n) / n**0.5)).max()) or 1.0
    value, vector = leading_eigenpair(product, n, noise=32 * torch.finfo(target.dtype).eps)
    return value * unit, torch.from_numpy(vector)[:, None]


def differentiable_norm(operator: CovarianceOperator) -> Tensor:
    r"""Return the spectral norm of an operator that is being learned, with its gradient :math:`\pm v v^T`.

    ``v`` is the leading eigenvector. It moves with the matrix, which only a second derivative feels: that is refused
    rather than left out.
    """
    _, v = leading(operator)
    v = v.to(operator.device, operator.dtype)
    with torch.enable_grad():
        norm = (v * (operator @ v)).sum().abs()
    result: Tensor = OnceDifferentiable.apply(norm, *operator._tensors())
    return result


def traced_norm(operator: CovarianceOperator) -> Tensor:
    r"""Return the spectral norm of an operator where torch compiles, exports or transforms the code.

    Compiled code finds the leading eigenvector ``v`` once for a matrix and computes :math:`|v^T C v|`, whose gradient
    is that of the norm. Elsewhere all eigenvalues are found by torch.
    """
    if not compiling():
        return torch.linalg.eigvalsh(operator.to_dense()).abs().amax(-1)
    from svnn.operators import _compiled_ops

    known = operator.backend in ("dense", "csr", "lowrank")
    parts = [t.detach() for t in operator._tensors()] if known else [operator.to_dense().detach()]
    v = _compiled_ops.leading(parts, operator.backend if known else "dense", operator.shape[0])
    return (v * operator.forward(v)).sum().abs()  # torch.compile does not see op @ v


class OnceDifferentiable(torch.autograd.Function):
    """The first argument; its gradient cannot be differentiated again with respect to the others."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *others: Tensor) -> Tensor:
        ctx.save_for_backward(*others)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        if torch.is_grad_enabled():
            gradient = _Refusal.apply(gradient, *ctx.saved_tensors)
        return gradient, *[None] * len(ctx.saved_tensors)


class _Refusal(torch.autograd.Function):
    """The first argument; its derivative is an error that says what to do instead."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *others: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError(
            "the spectral norm of a learned covariance has no second derivative here; divide by a fixed number, "
            "operator.normalized(scale), or build the network with normalize=False."
        )
