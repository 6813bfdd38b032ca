"""Stochastic sparsification: entries are dropped at random, by absolute value (ACV) or by rank (RCV)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from numpy.random import Generator
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import Rule, boolean, either, one_of, seed, share
from svnn._types import AnyArray, ColumnLike, HasFit, Matrix, RandomState
from svnn.covariance._base import Estimate, Sparsifier
from svnn.functional import Moments, acv_slope, floor_probabilities, rcv_probabilities, sparsify
from svnn.functional._array import generator
from svnn.functional.masks import PROBABILITY_FLOOR, mask_seed, probabilities_with_slope

if TYPE_CHECKING:
    from torch import Tensor

    from svnn.covariance.tiles import Observations


class StochasticSparsifier(Sparsifier):
    """Base of the estimators whose ``covariance_`` is a random realisation."""

    unbiased: bool
    sample_covariance_: Any
    probabilities_: Any

    def sample(self, random_state: RandomState = None) -> Matrix | Tensor:
        """Draw a fresh realisation of the sparsified covariance; see :meth:`ACV.sample`."""
        check_is_fitted(self, "covariance_")
        C, P = self.sample_covariance_, self.probabilities_
        return self._finished(sparsify(C, P, random_state, self.unbiased))

    def _realisation(
        self, C: Any, P: Any, random: Generator, location: AnyArray, learned: dict[str, object]
    ) -> Estimate:
        """Return the first realisation of a covariance whose entries are kept with probabilities ``P``."""
        P = floor_probabilities(P) if self.unbiased else P
        learned = {"sample_covariance_": C, "probabilities_": P, **learned}
        return Estimate(sparsify(C, P, random, self.unbiased), location, learned)

    def _needs_rows(self) -> str:
        return ""


class ACV(StochasticSparsifier):
    r"""Sample covariance whose entries are dropped at random, small absolute covariance values more often.

    .. math:: p_{ij} = |\hat c_{ij}| / \max|\hat c|

    is the probability to keep an entry.

    Parameters
    ----------
    density : float in [0, 1] or None, default=None
        Take :math:`p_{ij} = \min(1, a|\hat c_{ij}|)` instead, with ``a`` such that the mean off-diagonal
        probability is ``density``.
    max_over : {"all", "offdiagonal"}, default="all"
        Where the maximum is taken. Over "all" entries, as in the paper, it is always the largest variance: on
        data that is not standardised one feature of high variance makes every other edge vanish. "offdiagonal" avoids
        that.
    unbiased : bool, default=False
        Divide kept off-diagonal entries by their probability, so that :math:`E[\tilde C] = \hat C`.
        Probabilities below 0.001 are raised to it first.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the first realisation.
    correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    probabilities_ : ndarray or Tensor of shape (N, N)
        Symmetric, with ones on the diagonal. Not there with more than ``dense_limit`` features.
    sample_covariance_ : ndarray or Tensor of shape (N, N)
        Not there with more than ``dense_limit`` features.
    slope_ : float
        Probabilities are ``min(1, slope_ * |c|)``.
    density_ : float
        Share of off-diagonal entries of ``covariance_`` that are not zero.
    covariance_ : ndarray or Tensor of shape (N, N)
        The first realisation. A ``csr_array`` or sparse CSR tensor with more than ``dense_limit`` features; see
        ``sparse_output``.
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

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

    slope_: float
    _observations_: Observations
    _rules: ClassVar[dict[str, Rule]] = {
        "density": either(share(), None),
        "max_over": one_of("all", "offdiagonal"),
        "unbiased": boolean(),
        "random_state": seed(),
        **Sparsifier._rules,
    }

    def __init__(
        self,
        *,
        density: float | None = None,
        max_over: str = "all",
        unbiased: bool = False,
        random_state: RandomState = None,
        correlation: str = "pearson",
        base: str | HasFit | None = None,
        psd: str | None = None,
        missing: str = "raise",
        halflife: float | None = None,
        sparse_output: bool | None = None,
        dense_limit: int = 4096,
        memory_limit: float | str | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose)
        self.density = density
        self.max_over = max_over
        self.unbiased = unbiased
        self.random_state = random_state

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        random, C = generator(self.random_state), moments.covariance
        slope = acv_slope(C, self.density, self.max_over)
        P = probabilities_with_slope(C, slope)
        return self._realisation(C, P, random, moments.location, {"slope_": slope})

    def _from_tiles(self, X: AnyArray, sample_weight: ColumnLike | None) -> Estimate:
        from svnn.covariance import tiles

        random, grid = generator(self.random_state), self._tiles(X, sample_weight, correlations=False)
        slope = tiles.slope(grid, self.density, self.max_over)
        drawn = tiles.draw(grid, slope, PROBABILITY_FLOOR if self.unbiased else 0.0, mask_seed(random))
        return Estimate(drawn.matrix, drawn.location, {"slope_": slope, "_observations_": grid.data})

    def sample(self, random_state: RandomState = None) -> Matrix | Tensor:
        """Draw a fresh realisation of the sparsified covariance.

        Parameters
        ----------
        random_state : int, Generator or None

        Returns
        -------
        matrix of shape (N, N), of the type of ``covariance_``
        """
        check_is_fitted(self, "covariance_")
        if hasattr(self, "_observations_"):
            from svnn.covariance import tiles

            grid = tiles.over(self._observations_, tiles.memory_bytes(self.memory_limit), bool(self.verbose))
            floor = PROBABILITY_FLOOR if self.unbiased else 0.0
            return self._finished(tiles.draw(grid, self.slope_, floor, mask_seed(random_state)).matrix)
        if not hasattr(self, "sample_covariance_"):
            raise ValueError(
                "this ACV came from a file without the data that it draws from (by an older svnn, or of a fit on a "
                "cluster); fit it again."
            )
        return super().sample(random_state)


