"""Spectra and norms that are certainly not too small, of dense and of large sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from svnn.functional._spread import power_of_two
from svnn.operators import as_operator
from svnn.operators._bank_costs import bank_seconds
from svnn.stability import _inputs
from svnn.stability._constants import derivative, gain, recentred, spectral_norms

#: Bounds are raised by this share, so that rounding does not carry them below the truth.
ROUNDING = 1e-9
#: Up to this size all eigenvalues are computed.
_EXACT_LIMIT = 1024
#: Probability that one Lanczos bound fails, and its error relative to the spread of the spectrum.
_FAILURE, _ERROR = 1e-12, 1e-2
#: Up to this size the difference of two filter banks is formed as a matrix.
_BLOCK_LIMIT = 512
#: Steps of Lanczos on the difference of two banks (fewer than the least would say nothing), and what they may cost in
#: bytes and in seconds of the model, which is one of full batches: a single signal takes several times as long.
_MIN_STEPS, _MAX_STEPS, _BYTES, _SECONDS = 20, 64, 2**28, 1.0


@dataclass(frozen=True)
class Spectrum:
    """Where the eigenvalues of a symmetric matrix lie.

    Attributes
    ----------
    low, high : float
        Ends of an interval that covers all eigenvalues.
    eigenvalues : ndarray of shape (N,) or None
        All of them, where N is small.
    failure : float
        Probability that the interval is too short; 0 where it is certain.
    """

    low: float
    high: float
    eigenvalues: np.ndarray | None = None
    failure: float = 0.0

    @classmethod
    def of(cls, C: Any, deterministic: bool = False) -> Spectrum:
        r"""Enclose the spectrum of a matrix.

        Parameters
        ----------
        C : matrix as :func:`svnn.as_operator` takes it
        deterministic : bool, default=False
            For N > 1024, use only bounds that hold for certain: Gershgorin's discs and the Frobenius norm.

        Notes
        -----
        Up to N = 1024 the eigenvalues themselves. Beyond, k Lanczos steps from a random start: each extreme
        Ritz value is closer to its eigenvalue than :math:`\epsilon (\lambda_{\max} - \lambda_{\min})`, except with
        probability at most :math:`1.648 \sqrt N e^{-\sqrt\epsilon (2k - 1)}` [1]_. k is such that
        :math:`\epsilon = 0.01` fails with probability below 1e-12; the interval is cut to Gershgorin's.

        References
        ----------
        .. [1] J. Kuczyński and H. Woźniakowski, "Estimating the largest eigenvalue by the power and Lanczos
           algorithms with a random start", SIAM J. Matrix Anal. Appl. 13, 1992.

        Examples
        --------
        >>> import numpy as np
        >>> spectrum = Spectrum.of(np.array([[1.0, 2.0], [2.0, 1.0]]))
        >>> round(spectrum.low, 6), round(spectrum.high, 6), round(spectrum.norm, 6)
        (-1.0, 3.0, 3.0)
        """
        C = _inputs.matrix(C)
        unit = float(power_of_two(np.abs(C.data if sp.issparse(C) else C).max(initial=0.0)))
        if unit != 1:  # squares of very large or small entries are no numbers
            of_unit = cls.of(C / unit, deterministic)
            values = None if of_unit.eigenvalues is None else of_unit.eigenvalues * unit
            return cls(of_unit.low * unit, of_unit.high * unit, values, of_unit.failure)
        n = C.shape[0]
        if n <= _EXACT_LIMIT:
            values = np.linalg.eigvalsh(C.toarray() if sp.issparse(C) else C)
            slack = ROUNDING * np.abs(values).max(initial=0.0)
            return cls(float(values[0] - slack), float(values[-1] + slack), values)
        low, high = _gershgorin(C)
        radius = frobenius(C)
        low, high = max(low, -radius), min(high, radius)
        if not deterministic:
            below, above = _enclosed(C)
            low, high = max(low, below), min(high, above)
        slack = ROUNDING * max(abs(low), abs(high))
        return cls(low - slack, high + slack, failure=0.0 if deterministic else _FAILURE)

    @property
    def norm(self) -> float:
        """The largest modulus in the interval."""
        return max(abs(self.low), abs(self.high))

    def joined(self, other: Spectrum) -> tuple[float, float]:
        """Return the interval that covers both spectra."""
        return min(self.low, other.low), max(self.high, other.high)

    def gain(self, h: np.ndarray) -> float:
        r"""Return a bound on the norm of the filter bank ``h`` on the matrix, :math:`\max_\lambda \|W(\lambda)\|_2`."""
        if self.eigenvalues is not None:
            return float(spectral_norms(h, self.eigenvalues).max()) * (1 + ROUNDING)
        return gain(h, (self.low, self.high)) * (1 + ROUNDING)


def frobenius(C: Any) -> float:
    """Return the Frobenius norm of a dense or sparse matrix.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> frobenius(sp.csr_array([[3.0, 0.0], [0.0, 4.0]]))
    5.0
    """
    return float(np.linalg.norm(C.data if sp.issparse(C) else C))


def bank_change(
    h: np.ndarray, A: Any, B: Any, spectra: Sequence[Spectrum], deterministic: bool = False
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
    The change is :math:`\Delta = \sum_k (B^k - A^k) \otimes W_k^T`, and the result the smallest of

    - its norm itself, where it is small enough to be formed;
    - :math:`\sup \|W'(\lambda)\|_2 \|B - A\|_F`: in the eigenbases of A and B, block (i, j) of
      the change is :math:`(u_i^T v_j)(W(\lambda_i) - W(\mu_j))`;
    - :math:`\sum_k \|T_k\|_2 \sum_j \|B - m\|^j \|B - A\| \|A - m\|^{k-1-j}`,
      :math:`T_k` the coefficients around m, for m = 0 and for the middle of the spectra;
    - what Lanczos iterations on :math:`\Delta^T \Delta` give, where a model of their cost allows them: after k steps
      :math:`\|\Delta\|^2 \le \theta / (1 - \epsilon)` with the probability of :meth:`Spectrum.of`.
    """
    first, second, change = spectra
    if len(h) == 1 or change.norm == 0:
        return 0.0, 0.0
    n, narrow = A.shape[0], min(h.shape[1:])
    if n * narrow <= _BLOCK_LIMIT:
        return _formed_change(h, A, B) * (1 + ROUNDING), 0.0
    low, high = first.joined(second)
    bounds = [gain(derivative(h), (low, high)) * frobenius(B - A)]
    for middle in (0.0, (low + high) / 2):
        taps = recentred(h, middle)[1:]
        sizes = [max(abs(s.low - middle), abs(s.high - middle)) for s in (first, second)]
        sums = [sum(sizes[1] ** j * sizes[0] ** (k - j) for j in range(k + 1)) for k in range(len(taps))]
        bounds.append(change.norm * float(np.linalg.norm(taps, 2, (1, 2)) @ np.array(sums)))
    steps = 0 if deterministic else _affordable_steps(h, A, B)
    if steps >= _MIN_STEPS:
        bounds.append(_lanczos_change(h, A, B, steps))
    return min(bounds) * (1 + ROUNDING), _FAILURE * (steps >= _MIN_STEPS)


