"""Random realisations of a covariance that is sparsified by keeping each entry with a given probability."""

from __future__ import annotations

from svnn._types import Array, RandomState
from svnn.functional._array import as_matrix, from_upper, generator, namespace, upper_indices, upper_values
from svnn.functional.uniforms import pair_uniforms

#: Smallest probability of keeping a non-zero entry where kept entries are divided by it, so that they stay finite.
PROBABILITY_FLOOR = 1e-3


def floor_probabilities(probabilities: Array, floor: float = PROBABILITY_FLOOR) -> Array:
    """Raise probabilities that are below ``floor`` to ``floor``; unbiased sparsification divides by them.

    Examples
    --------
    >>> import numpy as np
    >>> floor_probabilities(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[1.   , 0.001],
           [0.001, 1.   ]])
    """
    return namespace(probabilities).clip(probabilities, floor, None)


def mask_seed(random_state: RandomState) -> int:
    """Draw the seed from which the random numbers of one realisation follow."""
    return int(generator(random_state).integers(2**63))


def sparsify(C: Array, probabilities: Array, random_state: RandomState = None, unbiased: bool = False) -> Array:
    r"""Draw one realisation of the stochastically sparsified covariance (Definition 4 of the paper).

    .. math:: \tilde C = M \odot C, \quad m_{ij} = m_{ji} \sim \text{Bernoulli}(p_{ij}), \quad m_{ii} = 1

    Parameters
    ----------
    C : ndarray or Tensor of shape (N, N)
    probabilities : array like ``C``
        The probability of keeping each entry, symmetric. The diagonal is always kept.
    random_state : int, Generator or None
        The same seed gives the same mask for numpy and torch, on every device: the draws are
        :func:`svnn.functional.pair_uniforms` of a seed that is drawn once.
    unbiased : bool, default=False
        Divide each off-diagonal entry that is kept by its probability, so that the mean over realisations is ``C``.
        Small probabilities are raised first, see :func:`floor_probabilities`.

    Returns
    -------
    Array like ``C``, symmetric

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
    keep = upper_values(probabilities)
    if unbiased:
        keep = floor_probabilities(keep)
    # The draws stay in double precision: rounded to the dtype of C, a draw could reach 1, and an entry of probability 1
    # would be dropped.
    kept = pair_uniforms(mask_seed(random_state), *upper_indices(C)) < keep
    weights = kept / keep if unbiased else kept
    return from_upper(namespace(C).asarray(weights, dtype=C.dtype), C, 1) * C
