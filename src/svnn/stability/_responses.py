r"""Frequency responses of filters, :math:`W(\lambda) = \sum_k W_k \lambda^k`, and how steep they are, exactly.

``h`` has shape (K + 1,) for a filter and (K + 1, in, out) for a bank of filters, whose response is a matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import comb

from svnn._types import DataLike, MatrixLike
from svnn.functional._matrix import numpy_matrix
from svnn.functional.spectrum import align_signs, leading_eigenvectors
from svnn.stability._inputs import (
    FilterLike,
    Interval,
    as_interval,
    check_integer,
    coefficients,
    numbers_in,
    same_shape,
    samples,
)

#: The largest number of pieces that an interval is cut into to bound the gain of a bank.
_MAX_PIECES = 4096


def frequency_response(h: FilterLike, lam: DataLike) -> np.ndarray:
    r"""Return the frequency response of a covariance filter.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter, or of a bank as ``CovarianceFilter.weight`` holds them.
    lam : array of any shape
        Eigenvalues of the matrix that the filter runs on.

    Returns
    -------
    ndarray of shape ``lam.shape`` for a filter, ``lam.shape + (in, out)`` for a bank

    Notes
    -----
    .. math:: h(\lambda) = \sum_{k=0}^K h_k \lambda^k, \qquad V^T H(C) x
              = \operatorname{diag}(h(\lambda_1), …, h(\lambda_N)) V^T x

    Examples
    --------
    >>> frequency_response([1.0, 0.0, 2.0], [0.0, 1.0, 2.0])
    array([1., 3., 9.])
    """
    return values(coefficients(h), numbers_in(lam))


def generalized_response(h: FilterLike, lams: DataLike) -> np.ndarray:
    r"""Return the generalised frequency response of a stochastic covariance filter (Def. 6).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    lams : array of shape (…, K)
        One eigenvalue of each of the K realisations, that of the first shift first.

    Returns
    -------
    ndarray of shape (…) for a filter, (…, in, out) for a bank

    Notes
    -----
    .. math:: h(\boldsymbol\lambda) = \sum_{k=0}^K h_k \prod_{j=1}^k \lambda_j

    It is affine in every :math:`\lambda_j`; with all of them equal it is the ordinary response. In terms of the
    eigenvectors :math:`\tilde V_j` of the realisations the stochastic filter is

    .. math:: \tilde u = \sum_{i_K} \cdots \sum_{i_1} \hat x_{K i_{K-1} i_K} \cdots \hat x_{1 i_1}\,
              h(\lambda_{1 i_1}, …, \lambda_{K i_K})\, \tilde v_{K i_K},

    with every term in the basis of the last realisation. (The sum in Appendix D of the paper starts at k = 1 and
    leaves term k in the basis of realisation k, which is not the filter.)

    Examples
    --------
    >>> generalized_response([1.0, 1.0, 1.0], [[2.0, 3.0], [3.0, 2.0]])
    array([ 9., 10.])
    """
    h, lams = coefficients(h), numbers_in(lams)
    if lams.ndim == 0 or lams.shape[-1] != len(h) - 1:
        raise ValueError(f"lams must have shape (..., {len(h) - 1}), one eigenvalue per shift, got {lams.shape}.")
    lams = lams.reshape(lams.shape + (1,) * (h.ndim - 1))
    response = np.zeros(lams.shape[: lams.ndim - h.ndim] + h.shape[1:]) + h[-1]
    for k in range(len(h) - 2, -1, -1):
        response = h[k] + lams.take(k, axis=lams.ndim - h.ndim) * response
    return response


# -- constants of Definitions 1 and 8 ---------------------------------------------------------------


def lipschitz(h: FilterLike, interval: Interval) -> float:
    r"""Return the Lipschitz constant of a filter's frequency response on an interval (Def. 1).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
        Coefficients of a filter or of a bank.
    interval : pair (a, b)
        Must cover the eigenvalues of all matrices that are compared. Sparsified covariances can have negative ones:
        the interval :math:`[0, \lambda_{\max}]` of the paper's Def. 1 is then too short.

    Returns
    -------
    float
        :math:`P = \sup |h'(\lambda)|`; for a bank :math:`\sup \|W'(\lambda)\|_F`.

    Notes
    -----
    The result is exact: :math:`|h'|` is largest at an end of the interval or at a real root of :math:`h''`; for a bank
    the polynomial :math:`\|W'(\lambda)\|_F^2` takes the place of h'. For symmetric matrices with eigenvalues in the
    interval :math:`\|h(A) - h(B)\|_F \le P \|A - B\|_F`; see :func:`svnn.stability.filter_bound`.

    Examples
    --------
    >>> lipschitz([0.0, 0.0, 1.0], (0.0, 1.0)), lipschitz([0.0, 0.0, 1.0], (-2.0, 1.0))
    (2.0, 4.0)
    """
    return largest_norm(derivative(coefficients(h)), as_interval(interval))


def integral_lipschitz(h: FilterLike, interval: Interval) -> float:
    r"""Return the integral Lipschitz constant of a filter on an interval.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    interval : pair (a, b)

    Returns
    -------
    float
        :math:`\sup |\lambda h'(\lambda)|`; for a bank :math:`\sup \|\lambda W'(\lambda)\|_F`.

    Notes
    -----
    The result is exact: it is the largest value at the ends of the interval and at the roots of
    :math:`(\lambda h')'`.

    Examples
    --------
    >>> integral_lipschitz([0.0, 0.0, 1.0], (0.0, 3.0))
    18.0
    """
    h = coefficients(h)
    powers = np.arange(len(h)).reshape(-1, *[1] * (h.ndim - 1))
    return largest_norm(powers * h, as_interval(interval))


def generalized_lipschitz(h: FilterLike, interval: Interval) -> float:
    r"""Return the generalised integral Lipschitz constant :math:`P_{gi}` of a filter (Def. 8).

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,)
    interval : pair (a, b)
        Must cover the eigenvalues of all realisations, the negative ones included.

    Returns
    -------
    float
        The larger of :math:`\sup \|\nabla_L h\|` and :math:`\sup \|\lambda_1 \odot \nabla_L h\|`, both of
        :math:`(\lambda_1, \lambda_2)` over :math:`[a, b]^K \times [a, b]^K`.

    Notes
    -----
    Component r of the Lipschitz gradient (Def. 7) is the partial derivative at
    :math:`\lambda^{(r)} = (\lambda_{21}, …, \lambda_{2r}, \lambda_{1,r+1}, …, \lambda_{1K})`,

    .. math:: [\nabla_L h]_r = \prod_{j<r} \lambda_{2j}\; q_r, \qquad q_K = h_K, \quad
              q_r = h_r + \lambda_{1,r+1}\, q_{r+1}.

    Its square grows with every :math:`|\lambda_{2j}|`, so at the supremum these are the end of the interval with the
    larger absolute value. It is convex in each coordinate of :math:`\lambda_1`, as is :math:`(\lambda_{1r} q_r)^2`, so
    at the supremum these are a or b: the supremum is the maximum over the corners :math:`\{a, b\}^K`. The recursion
    runs from r = K down to 1. The remaining terms are a convex function of :math:`q_r`, so only pairs (:math:`q_r`,
    partial sum) on the upper hull can lead to the maximum. The others are dropped, which keeps high orders cheap.

    Examples
    --------
    >>> generalized_lipschitz([0.0, 0.0, 1.0], (0.0, 1.0))
    1.4142135623730951
    """
    taps = coefficients(h)
    if taps.ndim != 1:
        raise ValueError(f"h must be the coefficients (K + 1,) of one filter, got shape {taps.shape}.")
    a, b = as_interval(interval)
    size = np.abs(taps[1:]).max(initial=0.0)
    if size == 0:
        return 0.0
    taps = taps / size  # squares neither overflow nor vanish
    reach = max(abs(a), abs(b))
    ends = np.array([[a], [b]])
    plain, weighted = np.array([taps[-1]]), (ends * taps[-1]).ravel()
    sums = [reach ** (2 * len(taps) - 4) * plain**2, reach ** (2 * len(taps) - 4) * weighted**2]
    for r in range(len(taps) - 2, 0, -1):
        weight = reach ** (2 * r - 2)
        plain, sums[0] = (taps[r] + ends * plain).ravel(), np.tile(sums[0], 2)
        weighted, sums[1] = (ends * (taps[r] + weighted)).ravel(), np.tile(sums[1], 2)
        plain, sums[0] = _upper_hull(plain, sums[0] + weight * plain**2)
        weighted, sums[1] = _upper_hull(weighted, sums[1] + weight * weighted**2)
    return float(size * np.sqrt(max(s.max() for s in sums)))


def _upper_hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the upper hull of the points (x, y)."""
    order = np.lexsort((y, x))
    hull: list[tuple[float, float]] = []
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        while len(hull) > 1 and _is_below(hull[-2], hull[-1], point):
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            hull.pop()
        hull.append(point)
    corners = np.array(hull)
    return corners[:, 0], corners[:, 1]


