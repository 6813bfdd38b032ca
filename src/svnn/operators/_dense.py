"""The shift as a dense matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from svnn.operators._filter_banks import EIGENBASIS_LIMIT, Eigenbasis, bank_seconds, spectral_filter_bank
from svnn.operators._operator import CovarianceOperator, batch_product
from svnn.operators._tracing import compiling

#: Bytes of signals to rotate at a time; the product of a node should still have many rows.
_CHUNK_BYTES = 2**24


class DenseOperator(CovarianceOperator):
    """A stored N×N tensor; a shift is a matrix product. Gradients reach the matrix if it asks for them.

    Filter banks with many values per node, or of high order, run in the eigenbasis, which is computed once and kept
    until torch changes the matrix in place. The tensor is not copied: memory that others write to (numpy, say) has to
    be copied first, as :func:`svnn.as_operator` does.
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
        if not self._in_eigenbasis(x, weight, len(x)):
            return self._reference_filter(x, weight, bias)
        sample_bytes = self.shape[0] * (weight.shape[1] + weight.shape[2]) * x.element_size()
        parts = x.split(max(_CHUNK_BYTES // sample_bytes, 1))
        results = [spectral_filter_bank(self.spectrum(), part, weight, bias) for part in parts]
        return results[0] if len(results) == 1 else torch.cat(results)

    def _traced_filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        settled = compiling() and not self.requires_grad and len(weight) > 1 and x.dtype == weight.dtype
        if not settled or not self._in_eigenbasis(x, weight, 1):
            return self._reference_filter(x, weight, bias)
        from svnn.operators import _compiled_ops

        return spectral_filter_bank(Eigenbasis(*_compiled_ops.spectrum(self.matrix)), x, weight, bias)

    def _in_eigenbasis(self, x: Tensor, weight: Tensor, batch: int) -> bool:
        """Return whether a bank on ``batch`` samples is faster in the eigenbasis; see ``bank_seconds``."""
        n, (taps, n_in, n_out) = self.shape[0], weight.shape
        if x.device.type != "cpu" or min(n_in, n_out) == 1 or n > EIGENBASIS_LIMIT or self.fleeting:
            return False
        bank = (n, n * n, batch, n_in, n_out, taps - 1)
        return bank_seconds("eigenbasis", *bank) < bank_seconds("dense", *bank)

    def spectrum(self) -> Eigenbasis:
        """Return the eigenvalues and eigenvectors, computed once and kept."""
        return self._cached("spectrum", lambda: Eigenbasis(*torch.linalg.eigh(self.matrix)))

    def spectral_shifts_pay(self, order: int, n_values: int) -> bool:
        """Return whether signals kept in the eigenbasis make a cheaper layer than signals kept with their shifts.

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
