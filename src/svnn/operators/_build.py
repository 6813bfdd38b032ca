"""``as_operator``: any symmetric matrix as a shift, in the backend that suits it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from svnn.operators._base import CovarianceOperator, numpy_values
from svnn.operators._cost import bank_seconds
from svnn.operators._csr import CSROperator
from svnn.operators._dense import DenseOperator
from svnn.operators._lowrank import LowRankOperator

BACKENDS = ("auto", "dense", "csr", "lowrank")

#: On a GPU, sparser and larger matrices than this are stored sparse.
_GPU_DENSITY, _GPU_NODES = 0.05, 512
#: Up to this size, 16 MB in single precision, a sparse operator may keep a dense copy of itself.
_TWIN_LIMIT = 2048


def as_operator(
    C: Any,
    backend: str = "auto",
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> CovarianceOperator:
    """Return the symmetric matrix ``C`` as a shift operator.

    Parameters
    ----------
    C : ndarray, scipy sparse array, Tensor (dense, COO or CSR) or CovarianceOperator
        It is copied: what happens to ``C`` later does not change the operator. Only a tensor that requires
        gradients is used as it is, and gets them (with "lowrank" that is an error). An operator comes back as it is
        where nothing else is asked for.
    backend : {"auto", "dense", "csr", "lowrank"}, default="auto"
        How to store the matrix. "auto" takes the faster of dense and CSR for its size and
        density, by a measured model, and looks again when it knows the filter bank it is to run.
        "lowrank" factors the matrix by its eigenvectors; to build it from data instead,
        see :func:`svnn.operators.from_data`.
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

    Examples
    --------
    >>> import numpy as np, torch
    >>> op = as_operator(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> op @ torch.tensor([[1.0], [0.0]])
    tensor([[2.],
            [1.]])
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}.")
    if isinstance(C, CovarianceOperator):
        operator = C
        if backend not in ("auto", C.backend):
            to_sparse = backend == "csr" and not C.requires_grad
            operator = _store(C.to_scipy() if to_sparse else C.to_dense(), backend, C.device)
            operator.scale = C.scale
    elif isinstance(C, Tensor) and C.layout != torch.strided and C.requires_grad:
        _checked(C.detach())
        operator = CSROperator.from_sparse(C) if backend in ("auto", "csr") else _store(C.to_dense(), backend, C.device)
    else:
        operator = _store(_checked(C), backend, device or getattr(C, "device", "cpu"))
        dtype = C.dtype if dtype is None and isinstance(C, Tensor) and C.is_floating_point() else dtype
    # Sparse matrices pass through the CPU; they go back to where they came from.
    device = getattr(C, "device", operator.device) if device is None and not isinstance(C, np.ndarray) else device
    target, dtype = torch.device(device or "cpu"), dtype or operator.dtype
    if operator.device == target and operator.dtype == dtype:
        return operator
    return operator.to(device=target, dtype=dtype)


