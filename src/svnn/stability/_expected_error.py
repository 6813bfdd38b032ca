r"""The expected error of a filter under stochastic sparsification, in closed form: its bias and its variance.

``C`` is the mean of a realisation, ``V`` holds the variances of its entries, :math:`D = \tilde C - C`. The variance
rests on the map :math:`T(S) = \mathbb E[D S D]`, which is its own adjoint:
:math:`\langle A, T(S) \rangle = \langle T(A), S \rangle`.
"""

from __future__ import annotations

import numpy as np

from svnn._types import DataLike, MatrixLike
from svnn.functional.masks import floor_probabilities
from svnn.stability._inputs import FilterLike, ProbabilityLike, dense, same_shape
from svnn.stability._sparsification import Signals, entries, entry_moments, signals_for

#: Beyond this size the product of a matrix with its own transpose is not safe on several threads of OpenBLAS.
_SYMMETRIC_PRODUCT_LIMIT = 4096


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


def spread(V: np.ndarray, S: np.ndarray) -> np.ndarray:
    r"""Return :math:`T(S) = \operatorname{diag}(V \operatorname{diag} S) + V \odot S^\top` for a symmetric S.

    The entries of D are independent but for :math:`d_{ij} = d_{ji}`, so of :math:`d_{ik} s_{kl} d_{lj}` only k = l
    (which needs i = j) and k = j, l = i have a mean.
    """
    T = V * S
    T.flat[:: len(V) + 1] = V @ S.diagonal()  # the diagonal of V is zero
    return T