def _is_below(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Return whether the middle point is not above the line from left to right."""
    return (right[0] - left[0]) * (middle[1] - left[1]) <= (middle[0] - left[0]) * (right[1] - left[1])


# -- principal component analysis ------------------------------------------------------------------


def pca_response(lam: DataLike, k: int) -> np.ndarray:
    r"""Return PCA as a filter: :math:`1[\lambda \ge \lambda_k]`, which passes the k largest eigenvalues.

    Parameters
    ----------
    lam : array of shape (N,)
        The eigenvalues of the covariance, in any order.
    k : int
        Number of principal components.

    Returns
    -------
    ndarray of shape (N,)
        1 for the k largest eigenvalues (for more than k where :math:`\lambda_k` is repeated), 0 for the others. This
        filter has no Lipschitz constant: the response jumps at :math:`\lambda_k`, however close the next eigenvalue
        is.

    Examples
    --------
    >>> pca_response([3.0, 0.5, 2.0, 0.1], k=2)
    array([1., 0., 1., 0.])
    """
    lam = numbers_in(lam)
    if lam.ndim != 1:
        raise ValueError(f"lam must hold the N eigenvalues in one dimension, got shape {lam.shape}.")
    wanted = f"k must be an integer from 1 to the number of eigenvalues, {len(lam)}"
    k = check_integer(int(k) if int(k) == k else k, wanted, 1, len(lam))
    return (lam >= np.sort(lam)[-k]).astype(np.float64)


def pca_distance(A: MatrixLike, B: MatrixLike, k: int, X: DataLike | None = None) -> float:
    r"""Return how far apart the leading principal components of two covariances are.

    .. math:: \|V_k - W_k D\|_F, \qquad \text{with data:}\quad \|X V_k - X W_k D\|_F

    Parameters
    ----------
    A, B : matrix of shape (N, N)
        Symmetric: arrays, lists, frames, tensors, sparse matrices, operators or fitted covariance estimators. Large
        sparse ones are decomposed by Lanczos iterations (``eigsh``) and never made dense.
    k : int from 1 to N
        Number of components.
    X : array of shape (t, N), optional
        Data to project. It is not centred; subtract its mean first if needed.

    Returns
    -------
    float

    Notes
    -----
    The columns of :math:`V_k` and :math:`W_k` are the eigenvectors of the k largest eigenvalues of A and B, in
    that order, each of length one. An eigenvector is defined up to its sign, so the signs of those of B are chosen
    first: D is diagonal with :math:`d_j = \operatorname{sign}(v_j^\top w_j)`, the choice that makes the distance of
    every column smallest. Without data the result lies between 0 and :math:`\sqrt{2k}`.

    Components are compared one by one. Where two eigenvalues are close, a small change of the matrix can turn
    or swap their eigenvectors and the distance is large; where they are equal, the matrices do not define it at all.
    This is a property of PCA, not a fault of the estimate, and covariance filters do not share it.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> pca_distance(A, 5 * A, k=2)
    0.0
    >>> pca_distance(A, np.diag([2.0, 3.0, 1.0]), k=2)  # the same plane, its axes swapped
    2.0
    """
    A, B = numpy_matrix(A, "A"), numpy_matrix(B, "B")
    same_shape(A=A, B=B)
    n = A.shape[0]
    k = check_integer(k, f"k must be an integer from 1 to the number of features, {n}", 1, n)
    V = leading_eigenvectors(A, k)
    moved = V - align_signs(leading_eigenvectors(B, k), V)
    return float(np.linalg.norm(moved if X is None else samples(X, n) @ moved))


# -- polynomials -----------------------------------------------------------------------------------


def values(h: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Return the values at ``lam``, of shape ``lam.shape`` for a filter, ``lam.shape + (in, out)`` for a bank.

    Examples
    --------
    >>> import numpy as np
    >>> values(np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0]))
    array([1., 3., 9.])
    """
    result = np.zeros(lam.shape + h.shape[1:])
    lam = lam.reshape(lam.shape + (1,) * (h.ndim - 1))
    for tap in h[::-1]:
        result = result * lam + tap
    return result


def spectral_norms(h: np.ndarray, lam: np.ndarray) -> np.ndarray:
    r"""Return :math:`\|W(\lambda)\|_2` for each eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> spectral_norms(np.array([[[3.0, 0.0], [0.0, 1.0]]]), np.array([0.0, 1.0]))
    array([3., 3.])
    """
    response = values(h, lam)
    if h.ndim == 1:
        return np.abs(response)
    if min(h.shape[1:]) == 1:
        return np.sqrt((response**2).sum((-2, -1)))
    return np.linalg.norm(response, ord=2, axis=(-2, -1))


def derivative(h: np.ndarray) -> np.ndarray:
    """Return the coefficients of the derivative; a single zero for a constant.

    Examples
    --------
    >>> import numpy as np
    >>> derivative(np.array([5.0, 1.0, 3.0]))
    array([1., 6.])
    """
    if len(h) == 1:
        return np.zeros_like(h)
    return h[1:] * np.arange(1, len(h)).reshape(-1, *[1] * (h.ndim - 1))


def recentred(h: np.ndarray, middle: float, radius: float = 1.0) -> np.ndarray:
    """Return the coefficients of s -> h(middle + radius s).

    Examples
    --------
    >>> import numpy as np
    >>> recentred(np.array([0.0, 0.0, 1.0]), 3.0, 2.0)
    array([ 9., 12.,  4.])
    """
    k = np.arange(len(h))
    shift = comb(k, k[:, None]) * float(middle) ** np.maximum(k - k[:, None], 0) * float(radius) ** k[:, None]
    return np.tensordot(shift, h, 1)


def largest_norm(h: np.ndarray, interval: Interval) -> float:
    """Return the largest absolute value (of a bank: Frobenius norm) on an interval, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> largest_norm(np.array([-1.0, 0.0, 1.0]), (-1.2, 1.2))
    1.0
    """
    a, b = interval
    middle, radius = (a + b) / 2, (b - a) / 2
    size = np.abs(h).max()
    if size == 0:
        return 0.0
    h = h / size  # squares of coefficients neither overflow nor vanish
    # On the interval scaled to [-1, 1] all powers are at most 1, so that tiny coefficients are rounding errors.
    local = recentred(h, middle, radius).reshape(len(h), -1)
    products = local @ local.T
    squares = [np.trace(products[::-1], i) for i in range(1 - len(h), len(h))]  # the sums of the antidiagonals
    objective = Polynomial(local[:, 0] if h.ndim == 1 else squares)
    slope = objective.deriv()
    slope = slope.trim(1e-14 * np.abs(slope.coef).max())
    # The real parts of all roots: additional points do no harm, and double roots are computed as complex pairs.
    points = np.concatenate([[-1.0, 1.0], np.clip(slope.roots().real, -1, 1)])
    response = values(h, middle + radius * points)
    norms = np.abs(response) if h.ndim == 1 else np.sqrt((response**2).sum((-2, -1)))
    return float(size * norms.max())


def gain(h: FilterLike, interval: Interval, rtol: float = 1e-3) -> float:
    r"""Return the largest gain of a filter or bank on an interval, :math:`\sup \|W(\lambda)\|_2`.

    Parameters
    ----------
    h : array or Tensor of shape (K + 1,) or (K + 1, in, out)
    interval : pair (a, b)
    rtol : float, default=1e-3
        Relative amount by which the result may exceed the supremum. The result is exact for a filter, and for a bank
        with one input or one output.

    Returns
    -------
    float
        Never below the supremum. It bounds the norm of the filter bank on any symmetric matrix whose eigenvalues are
        in the interval.

    Notes
    -----
    On a piece of length d the bank differs from the straight line between its ends by at most
    :math:`\tfrac{d^2}{8} \sup \|W''\|_F`, and the norm along that line is largest at one of the ends (norms are
    convex). So the largest norm on a grid plus that term is a bound, which is tight on short pieces.

    Examples
    --------
    >>> gain([1.0, -1.0], (0.0, 3.0))
    2.0
    """
    h = coefficients(h)
    a, b = as_interval(interval)
    if h.ndim == 1 or min(h.shape[1:]) == 1:
        return largest_norm(h, (a, b))
    bend = (b - a) ** 2 / 8 * largest_norm(derivative(derivative(h)), (a, b))
    largest = spectral_norms(h, np.array([a, (a + b) / 2, b])).max()
    if bend == 0 or largest == 0:
        return float(largest + bend)
    pieces = int(np.clip(np.ceil(np.sqrt(bend / (rtol * largest))), 1, _MAX_PIECES))
    return float(spectral_norms(h, np.linspace(a, b, pieces + 1)).max() + bend / pieces**2)
