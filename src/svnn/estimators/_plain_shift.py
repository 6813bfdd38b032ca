r"""The shifts of a filter as plain torch operations, which every runtime of exported models knows.

Powers of a covariance, and more so of its logarithm, are nearly the same signal, and filters take small differences of
them: in single precision little of those is left. So filters are rewritten as sums of other polynomials,

.. math:: \sum_k C^k x W_k = \sum_j q_j(C) x V_j, \qquad W_k = \sum_j t_{jk}^{-1} V_j.

Up to ``STACKED_VALUES`` the :math:`q_j` are orthonormal for signals of the covariance of the data, and the matrices
:math:`q_j(C)` are stored: one product makes all shifts. Beyond, they are powers of :math:`(C - c I) / h`, whose norm is
1. The plain reference are powers of C. With these, predictions in single precision were off by up to 5e-4 standard
deviations of y for small models of every option, and 4e-4 for spectra (``load_tecator``); with stored matrices it is
6e-7 and 2e-5.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from svnn._types import Matrix
from svnn.operators import CovarianceOperator, CSROperator, LowRankOperator

#: Up to this many nodes a sparse matrix is stored as a dense one.
DENSE_NODES = 2048
#: So is a matrix of which a larger share is not zero, whatever its size.
DENSE_SHARE = 0.1
#: Up to so many numbers, 32 MB in single precision, a matrix is stored for every shift.
STACKED_VALUES = 2**23
#: The least variance of a direction, relative to the mean, for which polynomials are made orthonormal.
_LEAST = 1e-2


class PlainShift(NamedTuple):
    """A module from x of shape (B, N, F) to all shifts side by side, (B, N, (K + 1) F), and the change of weights.

    Weights W_k of powers of C become ``change`` times these, ``V_j = sum_k change[j, k] W_k``.
    """

    module: nn.Module
    change: Tensor

    def rewritten(self, weight: Tensor) -> Tensor:
        """Return the weights (…, K + 1, in, out) of powers of C as those of the module's shifts."""
        return torch.einsum("jk,...kio->...jio", self.change, weight)


def plain_shift(operator: CovarianceOperator, order: int, covariance: Matrix) -> PlainShift:
    """Return the shifts up to an order, in double precision and in main memory.

    ``covariance`` is that of the signals.

    Examples
    --------
    >>> from svnn import as_operator
    >>> C = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> shift = plain_shift(as_operator(C), 1, C)
    >>> x = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    >>> taps = shift.module(x) @ shift.change  # of one value per node
    >>> taps[0, :, 1].round().tolist()
    [2.0, 1.0]
    """
    operator = operator.to(device="cpu", dtype=torch.float64)
    n = operator.shape[0]
    if isinstance(operator, LowRankOperator) and 2 * len(operator.weight) < n:
        norm = operator.norm() or 1.0
        lowest = 0.0 if bool((operator.weight >= 0).all()) else -norm
        centre, halfwidth = (norm + lowest) / 2, (norm - lowest) / 2
        factor, weight = operator.factor.detach(), operator.weight.detach()
        low_rank = LowRankProduct(factor, weight / halfwidth, centre / halfwidth)
        return PlainShift(Powers(low_rank, order), _centred(order, centre, halfwidth))
    halfwidth = operator.norm() or 1.0  # the ends of the spectrum are not known: -norm and norm enclose it
    if isinstance(operator, CSROperator) and n > DENSE_NODES and operator.density <= DENSE_SHARE:
        (rows, columns), values = operator.edge_index()
        sparse = SparseProduct(rows, columns, values.detach() / halfwidth)
        return PlainShift(Powers(sparse, order), _centred(order, 0.0, halfwidth))
    matrix = operator.to_dense().detach()
    if order * n**2 <= STACKED_VALUES:
        return _stacked(matrix, order, covariance)
    return PlainShift(Powers(DenseProduct(matrix / halfwidth), order), _centred(order, 0.0, halfwidth))