def _formed_change(h: np.ndarray, A: Any, B: Any) -> float:
    A, B = _inputs.dense(A), _inputs.dense(B)
    powers = [A, B]
    block = np.zeros((A.shape[0], h.shape[2], A.shape[0], h.shape[1]))
    for tap in h[1:]:
        block += np.einsum("ij,fg->igjf", powers[1] - powers[0], tap)
        powers = [powers[0] @ A, powers[1] @ B]
    matrix = block.reshape(block.shape[0] * block.shape[1], -1)
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def _affordable_steps(h: np.ndarray, A: Any, B: Any) -> int:
    """Return how many Lanczos steps on the change of a bank fit the budgets of time and memory."""
    n, (taps, n_in, n_out) = A.shape[0], h.shape
    seconds = 0.0
    for C in (A, B):
        backend, nnz = ("csr", C.nnz) if sp.issparse(C) else ("dense", n * n)
        # Forth and back, in double precision.
        seconds += 4 * bank_seconds(backend, n, nnz, 1, n_in, n_out, taps - 1)
    size = n * min(n_in, n_out)
    return int(min(_SECONDS / max(seconds, 1e-9), _BYTES / (8 * size), _MAX_STEPS))


def _lanczos_change(h: np.ndarray, A: Any, B: Any, steps: int) -> float:
    weight = torch.from_numpy(np.ascontiguousarray(h if h.shape[1] <= h.shape[2] else h.transpose(0, 2, 1)))
    adjoint = weight.transpose(1, 2).contiguous()
    before, after = as_operator(A), as_operator(B)
    n, narrow = A.shape[0], weight.shape[1]

    def product(x: np.ndarray) -> np.ndarray:
        y = torch.from_numpy(x.reshape(n, narrow))
        for w in (weight, adjoint):
            y = after.filter(y, w) - before.filter(y, w)
        return y.numpy().ravel()

    _, top, exact = lanczos(product, n * narrow, steps)
    error = 0.0 if exact else _lanczos_error(n * narrow, steps)
    return float(np.sqrt(max(top, 0.0) / (1 - error))) if error < 1 else np.inf