def matrix_powers(C: np.ndarray, K: int) -> np.ndarray:
    """Return ``[I, C, …, C^K]``, of shape (K + 1, N, N)."""
    powers = np.empty((K + 1, *C.shape))
    powers[0] = np.eye(len(C))
    powers[1:2] = C
    for k in range(2, K + 1):
        if k % 2 == 0:
            square(powers[k // 2], out=powers[k])
        else:
            np.matmul(C, powers[k - 1], out=powers[k])
    return powers


def square(A: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``A Aᵀ``, at half the work of a product where BLAS may see that it is symmetric."""
    return np.matmul(A, A.T if len(A) <= _SYMMETRIC_PRODUCT_LIMIT else A.T.copy(), out=out)


def independent_variance(s: Signals, powers: np.ndarray, V: np.ndarray) -> float:
    r"""Return :math:`\sum_r \operatorname{tr}(G_r T(S_{r-1}) G_r)`, the variance with a realisation for each shift.

    ``powers`` of C reach up to K - 1 at least, and up to 2 for white signals. :math:`G_r^2` is a polynomial in C with
    coefficients :math:`\sum_{k+l=2r+j} h_k h_l`. With :math:`L(S) = C S C + T(S)`, its own adjoint too, the r-th term
    is :math:`\langle L^{r-2} T(G_r^2), L(S_0) \rangle`: one step is taken by the signals, which are few, the others by
    matrices that do not depend on them.
    """
    coefficients = _squared_responses(s.W)
    if s.order == 0:
        return 0.0
    if s.W.shape[1] == 1:
        return _one_input(s, [m[:, 0, 0] for m in coefficients], powers, V)
    return _several_inputs(s, coefficients, powers, V)


def _one_input(s: Signals, coefficients: list[np.ndarray], powers: np.ndarray, V: np.ndarray) -> float:
    """Sum over r by Horner's rule from K down: B_r = T(G_r²) + L(B_{r+1})."""
    unit = np.ones((1, 1))
    first = spread(V, s.gram(unit, len(V)))
    total = _inner(_polynomial(coefficients[0], powers), first)
    if s.order == 1:
        return total
    B = coefficients[-1][0] * V.sum(1)  # T(I) is diagonal
    for m in coefficients[-2:0:-1]:
        B = _step(powers[1], V, B)
        B += spread(V, _polynomial(m, powers))
    return total + _inner(B, _shifted(s, powers).gram(unit, len(V))) + _inner(B, first)


def _several_inputs(s: Signals, coefficients: list[np.ndarray], powers: np.ndarray, V: np.ndarray) -> float:
    """Sum over the powers of C in G_r², each with its own Gram matrix of the inputs, and over r."""
    total = 0.0
    for j in range(2 * s.order - 1):
        power = _polynomial(np.eye(j + 1)[j], powers)
        A = V.sum(1) if j == 0 else spread(V, power)
        for r, m in enumerate(coefficients, 1):
            if j >= len(m):
                break
            first = spread(V, s.gram(m[j], len(V)))
            if r == 1:
                total += _inner(power, first)
                continue
            if r > 2:
                A = _step(powers[1], V, A)
            total += _inner(A, _shifted(s, powers).gram(m[j], len(V))) + _inner(A, first)
    return total


def _squared_responses(W: np.ndarray) -> list[np.ndarray]:
    """Return for r = 1 … K the coefficients ``sum_{k+l=2r+j} W_k W_lᵀ`` of the powers j = 0 … 2(K-r)."""
    products = np.einsum("kio,ljo->klij", W, W)
    result = []
    for r in range(1, len(W)):
        m = np.zeros((2 * (len(W) - r) - 1, *products.shape[2:]))
        for k in range(r, len(W)):
            m[k - r : k + len(W) - 2 * r] += products[k, r:]
        result.append(m)
    return result


def _polynomial(m: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Return ``sum_j m_j C^j`` up to twice the highest power there is, with one product at most."""
    low, high = m[: len(powers)], m[len(powers) :]
    result = np.tensordot(low, powers[: len(low)], 1)
    if len(high):
        result += powers[-1] @ np.tensordot(high, powers[1 : len(high) + 1], 1)
    return result


def _shifted(s: Signals, powers: np.ndarray) -> Signals:
    """Return the signals after a shift by C."""
    C = powers[1]
    if s.X is None:
        return s._replace(moment=powers[2] if s.moment is None else C @ s.moment @ C)
    return s._replace(X=(C @ s.X.reshape(len(C), -1)).reshape(s.X.shape))


def _step(C: np.ndarray, V: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return L(B) = C B C + T(B) of a symmetric matrix, or of a diagonal one given by its diagonal >= 0."""
    if B.ndim == 2:
        result = C @ B @ C
        result += spread(V, B)
        return result
    result = square(C * np.sqrt(B))
    result.flat[:: len(C) + 1] += V @ B
    return result


def _inner(A: np.ndarray, S: np.ndarray) -> float:
    """Return the trace of A S, both symmetric; A may be the diagonal of a diagonal matrix."""
    return float(A @ S.diagonal() if A.ndim == 1 else np.vdot(A, S))


def shared_variance(s: Signals, C: np.ndarray, V: np.ndarray, c: np.ndarray, p: np.ndarray, unbiased: bool) -> float:
    r"""Return the variance for K = 2 where both shifts use one realisation, of entries ``c`` kept with ``p``.

    With :math:`X_k = X W_k`, :math:`Z = X_1 + C X_2` and :math:`\mathbb E[D^2] = T(I) = \operatorname{diag}(v)`, the
    output deviates from its mean by

    .. math:: D Z + C D X_2 + (D^2 - \operatorname{diag} v) X_2.

    A product of entries of D has a mean only if every pair of nodes in it occurs at least twice. That leaves, for
    the third powers with :math:`w_{ij} = \mathbb E[d_{ij}^3]`, :math:`\mathbb E[D^3] = W` and
    :math:`\mathbb E[D C D^2]_{ij} = w_{ij} c_{jj}` (on the diagonal :math:`\sum_k w_{ik} c_{ik}`); and for the fourth
    :math:`\mathbb E[D^4] = \operatorname{diag}(v_i^2 + (Vv)_i + \sum_k (\mathbb E[d_{ik}^4] - 2 v_{ik}^2))`.
    """
    if unbiased:
        p = floor_probabilities(p)
        c = c / p
    q = p * (1 - p)
    third = V * c * (1 - 2 * p)
    excess = V * c**2 * (1 - 5 * q)  # E[d⁴] - 2 E[d²]²
    v = V.sum(1)

    _, W1, W2 = s.W
    S11, S12, S22 = (s.gram(M, len(V)) for M in (W1 @ W1.T, W1 @ W2.T, W2 @ W2.T))
    CS = C @ S22
    ZX = S12 + CS  # E[Z X_2ᵀ]
    norms = S22.diagonal()
    total = v @ (S11.diagonal() + 2 * (S12 * C).sum(1) + (CS * C).sum(1))  # ‖DZ‖²
    total += np.vdot(C @ spread(V, S22), C)  # ‖CDX_2‖²
    total += 2 * np.vdot(spread(V, C), ZX)
    total += 2 * np.vdot(third, ZX)
    total += 2 * (np.vdot(third * C.diagonal(), S22) + (third * C).sum(1) @ norms)
    total += norms @ (V @ v + excess.sum(1))
    return float(total)
