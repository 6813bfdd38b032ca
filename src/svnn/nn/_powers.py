r"""Signals side by side with their shifts, :math:`[x, C x, …, C^K x]`: what the filters of a layer are products with.

Powers of a covariance, and more so of its logarithm, are nearly the same signal, and filters take small differences of
them: in single precision little of those is left. So :func:`plain_powers`, for exported models, gives other polynomials
:math:`q_j(C)`, and filters are rewritten for them:

.. math:: \sum_k C^k x W_k = \sum_j q_j(C) x V_j.

Up to ``STACKED_VALUES`` the :math:`q_j` are orthonormal for signals of the covariance of the data, and the matrices
:math:`q_j(C)` are stored: one product makes all shifts. Beyond, they are powers of :math:`(C - c I) / h`, whose norm is
1. With powers of C, predictions in single precision were off by up to 5e-4 standard deviations of y for small models of
every option, and 4e-4 for spectra (``load_tecator``); with stored matrices it is 6e-7 and 2e-5.
"""

from __future__ import annotations

from math import comb
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from svnn._types import Matrix
from svnn.operators import CovarianceOperator, CSROperator, LowRankOperator, SumOperator

#: What shifts rows in place of the matrix of all: an operator, or matrices (B, N, N); None where nothing does.
RowShifts: TypeAlias = Tensor | CovarianceOperator | None

#: Up to this many nodes a sparse matrix is stored as a dense one.
DENSE_NODES = 2048
#: So is a matrix of which a larger share is not zero, whatever its size.
DENSE_SHARE = 0.1
#: Up to this many numbers, 32 MB in single precision, a matrix is stored for every shift.
STACKED_VALUES = 2**23
#: The least variance of a direction, relative to the mean, for which polynomials are made orthonormal.
_LEAST = 1e-2


