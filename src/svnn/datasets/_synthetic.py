"""Synthetic data with a known covariance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils import Bunch

from svnn._types import RandomState
from svnn.functional import pairs_for_density
from svnn.functional._array import generator, unit_interval


def make_sparse_covariance(
    n_features: int = 100, density: float = 0.05, kind: str = "random", random_state: RandomState = None
) -> np.ndarray:
    """Return a sparse, positive definite correlation matrix; a row and a column stand for the same feature.

    Parameters
    ----------
    n_features : int, default=100
    density : float in [0, 1], default=0.05
        The share of off-diagonal pairs that are not zero. It is exact for "random"; for "block" the blocks are of
        equal size, and as large as possible without exceeding it.
    kind : {"random", "block"}, default="random"
        "random" places the non-zero pairs at random and gives them random signs; "block" makes blocks of correlated
        neighbours.
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
    # With a large enough diagonal the matrix is positive definite; divided by it, it is a correlation matrix.
    loading = max(1.0, 1.05 * -np.linalg.eigvalsh(C)[0])
    return C / loading + np.eye(n_features)


def make_spiked(
    n_samples: int = 1000,
    n_features: int = 100,
    strengths: Sequence[float] = (5.0, 3.0),
    n_nonzero: int = 10,
    random_state: RandomState = None,
) -> Bunch:
    r"""Draw samples with a spiked covariance, a few sparse directions in white noise; a row is a sample.

    .. math:: x_i = \sum_q \sqrt{\beta_q}\, u_{qi} v_q + z_i, \qquad C = I + \sum_q \beta_q v_q v_q^T

    Parameters
    ----------
    strengths : sequence of float
        The variances :math:`\beta_q` along the directions.
    n_nonzero : int
        The number :math:`c_0` of non-zero entries of each direction, all of them :math:`\pm 1/\sqrt{c_0}`.

    Returns
    -------
    Bunch with X, covariance (the true one), directions (the :math:`v_q` as rows)

    Examples
    --------
    >>> make_spiked(random_state=0).directions.shape
    (2, 100)
    """
    rng = generator(random_state)
    beta = np.asarray(strengths, dtype=float)
    if len(strengths) * n_nonzero > n_features:
        raise ValueError(
            f"{len(strengths)} directions of {n_nonzero} non-zero entries do not fit side by side into {n_features} "
            "features."
        )
    support = rng.permutation(n_features)[: len(strengths) * n_nonzero].reshape(len(strengths), n_nonzero)
    V = np.zeros((len(strengths), n_features))
    np.put_along_axis(V, support, rng.choice([-1.0, 1.0], support.shape) / np.sqrt(n_nonzero), 1)
    U = rng.standard_normal((n_samples, len(strengths)))
    X = (U * np.sqrt(beta)) @ V + rng.standard_normal((n_samples, n_features))
    return Bunch(X=X, covariance=np.eye(n_features) + (V.T * beta) @ V, directions=V)
