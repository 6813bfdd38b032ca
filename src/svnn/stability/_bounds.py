"""Certified bounds: eigenvalues enclosed, matrix norms, and how far filters move when their matrix does.

None of these numbers is too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from svnn._types import Matrix, MatrixLike
from svnn.functional._centring import power_of_two
from svnn.functional._lanczos import extreme_values
from svnn.functional._matrix import numpy_matrix
from svnn.operators import CSROperator, as_operator
from svnn.stability._inputs import FilterLike, Interval, ProbabilityLike, check_numbers, coefficients, dense, same_shape
from svnn.stability._responses import derivative, gain, lipschitz, recentred, spectral_norms
from svnn.stability._sparsification import entries, entry_moments

#: Bounds are raised by this share, so that rounding does not carry them below the truth.
ROUNDING = 1e-9
#: Up to this size all eigenvalues are computed.
_EXACT_LIMIT = 1024
#: Probability that one Lanczos bound fails, and its tolerance relative to the spread of the spectrum.
FAILURE, _ERROR = 1e-12, 1e-2
#: Up to this size the difference of two filter banks is formed as a matrix.
_BLOCK_LIMIT = 512
#: Lanczos steps on the difference of two banks: fewer than the minimum give no useful bound. The maximum is also
#: limited by the number of multiplications and bytes.
_MIN_STEPS, _MAX_STEPS, _MULTIPLICATIONS, _BYTES = 20, 64, 5.6e10, 2**28
#: A product with a sparse matrix takes about as long as one with a dense matrix of this many times as many entries.
SPARSE_COST = 7


@dataclass(frozen=True)
class Spectrum:
    """An interval that covers the eigenvalues of a symmetric matrix.

    Attributes
    ----------
    low : float
        The lower end of an interval that covers all eigenvalues.
    high : float
        Its upper end.
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
    def of(cls, C: MatrixLike, deterministic: bool = False) -> Spectrum:
        r"""Enclose the spectrum of a matrix.

        The rule depends on the number of features only, not on how the matrix is stored: the same matrix as an array,
        a sparse matrix, a tensor or an operator has the same interval up to rounding.

        Parameters
        ----------
        C : matrix of shape (N, N)
            A symmetric array, tensor, sparse matrix, operator or fitted covariance estimator.
        deterministic : bool, default=False
            For N > 1024, use only bounds that never fail: Gershgorin's discs and the Frobenius norm.

        Notes
        -----
        Up to N = 1024 all eigenvalues are computed. Beyond, k Lanczos steps are taken from a random start: its largest
        and its smallest value are closer to the ends of the spectrum than
        :math:`\epsilon (\lambda_{\max} - \lambda_{\min})`, except with probability at most
        :math:`1.648 \sqrt N e^{-\sqrt\epsilon (2k - 1)}` [1]_. k is such that :math:`\epsilon = 0.01` fails with
        probability below 1e-12. Where Gershgorin's interval is shorter, its ends are taken.

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
        matrix = numpy_matrix(C)
        if matrix.shape[0] <= _EXACT_LIMIT:
            values = np.linalg.eigvalsh(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
            slack = ROUNDING * np.abs(values).max()
            return cls(float(values[0] - slack), float(values[-1] + slack), values)
        # Squares of very large or very small entries overflow or vanish. Dividing by a power of two rounds nothing.
        unit = float(power_of_two(np.abs(matrix if isinstance(matrix, np.ndarray) else matrix.data).max(initial=0.0)))
        matrix = matrix if unit == 1 else matrix / unit
        low, high = _gershgorin(matrix)
        radius = frobenius(matrix)
        low, high = max(low, -radius), min(high, radius)
        if not deterministic:
            below, above = _lanczos_interval(matrix)
            low, high = max(low, below), min(high, above)
        slack = ROUNDING * max(abs(low), abs(high))
        return cls(unit * (low - slack), unit * (high + slack), failure=0.0 if deterministic else FAILURE)

    @property
    def norm(self) -> float:
        """The largest absolute value in the interval."""
        return max(abs(self.low), abs(self.high))

    def joined(self, other: Spectrum) -> Interval:
        """Return the interval that covers both spectra."""
        return min(self.low, other.low), max(self.high, other.high)

    def gain(self, h: np.ndarray) -> float:
        r"""Return a bound on the norm of the filter bank ``h`` on the matrix, :math:`\max_\lambda \|W(\lambda)\|_2`."""
        if self.eigenvalues is not None:
            return float(spectral_norms(h, self.eigenvalues).max()) * (1 + ROUNDING)
        return gain(h, (self.low, self.high)) * (1 + ROUNDING)


def frobenius(C: Matrix) -> float:
    """Return the Frobenius norm of a dense or sparse matrix.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> frobenius(sp.csr_array([[3.0, 0.0], [0.0, 4.0]]))
    5.0
    """
    return float(np.linalg.norm(C if isinstance(C, np.ndarray) else C.data))


def spectral_norm(C: Matrix) -> float:
    """Return the spectral norm of a dense or sparse matrix, by which networks divide it.

    Examples
    --------
    >>> import numpy as np
    >>> round(spectral_norm(np.diag([3.0, -4.0])), 6)
    4.0
    """
    return as_operator(C, backend="dense" if isinstance(C, np.ndarray) else "csr").norm()


def lanczos_error(n: int, steps: int) -> float:
    """Return the relative error that ``steps`` Lanczos steps exceed with probability ``FAILURE`` at most."""
    return float((np.log(1.648 * np.sqrt(n) / FAILURE) / (2 * steps - 1)) ** 2)


def _gershgorin(C: Matrix) -> Interval:
    """Return the interval of Gershgorin's discs, which always covers all eigenvalues."""
    diagonal = C.diagonal()
    radii = np.asarray(abs(C).sum(1)).ravel() - np.abs(diagonal)
    return float((diagonal - radii).min()), float((diagonal + radii).max())