def _gershgorin(C: Any) -> tuple[float, float]:
    diagonal = C.diagonal()
    radii = np.asarray(abs(C).sum(1)).ravel() - np.abs(diagonal)
    return float((diagonal - radii).min()), float((diagonal + radii).max())


def _enclosed(C: Any) -> tuple[float, float]:
    """Return an interval that covers the spectrum except with probability ``_FAILURE``."""
    n = C.shape[0]
    steps = int(np.ceil((np.log(1.648 * np.sqrt(n) * 2 / _FAILURE) / np.sqrt(_ERROR) + 1) / 2))
    low, high, exact = lanczos(lambda x: C @ x, n, min(steps, n))
    # Both ends are off by at most that share of the true spread, which therefore is at most spread / (1 - 2 share).
    slack = 0.0 if exact else _ERROR / (1 - 2 * _ERROR) * (high - low)
    return low - slack, high + slack


def _lanczos_error(n: int, steps: int) -> float:
    """Return the relative error that ``steps`` Lanczos steps exceed with probability ``_FAILURE`` at most."""
    return float((np.log(1.648 * np.sqrt(n) / _FAILURE) / (2 * steps - 1)) ** 2)


def lanczos(product: Callable[[np.ndarray], np.ndarray], n: int, steps: int) -> tuple[float, float, bool]:
    """Return the extreme Ritz values of a symmetric operator after ``steps`` steps, and whether they are exact.

    The start is random with a fixed seed, the basis is kept orthogonal. Where the Krylov space is exhausted
    early, another random direction is added: its Ritz values are exact already, and rounding is not trusted
    to say so.

    Examples
    --------
    >>> import numpy as np
    >>> low, high, exact = lanczos(lambda x: np.array([1.0, 2.0, 4.0]) * x, 3, 3)
    >>> round(low, 9), round(high, 9), exact
    (1.0, 4.0, True)
    """
    rng = np.random.default_rng(0)
    basis = np.zeros((min(steps, n), n))
    diagonal, beside = np.zeros(len(basis)), np.zeros(len(basis))
    r, length = rng.standard_normal(n), 0.0
    for step in range(len(basis)):
        # Measured against all entries: the diagonal alone is almost zero where the spectrum is symmetric around it.
        if length <= 1e-12 * max(np.abs(diagonal).max(), beside.max()):
            length, r = 0.0, _orthogonal(_orthogonal(rng.standard_normal(n), basis[:step]), basis[:step])
        basis[step] = r / np.linalg.norm(r)
        beside[step] = length
        r = product(basis[step])
        diagonal[step] = basis[step] @ r
        r = r - diagonal[step] * basis[step]
        if length:  # at the first step there is no vector before, but memory of any content
            r = r - length * basis[step - 1]
        r = _orthogonal(r, basis[: step + 1])  # against rounding
        length = float(np.linalg.norm(r))
    T = np.diag(diagonal) + np.diag(beside[1:], 1) + np.diag(beside[1:], -1)
    values = np.linalg.eigvalsh(T)
    return float(values[0]), float(values[-1]), len(basis) == n


def _orthogonal(r: np.ndarray, basis: np.ndarray) -> np.ndarray:
    return r - (basis @ r) @ basis
