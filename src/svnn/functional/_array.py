"""The little that numpy and torch spell differently, so that each formula is written once."""

from __future__ import annotations

import sys
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from svnn._types import Array, RandomState

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs


def is_torch(value: object) -> TypeIs[torch.Tensor]:
    """Tell whether ``value`` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def namespace(array: Any) -> ModuleType:
    """Return the module, numpy or torch, whose functions take ``array``."""
    return sys.modules["torch"] if is_torch(array) else np


def to_numpy(array: Any) -> np.ndarray:
    """Return a numpy view of a numpy array or of a tensor on any device."""
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


def like(values: Any, array: Any) -> Any:
    """Return ``values`` as the kind, dtype and device of ``array``."""
    if is_torch(array):
        torch = sys.modules["torch"]
        return torch.as_tensor(values, dtype=array.dtype, device=array.device)
    return np.asarray(values, dtype=array.dtype)


def as_matrix(C: Any, name: str = "C") -> Any:
    """Return ``C`` as a square, finite, floating matrix of its own kind."""
    C = as_floating(C, name)
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise ValueError(f"{name} must be a square matrix, got shape {tuple(C.shape)}.")
    if not bool(namespace(C).isfinite(C).all()):
        raise ValueError(f"{name} holds NaN or infinite values; remove or impute them first.")
    return C


def as_floating(array: Any, name: str = "X") -> Any:
    """Return a dense array or tensor of real numbers in a floating dtype; integers become float64."""
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


def check_dense_real(array: Any, name: str = "X") -> None:
    """Raise for sparse and complex arrays and tensors; say nothing about what is neither array nor tensor."""
    if is_torch(array):
        torch = sys.modules["torch"]
        if array.layout != torch.strided:
            raise ValueError(f"{name} is a sparse tensor, but dense data is required; use {name}.to_dense().")
        is_complex = array.is_complex()
    elif hasattr(array, "toarray"):
        raise ValueError(f"{name} is sparse, but dense data is required; use {name}.toarray().")
    else:
        is_complex = getattr(getattr(array, "dtype", None), "kind", "") == "c"
    if is_complex:
        raise ValueError(
            f"{name} holds complex numbers. Complex data not supported: give real and imaginary parts as numbers "
            "of their own."
        )


def off_diagonal(C: Array) -> Array:
    """Boolean mask of the off-diagonal entries of ``C``."""
    return ~_eye(C)


def _eye(C: Any) -> Any:
    n = C.shape[0]
    if is_torch(C):
        torch = sys.modules["torch"]
        return torch.eye(n, dtype=torch.bool, device=C.device)
    return np.eye(n, dtype=bool)


def _strict_upper(C: Any) -> Any:
    if is_torch(C):
        torch = sys.modules["torch"]
        return torch.ones_like(C, dtype=torch.bool).triu(1)
    return np.triu(np.ones(C.shape, dtype=bool), 1)


def upper_values(C: Array) -> Array:
    """Return the ``N(N-1)/2`` entries above the diagonal, row by row."""
    return C[_strict_upper(C)]


def upper_indices(C: Any) -> tuple[Any, Any]:
    """Return the rows and the columns of the entries above the diagonal, row by row."""
    n = C.shape[0]
    if is_torch(C):
        rows, columns = sys.modules["torch"].triu_indices(n, n, 1, device=C.device)
        return rows, columns
    return np.triu_indices(n, 1)


def from_upper(values: Array, C: Array, diagonal: float) -> Array:
    """Return the symmetric matrix shaped as ``C`` with ``values`` above its constant ``diagonal``."""
    xp = namespace(C)
    full = xp.zeros_like(C, dtype=values.dtype)
    full[_strict_upper(C)] = values
    full = full + full.T  # on boolean masks this is a logical or
    full[_eye(C)] = diagonal
    return full


def generator(random_state: RandomState) -> np.random.Generator:
    """Return a numpy generator for any of the usual ways to give a seed."""
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


def unit_interval(value: float, name: str) -> float:
    """Return ``value`` as a float in [0, 1] or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return float(value)


def non_negative(value: Any, name: str) -> float:
    """Return ``value`` as a finite float that is not negative, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
    return float(value)
