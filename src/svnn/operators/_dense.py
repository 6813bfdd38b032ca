"""The shift as a dense matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from svnn.operators._bank_costs import EIGENBASIS_LIMIT, bank_seconds
from svnn.operators._dense_passes import DenseMatrix
from svnn.operators._operator import CovarianceOperator, batch_product
from svnn.operators._shift_bank import shift_filter_bank
from svnn.operators._spectral_bank import Eigenbasis, plain_spectral_bank, spectral_filter_bank
from svnn.operators._tracing import compiling

#: From this many bytes of filtered signals on, passes that reuse their memory make up for what they cost to set up.
_LARGE_BYTES = 2**21


class DenseOperator(CovarianceOperator):
    """A stored N×N tensor; a shift is a matrix product. Gradients reach the matrix if it asks for them.

    Filter banks of high order run in the eigenbasis, which is found once and kept until torch changes the matrix in
    place; large ones of one value per node run in passes that reuse their memory. The tensor is kept as it is: memory
    that others write to (numpy, say) has to be copied first, as :func:`svnn.as_operator` does.
    """

    backend = "dense"

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.shape = (len(matrix), len(matrix))

    def _matmul(self, x: Tensor) -> Tensor:
        return self.matrix @ x

    def _batched_matmul(self, x: Tensor) -> Tensor:
        return batch_product(self.matrix, x)

    def _filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        n, (taps, n_in, n_out) = self.shape[0], weight.shape
        if x.device.type != "cpu":
            return self._reference_filter(x, weight, bias)
        if min(n_in, n_out) > 1 and n <= EIGENBASIS_LIMIT and not self.fleeting:
            bank = (n, n * n, len(x), n_in, n_out, taps - 1)
            if bank_seconds("eigenbasis", *bank) < bank_seconds("dense", *bank):
                return spectral_filter_bank(self.spectrum(), x.contiguous(), weight, bias)
        if n_in == 1 < n_out and n * len(x) * n_out * x.element_size() >= _LARGE_BYTES:
            return shift_filter_bank(DenseMatrix(self.matrix), x.contiguous(), weight, bias)
        return self._reference_filter(x, weight, bias)

    def _traced_filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        n, (taps, n_in, n_out) = self.shape[0], weight.shape
        settled = compiling() and not self.fleeting and not self.requires_grad and x.device.type == "cpu"
        if not settled or taps == 1 or min(n_in, n_out) == 1 or n > EIGENBASIS_LIMIT or x.dtype != weight.dtype:
            return self._reference_filter(x, weight, bias)
        bank = (n, n * n, 1, n_in, n_out, taps - 1)
        if bank_seconds("eigenbasis", *bank) >= bank_seconds("dense", *bank):
            return self._reference_filter(x, weight, bias)
        from svnn.operators import _compiled_ops

        return plain_spectral_bank(Eigenbasis(*_compiled_ops.spectrum(self.matrix)), x, weight, bias)

    def spectrum(self) -> Eigenbasis:
        """Return the eigenvalues and eigenvectors, found once and kept."""
        return self._cached("spectrum", lambda: Eigenbasis(*torch.linalg.eigh(self.matrix)))

    def spectral_shifts_pay(self, order: int, n_values: int) -> bool:
        """Say whether signals kept in the eigenbasis make a cheaper layer than signals kept with their shifts.

        A layer of F' outputs then costs ``(F + N) F'`` instead of ``(order + 1) F F'`` products per node.
        """
        n = self.shape[0]
        return n <= EIGENBASIS_LIMIT and not self.matrix.requires_grad and n < order * n_values

    def _tensors(self) -> tuple[Tensor, ...]:
        return (self.matrix,)

    def _map(self, function: Callable[[Tensor], Tensor], factor: float | Tensor = 1.0) -> None:
        self.matrix = function(self.matrix)
        if isinstance(factor, Tensor) or factor != 1.0:
            self.matrix = self.matrix * factor

    def to_dense(self) -> Tensor:
        return self.matrix.clone()
