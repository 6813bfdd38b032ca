"""Synthetic data with a known covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_regression
from sklearn.utils import Bunch

from svnn._types import RandomState
from svnn.functional import pairs_for_density, sample_moments
from svnn.functional._array import generator, unit_interval

#: Standard deviation of the noise in the targets.
NOISE = 3.0


def make_sparse_covariance(
    n_features: int = 100, density: float = 0.05, kind: str = "random", random_state: RandomState = None
) -> np.ndarray:
    """Return a sparse correlation matrix, positive definite, with a known support.

    Parameters
    ----------
    n_features : int, default=100
    density : float in [0, 1], default=0.05
        Share of off-diagonal pairs that are not zero: exact for "random"; for "block" the blocks
        are the largest equal ones that do not exceed it.
    kind : {"random", "block"}, default="random"
        Pairs placed at random, with random signs, or blocks of correlated neighbours.
    random_state : int, Generator or None

    Returns
    -------
    ndarray of shape (n_features, n_features)

    Examples
    --------
    >>> C = make_sparse_covariance(20, density=0.1, random_state=0)
    >>> int((C != 0).sum()), bool((C == C.T).all())
    (58, True)
    """
    rng = generator(random_state)
    density = unit_interval(density, "density")
    C = np.zeros((n_features, n_features))
    if kind == "random":
        rows, columns = np.triu_indices(n_features, 1)
        kept = rng.choice(len(rows), pairs_for_density(n_features, density), replace=False)
        C[rows[kept], columns[kept]] = rng.uniform(0.5, 1, len(kept)) * rng.choice([-1, 1], len(kept))
    elif kind == "block":
        size = max(1, int(density * (n_features - 1)) + 1)
        block = np.arange(n_features) // size
        together = np.triu(block[:, None] == block, 1)
        strength = rng.uniform(0.4, 0.8, block.max() + 1)
        C[together] = np.broadcast_to(strength[block][:, None], C.shape)[together]
    else:
        raise ValueError(f'kind must be "random" or "block", got {kind!r}.')
    C += C.T
    # Loading the diagonal makes it positive definite, scaling makes it a correlation matrix.
    loading = max(1.0, 1.05 * -np.linalg.eigvalsh(C)[0])
    return C / loading + np.eye(n_features)


def make_sparse_cov(
    n_samples: int = 1000, n_features: int = 100, density: float = 0.1, random_state: RandomState = None
) -> Bunch:
    """Regression on Gaussian features with a sparse covariance (the paper's SparseCov).

    ``y = wᵀx + u`` with ``w`` uniform on (0, 1) and noise ``u`` of standard deviation 3.

    Returns
    -------
    Bunch with X, y, covariance (the true one), coef

    Examples
    --------
    >>> data = make_sparse_cov(random_state=0)
    >>> data.X.shape, data.covariance.shape
    ((1000, 100), (100, 100))
    """
    rng = generator(random_state)
    C = make_sparse_covariance(n_features, density, "random", rng)
    return _regression(rng.multivariate_normal(np.zeros(n_features), C, n_samples), C, rng)


def make_large_cov(n_samples: int = 1000, n_features: int = 100, random_state: RandomState = None) -> Bunch:
    """Regression on Gaussian features with a dense covariance of large entries (LargeCov).

    One common factor explains about three quarters of every variance. (The released draw has the same
    features, but targets of a smaller spread than these coefficients give.)

    Returns
    -------
    Bunch with X, y, covariance (the true one), coef

    Examples
    --------
    >>> bool((make_large_cov(random_state=0).covariance > 0.3).all())
    True
    """
    rng = generator(random_state)
    common = rng.uniform(0.65, 0.87, n_features)
    A = rng.standard_normal((n_features, n_features))
    C = np.outer(common, common) + 0.2 * A @ A.T / n_features
    return _regression(rng.multivariate_normal(np.zeros(n_features), C, n_samples), C, rng)


def make_small_cov(
    n_samples: int = 1000, n_features: int = 100, tail_strength: float = 0.2, random_state: RandomState = None
) -> Bunch:
    """Regression on low-rank-plus-tail features with small covariances (SmallCov).

    scikit-learn's ``make_regression`` with an effective rank of a quarter of the features, and
    coefficients uniform on (0, 100) for a quarter of them: what the released draw looks like.

    Returns
    -------
    Bunch with X, y, covariance (of these samples; the generator has no other), coef

    Examples
    --------
    >>> data = make_small_cov(random_state=0)
    >>> bool(abs(data.covariance).max() < 0.001)
    True
    """
    quarter = max(1, n_features // 4)
    X, y, coef = make_regression(
        n_samples,
        n_features,
        n_informative=quarter,
        effective_rank=quarter,
        tail_strength=tail_strength,
        noise=NOISE,
        coef=True,
        random_state=int(generator(random_state).integers(2**31)),
    )
    return Bunch(X=X, y=y, covariance=sample_moments(X).covariance, coef=coef)


def make_spiked(
    n_samples: int = 1000,
    n_features: int = 100,
    strengths: Any = (5.0, 3.0),
    n_nonzero: int = 10,
    random_state: RandomState = None,
) -> Bunch:
    r"""Spiked covariance: a few sparse directions in white noise.

    .. math:: x_i = \sum_q \sqrt{\beta_q}\, u_{qi} v_q + z_i, \qquad C = I + \sum_q \beta_q v_q v_q^T

    Parameters
    ----------
    strengths : sequence of float
        The :math:`\beta_q`.
    n_nonzero : int
        :math:`c_0`, the non-zero entries of each direction, all of modulus :math:`1/\sqrt{c_0}`.

    Returns
    -------
    Bunch with X, covariance, directions

    Examples
    --------
    >>> make_spiked(random_state=0).directions.shape
    (2, 100)
    """
    rng = generator(random_state)
    strengths = np.asarray(strengths, dtype=float)
    if len(strengths) * n_nonzero > n_features:
        raise ValueError(
            f"{len(strengths)} directions of {n_nonzero} non-zeros do not fit side by side into {n_features} features."
        )
    support = rng.permutation(n_features)[: len(strengths) * n_nonzero].reshape(len(strengths), n_nonzero)
    V = np.zeros((len(strengths), n_features))
    np.put_along_axis(V, support, rng.choice([-1.0, 1.0], support.shape) / np.sqrt(n_nonzero), 1)
    U = rng.standard_normal((n_samples, len(strengths)))
    X = (U * np.sqrt(strengths)) @ V + rng.standard_normal((n_samples, n_features))
    return Bunch(X=X, covariance=np.eye(n_features) + (V.T * strengths) @ V, directions=V)


def _regression(X: np.ndarray, C: np.ndarray, rng: np.random.Generator) -> Bunch:
    coef = rng.uniform(0, 1, X.shape[1])
    y = X @ coef + rng.normal(0, NOISE, len(X))
    return Bunch(X=X, y=y, covariance=C, coef=coef)
