"""The variance of a filter of order 2 whose two shifts share one realisation of the covariance."""

from __future__ import annotations

import numpy as np

from svnn.functional.masks import floor_probabilities
from svnn.stability._signals import Signals
from svnn.stability._variance import spread


def shared_variance(s: Signals, C: np.ndarray, V: np.ndarray, c: np.ndarray, p: np.ndarray, unbiased: bool) -> float:
    r"""Return the variance for K = 2 where both shifts use one realisation, of entries ``c`` kept with ``p``.

    ``C`` and ``V`` are mean and variance of the realisation, :math:`D = \tilde C - C`. With :math:`X_k = X W_k`,
    :math:`Z = X_1 + C X_2` and :math:`\mathbb E[D^2] = T(I) = \operatorname{diag}(v)`, the output deviates from its
    mean by

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
