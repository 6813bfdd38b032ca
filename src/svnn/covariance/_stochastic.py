"""Stochastic sparsification: ACV and RCV."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sklearn.utils.validation import check_is_fitted

from svnn._types import RandomState
from svnn.covariance._base import Sparsifier, off_diagonal_density
from svnn.covariance._memory import memory_bytes
from svnn.functional import Moments, acv_probabilities, acv_slope, floor_probabilities, rcv_probabilities, sparsify
from svnn.functional._array import generator, unit_interval
from svnn.functional.masks import PROBABILITY_FLOOR, mask_seed
from svnn.functional.probabilities import check_max_over


class StochasticSparsifier(Sparsifier):
    """Base of ACV and RCV: probabilities from the sample covariance, realisations from those."""

    unbiased: bool
    random_state: RandomState

    @abstractmethod
    def _probabilities(self, C: Any, random_state: RandomState) -> Any:
        """Return the keep-probabilities of the pairs."""

    def sample(self, random_state: RandomState = None) -> Any:
        """Draw a fresh realisation of the sparsified covariance.

        Parameters
        ----------
        random_state : int, Generator or None

        Returns
        -------
        csr_array (or sparse CSR tensor) of shape (N, N)
        """
        check_is_fitted(self, "covariance_")
        return self._draw(random_state)

    def _draw(self, random_state: RandomState) -> Any:
        return self._sparse(sparsify(self.sample_covariance_, self.probabilities_, random_state, self.unbiased))

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        rng = generator(self.random_state)
        self.sample_covariance_ = moments.covariance
        probabilities = self._probabilities(moments.covariance, rng)
        self.probabilities_ = floor_probabilities(probabilities) if self.unbiased else probabilities
        covariance = self._draw(rng)
        self.density_ = off_diagonal_density(covariance)
        return covariance


class ACV(StochasticSparsifier):
    r"""Absolute covariance values: drop entries at random, small ones more often.

    .. math:: p_{ij} = |\hat c_{ij}| / \max|\hat c|

    Parameters
    ----------
    density : float in [0, 1], optional
        Take :math:`p_{ij} = \min(1, a|\hat c_{ij}|)` instead, with ``a`` such that the mean
        off-diagonal probability is ``density``.
    max_over : {"all", "offdiagonal"}, default="all"
        Where the maximum is taken; "all" is the paper's. For a covariance that is always the
        largest variance, so on data that is not standardised one high-variance feature makes
        every other edge vanish; "offdiagonal" avoids that.
    unbiased : bool, default=False
        Divide kept off-diagonal entries by their probability, so that
        :math:`E[\tilde C] = \hat C`. Probabilities below 0.001 are raised to it first.
    psd : {None, "load", "shrink", "clip"}, default=None
        Repair of negative eigenvalues, see :func:`svnn.functional.psd_repair`.
    missing : {"raise", "pairwise"}, default="raise"
    random_state : int, Generator or None
    dense_limit : int, default=4096
        Up to so many features the N×N sample covariance is formed. With more, tiles of it are, in
        single precision, and only what survives is kept: the same result up to the rounding of
        float32, in the precision of ``X``.
    memory_limit : int or str, optional
        Bytes, or a text such as "1.5GB", that the large-N path may use beside ``X``: data that does
        not fit goes to a temporary file, a result that does not fit is a MemoryError. By default
        half of the memory of the machine or, if that is less, of the container.
    verbose : bool, default=False
        Show a progress bar on a terminal while the tiles are computed.

    Attributes
    ----------
    covariance_ : csr_array (or sparse CSR tensor) of shape (N, N)
        The first realisation.
    probabilities_ : ndarray or Tensor of shape (N, N)
        Symmetric, with ones on the diagonal. Not there with more than ``dense_limit`` features.
    sample_covariance_ : ndarray or Tensor of shape (N, N)
        Likewise.
    slope_ : float
        Probabilities are ``min(1, slope_ * |c|)``.
    density_ : float
        Share of off-diagonal entries of ``covariance_`` that are not zero.
    location_ : ndarray or Tensor of shape (N,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,), where X has named columns

    Notes
    -----
    The expected number of non-zeros is :math:`N + \sum_{i \ne j} p_{ij}`. (The paper's formula
    lacks the division by the maximum.)

    Which entries a seed keeps does not depend on how the work is divided: the draws are
    :func:`svnn.functional.pair_uniforms`. With more than ``dense_limit`` features the estimator
    keeps the standardised data, and every :meth:`sample` computes the tiles again.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import ACV
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> acv = ACV(density=0.5, random_state=0).fit(X)
    >>> acv.covariance_.nnz, acv.sample(random_state=1).nnz
    (10, 10)
    """

    def __init__(
        self,
        *,
        density: float | None = None,
        max_over: str = "all",
        unbiased: bool = False,
        psd: str | None = None,
        missing: str = "raise",
        random_state: RandomState = None,
        dense_limit: int = 4096,
        memory_limit: int | str | None = None,
        verbose: bool = False,
    ) -> None:
        self.density = density
        self.max_over = max_over
        self.unbiased = unbiased
        self.psd = psd
        self.missing = missing
        self.random_state = random_state
        self.dense_limit = dense_limit
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _probabilities(self, C: Any, random_state: RandomState) -> Any:
        self.__dict__.pop("_observations", None)  # of an earlier fit
        self.slope_ = acv_slope(C, self.density, self.max_over)
        return acv_probabilities(C, self.density, self.max_over)

    def _estimate_large(self, X: Any, sample_weight: Any) -> Any:
        from svnn.covariance import _large as large

        rng = generator(self.random_state)
        if self.density is not None:
            unit_interval(self.density, "density")
        check_max_over(self.max_over)
        for name in ("probabilities_", "sample_covariance_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        tiles = large.prepare(self, X, sample_weight, correlation=False)
        self._observations = tiles.data
        self.slope_ = large.slope(tiles, self.density, self.max_over)
        covariance = self._draw(rng)
        self.density_ = off_diagonal_density(covariance)
        return covariance

    def _draw(self, random_state: RandomState) -> Any:
        if not hasattr(self, "_observations"):
            return super()._draw(random_state)
        from svnn.covariance import _large as large
        from svnn.covariance._blocked import Tiles

        floor = PROBABILITY_FLOOR if self.unbiased else 0.0
        tiles = Tiles(self._observations, memory_bytes(self.memory_limit), bool(self.verbose))
        upper = large.realisation(tiles, self.slope_, floor, mask_seed(random_state))
        return large.finish(tiles, upper, tiles.data.variance, self.psd)


class RCV(StochasticSparsifier):
    r"""Ranked covariance values: drop a chosen share of the entries, by rank.

    Probabilities drawn from :math:`\mathcal N(p, \min((1-p)/3, p/3))`, clipped to [0, 1] and
    sorted, go to the pairs in the order of their modulus.

    Parameters
    ----------
    p : float in [0, 1], default=0.5
        Mean keep-probability: about ``1 - p`` of the entries are dropped.
    unbiased : bool, default=False
        Divide kept off-diagonal entries by their probability, so that
        :math:`E[\tilde C] = \hat C`. Probabilities below 0.001 are raised to it first.
    psd : {None, "load", "shrink", "clip"}, default=None
        Repair of negative eigenvalues, see :func:`svnn.functional.psd_repair`.
    missing : {"raise", "pairwise"}, default="raise"
    random_state : int, Generator or None
    dense_limit : int, default=10_000
        Ranks need all pairs at once, so more features than this are an error.

    Attributes
    ----------
    covariance_ : csr_array (or sparse CSR tensor) of shape (N, N)
        The first realisation.
    probabilities_ : ndarray or Tensor of shape (N, N)
        Symmetric, with ones on the diagonal.
    sample_covariance_ : ndarray or Tensor of shape (N, N)
    density_ : float
        Share of off-diagonal entries of ``covariance_`` that are not zero.
    location_ : ndarray or Tensor of shape (N,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,), where X has named columns

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import RCV
    >>> X = np.random.default_rng(0).standard_normal((50, 40))
    >>> round(RCV(p=0.25, random_state=0).fit(X).density_, 1)
    0.2
    """

    def __init__(
        self,
        *,
        p: float = 0.5,
        unbiased: bool = False,
        psd: str | None = None,
        missing: str = "raise",
        random_state: RandomState = None,
        dense_limit: int = 10_000,
    ) -> None:
        self.p = p
        self.unbiased = unbiased
        self.psd = psd
        self.missing = missing
        self.random_state = random_state
        self.dense_limit = dense_limit

    def _estimate_large(self, X: Any, sample_weight: Any) -> Any:
        n, size = X.shape[1], X.shape[1] ** 2 * 8 / 1e9
        raise ValueError(
            f"RCV ranks all pairs of its {n} features, more than dense_limit={self.dense_limit}. Use ACV, or raise "
            f"dense_limit if there is memory for several matrices of {size:.1f} GB."
        )

    def _probabilities(self, C: Any, random_state: RandomState) -> Any:
        return rcv_probabilities(C, self.p, random_state)
