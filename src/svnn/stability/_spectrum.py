"""Intervals that cover the eigenvalues of a matrix, and matrix norms; none of these numbers is too small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svnn._types import Matrix, MatrixLike
from svnn.functional._centring import power_of_two
from svnn.functional._lanczos import extreme_values
from svnn.functional._matrix import numpy_matrix
from svnn.operators import as_operator
from svnn.stability._inputs import Interval
from svnn.stability._responses import gain, spectral_norms

#: Bounds are raised by this share, so that rounding does not carry them below the truth.
ROUNDING = 1e-9
#: Up to this size all eigenvalues are computed.
_EXACT_LIMIT = 1024
#: Probability that one Lanczos bound fails, and the error, relative to the spread of the spectrum, that it allows.
FAILURE, _ERROR = 1e-12, 1e-2


@dataclass(frozen=True)
class Spectrum:
    """Where the eigenvalues of a symmetric matrix lie.

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
            Anything that stands for a symmetric matrix: arrays, tensors, sparse matrices, operators, fitted covariance
            estimators.
        deterministic : bool, default=False
            For N > 1024, use only bounds that hold for certain: Gershgorin's discs and the Frobenius norm.

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
    """Return the spectral norm of a dense or sparse matrix: the number that networks divide by.

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
    """Return the interval of Gershgorin's discs, which covers all eigenvalues for certain."""
    diagonal = C.diagonal()
    radii = np.asarray(abs(C).sum(1)).ravel() - np.abs(diagonal)
    return float((diagonal - radii).min()), float((diagonal + radii).max())


def _lanczos_interval(C: Matrix) -> Interval:
    """Return an interval that covers all eigenvalues except with probability ``FAILURE``."""
    n = C.shape[0]
    steps = int(np.ceil((np.log(1.648 * np.sqrt(n) * 2 / FAILURE) / np.sqrt(_ERROR) + 1) / 2))
    low, high, exact = extreme_values(lambda x: C @ x, n, min(steps, n))
    # Both ends are off by at most that share of the true spread, which therefore is at most spread / (1 - 2 share).
    slack = 0.0 if exact else _ERROR / (1 - 2 * _ERROR) * (high - low)
    return low - slack, high + slack
