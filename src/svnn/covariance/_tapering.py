"""Covariances that fade out with the distance of two features, for features that have an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from svnn._parameters import declared, either, integer, parameter
from svnn.covariance._banding import Banding
from svnn.functional.bands import taper_weights


@declared
class Tapering(Banding):
    r"""Sample covariance with weights that fall from 1 to 0 with the distance of two columns.

    .. math:: \tilde c_{ij} = \hat c_{ij} \min(1, \max(0, 2 - 2 |i - j| / \text{width}))

    Entries up to half of ``width`` off the diagonal are kept as they are, those from ``width`` on are zero. Among
    matrices whose entries fade out with the distance no estimator has a better rate than this one with the right width
    (Cai, Zhang & Zhou 2010).

    See Also
    --------
    Banding : keeps or drops, without weights between.

    References
    ----------
    T. Cai, C. Zhang and H. Zhou, Optimal rates of convergence for covariance matrix estimation, Annals of Statistics
    2010.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import Tapering
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=1)
    >>> Tapering(width=4).fit(X).covariance_.round(1)
    array([[0.9, 1. , 1. , 0.5],
           [1. , 1.9, 2. , 2. ],
           [1. , 2. , 3.1, 3.1],
           [0.5, 2. , 3.1, 4.3]])
    """

    width: int | str = parameter(
        default="cv",
        rule=either(integer(0), "cv"),
        doc='The distance at which the weights reach 0; "cv" finds it by splitting the samples.',
    )

    _weights: ClassVar[Callable[[Any, int], Any]] = staticmethod(taper_weights)
