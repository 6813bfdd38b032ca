r"""A lower bound of the smallest eigenvalue of a large sparse matrix, from Lanczos iterations that cannot miss it.

A Ritz value lies above the smallest eigenvalue, and a small residual only says that *some* eigenvalue is near: the
smallest one may still hide, above all where few eigenvalues are distinct and the iteration ends early. So the bound is
not read off the Ritz values, but off what they leave possible. Let u be the unit eigenvector of the smallest eigenvalue
:math:`\lambda`, v the start and :math:`p_0, p_1, \ldots` the polynomials with :math:`q_j = p_j(C) v` the Lanczos
vectors. Then :math:`u^T q_j = p_j(\lambda)\, u^T v`, and since the q_j are orthonormal

.. math:: |u^T v| \le \Big(\sum_j p_j(\lambda)^2\Big)^{-1/2}.

Left of all Ritz values every :math:`|p_j|` falls, so where :math:`\lambda \le x` the bound holds with x in the place of
:math:`\lambda`. A random start has a component along u: :math:`|u^T v| \le s` has probability at most
:math:`s \sqrt{2 n / \pi}`. With several independent starts the product of their bounds shows that
:math:`\lambda > x`, unless something has happened that has probability 1e-12. Where the iteration ends early the last
polynomial is huge, and x is as close to the Ritz value as rounding lets it be.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

_EPS = float(np.finfo(np.float64).eps)
#: Probability that the bound is wrong, and the number of independent starts.
_FAILURE, _STARTS = 1e-12, 4
#: Distance to the Ritz value, relative to the norm, at which the bound is good enough.
_TOLERANCE = 1e-9
#: Most steps from each start, the bytes that all their vectors may take, and the steps between two looks at the bound.
_STEPS, _BYTES, _EVERY = 384, 2**29, 16


def lowest_bound(C: Any) -> float:
    """Return a number that is not above the smallest eigenvalue of a symmetric sparse matrix of moderate entries."""
    n = C.shape[0]
    diagonal = C.diagonal()
    certain = float((diagonal + np.abs(diagonal) - np.asarray(abs(C).sum(1)).ravel()).min())  # Gershgorin's
    starts = [_Krylov(C, seed) for seed in range(_STARTS)]
    needed = _needed_growth(n)
    best, norm = certain, 0.0
    for step in range(1, len(starts[0].basis) + 1):
        for start in starts:
            start.advance()
        ended = all(start.ended for start in starts)
        if step % _EVERY and step < len(starts[0].basis) and not ended:
            continue
        norm = max(start.size for start in starts)
        ritz = min(start.smallest() for start in starts)
        # From the certain bound to the Ritz value, in steps of half the distance that is left.
        x = ritz - (ritz - certain) * 2.0 ** -np.arange(60.0)
        proven = sum(start.growth(x) for start in starts) >= needed
        best = max(best, float(x[proven].max(initial=certain)))
        if ended or ritz - best <= _TOLERANCE * norm:
            break
    return max(certain, best - 64 * _EPS * norm)


def _needed_growth(n: int) -> float:
    r"""Return the logarithm that the product of all growths has to reach.

    The components :math:`|u^T v|` are at least as large as uniform numbers from 0 to :math:`\sqrt{\pi / 2n}`, and a
    product of k uniform numbers from 0 to 1 is below :math:`e^{-L}` with probability
    :math:`e^{-L} \sum_{i<k} L^i / i!`.
    """
    growth = 0.0
    for _ in range(50):  # a fixed point
        growth = math.log(sum(growth**i / math.factorial(i) for i in range(_STARTS)) / _FAILURE)
    return growth + _STARTS * 0.5 * math.log(2 * n / math.pi)


class _Krylov:
    """Lanczos vectors from one random start, kept orthogonal, and the tridiagonal matrix."""

    def __init__(self, C: Any, seed: int) -> None:
        n = C.shape[0]
        steps = max(min(_STEPS, n, _BYTES // (8 * n * _STARTS)), 32)
        self.C, self.basis = C, np.empty((min(steps, n), n))
        self.diagonal: list[float] = []
        self.beside: list[float] = []  # beside[j] couples vectors j and j + 1
        self.size, self.ended = 0.0, False  # the largest entry so far, a size like the norm of C
        self._next = np.random.default_rng([seed, n]).standard_normal(n)

    def advance(self) -> None:
        """Add a vector, unless the space is exhausted."""
        k = len(self.diagonal)
        if self.ended:
            return
        q = self.basis[k] = self._next / np.linalg.norm(self._next)
        r = self.C @ q
        self.diagonal.append(float(q @ r))
        r -= self.diagonal[k] * q
        if k:
            r -= self.beside[k - 1] * self.basis[k - 1]
        so_far = self.basis[: k + 1]
        before = np.linalg.norm(r)
        r -= (so_far @ r) @ so_far
        if np.linalg.norm(r) < 0.5 * before or before <= 1e-8 * self.size:
            r -= (so_far @ r) @ so_far  # twice is enough
        length = float(np.linalg.norm(r))
        self.size = max(self.size, abs(self.diagonal[k]), length)
        self.beside.append(length)
        self._next = r
        self.ended = length <= 1e-13 * self.size or k + 1 == len(r)

    def smallest(self) -> float:
        """Return the smallest Ritz value."""
        values = eigvalsh_tridiagonal(self.diagonal, self.beside[:-1], select="i", select_range=(0, 0))
        return float(values[0])

    def growth(self, x: np.ndarray) -> np.ndarray:
        r"""Return :math:`\frac12 \log \sum_j p_j(x)^2`, and nothing (minus infinity) where x is not below all zeros."""
        logarithm = total = np.zeros_like(x)
        pivot = np.ones_like(x)
        below = np.ones(len(x), dtype=bool)
        for j, (diagonal, beside) in enumerate(zip(self.diagonal, self.beside, strict=True)):
            pivot = diagonal - x - (self.beside[j - 1] ** 2 / pivot if j else 0.0)
            below &= pivot > 0
            pivot = np.where(below, pivot, 1.0)
            # What is below the rounding of the products is not known to be smaller than it.
            logarithm = logarithm + np.log(pivot / max(beside, 4 * _EPS * self.size))
            total = np.logaddexp(total, 2 * logarithm)
        return np.where(below, total / 2, -np.inf)
