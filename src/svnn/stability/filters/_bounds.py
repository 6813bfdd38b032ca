"""Certified bounds for a covariance filter and for a stochastic one."""

from __future__ import annotations

from svnn._types import MatrixLike
from svnn.functional._matrix import numpy_matrix
from svnn.stability import _inputs
from svnn.stability._inputs import FilterLike, ProbabilityLike
from svnn.stability._norms import ROUNDING, Spectrum, frobenius
from svnn.stability._polynomials import derivative, gain
from svnn.stability.filters._constants import lipschitz
from svnn.stability.filters._sparsification import entries, entry_moments


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
    a gap between eigenvalues nor a small perturbation is needed; this takes the place of Prop. 2 of the paper. For a
    bank the same holds with :math:`\sup \|W'(\lambda)\|_F`.

    Examples
    --------
    >>> import numpy as np
    >>> A, B = np.diag([1.0, 2.0]), np.array([[1.0, 0.1], [0.1, 2.0]])
    >>> exact = np.linalg.norm(A @ A - B @ B)
    >>> bool(exact <= filter_bound([0.0, 0.0, 1.0], A, B) <= 1.5 * exact)
    True
    """
    h, A, B = _inputs.coefficients(h), numpy_matrix(A, "A"), numpy_matrix(B, "B")
    _inputs.same_shape(A=A, B=B)
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
    out; this bound takes the place of that theorem.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> round(stochastic_bound([0.0, 1.0], C, 0.5), 6)  # 2 * 0.25^2 + 0.25 * 0.25
    0.1875
    >>> round(stochastic_bound([0.0, 1.0], C, 0.5, unbiased=True), 6)
    0.25
    """
    h = _inputs.coefficients(h)
    _inputs.check_numbers(0, norm=norm)
    matrix, c, p = entries(_inputs.dense(C), P)
    mean, variance = entry_moments(c, p, unbiased)
    spectrum = Spectrum.of(mean)
    bias = frobenius(matrix - mean) ** 2
    if bias:
        # For a bank the norm that maps signals to signals is the spectral one.
        bias *= gain(derivative(h), spectrum.joined(Spectrum.of(matrix))) ** 2
    v = float(variance.sum(1).max())
    noise = sum(spectrum.gain(h[r:]) ** 2 * (spectrum.norm**2 + v) ** (r - 1) for r in range(1, len(h)))
    return norm**2 * (bias + v * noise) * (1 + ROUNDING)
