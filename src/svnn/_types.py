"""Type aliases and protocols of arguments and results; nothing heavy is imported for them at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy.sparse as sp
    from torch import Generator, Tensor

    #: A table or a batch of signals: lists, arrays, frames, tensors.
    DataLike: TypeAlias = npt.ArrayLike | Tensor
    #: A number for each row: weights, targets, groups.
    ColumnLike: TypeAlias = npt.ArrayLike | Tensor
    #: Anything that stands for a symmetric matrix; see ``svnn.functional._matrix``.
    MatrixLike: TypeAlias = "npt.ArrayLike | Tensor | sp.sparray | sp.spmatrix | HasCovariance | HasMatrix"
    #: The name of a covariance estimator, or an estimator.
    CovarianceLike: TypeAlias = "str | HasFit"
    #: A matrix as numpy and scipy hold it.
    Matrix: TypeAlias = np.ndarray | sp.csr_array
    #: A seed, a generator of numpy or torch, or None.
    RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | Generator | None
    #: One threshold for all entries of a matrix, or an array with one for each entry.
    Threshold: TypeAlias = float | np.ndarray | Tensor
    #: numpy or torch: functions return the type that they are given.
    Array = TypeVar("Array", np.ndarray, Tensor)
    #: A number or an array of numbers: functions return the type that they are given.
    Numbers = TypeVar("Numbers", float, np.ndarray, Tensor)
    #: numpy or torch, where the two need not agree.
    AnyArray: TypeAlias = np.ndarray | Tensor
else:
    DataLike = ColumnLike = MatrixLike = CovarianceLike = Matrix = RandomState = Threshold = AnyArray = Any
    Array = TypeVar("Array")
    Numbers = TypeVar("Numbers")

#: Integers and floats of any size.
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class HasFit(Protocol):
    """An estimator of any package with a method ``fit``."""

    def fit(self, X: Any, *args: Any, **kwargs: Any) -> Any:
        """Learn from the rows of ``X``."""
        ...


class HasCovariance(Protocol):
    """A fitted covariance estimator, of svnn or of another package."""

    covariance_: Any


class HasMatrix(Protocol):
    """An operator that can be converted to a dense matrix."""

    def to_dense(self) -> Any:
        """Return the dense matrix."""
        ...
