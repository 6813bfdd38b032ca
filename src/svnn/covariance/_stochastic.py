"""Stochastic sparsification: ACV and RCV."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sklearn.utils.validation import check_is_fitted

from svnn.covariance._base import Sparsifier, off_diagonal_density
from svnn.functional import Moments, acv_probabilities, floor_probabilities, rcv_probabilities, sparsify
from svnn.functional._array import RandomState, generator


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
        check_is_fitted(self, "probabilities_")
        return self._sparse(sparsify(self.sample_covariance_, self.probabilities_, random_state, self.unbiased))

    def _estimate(self, X: Any, moments: Moments, sample_weight: Any) -> Any:
        rng = generator(self.random_state)
        self.sample_covariance_ = moments.covariance
        probabilities = self._probabilities(moments.covariance, rng)
        self.probabilities_ = floor_probabilities(probabilities) if self.unbiased else probabilities
        covariance = self.sample(rng)
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

    Notes
    -----
    The expected number of non-zeros is :math:`N + \sum_{i \ne j} p_{ij}`. (The paper's formula
    lacks the division by the maximum.)

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import ACV
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> acv = ACV(density=0.5, random_state=0).fit(X)
    >>> acv.covariance_.nnz, acv.sample(random_state=1).nnz
    (12, 10)
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
    ) -> None:
        self.density = density
        self.max_over = max_over
        self.unbiased = unbiased
        self.psd = psd
        self.missing = missing
        self.random_state = random_state

    def _probabilities(self, C: Any, random_state: RandomState) -> Any:
        return acv_probabilities(C, self.density, self.max_over)


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
    >>> round(RCV(p=0.25, random_state=0).fit(X).density_, 2)
    0.25
    """

    def __init__(
        self,
        *,
        p: float = 0.5,
        unbiased: bool = False,
        psd: str | None = None,
        missing: str = "raise",
        random_state: RandomState = None,
    ) -> None:
        self.p = p
        self.unbiased = unbiased
        self.psd = psd
        self.missing = missing
        self.random_state = random_state

    def _probabilities(self, C: Any, random_state: RandomState) -> Any:
        return rcv_probabilities(C, self.p, random_state)
