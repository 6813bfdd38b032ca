"""Conversions between dense, sparse and torch matrices, and the repair of negative eigenvalues."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from svnn._types import AnyArray, Matrix
from svnn.functional import psd_repair
from svnn.functional._array import is_torch, namespace
from svnn.functional._matrix import numpy_matrix

if TYPE_CHECKING:
    from torch import Tensor


def repaired(C: Matrix | Tensor, psd: str) -> Matrix | Tensor:
    """Return a positive semidefinite matrix; see :func:`svnn.functional.psd_repair`."""
    if is_torch(C):
        return in_form(psd_repair(numpy_matrix(C), psd), C, sparse=True) if is_sparse(C) else psd_repair(C, psd)
    # Most entries are zero, so a solver for sparse matrices is faster; "clip" has none.
    return psd_repair(C if psd == "clip" else sp.csr_array(C), psd)


def to_dense(C: Matrix | Tensor) -> AnyArray:
    """Return a matrix as an ndarray, a tensor as a dense one."""
    if is_torch(C):
        return C.to_dense()
    return C if isinstance(C, np.ndarray) else C.toarray()


def to_sparse(C: Matrix | Tensor) -> sp.csr_array | Tensor:
    """Return a matrix as a ``csr_array``, a tensor as a sparse CSR tensor."""
    if not is_torch(C):
        return sp.csr_array(C)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return C.to_sparse_csr()


def in_form(C: Matrix, like: Matrix | Tensor, sparse: bool) -> Matrix | Tensor:
    """Return a matrix of numpy or scipy, dense or sparse, as a tensor where ``like`` is one; in the dtype of that."""
    if not is_torch(like):
        C = C.astype(like.dtype, copy=False)
        return to_sparse(C) if sparse else to_dense(C)
    torch = namespace(like)
    if not sparse:
        return torch.as_tensor(to_dense(C), dtype=like.dtype, device=like.device)
    C = sp.csr_array(C)
    places = (torch.as_tensor(part, dtype=torch.int64, device=like.device) for part in (C.indptr, C.indices))
    values = torch.as_tensor(C.data, dtype=like.dtype, device=like.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(*places, values, size=C.shape, check_invariants=True)


def is_sparse(C: Matrix | Tensor) -> bool:
    """Return whether a matrix stores only the entries that are not zero."""
    return C.layout != namespace(C).strided if is_torch(C) else sp.issparse(C)
