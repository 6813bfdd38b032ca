"""The shift as a dense matrix."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from svnn.operators._base import CovarianceOperator


class DenseOperator(CovarianceOperator):
    """A stored N×N tensor; one GEMM a shift. Gradients reach the matrix if it asks for them."""

    backend = "dense"

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.shape = (len(matrix), len(matrix))

    def _matmul(self, x: Tensor) -> Tensor:
        return self.matrix @ x

    def _tensors(self) -> tuple[Tensor, ...]:
        return (self.matrix,)

    def _map(self, function: Callable[[Tensor], Tensor], factor: float = 1.0) -> None:
        self.matrix = function(self.matrix)
        if factor != 1.0:
            self.matrix = self.matrix * factor

    def to_dense(self) -> Tensor:
        return self.matrix
