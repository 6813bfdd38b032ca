"""The expected error of a filter under stochastic sparsification, in closed form."""

from __future__ import annotations

import numpy as np

from svnn._types import DataLike, MatrixLike
from svnn.stability._inputs import FilterLike, ProbabilityLike, dense, same_shape
from svnn.stability.filters._filtered_signals import Signals, signals_for
from svnn.stability.filters._sparsification import entries, entry_moments
from svnn.stability.filters._variance import independent_variance, matrix_powers, shared_variance


class ErrorSplit(float):
    """An expected squared error, a float, that knows its two parts: ``bias`` and ``variance``.

    Examples
    --------
    >>> error = ErrorSplit(bias=1.0, variance=0.5)
    >>> error, error / 3
    (ErrorSplit(1.5, bias=1, variance=0.5), 0.5)
    """

    bias: float
    variance: float

    def __new__(cls, bias: float, variance: float) -> ErrorSplit:
        self = super().__new__(cls, bias + variance)
        self.bias, self.variance = float(bias), float(variance)
        return self

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return self.bias, self.variance

    def __repr__(self) -> str:
        return f"ErrorSplit({float(self):.6g}, bias={self.bias:.6g}, variance={self.variance:.6g})"

    __str__ = __repr__


def expected_error(
    h: FilterLike,
    C: MatrixLike,
    P: ProbabilityLike,
    x: DataLike | None = None,
    *,
    unbiased: bool = False,
    reference: MatrixLike | None = None,
    shared: bool = False,
    moment: MatrixLike | None = None,
) -> ErrorSplit:
    r"""Return the exact expected squared error of a filter whose covariance is stochastically sparsified.

    .. math:: \mathbb E \|H(\hat C)x - H(\tilde C)x\|^2, \qquad
              H(\tilde C)x = \sum_{k=0}^K h_k \tilde C_k \cdots \tilde C_1 x

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter, or of a bank as :attr:`svnn.nn.CovarianceFilter.weight` holds them
        (:math:`\sum_k \tilde C_k \cdots \tilde C_1 X W_k`, with the same realisations for all features).
    C : matrix of shape (N, N)
        The covariance :math:`\hat C`: an array, a tensor, a sparse matrix, an operator or a fitted estimator.
    P : float or matrix of shape (N, N)
        Probabilities that entries are kept, such as those of :func:`svnn.functional.acv_probabilities`.
    x : array of shape (N,) or (N, F); (N, in) or (t, N, in) for a bank, optional
        The signals; the errors of several are summed. Without ``x`` they are white, :math:`\mathbb E[xx^\top] = I`,
        so that for a filter the error is :math:`\mathbb E\|H(\hat C) - H(\tilde C)\|_F^2`.
    unbiased : bool, default=False
        Kept entries are divided by their probability, or by 0.001 where that is larger, as in
        :func:`svnn.functional.sparsify`.
    reference : matrix of shape (N, N), optional
        Compare with the filter on this matrix (the true covariance, say) instead of the filter on ``C``.
    shared : bool, default=False
        Use one realisation for all shifts, as when a sparsified matrix is fixed once, instead of a fresh one for each
        shift as in Def. 5. There is a closed form for K <= 2.
    moment : matrix of shape (N, N), optional
        :math:`\mathbb E[xx^\top]` of random signals, instead of ``x``. The inputs of a bank are uncorrelated with
        each other, and this is the moment of each.

    Returns
    -------
    ErrorSplit
        The error, a float, with its parts ``bias`` and ``variance``.

    Notes
    -----
    With the mean :math:`C_m` and variance V of a realisation (:func:`realisation_moments`),
    :math:`S_0 = xx^\top`, :math:`G_r = \sum_{k \ge r} h_k C_m^{k-r}` and

    .. math:: T(S) = \mathbb E[(\tilde C - C_m) S (\tilde C - C_m)]
              = \operatorname{diag}(V \operatorname{diag} S) + V \odot S^\top, \qquad
              S_r = C_m S_{r-1} C_m + T(S_{r-1}),

    .. math:: \mathbb E \|H(\hat C)x - H(\tilde C)x\|^2
              = \underbrace{\|(h(C_m) - h(\hat C))x\|^2}_\text{bias}
              + \underbrace{\sum_{r=1}^K \operatorname{tr}(G_r T(S_{r-1}) G_r)}_\text{variance}.

    The r-th term of the variance is what the r-th realisation adds, :math:`G_r(\tilde C_r - C_m)` of what has
    come through the realisations before. A realisation deviates from :math:`C_m` by a matrix of mean zero, so the
    terms are uncorrelated. T is its own adjoint, so the sum can be run from either end. The cost is
    :math:`O(K N^3)`, for a bank with several inputs :math:`O(K^2 N^3)`. As :math:`p \to 1` the bias is of order
    :math:`(1-p)^2`, the variance of order :math:`1-p`.

    Where there is no closed form, as for K > 2 with a shared realisation, use
    :func:`svnn.stability.monte_carlo_error`.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> expected_error([0.0, 1.0], C, 0.75)  # K = 1 and white signals: Q
    ErrorSplit(0.125, bias=0.03125, variance=0.09375)
    >>> expected_error([0.0, 1.0, 1.0], C, 0.75, x=[1.0, 1.0], unbiased=True).bias
    0.0
    """
    C, c, p = entries(dense(C), P)
    mean, V = entry_moments(c, p, unbiased)
    target = C if reference is None else dense(reference, "reference")
    same_shape(reference=target, C=C)
    s = signals_for(C, h, x, moment)
    shared = shared and s.order > 1
    if shared and s.order > 2:
        raise ValueError(
            f"shared=True has a closed form for K <= 2, got K = {s.order}; use monte_carlo_error, or shared=False "
            "for a realisation per shift."
        )
    # The square of a shared realisation has the mean C_m² + diag(V1), not C_m².
    extra = V.sum(1) if shared else None
    powers = matrix_powers(mean, max(s.order - (s.X is not None), 0))
    bias = 0.0 if mean is target and not shared else _bias(s, mean, powers, target, extra)
    variance = shared_variance(s, mean, V, c, p, unbiased) if shared else independent_variance(s, powers, V)
    return ErrorSplit(bias, max(variance, 0.0))  # a sum of signed terms may round below zero


def _bias(s: Signals, mean: np.ndarray, powers: np.ndarray, reference: np.ndarray, extra: np.ndarray | None) -> float:
    r"""Return :math:`\|(h(C_m) + h_2 \operatorname{diag}(\text{extra}) - h(\text{reference}))x\|^2`."""
    if s.X is None:
        differences = powers[1:] - matrix_powers(reference, s.order)[1:]
        if extra is not None:
            differences[1].flat[:: len(mean) + 1] += extra
        filters = (np.tensordot(g, differences, 1) for g in s.W[1:, 0].T)
        return float(sum(np.vdot(H if s.moment is None else H @ s.moment, H) for H in filters))
    inputs = s.W.shape[1]
    Z = R = X = s.X.reshape(len(mean), -1)
    difference = np.zeros((s.X.size // inputs, s.W.shape[2]))
    for W in s.W[1:]:
        Z, R = mean @ Z, reference @ R
        difference += (Z - R).reshape(-1, inputs) @ W
    if extra is not None:
        difference += (extra[:, None] * X).reshape(-1, inputs) @ s.W[2]
    return float(np.vdot(difference, difference))
