"""Filters re-expressed on another shift: the function that they computed, nearly unchanged."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from svnn.functional._array import to_numpy
from svnn.nn import SVNN, CovarianceFilter
from svnn.operators import CovarianceOperator

#: The share of a power, as an amplitude, that has to be new for it to count.
_LEAST_SHARE = 1e-3


def shift_change(old: CovarianceOperator, new: CovarianceOperator, second: np.ndarray, order: int) -> np.ndarray:
    r"""Return the matrix (K + 1, K + 1) that makes filters of one shift filters of another.

    For signals of second moments S, powers :math:`z = (x, Lx, …, L^K x)` of the old shift and z' of the new one, the
    filter V that is nearest to W has the least :math:`E\|V^T z' - W^T z\|^2`: it is
    :math:`V = E[z' z'^T]^{-1} E[z' z^T] W`. Powers that add next to nothing get no weight.

    Small eigenvalues of a sparsified covariance move a lot when rows come, and their logarithms more: a polynomial of
    order 5 with the same coefficients would be another function.
    """
    root = _root(second)
    before, after = (_powers(to_numpy(each.to_dense()).astype(np.float64), root, order) for each in (old, new))
    gram, cross = after @ after.T, after @ before.T
    T = np.zeros_like(gram)
    for i in range(order + 1):
        row = np.eye(order + 1)[i]
        for _ in range(2):  # the second time takes away what rounding left
            row = row - T.T @ (T @ (gram @ row))
        left = float(row @ gram @ row)
        if left > _LEAST_SHARE**2 * float(gram[i, i]) > 0:
            T[i] = row / left**0.5
    found: np.ndarray = T.T @ (T @ cross)
    return found


def _root(second: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(second)
    found: np.ndarray = vectors * np.sqrt(np.clip(values, 0, None))
    return found


def _powers(L: np.ndarray, root: np.ndarray, order: int) -> np.ndarray:
    """Return the powers of a shift, each times the root of the second moments and as a row."""
    found = [root]
    for _ in range(order):
        found.append(L @ found[-1])
    return np.array([each.ravel() for each in found])


@torch.no_grad()
def re_express(network: SVNN, change: Tensor) -> None:
    """Give a network the filters of the new shift, in every layer."""
    for layer in network.filters:
        weight = cast(CovarianceFilter, layer).weight
        weight.copy_(torch.tensordot(change.to(weight.device), weight.double(), 1))
