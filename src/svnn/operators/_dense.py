"""The shift as a dense matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from svnn.operators._base import CovarianceOperator, fused
from svnn.operators._cpu.passes import CPUMatrix, kernels
from svnn.operators._fused_bank import fused_filter_bank
from svnn.operators._spectral_bank import Spectrum, spectral_filter_bank, spectral_pays

#: Up to this size the eigenbasis is found in a fraction of a second, and a sample's signals fit the cache.
_FUSED_LIMIT = 1024
#: Up to this size one product a sample beats rearranging the batch into one large product.
_PER_SAMPLE_LIMIT = 512


class DenseOperator(CovarianceOperator):
    """A stored N×N tensor; one GEMM a shift. Gradients reach the matrix if it asks for them.

    Filter banks of high order run in the eigenbasis, which is found once and kept until torch changes the matrix in
    place. The tensor is kept as it is: memory that others write to (numpy, say) has to be copied first, as
    :func:`svnn.as_operator` does.
    """

    backend = "dense"

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.shape = (len(matrix), len(matrix))

    def _matmul(self, x: Tensor) -> Tensor:
        return self.matrix @ x

    def _batched_matmul(self, x: Tensor) -> Tensor:
        if x.shape[-1] == 1:  # the nodes can stay last
            return (x[..., 0] @ self.matrix.T)[..., None]
        return self.matrix @ x if self.shape[0] <= _PER_SAMPLE_LIMIT else super()._batched_matmul(x)

    def _filter(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        n, (taps, n_in, n_out) = self.shape[0], weight.shape
        if x.device.type != "cpu" or n > _FUSED_LIMIT or self.matrix.requires_grad or not fused(x, weight):
            return None
        if not self.fleeting and spectral_pays(n, taps - 1, n_in, n_out):
            return spectral_filter_bank(self.spectrum(), x.contiguous(), weight, bias)
        if kernels() is None:
            return None
        return fused_filter_bank(CPUMatrix(self.matrix.contiguous()), x.contiguous(), weight, bias)

    def spectrum(self) -> Spectrum:
        """Return the eigenvalues and eigenvectors, found once and kept."""
        spectrum: Spectrum = self._cached("spectrum", lambda: Spectrum(*torch.linalg.eigh(self.matrix)))
        return spectrum

    def spectral_shifts_pay(self, order: int, n_values: int) -> bool:
        """Say whether signals kept in the eigenbasis make a cheaper layer than signals kept with their shifts.

        A layer of F' outputs then costs ``(F + N) F'`` instead of ``(order + 1) F F'`` products a node.
        """
        n = self.shape[0]
        return n <= _FUSED_LIMIT and not self.matrix.requires_grad and n < order * n_values

    def _tensors(self) -> tuple[Tensor, ...]:
        return (self.matrix,)

    def _map(self, function: Callable[[Tensor], Tensor], factor: float = 1.0) -> None:
        self.matrix = function(self.matrix)
        if factor != 1.0:
            self.matrix = self.matrix * factor

    def to_dense(self) -> Tensor:
        return self.matrix.clone()