def _centred(order: int, centre: float, halfwidth: float) -> Tensor:
    """Return the change from powers of C to those of A, where C = c + h A.

    (c + h A)^k is the sum over j of binomial(k, j) c^(k - j) h^j A^j.
    """
    change = torch.zeros(order + 1, order + 1, dtype=torch.float64)
    for k in range(order + 1):
        for j in range(k + 1):
            change[j, k] = comb(k, j) * centre ** (k - j) * halfwidth**j
    return change


def _stacked(matrix: Tensor, order: int, covariance: Matrix) -> PlainShift:
    """Return shifts by stored matrices q_j(C), polynomials that are orthonormal for signals of a covariance."""
    values, vectors = torch.linalg.eigh(matrix)
    known = torch.from_numpy(np.asarray(covariance @ vectors.numpy(), dtype=np.float64))
    energy = (vectors * known).sum(0).clamp_min(0)
    energy = energy.clamp_min(_LEAST * float(energy.mean())) if energy.any() else torch.ones_like(values)
    energy = energy / energy.sum()
    centre = energy @ values
    basis = [torch.ones_like(values)]
    for _ in range(order):
        new = (values - centre) * basis[-1]
        size = float(energy @ new.square())
        for _ in range(2):  # the second time takes away what rounding left
            for old in basis:
                new = new - (energy @ (new * old)) * old
        rest = float(energy @ new.square())
        # With no more different eigenvalues than this there is nothing new.
        basis.append(new / rest**0.5 if rest > 1e-20 * size else torch.zeros_like(new))
    change = torch.stack(basis) @ (energy[:, None] * torch.stack([values**k for k in range(order + 1)], 1))
    stack = torch.cat([(vectors * own) @ vectors.T for own in basis[1:]], 1) if order else matrix[:, :0]
    return PlainShift(StackedShifts(stack, order), change)


class StackedShifts(nn.Module):
    """``[x, q_1(C) x, …, q_K(C) x]`` by one product with matrices side by side, (N, K N)."""

    matrices: Tensor

    def __init__(self, matrices: Tensor, order: int) -> None:
        super().__init__()
        self.order, self.n_nodes = order, len(matrices)
        self.register_buffer("matrices", matrices)

    def forward(self, x: Tensor) -> Tensor:
        if not self.order:
            return x
        shifted = torch.matmul(x.transpose(1, 2), self.matrices)  # the matrices are symmetric
        apart = shifted.reshape(x.shape[0], x.shape[2], self.order, self.n_nodes)
        return torch.cat([x, apart.permute(0, 3, 2, 1).flatten(2)], -1)


class Powers(nn.Module):
    """``[x, A x, …, A^K x]`` by one product after the other."""

    def __init__(self, product: nn.Module, order: int) -> None:
        super().__init__()
        self.product, self.order = product, order

    def forward(self, x: Tensor) -> Tensor:
        powers = [x]
        for _ in range(self.order):
            powers.append(self.product(powers[-1]))
        return torch.cat(powers, -1) if self.order else x


class DenseProduct(nn.Module):
    """``A x`` with all of A stored."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(x.transpose(1, 2), self.matrix).transpose(1, 2)  # the matrix is symmetric


class SparseProduct(nn.Module):
    """``A x`` with the entries that are not zero: gathered by columns, multiplied, and added up by rows."""

    rows: Tensor
    columns: Tensor
    values: Tensor

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.register_buffer("values", values[:, None])

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(1, self.rows, x.index_select(1, self.columns) * self.values)


class LowRankProduct(nn.Module):
    """``U diag(s) Uᵀ x - c x`` as two products."""

    left: Tensor
    right: Tensor

    def __init__(self, factor: Tensor, weight: Tensor, centre: float) -> None:
        super().__init__()
        self.centre = centre
        self.register_buffer("left", factor * weight)
        self.register_buffer("right", factor.T.contiguous())

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.left, torch.matmul(self.right, x)) - self.centre * x
