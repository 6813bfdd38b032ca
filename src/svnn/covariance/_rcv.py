"""Stochastic sparsification by ranked covariance values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from svnn._parameters import declared, fitted, integer, parameter, share
from svnn._types import AnyArray, ColumnLike, Matrix, RandomState
from svnn.covariance._acv import ACV
from svnn.covariance._sparsifier import Estimate, Sparsifier
from svnn.functional import Moments, floor_probabilities, rcv_probabilities, sparsify
from svnn.functional._array import generator

if TYPE_CHECKING:
    from torch import Tensor


@declared
class RCV(Sparsifier):
    r"""Sample covariance of which a chosen share is dropped at random, by rank.

    .. math:: p \sim \mathcal N(\bar p, \sigma), \quad \sigma = \min((1-\bar p)/3, \bar p/3)

    Probabilities to keep an entry, one per pair, are drawn from this distribution, clipped to [0, 1] and sorted. Pairs
    get them in the order of their absolute covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import RCV
    >>> X = np.random.default_rng(0).standard_normal((50, 40))
    >>> round(RCV(p=0.25, random_state=0).fit(X).density_, 1)
    0.2
    """

    p: float = parameter(
        default=0.5, rule=share(), doc="Mean probability to keep an entry: about ``1 - p`` of the entries are dropped."
    )
    unbiased: bool = parameter(default=ACV.unbiased, like=ACV)
    random_state: RandomState = parameter(default=ACV.random_state, like=ACV)
    dense_limit: int = parameter(
        default=10_000, rule=integer(0), doc="Ranks need all pairs at once, so more features than this are an error."
    )

    covariance_: Matrix | Tensor = fitted(
        kind="ndarray or Tensor of shape (N, N)", doc="The first realisation; see ``sparse_output``."
    )
    probabilities_: AnyArray = fitted(
        kind="ndarray or Tensor of shape (N, N)", doc="Symmetric, with ones on the diagonal."
    )
    sample_covariance_: AnyArray = fitted(kind="ndarray or Tensor of shape (N, N)")

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        rng, C = generator(self.random_state), moments.covariance
        P = rcv_probabilities(C, self.p, rng)
        P = floor_probabilities(P) if self.unbiased else P
        learned = {"sample_covariance_": C, "probabilities_": P}
        return Estimate(sparsify(C, P, rng, self.unbiased), moments.location, learned)

    def _needs_rows(self) -> str:
        return ""

    def sample(self, random_state: RandomState = None) -> Matrix | Tensor:
        """Draw a fresh realisation of the sparsified covariance; see :meth:`ACV.sample`."""
        check_is_fitted(self, "covariance_")
        C: Any = self.sample_covariance_  # arrays or tensors, both of the same kind
        P: Any = self.probabilities_
        return self._finished(sparsify(C, P, random_state, self.unbiased))
