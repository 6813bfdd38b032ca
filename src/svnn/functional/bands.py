"""Weights of covariances by how far apart two features stand, for features that have an order."""

from __future__ import annotations

from typing import Any

from svnn._types import AnyArray
from svnn.functional._array import namespace


def band_weights(distance: AnyArray, width: int) -> Any:
    r"""Return 1 up to a distance of ``width``, 0 beyond (Bickel & Levina 2008).

    Parameters
    ----------
    distance : array or Tensor
        :math:`|i - j|`, of any shape.
    width : int

    Examples
    --------
    >>> import numpy as np
    >>> band_weights(np.arange(5), 2)
    array([1., 1., 1., 0., 0.])
    """
    return 1.0 * (distance <= width)


def taper_weights(distance: AnyArray, width: int) -> Any:
    r"""Return weights that fall from 1 at half of ``width`` to 0 at ``width`` (Cai, Zhang & Zhou 2010).

    .. math:: w = \min(1, \max(0, 2 - 2 |i - j| / \text{width}))

    Parameters are those of :func:`band_weights`. With a width of 0 only the variances stay.

    Examples
    --------
    >>> import numpy as np
    >>> taper_weights(np.arange(6), 4)
    array([1. , 1. , 1. , 0.5, 0. , 0. ])
    """
    xp = namespace(distance)
    return xp.clip(2 - 2.0 * distance / max(width, 1), 0, 1)
