"""Random realisations of a sparsified covariance."""

from __future__ import annotations

from svnn._types import Array, RandomState
from svnn.functional._array import as_matrix, from_upper, generator, namespace, upper_indices, upper_values
from svnn.functional.uniforms import pair_uniforms

#: Smallest keep-probability of a non-zero entry when weights are 1/p, so that they stay finite.
PROBABILITY_FLOOR = 1e-3


def floor_probabilities(probabilities: Array, floor: float = PROBABILITY_FLOOR) -> Array:
    """Raise probabilities below ``floor`` to it; unbiased sparsification divides by them.

    Examples
    --------
    >>> import numpy as np
    >>> floor_probabilities(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[1.   , 0.001],
           [0.001, 1.   ]])
    """
    return namespace(probabilities).clip(probabilities, floor, None)


def mask_seed(random_state: RandomState) -> int:
    """Return the seed of one realisation's uniforms."""
    return int(generator(random_state).integers(2**63))


def sparsify(C: Array, probabilities: Array, random_state: RandomState = None, unbiased: bool = False) -> Array:
    r"""Draw one realisation of the stochastically sparsified covariance (Def. 4).

    .. math:: \tilde C = M \odot C, \quad m_{ij} = m_{ji} \sim \text{Bernoulli}(p_{ij}), \quad m_{ii} = 1

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    probabilities : array like ``C``
        Symmetric keep-probabilities; the diagonal is always kept.
    random_state : int, Generator or None
        The same seed gives the same mask for numpy and torch, on every device: the draws are
        :func:`svnn.functional.pair_uniforms` of a seed that is drawn once.
    unbiased : bool, default=False
        Divide a kept off-diagonal entry by its probability, so that the mean over realisations
        is ``C``. Probabilities are floored first, see :func:`floor_probabilities`.

    Returns
    -------
    Array like ``C``

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> sparsify(C, np.array([[1.0, 0.0], [0.0, 1.0]]), random_state=0)
    array([[1., 0.],
           [0., 1.]])
    """
    C = as_matrix(C)
    probabilities = as_matrix(probabilities, "probabilities")
    if probabilities.shape != C.shape:
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)}, C has {tuple(C.shape)}; they must agree."
        )
    if not bool(((probabilities >= 0) & (probabilities <= 1)).all()):
        raise ValueError("probabilities must lie between 0 and 1.")
    xp = namespace(C)
    keep = upper_values(probabilities)
    if unbiased:
        keep = floor_probabilities(keep)
    # Compared in double precision: rounded to C's own, a draw could reach a probability of 1.
    kept = pair_uniforms(mask_seed(random_state), *upper_indices(C)) < keep
    weights = kept / keep if unbiased else kept
    return from_upper(xp.asarray(weights, dtype=C.dtype), C, 1) * C