def _lanczos_interval(C: Matrix) -> Interval:
    """Return an interval that covers all eigenvalues except with probability ``FAILURE``."""
    n = C.shape[0]
    steps = int(np.ceil((np.log(1.648 * np.sqrt(n) * 2 / FAILURE) / np.sqrt(_ERROR) + 1) / 2))
    low, high, exact = extreme_values(lambda x: C @ x, n, min(steps, n))
    # Both ends are off by at most _ERROR of the true spread, which therefore is at most (high - low) / (1 - 2 _ERROR).
    slack = 0.0 if exact else _ERROR / (1 - 2 * _ERROR) * (high - low)
    return low - slack, high + slack


# -- bounds ----------------------------------------------------------------------------------------


def filter_bound(h: FilterLike, A: MatrixLike, B: MatrixLike, deterministic: bool = False) -> float:
    r"""Bound how far a filter moves when its matrix does, :math:`\|h(A) - h(B)\|_F`.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter, or of a bank as ``CovarianceFilter.weight`` holds them.
    A, B : symmetric matrices of shape (N, N)
        Dense or sparse, also with negative eigenvalues. The bound depends on the matrices alone, not on how they are
        stored.
    deterministic : bool, default=False
        For N > 1024, enclose the eigenvalues by Gershgorin's discs instead of Lanczos iterations.

    Returns
    -------
    float
        At least :math:`\|h(A) - h(B)\|_F`, and so at least the spectral norm, for every pair of matrices. This is
        certain up to N = 1024 and with ``deterministic=True``; otherwise it fails with a probability below 1e-10.

    Notes
    -----
    .. math:: \|h(A) - h(B)\|_F^2 = \sum_{ij} (u_i^T v_j)^2 (h(\lambda_i) - h(\mu_j))^2
              \le P^2 \sum_{ij} (u_i^T v_j)^2 (\lambda_i - \mu_j)^2 = P^2 \|A - B\|_F^2

    with P the :func:`svnn.stability.lipschitz` constant on an interval that covers the eigenvalues of both. Neither
    a gap between eigenvalues nor a small perturbation is needed; this replaces Prop. 2 of the paper. For a
    bank the same holds with :math:`\sup \|W'(\lambda)\|_F`.

    Examples
    --------
    >>> import numpy as np
    >>> A, B = np.diag([1.0, 2.0]), np.array([[1.0, 0.1], [0.1, 2.0]])
    >>> exact = np.linalg.norm(A @ A - B @ B)
    >>> bool(exact <= filter_bound([0.0, 0.0, 1.0], A, B) <= 1.5 * exact)
    True
    """
    h, A, B = coefficients(h), numpy_matrix(A, "A"), numpy_matrix(B, "B")
    same_shape(A=A, B=B)
    interval = Spectrum.of(A, deterministic).joined(Spectrum.of(B, deterministic))
    return lipschitz(h, interval) * frobenius(A - B) * (1 + ROUNDING)


