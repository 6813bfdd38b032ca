"""Soft thresholding."""

from __future__ import annotations

from svnn._parameters import declared, fitted, parameter
from svnn._types import AnyArray, ColumnLike, RandomState
from svnn.covariance._hard_threshold import HardThreshold, needs_rows, threshold_moments, threshold_tiles
from svnn.covariance._sparsifier import Estimate, Sparsifier
from svnn.functional import Moments


@declared
class SoftThreshold(Sparsifier):
    r"""Sample covariance with every entry moved towards zero.

    .. math:: \tilde c_{ij} = \operatorname{sign}(\hat c_{ij}) \max(|\hat c_{ij}| - \tau / \sqrt t, 0)

    which is Definition 3 of the paper. Variances are kept, unless ``keep_diagonal`` is False. Parameters and
    notes are those of :class:`HardThreshold`.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import SoftThreshold
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> SoftThreshold(density=0.2).fit(X).density_
    0.2
    """

    tau: float | str = parameter(default=HardThreshold.tau, like=HardThreshold)
    density: float | None = parameter(default=HardThreshold.density, like=HardThreshold)
    top_k: int | None = parameter(default=HardThreshold.top_k, like=HardThreshold)
    keep_diagonal: bool = parameter(default=HardThreshold.keep_diagonal, like=HardThreshold)
    scale: float = parameter(default=HardThreshold.scale, like=HardThreshold)
    n_splits: int = parameter(default=HardThreshold.n_splits, like=HardThreshold)
    random_state: RandomState = parameter(default=HardThreshold.random_state, like=HardThreshold)

    threshold_: float | AnyArray = fitted(kind="float or array", doc="As that of :class:`HardThreshold`.")
    tau_: float = fitted(kind="float", doc='The value that was chosen, with ``tau="cv"`` only.')

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        return threshold_moments(self, "soft", X, moments, sample_weight)

    def _needs_rows(self) -> str:
        return needs_rows(self)

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        return threshold_tiles(self, "soft", X, sample_weight)
