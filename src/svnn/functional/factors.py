"""How many factors a set of eigenvalues shows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Factors that are looked for at most.
MOST_FACTORS = 20
#: A feature of which the factors leave no more than this share of the variance has no residual but rounding.
NO_RESIDUAL = 1e-10


def candidate_factors(n_features: int, n_samples: float) -> int:
    """Return the largest number of factors that is looked for: a quarter of N or t, at most 20."""
    return int(min(MOST_FACTORS, min(n_features, n_samples) // 4))


def growth_ratio_factors(eigenvalues: npt.ArrayLike, total: float, size: float) -> int:
    r"""Return the number of factors by the growth ratio of Ahn & Horenstein (2013).

    .. math::
        \hat r = \arg\max_{0 \le k < K} \frac{\log(1 + \mu_k^*)}{\log(1 + \mu_{k+1}^*)},
        \qquad \mu_k^* = \mu_k / \sum_{j > k} \mu_j

    with :math:`\mu_1 \ge \mu_2 \ge \dots` the eigenvalues of the correlations. A :math:`\mu_0` that is the sum of all
    eigenvalues divided by the logarithm of ``size`` lets the answer be zero. Only eigenvalues above the average of
    ``size`` equal ones can be factors. In the draws of ``benchmarks/factors.py`` it is right in 0.90 of the cases, the
    criteria IC_p1 and IC_p2 of Bai & Ng (2002) in 0.89.

    Parameters
    ----------
    eigenvalues : array of shape (K + 1,)
        The largest ones, descending.
    total : float
        The sum of all eigenvalues.
    size : float
        The smaller one of N and t.

    References
    ----------
    S. Ahn and A. Horenstein, Eigenvalue ratio test for the number of factors, Econometrica 2013.

    Examples
    --------
    >>> growth_ratio_factors([30.0, 20.0, 1.2, 1.1, 1.1], total=100.0, size=60)
    2
    >>> growth_ratio_factors([1.3, 1.25, 1.2, 1.1, 1.1], total=100.0, size=60)
    0
    """
    mu = np.clip(np.asarray(eigenvalues, dtype=np.float64), 0, None)
    most = min(int((mu > total / max(size, 1)).sum()), len(mu) - 1)
    if most < 1 or size <= 2:
        return 0
    # Rounding may leave nothing, or less, beside the first eigenvalues.
    least = total * np.finfo(np.float64).eps
    rest = np.clip(total - np.concatenate([[0.0], np.cumsum(mu)]), least, None)
    growth = np.log1p(np.clip(np.concatenate([[total / np.log(size)], mu]), least, None) / rest)[: most + 2]
    return int(np.argmax(growth[:-1] / growth[1:]))