class RCV(StochasticSparsifier):
    r"""Sample covariance of which a chosen share is dropped at random, by rank.

    .. math:: p \sim \mathcal N(\bar p, \sigma), \quad \sigma = \min((1-\bar p)/3, \bar p/3)

    Probabilities to keep an entry, one per pair, are drawn from this distribution, clipped to [0, 1] and sorted. Pairs
    get them in the order of their absolute covariances.

    Parameters
    ----------
    p : float in [0, 1], default=0.5
        Mean probability to keep an entry: about ``1 - p`` of the entries are dropped.
    unbiased, random_state
        As in :class:`ACV`.
    correlation, base, psd, missing, halflife, sparse_output
        As in :class:`HardThreshold`.
    dense_limit : int, default=10000
        Ranks need all pairs at once, so more features than this are an error.
    memory_limit, verbose
        As in :class:`HardThreshold`.

    Attributes
    ----------
    probabilities_ : ndarray or Tensor of shape (N, N)
        Symmetric, with ones on the diagonal.
    sample_covariance_ : ndarray or Tensor of shape (N, N)
    density_ : float
        Share of off-diagonal entries of ``covariance_`` that are not zero.
    covariance_ : ndarray or Tensor of shape (N, N)
        The first realisation; see ``sparse_output``.
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import RCV
    >>> X = np.random.default_rng(0).standard_normal((50, 40))
    >>> round(RCV(p=0.25, random_state=0).fit(X).density_, 1)
    0.2
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "p": share(),
        "unbiased": boolean(),
        "random_state": seed(),
        **Sparsifier._rules,
    }

    def __init__(
        self,
        *,
        p: float = 0.5,
        unbiased: bool = False,
        random_state: RandomState = None,
        correlation: str = "pearson",
        base: str | HasFit | None = None,
        psd: str | None = None,
        missing: str = "raise",
        halflife: float | None = None,
        sparse_output: bool | None = None,
        dense_limit: int = 10000,
        memory_limit: float | str | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(correlation, base, psd, missing, halflife, sparse_output, dense_limit, memory_limit, verbose)
        self.p = p
        self.unbiased = unbiased
        self.random_state = random_state

    def _from_moments(self, X: AnyArray, moments: Moments, sample_weight: ColumnLike | None) -> Estimate:
        random, C = generator(self.random_state), moments.covariance
        return self._realisation(C, rcv_probabilities(C, self.p, random), random, moments.location, {})
