"""One way in for matrices: whatever stands for a symmetric matrix, unwrapped and checked once.

Arrays, lists and frames; dense, COO and CSR tensors; scipy's sparse matrices; operators; fitted covariance estimators.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from svnn.functional._array import is_torch

if TYPE_CHECKING:
    from torch import Tensor

    from svnn._types import Matrix, MatrixLike

#: Largest difference from the transpose that counts as rounding, relative to the largest entry, by bytes per number.
_ROUNDING = {2: 1e-2, 4: 1e-5}


def stored_matrix(C: MatrixLike, name: str = "C", *, rounding: float = 1e-8) -> Matrix | Tensor:
    """Return ``C`` as it is best kept: an ndarray, a ``csr_array``, a dense tensor or a CSR tensor of real numbers.

    An operator of C / s stands for C. Tensors stay on their device and in their graph of gradients, and nothing is
    copied that need not be: the result may be the caller's own, and is not to be changed.

    Parameters
    ----------
    C : matrix of shape (N, N)
    name : str
        The argument that error messages name.
    rounding : float
        Largest difference from the transpose, relative to the largest entry, that is allowed in double precision.

    Raises
    ------
    ValueError
        Where ``C`` is not square, empty, not finite, not symmetric, or no matrix of real numbers.
    """
    C = _unwrapped(C)
    if is_torch(C):
        C = _real_tensor(C, name)
    elif sp.issparse(C):
        C = sp.csr_array(C)
        if C.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be a matrix of real numbers, got dtype {C.dtype}.")
        C = C if C.dtype.kind == "f" else C.astype(np.float64)
    else:
        C = _real_array(C, name)
    if C.ndim != 2 or C.shape[0] != C.shape[1] or not C.shape[0]:
        raise ValueError(f"{name} must be a square matrix with at least one row, got shape {tuple(C.shape)}.")
    _check_entries(C, name, rounding)
    return C


def numpy_matrix(C: MatrixLike, name: str = "C") -> Matrix:
    """Return ``C`` in float64, exactly symmetric: a ``csr_array`` where it came sparse, an ndarray otherwise.

    Takes what :func:`stored_matrix` takes. The result may be the caller's own array: it is not to be changed.
    """
    given: Any = C
    if hasattr(C, "to_dense") and not is_torch(C):
        given = given.to(dtype=sys.modules["torch"].float64)  # so that C / s times s is not rounded to single precision
    stored = stored_matrix(given, name, rounding=1e-5)
    if is_torch(stored):
        stored = _scipy(stored) if _is_sparse_tensor(stored) else numpy_values(stored)
    stored = stored.astype(np.float64, copy=False)
    if sp.issparse(stored):
        return sp.csr_array((stored + stored.T) / 2)
    return stored if (stored == stored.T).all() else (stored + stored.T) / 2


def numpy_values(array: Tensor) -> np.ndarray:
    """Return a dense tensor as an array; numpy has no numbers of the 16 bits that torch calls bfloat16."""
    array = array.detach().cpu()
    return (array.float() if array.dtype.itemsize < 4 else array).numpy()


def _unwrapped(C: Any) -> Any:
    """Return the matrix of a fitted estimator or of an operator, anything else as it is."""
    C = getattr(C, "covariance_", C)
    if not hasattr(C, "to_dense") or is_torch(C):
        return C
    matrix = C.to_scipy() if C.backend == "csr" and not C.requires_grad else C.to_dense()
    return matrix if C.scale is None else matrix * C.scale


def _real_tensor(C: Any, name: str) -> Any:
    if C.is_complex():
        raise ValueError(f"{name} must be real, got complex numbers.")
    C = C if C.is_floating_point() else C.double()
    if not _is_sparse_tensor(C):
        return C
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return C.to_sparse_coo().coalesce().to_sparse_csr()


def _real_array(C: Any, name: str) -> np.ndarray:
    if np.iscomplexobj(C):
        raise ValueError(f"{name} must be real, got complex numbers.")
    try:
        array = np.asarray(C)
        return array if array.dtype.kind == "f" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix of real numbers, got {type(C).__name__}: {error}") from error


def _check_entries(C: Any, name: str, rounding: float) -> None:
    """Raise where entries are not finite, or differ from their mirror by more than rounding."""
    values = _scipy(C) if is_torch(C) and _is_sparse_tensor(C) else C.detach() if is_torch(C) else C
    entries = values.data if sp.issparse(values) else values
    xp = sys.modules["torch"] if is_torch(entries) else np
    if not bool(xp.isfinite(entries).all()):
        raise ValueError(f"{name} holds NaN or infinite values; remove or impute them, or estimate it without them.")
    if not sp.issparse(values) and bool((values == values.T).all()):
        return  # as almost always, and quicker to see than the largest difference
    size = float(abs(entries).max()) if len(entries) else 0.0
    difference = float(abs(values - values.T).max())
    if difference > max(rounding, _ROUNDING.get(entries.dtype.itemsize, 0.0)) * size:
        raise ValueError(
            f"{name} is not symmetric: it differs from its transpose by up to {difference:.3g} (largest entry "
            f"{size:.3g}). If that is rounding, pass ({name} + {name}.T) / 2."
        )


def _is_sparse_tensor(C: Any) -> bool:
    return bool(C.layout != sys.modules["torch"].strided)


def _scipy(C: Any) -> sp.csr_array:
    """Return a sparse tensor as a ``csr_array``."""
    C = C.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = C.indices().numpy()
    return sp.csr_array((numpy_values(C.values()), (rows, columns)), shape=tuple(C.shape))