class Powers(nn.Module):
    """Signals (B, N, F) with their shifts, (B, N, (K + 1) F), by one product after the other.

    Parameters
    ----------
    product : CovarianceOperator or other module, or None
        Shifts a signal. Where rows come with their own matrices, and with order 0, None is enough.
    order : int
        K.
    change : Tensor of shape (K + 1, K + 1), optional
        For shifts that are polynomials q_j of C, not its powers: weights W_k of the powers become
        ``V_j = sum_k change[j, k] W_k``.

    Examples
    --------
    >>> from svnn import as_operator
    >>> Powers(as_operator(2 * torch.eye(3)), order=2)(torch.ones(1, 3, 1))[0, 0]
    tensor([1., 2., 4.])
    """

    def __init__(self, product: nn.Module | None, order: int, change: Tensor | None = None) -> None:
        super().__init__()
        self.product, self.order, self.change = product, order, change

    def forward(self, x: Tensor, own: RowShifts = None) -> Tensor:
        """Shift ``x`` of shape (B, N, F); by ``own``, such as matrices (B, N, N) of the rows, where it is given."""
        shifted = [x]
        for _ in range(self.order):
            shifted.append(self.product(shifted[-1]) if own is None else own @ shifted[-1])  # type: ignore[misc]
        return torch.cat(shifted, -1) if self.order else x

    def filter(self, x: Tensor, weight: Tensor, bias: Tensor, own: RowShifts = None) -> Tensor:
        """Filter the values of each member.

        ``x`` has the shape (B, N, members * in), ``weight`` (members, (K + 1) * in, out), and ``bias``
        (members, 1, out); the result is (B, N, members * out).
        """
        taps, (members, n_in, _) = self.order + 1, weight.shape
        operator = self.product if own is None else own
        if self.order and isinstance(operator, CovarianceOperator):  # which knows the fastest way for its matrix
            banks = zip(x.chunk(members, -1), weight.unflatten(1, (taps, -1)), bias[:, 0], strict=True)
            parts = [operator.filter(*bank) for bank in banks]
            return torch.cat(parts, -1) if members > 1 else parts[0]
        apart = self(x, own).reshape(-1, taps, members, n_in // taps).permute(2, 0, 1, 3).flatten(2)
        return torch.baddbmm(bias, apart, weight).transpose(0, 1).reshape(x.shape[0], x.shape[1], -1)

    def rewritten(self, weight: Tensor) -> Tensor:
        """Return the weights (…, K + 1, in, out) of powers of C as those of the module's shifts."""
        return weight if self.change is None else torch.einsum("jk,...kio->...jio", self.change, weight)


def plain_powers(operator: CovarianceOperator, order: int, covariance: Matrix) -> Powers:
    """Return shifts as plain torch operations, which can be exported, in double precision and in main memory.

    ``covariance`` is that of the signals.

    Examples
    --------
    >>> from svnn import as_operator
    >>> C = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> powers = plain_powers(as_operator(C), 1, C)
    >>> x = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    >>> (powers(x) @ powers.change)[0, :, 1].round().tolist()
    [2.0, 1.0]
    """
    if not order:
        return Powers(None, 0)
    operator = operator.to(device="cpu", dtype=torch.float64)
    norm = operator.norm() or 1.0
    if _is_compact(operator):
        positive = isinstance(operator, LowRankOperator) and bool((operator.weight >= 0).all())
        centre = norm / 2 if positive else 0.0  # else the ends of the spectrum are not known: -norm and norm enclose it
        return Powers(_product(operator, centre, norm - centre), order, _centred(order, centre, norm - centre))
    matrix = operator.to_dense().detach()
    if order * matrix.numel() <= STACKED_VALUES:
        return _orthonormal(matrix, order, covariance)
    return Powers(DenseProduct(matrix / norm), order, _centred(order, 0.0, norm))


def _is_compact(operator: CovarianceOperator) -> bool:
    """Return whether factors, or the entries that are not zero, are stored in place of the whole matrix."""
    n = operator.shape[0]
    if isinstance(operator, LowRankOperator):
        return 2 * len(operator.weight) < n
    if n <= DENSE_NODES:
        return False
    if isinstance(operator, SumOperator):
        return all(_is_compact(part) for part in operator.parts)
    return isinstance(operator, CSROperator) and operator.density <= DENSE_SHARE


def _product(operator: CovarianceOperator, centre: float, halfwidth: float) -> nn.Module:
    """Return ``(C - centre I) / halfwidth`` as a product of plain operations."""
    if isinstance(operator, LowRankOperator):
        return LowRankProduct(operator.factor.detach(), operator.weight.detach() / halfwidth, centre / halfwidth)
    if isinstance(operator, SumOperator):
        return SumProduct([_product(part, centre, halfwidth) for part in operator.parts])
    (rows, columns), values = operator.edge_index()
    return SparseProduct(rows, columns, values.detach() / halfwidth)


def _centred(order: int, centre: float, halfwidth: float) -> Tensor:
    """Return the change from powers of C to those of A, where C = c + h A.

    (c + h A)^k is the sum over j of binomial(k, j) c^(k - j) h^j A^j.
    """
    change = torch.zeros(order + 1, order + 1, dtype=torch.float64)
    for k in range(order + 1):
        for j in range(k + 1):
            change[j, k] = comb(k, j) * centre ** (k - j) * halfwidth**j
    return change


def _orthonormal(matrix: Tensor, order: int, covariance: Matrix) -> Powers:
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
    return StackedPowers(torch.cat([(vectors * own) @ vectors.T for own in basis[1:]], 1), order, change)


class StackedPowers(Powers):
    """``[x, q_1(C) x, …, q_K(C) x]`` by one product with matrices side by side, (N, K N)."""

    matrices: Tensor

    def __init__(self, matrices: Tensor, order: int, change: Tensor) -> None:
        super().__init__(None, order, change)
        self.register_buffer("matrices", matrices)

    def forward(self, x: Tensor, own: RowShifts = None) -> Tensor:
        if own is not None:
            return super().forward(x, own)
        shifted = torch.matmul(x.transpose(1, 2), self.matrices)  # the matrices are symmetric
        apart = shifted.reshape(x.shape[0], x.shape[2], self.order, len(self.matrices))
        return torch.cat([x, apart.permute(0, 3, 2, 1).flatten(2)], -1)


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


class SumProduct(nn.Module):
    """The sum of products."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([part(x) for part in self.parts]).sum(0)