def stochastic_bound(
    h: FilterLike, C: MatrixLike, P: ProbabilityLike, norm: float = 1.0, unbiased: bool = False
) -> float:
    r"""Bound the expected squared error of a stochastic filter, :math:`E\|H(\hat C)x - H(\tilde C)x\|^2`.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    C : matrix of shape (N, N)
        :math:`\hat C`, which is sparsified independently for every shift (Def. 5).
    P : array of shape (N, N) or float
        Probabilities that entries are kept; the diagonal is always kept.
    norm : float, default=1.0
        :math:`\|x\|`.
    unbiased : bool, default=False
        Kept entries are divided by their probability, or by 0.001 where that is larger, as
        :func:`svnn.functional.sparsify` does.

    Returns
    -------
    float
        At least the expected squared error for every x of that norm.

    Notes
    -----
    With :math:`C_m = E[\tilde C]`, V the variances of the entries, v the largest row sum of V and
    :math:`G_r = \sum_{k \ge r} h_k C_m^{k-r}`,

    .. math:: \|x\|^2 \Big[ P^2 \sum_{ij} c_{ij}^2 (1 - p_{ij})^2
              + v \sum_{r=1}^K \|G_r\|^2 (\|C_m\|^2 + v)^{r-1} \Big].

    The first part is :func:`filter_bound` for :math:`C_m` and :math:`\hat C`. For the second,
    :math:`H(\tilde C) x - H(C_m) x = \sum_r G_r (\tilde C_r - C_m)
    \tilde C_{r-1} \cdots \tilde C_1 x` has uncorrelated terms, and for any y
    independent of it :math:`E\|(\tilde C_r - C_m) y\|^2 = \sum_{ij} V_{ij} E[y_j^2] \le v E\|y\|^2`. Without the
    division by p the error has a bias, of order :math:`(1-p)^2`, that the term :math:`P_{gi}^2 Q` of Thm. 5 leaves
    out; this bound replaces that theorem.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> round(stochastic_bound([0.0, 1.0], C, 0.5), 6)  # 2 * 0.25^2 + 0.25 * 0.25
    0.1875
    >>> round(stochastic_bound([0.0, 1.0], C, 0.5, unbiased=True), 6)
    0.25
    """
    h = coefficients(h)
    check_numbers(0, norm=norm)
    matrix, c, p = entries(dense(C), P)
    mean, variance = entry_moments(c, p, unbiased)
    spectrum = Spectrum.of(mean)
    bias = frobenius(matrix - mean) ** 2
    if bias:
        # For a bank the norm that maps signals to signals is the spectral one.
        bias *= gain(derivative(h), spectrum.joined(Spectrum.of(matrix))) ** 2
    v = float(variance.sum(1).max())
    noise = sum(spectrum.gain(h[r:]) ** 2 * (spectrum.norm**2 + v) ** (r - 1) for r in range(1, len(h)))
    return norm**2 * (bias + v * noise) * (1 + ROUNDING)


def bank_change(
    h: np.ndarray, A: Matrix, B: Matrix, spectra: Sequence[Spectrum], deterministic: bool = False
) -> tuple[float, float]:
    r"""Return a bound on the norm of the change of a filter bank, and the probability that the bound fails.

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
    - the result of Lanczos iterations on :math:`\Delta^T \Delta`, unless they take too many multiplications: after k
      steps :math:`\|\Delta\|^2 \le \theta / (1 - \epsilon)` with the probability of :meth:`Spectrum.of`.
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
    """Return the norm of the change of a bank from its matrix."""
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
    """Return the number of Lanczos steps on the change of a bank that the limits allow."""
    n, narrow = A.shape[0], min(h.shape[1:])
    nonzeros = [np.count_nonzero(C if isinstance(C, np.ndarray) else C.data) for C in (A, B)]
    entries = sum(min(SPARSE_COST * count, n * n) for count in nonzeros)
    multiplications = 2 * (len(h) - 1) * narrow * entries  # the bank, and its transpose
    return int(min(_MULTIPLICATIONS / multiplications, _BYTES / (8 * n * narrow), _MAX_STEPS))


def _lanczos_change(h: np.ndarray, A: Matrix, B: Matrix, steps: int) -> float:
    """Return a bound on the norm of the change of a bank that fails with probability ``FAILURE`` at most."""
    weight = h if h.shape[1] <= h.shape[2] else h.transpose(0, 2, 1)
    adjoint = weight.transpose(0, 2, 1)
    before, after = (C if isinstance(C, np.ndarray) else CSROperator.from_scipy(C) for C in (A, B))
    n, narrow = A.shape[0], weight.shape[1]

    def product(x: np.ndarray) -> np.ndarray:
        y = x.reshape(1, n, narrow)
        for w in (weight, adjoint):
            y = apply_bank(after, y, w) - apply_bank(before, y, w)
        return y.ravel()

    _, top, exact = extreme_values(product, n * narrow, steps)
    error = 0.0 if exact else lanczos_error(n * narrow, steps)
    return float(np.sqrt(max(top, 0.0) / (1 - error))) if error < 1 else np.inf


def apply_bank(C: np.ndarray | CSROperator, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return signals (t, N, in) after a bank of filters (K + 1, in, out) on C, of shape (t, N, out)."""
    if not isinstance(C, np.ndarray):
        tensors = (torch.from_numpy(np.ascontiguousarray(array)) for array in (x, weight))
        return C.filter(*tensors).numpy()
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
