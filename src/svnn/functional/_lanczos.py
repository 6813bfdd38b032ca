"""Lanczos iterations, written once: the leading eigenpair, both ends of a spectrum, and a lower bound of it.

A symmetric matrix C is known by its products with vectors only. From a random start q the iteration builds an
orthonormal basis of the space of :math:`q, Cq, C^2 q, …`, in which C is a tridiagonal matrix. The eigenvalues of that
small matrix, the Ritz values, approach those of C from within its spectrum, the outermost ones first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh_tridiagonal, eigvalsh_tridiagonal

if TYPE_CHECKING:
    import scipy.sparse as sp

_EPS = float(np.finfo(np.float64).eps)
#: For the lower bound: the probability that it is wrong, and the number of independent starts.
_FAILURE, _STARTS = 1e-12, 4
#: For the lower bound: the distance to the Ritz value, relative to the norm, at which it is good enough.
_TOLERANCE = 1e-9
#: For the lower bound: the largest number of steps from each start, the largest number of bytes of all their vectors,
#: and the number of steps between two evaluations of the bound.
_STEPS, _BYTES, _EVERY = 384, 2**29, 16

Product = Callable[[np.ndarray], np.ndarray]


class Lanczos:
    """The basis of one iteration, kept orthogonal against rounding, and the tridiagonal matrix.

    Parameters
    ----------
    product : callable
        Returns the product of the matrix with a vector (n,), both in float64.
    n : int
    steps : int
        Most vectors to make; n at most.
    seed : int
        Of the random start.
    noise : float
        A next vector shorter than this, relative to the matrix, is a rounding error: the space is exhausted.

    Attributes
    ----------
    basis : ndarray of shape (steps, n)
        One vector in each row, as many as ``diagonal`` has entries.
    diagonal, beside : list of float
        The tridiagonal matrix; ``beside[j]`` couples the vectors j and j + 1.
    size : float
        The largest entry of the tridiagonal matrix so far, a size like the norm of the matrix.
    ended : bool
        Whether the space is exhausted.

    Examples
    --------
    >>> run = Lanczos(lambda q: np.array([1.0, 2.0, 4.0]) * q, 3, 3)
    >>> while not run.ended:
    ...     run.advance()
    >>> run.values().round(9).tolist()
    [1.0, 2.0, 4.0]
    """

    def __init__(self, product: Product, n: int, steps: int, seed: int = 0, noise: float = 1e-13) -> None:
        self.product, self.noise = product, noise
        self.basis = np.empty((min(steps, n), n))
        self.diagonal: list[float] = []
        self.beside: list[float] = []
        self.size, self.ended = 0.0, False
        self._random = np.random.default_rng([seed, n])
        self._next = self._random.standard_normal(n)

    @property
    def full(self) -> bool:
        """Whether the maximal number of vectors is reached."""
        return len(self.diagonal) == len(self.basis)

    def advance(self) -> None:
        """Add a vector, unless the space is exhausted."""
        if self.ended:
            return
        k = len(self.diagonal)
        q = self.basis[k] = self._next / np.linalg.norm(self._next)
        r = self.product(q)
        self.diagonal.append(float(q @ r))
        r = r - self.diagonal[k] * q
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
        self.ended = length <= self.noise * self.size or k + 1 == len(r)

    def restart(self) -> None:
        """Continue from another random direction, orthogonal to all previous ones, where the space is exhausted."""
        so_far = self.basis[: len(self.diagonal)]
        self._next = self._random.standard_normal(self.basis.shape[1])
        for _ in range(2):
            self._next -= (so_far @ self._next) @ so_far
        self.beside[-1], self.ended = 0.0, False

    def values(self) -> np.ndarray:
        """Return the Ritz values in ascending order."""
        values: np.ndarray = eigvalsh_tridiagonal(self.diagonal, self.beside[:-1])
        return values


def leading_eigenpair(
    product: Product, n: int, steps: int = 128, noise: float = 32 * _EPS, tolerance: float = 1e-9
) -> tuple[float, np.ndarray]:
    """Return the eigenvalue of largest absolute value and its unit eigenvector (n,).

    The iteration ends when the eigenvalue no longer grows by more than ``tolerance``. Where the matrix has few distinct
    eigenvalues (the identity has one) the space is exhausted before that, and its largest eigenvalue is that of the
    matrix, because a random start has a component in every eigenspace.

    Examples
    --------
    >>> value, vector = leading_eigenpair(lambda q: np.array([1.0, -3.0, 2.0]) * q, 3)
    >>> round(value, 9), np.abs(vector).round(6).tolist()
    (-3.0, [0.0, 1.0, 0.0])
    """
    run = Lanczos(product, n, steps, noise=noise)
    value = 0.0
    while True:
        run.advance()
        last = run.ended or run.full
        if last or len(run.diagonal) % 8 == 0:  # the check grows cubically
            values, vectors = eigh_tridiagonal(run.diagonal, run.beside[:-1])
            best = int(np.abs(values).argmax())
            previous, value = abs(value), float(values[best])
            if last or abs(value) - previous <= tolerance * abs(value):
                vector = vectors[:, best] @ run.basis[: len(values)]
                return value, vector / np.linalg.norm(vector)


def extreme_values(product: Product, n: int, steps: int) -> tuple[float, float, bool]:
    """Return the smallest and the largest Ritz value after ``steps`` steps, and whether they are exact.

    Where the space is exhausted early, the iteration continues from another random direction: the Ritz values are exact
    already, but because of rounding the test for exhaustion is not certain.

    Examples
    --------
    >>> low, high, exact = extreme_values(lambda x: np.array([1.0, 2.0, 4.0]) * x, 3, 3)
    >>> round(low, 9), round(high, 9), exact
    (1.0, 4.0, True)
    """
    run = Lanczos(product, n, steps, noise=1e-12)
    while not run.full:
        if run.ended:
            run.restart()
        run.advance()
    values = run.values()
    return float(values[0]), float(values[-1]), len(run.basis) == n


def lowest_bound(C: sp.csr_array) -> float:
    r"""Return a number that is not above the smallest eigenvalue of a symmetric sparse matrix of moderate entries.

    Notes
    -----
    A Ritz value lies above the smallest eigenvalue, and a small residual only shows that *some* eigenvalue is near: the
    smallest one may be missed, above all where few eigenvalues are distinct and the iteration ends early. So the bound
    does not follow from the Ritz values alone. Let u be the unit eigenvector of the
    smallest eigenvalue :math:`\lambda`, v the start and :math:`p_0, p_1, \ldots` the polynomials with
    :math:`q_j = p_j(C) v` the Lanczos vectors. Then :math:`u^T q_j = p_j(\lambda)\, u^T v`, and since the q_j are
    orthonormal

    .. math:: |u^T v| \le \Big(\sum_j p_j(\lambda)^2\Big)^{-1/2}.

    Left of all Ritz values every :math:`|p_j|` falls, so where :math:`\lambda \le x` the bound holds with x in place
    of :math:`\lambda`. A random start has a component along u: :math:`|u^T v| \le s` has probability at most
    :math:`s \sqrt{2 n / \pi}`. With several independent starts the product of their bounds shows that
    :math:`\lambda > x`, unless something has happened that has probability 1e-12. Where the iteration ends early the
    last polynomial is huge, and x is as close to the Ritz value as rounding lets it be.
    """
    n = C.shape[0]
    diagonal = C.diagonal()
    certain = float((diagonal + np.abs(diagonal) - np.asarray(abs(C).sum(1)).ravel()).min())  # Gershgorin's
    steps = max(min(_STEPS, n, _BYTES // (8 * n * _STARTS)), 32)
    starts = [Lanczos(lambda q: C @ q, n, steps, seed) for seed in range(_STARTS)]
    needed = _needed_growth(n)
    best, norm = certain, 0.0
    for step in range(1, len(starts[0].basis) + 1):
        for start in starts:
            start.advance()
        ended = all(start.ended for start in starts)
        if step % _EVERY and step < len(starts[0].basis) and not ended:
            continue
        norm = max(start.size for start in starts)
        ritz = min(_smallest(start) for start in starts)
        # From the certain bound to the Ritz value, halving the remaining distance.
        x = ritz - (ritz - certain) * 2.0 ** -np.arange(60.0)
        proven = sum(_growth(start, x) for start in starts) >= needed
        best = max(best, float(x[proven].max(initial=certain)))
        if ended or ritz - best <= _TOLERANCE * norm:
            break
    return max(certain, best - 64 * _EPS * norm)


def _needed_growth(n: int) -> float:
    r"""Return the threshold that the sum of :func:`_growth` over all starts has to reach.

    The components :math:`|u^T v|` are at least as large as uniform numbers from 0 to :math:`\sqrt{\pi / 2n}`, and a
    product of k uniform numbers from 0 to 1 is below :math:`e^{-L}` with probability
    :math:`e^{-L} \sum_{i<k} L^i / i!`.
    """
    growth = 0.0
    for _ in range(50):  # a fixed point
        growth = math.log(sum(growth**i / math.factorial(i) for i in range(_STARTS)) / _FAILURE)
    return growth + _STARTS * 0.5 * math.log(2 * n / math.pi)


def _smallest(run: Lanczos) -> float:
    """Return the smallest Ritz value."""
    values = eigvalsh_tridiagonal(run.diagonal, run.beside[:-1], select="i", select_range=(0, 0))
    return float(values[0])


def _growth(run: Lanczos, x: np.ndarray) -> np.ndarray:
    r"""Return :math:`\frac12 \log \sum_j p_j(x)^2`, and minus infinity where x is not below all zeros of the p_j."""
    logarithm = total = np.zeros_like(x)
    pivot = np.ones_like(x)
    below = np.ones(len(x), dtype=bool)
    for j, (diagonal, beside) in enumerate(zip(run.diagonal, run.beside, strict=True)):
        pivot = diagonal - x - (run.beside[j - 1] ** 2 / pivot if j else 0.0)
        below &= pivot > 0
        pivot = np.where(below, pivot, 1.0)
        # Values below the rounding error of the products are replaced by that error.
        logarithm = logarithm + np.log(pivot / max(beside, 4 * _EPS * run.size))
        total = np.logaddexp(total, 2 * logarithm)
    return np.where(below, total / 2, -np.inf)
