"""Stochastic sparsification by absolute covariance values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from svnn._parameters import boolean, declared, either, fitted, one_of, parameter, seed, share
from svnn._types import AnyArray, ColumnLike, Matrix, RandomState
from svnn.covariance._sparsifier import Estimate, Sparsifier
from svnn.functional import Moments, acv_slope, floor_probabilities, sparsify
from svnn.functional._array import generator
from svnn.functional.masks import PROBABILITY_FLOOR, mask_seed
from svnn.functional.probabilities import probabilities_with_slope

if TYPE_CHECKING:
    from torch import Tensor

    from svnn.covariance.tiles import Found, Observations


@declared
class ACV(Sparsifier):
    r"""Sample covariance whose entries are dropped at random, small absolute covariance values more often.

    .. math:: p_{ij} = |\hat c_{ij}| / \max|\hat c|

    is the probability to keep an entry.

    Notes
    -----
    The expected number of non-zeros is :math:`N + \sum_{i \ne j} p_{ij}`. (The formula that the paper prints lacks the
    division by the maximum.)

    Which entries a seed keeps does not depend on how the work is divided: the draws are
    :func:`svnn.functional.pair_uniforms`. With more than ``dense_limit`` features the estimator keeps the standardised
    data, and every :meth:`sample` computes the tiles again.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import ACV
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> acv = ACV(density=0.5, random_state=0).fit(X)
    >>> [int(np.count_nonzero(C)) for C in (acv.covariance_, acv.sample(random_state=1))]
    [10, 10]
    """

    density: float | None = parameter(
        default=None,
        rule=either(share(), None),
        doc=r"""Take :math:`p_{ij} = \min(1, a|\hat c_{ij}|)` instead, with ``a`` such that the mean off-diagonal
        probability is ``density``.""",
    )
    max_over: str = parameter(
        default="all",
        rule=one_of("all", "offdiagonal"),
        doc="""Where the maximum is taken. Over "all" entries, as in the paper, it is always the largest variance: on
        data that is not standardised one feature of high variance makes every other edge vanish. "offdiagonal" avoids
        that.""",
    )
    unbiased: bool = parameter(
        default=False,
        rule=boolean(),
        doc=r"""Divide kept off-diagonal entries by their probability, so that :math:`E[\tilde C] = \hat C`.
        Probabilities below 0.001 are raised to it first.""",
    )
    random_state: RandomState = parameter(default=None, rule=seed(), doc="Seed of the first realisation.")

    covariance_: Matrix | Tensor = fitted(
        kind="ndarray or Tensor of shape (N, N)",
        doc="""The first realisation. A ``csr_array`` or sparse CSR tensor with more than ``dense_limit`` features; see
        ``sparse_output``.""",
    )
    probabilities_: AnyArray = fitted(
        kind="ndarray or Tensor of shape (N, N)",
        doc="Symmetric, with ones on the diagonal. Not there with more than ``dense_limit`` features.",
    )
    sample_covariance_: AnyArray = fitted(
        kind="ndarray or Tensor of shape (N, N)", doc="Not there with more than ``dense_limit`` features."
    )
    slope_: float = fitted(kind="float", doc="Probabilities are ``min(1, slope_ * |c|)``.")

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        rng, C = generator(self.random_state), moments.covariance
        slope = acv_slope(C, self.density, self.max_over)
        P = probabilities_with_slope(C, slope)
        P = floor_probabilities(P) if self.unbiased else P
        learned = {"sample_covariance_": C, "probabilities_": P, "slope_": slope}
        return Estimate(sparsify(C, P, rng, self.unbiased), moments.location, learned)

    def _needs_rows(self) -> str:
        return ""

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        rng, limit = generator(self.random_state), tiles.memory_bytes(self.memory_limit)
        data = tiles.read(X, sample_weight, correlations=False, limit=limit, kind=self.correlation)
        slope = tiles.slope(tiles.over(data, limit, bool(self.verbose)), self.density, self.max_over)
        found = self._draw_from_tiles(data, slope, rng)
        return Estimate(found.matrix, found.location, {"slope_": slope, "_observations_": data})

    def sample(self, random_state: RandomState = None) -> Matrix | Tensor:
        """Draw a fresh realisation of the sparsified covariance.

        Parameters
        ----------
        random_state : int, Generator or None

        Returns
        -------
        matrix of shape (N, N), of the kind of ``covariance_``
        """
        check_is_fitted(self, "covariance_")
        if hasattr(self, "_observations_"):
            return self._finished(self._draw_from_tiles(self._observations_, self.slope_, random_state).matrix)
        if not hasattr(self, "sample_covariance_"):
            raise ValueError(
                "this ACV came from a file without the data that it draws from (by an older svnn, or of a fit on a "
                "cluster); fit it again."
            )
        C: Any = self.sample_covariance_  # arrays or tensors, both of the same kind
        P: Any = self.probabilities_
        return self._finished(sparsify(C, P, random_state, self.unbiased))

    def _draw_from_tiles(self, data: Observations, slope: float, random_state: RandomState) -> Found:
        from svnn.covariance import tiles

        grid = tiles.over(data, tiles.memory_bytes(self.memory_limit), bool(self.verbose))
        return tiles.draw(grid, slope, PROBABILITY_FLOOR if self.unbiased else 0.0, mask_seed(random_state))
