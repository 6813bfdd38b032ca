"""The few operations that numpy and torch spell differently, so that every formula is written once for both."""

from __future__ import annotations

import sys
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from svnn._types import Array, DataLike, RandomState

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import TypeIs


def is_torch(value: object) -> TypeIs[Tensor]:
    """Return whether ``value`` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def namespace(array: object) -> ModuleType:
    """Return the module whose functions take ``array``: torch for tensors, numpy for everything else."""
    return sys.modules["torch"] if is_torch(array) else np


def to_numpy(array: object) -> np.ndarray:
    """Return a tensor on any device, or anything that numpy can convert, as an array; copy only where needed."""
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


def like(values: DataLike, array: Array) -> Array:
    """Return ``values`` as an array or tensor with the dtype and on the device of ``array``."""
    if is_torch(array):
        return namespace(array).as_tensor(values, dtype=array.dtype, device=array.device)
    return np.asarray(values, dtype=array.dtype)


# -- checks ---------------------------------------------------------------------------------------


def as_matrix(C: Array, name: str = "C") -> Array:
    """Return ``C`` as a square matrix of finite floating-point numbers."""
    C = as_floating(C, name)
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise ValueError(f"{name} must be a square matrix, got shape {tuple(C.shape)}.")
    if not bool(namespace(C).isfinite(C).all()):
        raise ValueError(f"{name} holds NaN or infinite values; remove or impute them first.")
    return C


def as_floating(array: DataLike, name: str = "X") -> Any:
    """Return a dense array or tensor of real numbers in a floating-point dtype; integers become float64."""
    check_dense_real(array, name)
    if is_torch(array):
        return array if array.is_floating_point() else array.double()
    array = np.asarray(array)
    if array.dtype.kind == "f":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers only, got dtype {array.dtype}: {error}.") from error


def check_dense_real(array: object, name: str = "X") -> None:
    """Raise an error for sparse and for complex arrays and tensors."""
    if is_torch(array):
        if array.layout != namespace(array).strided:
            raise ValueError(f"{name} is a sparse tensor, but dense data is required; use {name}.to_dense().")
        is_complex = array.is_complex()
    elif hasattr(array, "toarray"):
        raise ValueError(f"{name} is sparse, but dense data is required; use {name}.toarray().")
    else:
        is_complex = getattr(getattr(array, "dtype", None), "kind", "") == "c"
    if is_complex:
        raise ValueError(
            f"{name} holds complex numbers. Complex data not supported: pass the real and the imaginary parts as "
            "separate real columns."
        )


def unit_interval(value: object, name: str) -> float:
    """Return ``value`` as a float between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return float(value)


def non_negative(value: object, name: str) -> float:
    """Return ``value`` as a finite float that is not negative."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
    return float(value)


# -- the entries of symmetric matrices ------------------------------------------------------------


def off_diagonal(C: Array) -> Array:
    """Return a boolean matrix of the shape of ``C`` that is true off the diagonal."""
    if is_torch(C):
        torch = namespace(C)
        return ~torch.eye(len(C), dtype=torch.bool, device=C.device)
    return ~np.eye(len(C), dtype=bool)


def upper_values(C: Array) -> Array:
    """Return the ``N(N-1)/2`` entries above the diagonal, row by row."""
    return C[_above_diagonal(C)]


def upper_indices(C: Array) -> tuple[Array, Array]:
    """Return the row numbers and the column numbers of the entries above the diagonal, row by row."""
    n = C.shape[0]
    if is_torch(C):
        rows, columns = namespace(C).triu_indices(n, n, 1, device=C.device)
        return rows, columns
    return np.triu_indices(n, 1)


def from_upper(values: Array, C: Array, diagonal: float) -> Array:
    """Return the symmetric matrix of the shape of ``C`` with ``values`` above a diagonal of equal entries."""
    full = namespace(C).zeros_like(C, dtype=values.dtype)
    full[_above_diagonal(C)] = values
    full = full + full.T  # for boolean matrices the sum is a logical "or"
    full[~off_diagonal(C)] = diagonal
    return full


def _above_diagonal(C: Array) -> Array:
    if is_torch(C):
        torch = namespace(C)
        return torch.ones_like(C, dtype=torch.bool).triu(1)
    return np.triu(np.ones(C.shape, dtype=bool), 1)


# -- random numbers -------------------------------------------------------------------------------


def generator(random_state: RandomState) -> np.random.Generator:
    """Return a numpy generator for an integer, a generator or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint64))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(random_state, torch.Generator):
        draw = torch.randint(2**62, (1,), generator=random_state, device=random_state.device)
        return np.random.default_rng(int(draw))
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(random_state)
    raise ValueError(
        "random_state must be None, an integer, a numpy Generator or RandomState, or a torch "
        f"Generator, got {type(random_state).__name__}."
    )
