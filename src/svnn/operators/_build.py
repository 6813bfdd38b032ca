"""``as_operator``: any symmetric matrix as a shift, in the backend that suits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from svnn.functional._matrix import (
    factored_matrix,
    is_sparse_tensor,
    numpy_values,
    plain_values,
    stored_matrix,
    unchecked_matrix,
)
from svnn.operators._batched import BatchedOperator, PerSample, checked_batch
from svnn.operators._csr import CSROperator
from svnn.operators._dense import DenseOperator
from svnn.operators._edges import are_integers
from svnn.operators._filter_banks import SMALL, bank_seconds
from svnn.operators._lowrank import LowRankOperator, SumOperator
from svnn.operators._operator import CovarianceOperator
from svnn.operators._tracing import unreadable

if TYPE_CHECKING:
    from svnn._types import Matrix, MatrixLike

#: The backends by name: classes that are made from their tensors.
KINDS: dict[str, Callable[..., CovarianceOperator]] = {
    "dense": DenseOperator,
    "csr": CSROperator,
    "lowrank": LowRankOperator,
}
BACKENDS = ("auto", "dense", "csr", "lowrank")

_NO_BACKEND = (
    'an operator of several matrices has its own way to store them, not backend="{}"; svnn.operators.pack(matrices) '
    "stores them sparse."
)

#: Up to this size, 16 MB in single precision, a sparse operator may keep a dense copy of itself.
_TWIN_LIMIT = 2048
#: On a GPU, matrices that are sparser and larger than this are stored sparse.
_GPU_DENSITY, _GPU_NODES = 0.05, 512


def as_operator(
    C: MatrixLike, backend: str = "auto", device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> CovarianceOperator:
    """Return the symmetric matrix ``C`` as a shift operator.

    Parameters
    ----------
    C : array, list, frame, scipy sparse array, Tensor (dense, COO or CSR), fitted estimator or CovarianceOperator
        It is copied: what happens to ``C`` later does not change the operator. Only a tensor that requires
        gradients is used as it is, and gets them (with "lowrank" that is an error). An operator comes back as it is
        where nothing else is asked for. A fitted estimator stands for its ``covariance_``. An array or a tensor of
        shape (B, N, N) is a matrix for each of B samples, see :class:`svnn.operators.BatchedOperator`; for matrices of
        different sizes there is :func:`svnn.operators.pack`.
    backend : {"auto", "dense", "csr", "lowrank"}, default="auto"
        How to store the matrix. "auto" takes the faster of dense and CSR for its size and
        density, by a measured model, and looks again when it knows the filter bank it is to run.
        "lowrank" factors the matrix by its eigenvectors; :func:`svnn.operators.from_data` builds it
        from data instead. Of a fitted :class:`svnn.covariance.FactorThreshold`, or of its ``parts_``, "auto" keeps
        the factors and the sparse rest apart, as a :class:`SumOperator`.
    device, dtype : optional
        Where to put it and in which precision; by default those of ``C``. An operator shifts
        signals of any floating dtype in the dtype of the signal.

    Returns
    -------
    CovarianceOperator

    Raises
    ------
    ValueError
        Where ``C`` is not square, not finite or not symmetric.

    Notes
    -----
    Code that ``torch.compile`` or ``torch.export`` traces has no numbers to look at. A tensor is taken there as it is,
    without a copy and without these checks. Make the operator before, where it can be checked, and let the module hold
    it: ``self.shift = as_operator(C).normalized()``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> op = as_operator(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> op @ torch.tensor([[1.0], [0.0]])
    tensor([[2.],
            [1.]])
    """
    if not isinstance(backend, str):
        raise TypeError(
            f"backend must be one of {BACKENDS}, got {type(backend).__name__}; a graph of edges and weights is "
            "svnn.operators.from_edges(edge_index, edge_weight)."
        )
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}.")
    if isinstance(C, CovarianceOperator):
        if backend in ("auto", C.backend) and device is None and dtype is None:
            return C
        operator, device, dtype = C, device or C.device, dtype or C.dtype
        if isinstance(C, PerSample) and backend not in ("auto", C.backend):
            raise ValueError(_NO_BACKEND.format(backend))
        if backend not in ("auto", C.backend):
            sparse = backend == "csr" and not C.requires_grad
            operator = stored(C.to_scipy() if sparse else C.to_dense(), backend, device)
            operator.scale = C.scale
    elif isinstance(C, (Tensor, np.ndarray)) and C.ndim == 3 and not is_sparse_tensor(C):
        if backend not in ("auto", "dense"):
            raise ValueError(_NO_BACKEND.format(backend))
        readable = not (isinstance(C, Tensor) and unreadable(C))
        operator = BatchedOperator(checked_batch(C) if readable else cast(Tensor, C))
    elif isinstance(C, Tensor) and unreadable(C) and not is_sparse_tensor(C) and backend in ("auto", "dense"):
        operator = DenseOperator(C if C.is_floating_point() else C.double())  # there are no numbers to check
        operator.fleeting = not C.is_leaf
    elif (factored := factored_matrix(C)) is not None and backend == "auto":
        operator = SumOperator.from_matrix(factored)
        operator.adaptive = operator.shape[0] > SMALL
    else:
        shape: tuple[int, ...] = getattr(C, "shape", ())
        if len(shape) == 2 and shape[0] == 2 != shape[1] and are_integers(C):
            raise ValueError(
                f"C has shape {tuple(shape)}, as the edges of a graph have; use svnn.operators.from_edges(C, weights)."
            )
        if isinstance(C, (list, tuple)) and C and all(getattr(each, "ndim", 0) == 2 for each in C):
            raise ValueError(
                "C is a list of matrices; use svnn.operators.pack(C) for graphs of any sizes, or stack matrices of one "
                "size to a tensor of shape (B, N, N)."
            )
        operator = stored(stored_matrix(C), backend, device)
    if device is None and dtype is None:
        return operator
    target = torch.device(device or operator.device)
    if operator.device == target and dtype in (None, operator.dtype):
        return operator
    return operator.to(device=target, dtype=dtype or operator.dtype)


def stored(C: Matrix | Tensor, backend: str, device: torch.device | str | None) -> CovarianceOperator:
    """Return an operator of a copy of a checked matrix; a tensor that is learned is kept as it is."""
    if isinstance(C, np.ndarray):
        C = torch.from_numpy(np.array(C, order="C"))
    elif isinstance(C, Tensor) and not C.requires_grad:
        C = C.clone()
    learned, sparse = isinstance(C, Tensor) and C.requires_grad, not isinstance(C, Tensor) or is_sparse_tensor(C)
    n = C.shape[0]
    adaptive = backend == "auto" and not learned and n > SMALL
    if backend == "auto":
        nnz = C.nnz if not isinstance(C, Tensor) else C._nnz() if sparse else int(torch.count_nonzero(C))
        where = device or ("cpu" if not isinstance(C, Tensor) else C.device)
        backend = ("csr" if sparse else "dense") if learned else choose_backend(n, nnz / n**2, device=where)
    operator: CovarianceOperator
    if backend == "csr" and not isinstance(C, Tensor):
        operator = CSROperator.from_scipy(C)
    elif backend == "csr":
        operator = CSROperator.from_sparse(C) if sparse else CSROperator.from_dense(C)
    else:
        dense = torch.from_numpy(C.toarray()) if not isinstance(C, Tensor) else C.to_dense()
        if backend == "lowrank" and learned:
            raise ValueError('C requires gradients, which backend="lowrank" cannot give; use "dense" or "csr".')
        makers: dict[str, Callable[[Tensor], CovarianceOperator]]
        makers = {"dense": DenseOperator, "lowrank": LowRankOperator.from_matrix}
        operator = makers[backend](dense)
    operator.adaptive = adaptive
    return operator


def choose_backend(
    n_nodes: int,
    density: float,
    *,
    n_in: int = 32,
    n_out: int = 32,
    order: int = 2,
    batch: int = 64,
    device: torch.device | str = "cpu",
) -> str:
    """Return the backend, "dense" or "csr", whose filter bank is faster.

    On a CPU by a model of the costs, whose rates ``benchmarks/auto.py`` checks; up to 32 nodes always "dense".
    On a GPU the dense product overtakes the sparse one above a density of about 0.05.

    Examples
    --------
    >>> choose_backend(1000, 0.01), choose_backend(1000, 0.9), choose_backend(100, 0.2, n_in=128, order=8)
    ('csr', 'dense', 'dense')
    """
    if torch.device(device).type != "cpu":
        return "csr" if density <= _GPU_DENSITY and n_nodes >= _GPU_NODES else "dense"
    if n_nodes <= SMALL:
        return "dense"
    bank = (n_nodes, round(density * n_nodes**2), batch, n_in, n_out, order)
    dense = min(bank_seconds("dense", *bank), bank_seconds("eigenbasis", *bank))
    return "csr" if bank_seconds("csr", *bank) < dense else "dense"


def plain_matrix(C: MatrixLike) -> Matrix:
    """Return a matrix of any kind that ``as_operator`` takes as an ndarray or ``csr_array``, unchecked.

    An operator of C / s gives C / s, the matrix that it shifts by.

    Examples
    --------
    >>> plain_matrix([[1.0, 0.5], [0.5, 1.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    if isinstance(C, CovarianceOperator):
        return C.to_scipy() if C.backend == "csr" else numpy_values(C.to_dense())
    return plain_values(unchecked_matrix(C))


def suited(operator: CovarianceOperator, n_in: int, n_out: int, order: int, batch: int) -> CovarianceOperator:
    """Return the operator in the backend that suits a filter bank best: itself, or a copy that it keeps.

    A matrix of 117 nodes and density 0.1 is stored sparse. A filter bank of order 8 takes half of the time on its
    dense copy; with 300 nodes 0.8 of it (one core of an x86 server).
    """
    n = operator.shape[0]
    if n > _TWIN_LIMIT or operator.device.type != "cpu" or not order:
        return operator
    # Batches of about the same size have the same answer.
    best = operator._cached(
        ("backend", n_in, n_out, order, batch.bit_length()),
        lambda: choose_backend(n, operator.nnz / n**2, n_in=n_in, n_out=n_out, order=order, batch=batch),
    )
    if best == operator.backend or (best == "csr" and operator.backend == "sum"):
        return operator
    twin = operator._cached("twin", lambda: as_operator(operator, backend=best))
    twin.fleeting = operator.fleeting
    return twin