def plain_matrix(C: Any) -> Any:
    """Return a matrix of any kind that ``as_operator`` takes as an ndarray or ``csr_array``.

    Examples
    --------
    >>> plain_matrix([[1.0, 0.5], [0.5, 1.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    if isinstance(C, CovarianceOperator):
        return C.to_scipy() if C.backend == "csr" else numpy_values(C.to_dense())
    if isinstance(C, Tensor):
        return _scipy_from_torch(C) if C.layout != torch.strided else numpy_values(C)
    return sp.csr_array(C) if sp.issparse(C) else np.asarray(C)


def _checked(C: Any) -> Any:
    """Return a validated dense tensor or scipy CSR array."""
    if isinstance(C, Tensor) and C.layout != torch.strided:
        if C.is_complex():
            raise ValueError("C must be real, got complex numbers.")
        C = _scipy_from_torch(C)
    if sp.issparse(C):
        C = sp.csr_array(C)
        if C.dtype.kind not in "fiub":
            raise ValueError(f"C must be a matrix of real numbers, got dtype {C.dtype}.")
        C = C if C.dtype.kind == "f" else C.astype(np.float64)
        _check_square(C.shape)
        _check_finite(bool(np.isfinite(C.data).all()))
        difference = abs(C - C.T)
        _check_symmetric(difference.max() if C.nnz else 0.0, abs(C).max() if C.nnz else 0.0, C.dtype.itemsize)
        return C
    if not isinstance(C, Tensor):
        if np.iscomplexobj(C):
            raise ValueError("C must be real, got complex numbers.")
        try:
            C = torch.from_numpy(np.array(C, dtype=None if np.asarray(C).dtype.kind == "f" else np.float64))
        except (TypeError, ValueError) as error:
            raise ValueError(f"C must be a matrix of real numbers, got {type(C).__name__}: {error}") from error
    elif C.is_complex():
        raise ValueError("C must be real, got complex numbers.")
    elif not C.requires_grad:
        C = C.detach().clone()
    C = C if C.is_floating_point() else C.double()
    _check_square(tuple(C.shape))
    _check_finite(bool(torch.isfinite(C).all()))
    values = C.detach()
    if values.numel():
        _check_symmetric(float((values - values.T).abs().max()), float(values.abs().max()), C.element_size())
    return C


def _store(C: Any, backend: str, device: Any) -> CovarianceOperator:
    n = C.shape[0]
    if backend == "auto":
        nnz = C.nnz if sp.issparse(C) else int(torch.count_nonzero(C))
        learned = isinstance(C, Tensor) and C.requires_grad  # only the dense backend has gradients for the matrix
        density = nnz / max(n * n, 1)
        operator = _store(C, "dense" if learned else choose_backend(n, density, device=device), device)
        operator.adaptive = not learned
        return operator
    if backend == "csr":
        return CSROperator.from_scipy(C) if sp.issparse(C) else CSROperator.from_dense(C)
    dense = torch.from_numpy(C.toarray()) if sp.issparse(C) else C
    if backend == "dense":
        return DenseOperator(dense)
    if dense.requires_grad:
        raise ValueError('C requires gradients, which backend="lowrank" cannot give; use "dense" or "csr".')
    return LowRankOperator.from_matrix(dense)


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

    On a CPU by the cost model of ``_cost.py``, whose rates ``benchmarks/auto.py`` checks. On a GPU the
    dense product overtakes the sparse one above a density of about 0.05.

    Examples
    --------
    >>> choose_backend(1000, 0.01), choose_backend(1000, 0.9), choose_backend(100, 0.2, n_in=128, order=8)
    ('csr', 'dense', 'dense')
    """
    if torch.device(device).type != "cpu":
        return "csr" if density <= _GPU_DENSITY and n_nodes >= _GPU_NODES else "dense"
    nnz = round(density * n_nodes**2)
    seconds = {b: bank_seconds(b, n_nodes, nnz, batch, n_in, n_out, order) for b in ("dense", "csr")}
    return min(seconds, key=seconds.__getitem__)


def _scipy_from_torch(C: Tensor) -> sp.csr_array:
    coo = C.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sp.csr_array((numpy_values(coo.values()), (rows, columns)), shape=tuple(C.shape))


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"C must be a square matrix with at least one row, got shape {shape}.")


def _check_finite(finite: bool) -> None:
    if not finite:
        raise ValueError("C contains NaN or infinite values; estimate it from data without them.")


def _check_symmetric(difference: float, size: float, itemsize: int) -> None:
    tolerance = {2: 1e-2, 4: 1e-5}.get(itemsize, 1e-8) * size
    if difference > tolerance:
        raise ValueError(
            f"C is not symmetric: C and its transpose differ by up to {difference:.3g} "
            f"(largest entry {size:.3g}). If that is rounding, pass (C + C.T) / 2."
        )


def suited(operator: CovarianceOperator, n_in: int, n_out: int, order: int, batch: int) -> CovarianceOperator:
    """Return the operator in the backend that suits a filter bank best: itself, or a copy that it keeps."""
    n = operator.shape[0]
    if n > _TWIN_LIMIT or operator.device.type != "cpu":
        return operator
    density = operator._cached("density", lambda: operator.density)
    best = choose_backend(n, density, n_in=n_in, n_out=n_out, order=order, batch=batch)
    if best == operator.backend:
        return operator
    twin: CovarianceOperator = operator._cached("twin", lambda: as_operator(operator, backend=best))
    twin.fleeting = operator.fleeting
    return twin
