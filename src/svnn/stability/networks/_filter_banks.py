r"""A bank of filters, :math:`x \mapsto \sum_k C^k x W_k`, as a linear map: how to run it, and how far it moves with C.

Nothing here asks how fast the machine is. What is computed, and so how tight a bound is, follows from the matrices
alone: their size and the number of their entries that are not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
import torch

from svnn._types import Matrix
from svnn.functional._lanczos import extreme_values
from svnn.operators import CSROperator
from svnn.stability._norms import FAILURE, ROUNDING, Spectrum, frobenius, lanczos_error
from svnn.stability._polynomials import derivative, gain, recentred

#: Up to this size matrices are kept dense; beyond, where at most one entry in ``_SPARSE_COST`` is not zero, sparse.
#: A product with a sparse matrix takes about as long as one with a dense matrix of so many times as many entries.
_DENSE_LIMIT, _SPARSE_COST = 1024, 7
#: Up to this size the difference of two filter banks is formed as a matrix.
_BLOCK_LIMIT = 512
#: Lanczos steps on the difference of two banks: fewer than the least would say nothing. The most are limited by the
#: multiplications and the bytes that they may take.
_MIN_STEPS, _MAX_STEPS, _MULTIPLICATIONS, _BYTES = 20, 64, 5.6e10, 2**28


def in_fastest_form(C: Matrix) -> Matrix:
    """Return a matrix dense or sparse, whichever is faster to multiply with; what came sparse is never made large."""
    n = C.shape[0]
    if not isinstance(C, np.ndarray):
        return C.toarray() if n <= _DENSE_LIMIT else C
    return sp.csr_array(C) if n > _DENSE_LIMIT and _SPARSE_COST * np.count_nonzero(C) < n * n else C


def bank_on(C: Matrix) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function of signals (t, N, in) and weights (K + 1, in, out) that filters them on C: (t, N, out)."""
    if not isinstance(C, np.ndarray):
        operator = CSROperator.from_scipy(C)  # which is several times faster than the products of scipy

        def sparse_bank(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
            tensors = (torch.from_numpy(np.ascontiguousarray(values)) for values in (x, weight))
            return operator.filter(*tensors).numpy()

        return sparse_bank

    def dense_bank(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        n, (n_in, n_out) = len(C), weight.shape[1:]
        # Nodes first, so that the shift of all signals is one product. The narrower side of the bank is shifted.
        nodes = np.ascontiguousarray(x.swapaxes(0, 1)).reshape(-1, n_in)
        y = nodes @ weight[0 if n_in <= n_out else -1]
        for k in range(1, len(weight)):
            if n_in <= n_out:
                nodes = (C @ nodes.reshape(n, -1)).reshape(-1, n_in)
                y += nodes @ weight[k]
            else:
                y = (C @ y.reshape(n, -1)).reshape(-1, n_out) + nodes @ weight[-1 - k]
        return np.ascontiguousarray(y.reshape(n, -1, n_out).swapaxes(0, 1))

    return dense_bank


def bank_change(
    h: np.ndarray, A: Matrix, B: Matrix, spectra: Sequence[Spectrum], deterministic: bool = False
) -> tuple[float, float]:
    r"""Return a bound on the norm of the change of a filter bank, and the probability that it adds to fail.

    Parameters
    ----------
    h : ndarray of shape (K + 1, in, out)
    A, B : ndarray or csr_array of shape (N, N)
    spectra : the spectra of A, B and B - A
    deterministic : bool, default=False

    Notes
    -----
    The change is :math:`\Delta = \sum_k (B^k - A^k) \otimes W_k^T`, and the result is the smallest of

    - its norm itself, where it is small enough to be formed;
    - :math:`\sup \|W'(\lambda)\|_2 \|B - A\|_F`: in the eigenvectors of A and B, block (i, j) of
      the change is :math:`(u_i^T v_j)(W(\lambda_i) - W(\mu_j))`;
    - :math:`\sum_k \|T_k\|_2 \sum_j \|B - m\|^j \|B - A\| \|A - m\|^{k-1-j}`,
      :math:`T_k` the coefficients around m, for m = 0 and for the middle of the spectra;
    - what Lanczos iterations on :math:`\Delta^T \Delta` give, unless they take too many multiplications: after k steps
      :math:`\|\Delta\|^2 \le \theta / (1 - \epsilon)` with the probability of :meth:`Spectrum.of`.
    """
    first, second, change = spectra
    if len(h) == 1 or change.norm == 0:
        return 0.0, 0.0
    if A.shape[0] * min(h.shape[1:]) <= _BLOCK_LIMIT:
        return _formed_change(h, A, B) * (1 + ROUNDING), 0.0
    low, high = first.joined(second)
    bounds = [gain(derivative(h), (low, high)) * frobenius(B - A)]
    for middle in (0.0, (low + high) / 2):
        taps = recentred(h, middle)[1:]
        sizes = [max(abs(s.low - middle), abs(s.high - middle)) for s in (first, second)]
        sums = [sum(sizes[1] ** j * sizes[0] ** (k - j) for j in range(k + 1)) for k in range(len(taps))]
        bounds.append(change.norm * float(np.linalg.norm(taps, 2, (1, 2)) @ np.array(sums)))
    steps = 0 if deterministic else _lanczos_steps(h, A, B)
    if steps >= _MIN_STEPS:
        bounds.append(_lanczos_change(h, A, B, steps))
    return min(bounds) * (1 + ROUNDING), FAILURE * (steps >= _MIN_STEPS)


def _formed_change(h: np.ndarray, A: Matrix, B: Matrix) -> float:
    """Return the norm of the change of a bank, which is formed as a matrix."""
    A, B = (C if isinstance(C, np.ndarray) else C.toarray() for C in (A, B))
    powers = [A, B]
    block = np.zeros((A.shape[0], h.shape[2], A.shape[0], h.shape[1]))
    for tap in h[1:]:
        block += np.einsum("ij,fg->igjf", powers[1] - powers[0], tap)
        powers = [powers[0] @ A, powers[1] @ B]
    matrix = block.reshape(block.shape[0] * block.shape[1], -1)
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def _lanczos_steps(h: np.ndarray, A: Matrix, B: Matrix) -> int:
    """Return how many Lanczos steps on the change of a bank the limits allow."""
    n, narrow = A.shape[0], min(h.shape[1:])
    nonzeros = [np.count_nonzero(C if isinstance(C, np.ndarray) else C.data) for C in (A, B)]
    entries = sum(min(_SPARSE_COST * count, n * n) for count in nonzeros)
    multiplications = 2 * (len(h) - 1) * narrow * entries  # the bank, and its transpose
    return int(min(_MULTIPLICATIONS / multiplications, _BYTES / (8 * n * narrow), _MAX_STEPS))


def _lanczos_change(h: np.ndarray, A: Matrix, B: Matrix, steps: int) -> float:
    """Return a bound on the norm of the change of a bank that fails with probability ``FAILURE`` at most."""
    weight = h if h.shape[1] <= h.shape[2] else h.transpose(0, 2, 1)
    adjoint = weight.transpose(0, 2, 1)
    before, after = bank_on(A), bank_on(B)
    n, narrow = A.shape[0], weight.shape[1]

    def product(x: np.ndarray) -> np.ndarray:
        y = x.reshape(1, n, narrow)
        for w in (weight, adjoint):
            y = after(y, w) - before(y, w)
        return y.ravel()

    _, top, exact = extreme_values(product, n * narrow, steps)
    error = 0.0 if exact else lanczos_error(n * narrow, steps)
    return float(np.sqrt(max(top, 0.0) / (1 - error))) if error < 1 else np.inf
