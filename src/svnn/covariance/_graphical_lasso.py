"""The graphical lasso, one connected component at a time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import Rule, anything, boolean, check_parameters, integer, number, one_of, share
from svnn._types import ColumnLike, DataLike, Matrix
from svnn._validation import at_once
from svnn.covariance._base import CovarianceEstimator, off_diagonal_density
from svnn.covariance._thresholds import HardThreshold
from svnn.functional import hard_threshold, sample_moments, soft_threshold, universal_threshold
from svnn.functional._array import like, to_numpy
from svnn.functional._matrix import stored_like
from svnn.functional.moments import check_weight, effective_samples
from svnn.functional.spectrum import connected_parts

if TYPE_CHECKING:
    from torch import Tensor

_RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1)
_NEVER = 1e-300  # a gap at which the solver does not stop


class ConvergenceError(ValueError):
    """The solver found no solution, not even with a ridge."""


class GraphicalLasso(CovarianceEstimator):
    r"""Sparse precision matrix by the graphical lasso on correlations, solved component by component.

    .. math:: \hat\Theta = \arg\max_{\Theta \succ 0}
        \log\det\Theta - \mathrm{tr}(R\Theta) - \alpha \sum_{i \ne j} |\theta_{ij}|

    with :math:`R` the sample correlations and :math:`\hat W = \hat\Theta^{-1}`. With :math:`D` the
    diagonal of the standard deviations, ``covariance_`` is :math:`D \hat W D` and ``precision_``
    :math:`D^{-1} \hat\Theta D^{-1}`, so that units do not matter.

    Raises
    ------
    ConvergenceError
        Where no ridge helps.

    Parameters
    ----------
    alpha : float in (0, 1], default=0.1
        Penalty on correlations. Features that no chain of correlations above ``alpha`` links are independent in
        the result.
    max_iter : int, default=100
        Most sweeps of scikit-learn's solver.
    tol : float, default=0.0001
        Duality gap at which it stops.
    enet_tol : float, default=1e-07
        Tolerance of its inner lasso. With scikit-learn's default of 1e-4 it often does not converge from about 70
        features on.
    n_jobs : int or None, default=None
        Number of components to solve at the same time.
    missing : {"raise", "pairwise"}, default="raise"
        What to do about NaN. "pairwise" takes each entry over the samples where both features are observed; it
        forms the whole N×N matrix.
    sparse_output : bool or None, default=None
        Whether ``covariance_`` and ``precision_`` are sparse: a ``csr_array``, or a sparse CSR tensor for
        tensors. None means that they are sparse with more than ``dense_limit`` features.
    dense_limit : int, default=4096
        The most features for which the N×N sample covariance is formed and the result is dense.

    Attributes
    ----------
    precision_ : ndarray or Tensor of shape (N, N)
        Its inverse, dense or sparse as ``covariance_``. A constant feature has a row of zeros in both.
    density_ : float
        Share of off-diagonal entries of ``precision_`` that are not zero.
    n_components_ : int
        Number of groups of features that are independent of each other.
    n_iter_ : int
        Most sweeps of any component; 0 where all have closed forms (one or two features).
    ridge_ : float
        The largest ridge that a component needed, 0 in good cases.
    covariance_ : ndarray or Tensor of shape (N, N)
        Block diagonal up to the order of the features, with the sample variances. A ``csr_array`` or sparse CSR
        tensor with more than ``dense_limit`` features; see ``sparse_output``.
    location_, n_features_in_, feature_names_in_
        As in :class:`HardThreshold`.

    Notes
    -----
    The connected components of the graph :math:`|r_{ij}| > \alpha` are exactly the blocks of the
    solution [1]_ [2]_; without missing values the N×N matrix is never formed with more
    than ``dense_limit`` features. Where the solver fails on a block, it is tried again on
    :math:`(R + \epsilon I)/(1 + \epsilon)` for a few :math:`\epsilon` up to 0.1, with a warning.

    References
    ----------
    .. [1] D. Witten, J. Friedman and N. Simon, New insights and faster computations for the graphical
       lasso, JCGS 2011.
    .. [2] R. Mazumder and T. Hastie, Exact covariance thresholding into connected components for
       large-scale graphical lasso, JMLR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.covariance import GraphicalLasso
    >>> X = np.random.default_rng(0).standard_normal((200, 4))
    >>> X[:, 1] += X[:, 0]
    >>> lasso = GraphicalLasso(alpha=0.3).fit(X)
    >>> lasso.n_components_
    3
    >>> lasso.precision_.round(2)
    array([[ 1.28, -0.39,  0.  ,  0.  ],
           [-0.39,  0.65,  0.  ,  0.  ],
           [ 0.  ,  0.  ,  0.95,  0.  ],
           [ 0.  ,  0.  ,  0.  ,  0.92]])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "alpha": share(above=True),
        "max_iter": integer(1),
        "tol": number(0, above=True),
        "enet_tol": number(0, above=True),
        "n_jobs": anything("int or None"),
        "missing": one_of("raise", "pairwise"),
        "sparse_output": boolean(optional=True),
        "dense_limit": integer(0),
    }

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        max_iter: int = 100,
        tol: float = 0.0001,
        enet_tol: float = 1e-07,
        n_jobs: int | None = None,
        missing: str = "raise",
        sparse_output: bool | None = None,
        dense_limit: int = 4096,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.enet_tol = enet_tol
        self.n_jobs = n_jobs
        self.missing = missing
        self.sparse_output = sparse_output
        self.dense_limit = dense_limit

    @at_once
    def fit(self, X: DataLike, y: object = None, sample_weight: ColumnLike | None = None) -> Self:
        """Estimate the covariance of ``X``, of shape (t, N) or (t, N, F); see :meth:`HardThreshold.fit`."""
        check_parameters(self)
        data: Any = self._check(X)
        rows, weight = to_numpy(data), to_numpy(check_weight(sample_weight, data))
        location, C = self._screened(rows, weight)
        sd = np.sqrt(np.clip(C.diagonal().astype(np.float64), 0, None))
        groups = _components(C, sd, self.alpha)
        options = {"tol": self.tol, "enet_tol": self.enet_tol, "max_iter": self.max_iter}
        linked = (_correlations(rows, weight, C, sd, group) for group in groups if len(group) > 1)
        solutions = Parallel(n_jobs=self.n_jobs)(delayed(_solve)(R, self.alpha, **options) for R in linked)
        solutions += [_Solution(np.ones((1, 1)), np.ones((1, 1)), 0, 0.0)] * (len(groups) - len(solutions))
        precision = _block_matrix(groups, [s.precision for s in solutions], 1 / np.where(sd > 0, sd, 1))
        covariance = _block_matrix(groups, [s.covariance for s in solutions], sd)
        sparse = len(sd) > self.dense_limit if self.sparse_output is None else bool(self.sparse_output)
        self.location_ = like(location, data)
        self.covariance_, self.precision_ = (stored_like(C, data, sparse) for C in (covariance, precision))
        self.density_ = off_diagonal_density(precision)
        self.n_components_ = len(groups) + int((sd == 0).sum())
        self.n_iter_ = max((solution.n_iter for solution in solutions), default=0)
        self.ridge_ = max((solution.ridge for solution in solutions), default=0.0)
        if self.ridge_:
            warnings.warn(
                f"the graphical lasso at alpha={self.alpha:g} needed a ridge of {self.ridge_:g} to converge; "
                "a larger alpha or more samples would do without.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def get_precision(self) -> Matrix | Tensor:
        """Return ``precision_``."""
        check_is_fitted(self)
        return self.precision_

    def _screened(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, Matrix]:
        """Return the means and the covariances; without missing values only those above the penalty, sparse."""
        if self.missing == "pairwise":
            location, C, _ = sample_moments(X, 0, weight, self.missing)
            return location, C
        # A little below alpha, for rounding in the screen: what is linked needlessly is still solved exactly.
        t = effective_samples(weight)
        scale = (1 - 1e-6) * self.alpha / universal_threshold(t, max(X.shape[1], 2), scale=1.0)
        screen = HardThreshold(scale=scale, dense_limit=self.dense_limit, sparse_output=True)
        screen.fit(X, sample_weight=weight)
        return to_numpy(screen.location_), cast(Matrix, screen.covariance_)


class _Solution(NamedTuple):
    covariance: np.ndarray
    precision: np.ndarray
    n_iter: int
    ridge: float


def _components(C: Matrix, sd: np.ndarray, alpha: float) -> list[np.ndarray]:
    """Return the features of every component of the graph of correlations above alpha, the largest first."""
    varying = np.flatnonzero(sd)
    if not varying.size:
        return []
    screened = hard_threshold(C, alpha * np.outer(sd, sd)) if isinstance(C, np.ndarray) else C
    graph = sp.csr_array(screened)[varying][:, varying]
    graph.eliminate_zeros()
    return [varying[nodes] for parts in reversed(connected_parts(graph)) for nodes in parts]


def _correlations(X: np.ndarray, weight: np.ndarray, C: Matrix, sd: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return all correlations within a component."""
    if sp.issparse(C):
        block = sample_moments(X[:, group].astype(np.float64), 0, weight).covariance
    else:
        block = C[np.ix_(group, group)].astype(np.float64)
    R: np.ndarray = block / np.outer(sd[group], sd[group])
    np.fill_diagonal(R, 1.0)
    return R


def _solve(R: np.ndarray, alpha: float, tol: float, enet_tol: float, max_iter: int) -> _Solution:
    """Solve one component of at least two features."""
    n = len(R)
    W = soft_threshold(R, alpha)
    if n == 2 and abs(W[0, 1]) < 1:
        return _Solution(W, (2 * np.eye(2) - W) / (1 - W[0, 1] ** 2), 0, 0.0)
    for ridge in _RIDGES:
        S = R / (1 + ridge)
        np.fill_diagonal(S, 1.0)
        # The solver's gap may be nearly 0 after two sweeps, far from the solution: it only counts where W is
        # feasible in the dual problem. Where it is not, the solver continues for a fixed number of sweeps.
        for stop, sweeps in ((tol, max_iter), (_NEVER, 10), (_NEVER, 30), (_NEVER, max_iter)):
            T, gap, n_iter = _run(S, alpha, tol=stop, enet_tol=enet_tol, max_iter=min(sweeps, max_iter))
            if abs(gap) < tol:
                # The solver's W lags behind Θ, so it is computed again, and scaled to an exact unit diagonal.
                W = np.linalg.inv(T)
                d = np.sqrt(W.diagonal())
                W, T = (W + W.T) / (2 * np.outer(d, d)), T * np.outer(d, d)
                np.fill_diagonal(W, 1.0)
                if np.abs(W - S).max() <= 1.02 * alpha + 1e-4:
                    return _Solution(W, T, n_iter, ridge)
            elif sweeps == max_iter:
                break
    raise ConvergenceError(
        f"the graphical lasso at alpha={alpha:g} did not converge on a component of {n} features, not even with a "
        f"ridge of {_RIDGES[-1]:g}. Use a larger alpha, a larger max_iter (now {max_iter}), more samples, "
        'or another covariance such as "hard" or "ledoit_wolf".'
    )


def _run(S: np.ndarray, alpha: float, **options: float) -> tuple[np.ndarray, float, int]:
    """Return scikit-learn's precision, its duality gap (infinite after a breakdown) and the number of sweeps."""
    from sklearn.covariance import graphical_lasso  # slow to import

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, T, costs, n_iter = graphical_lasso(S, alpha, return_costs=True, return_n_iter=True, **options)
        np.linalg.cholesky(T)  # raises where it is not positive definite
    except (ArithmeticError, np.linalg.LinAlgError):
        return S, np.inf, 0
    return T, costs[-1][1], n_iter


def _block_matrix(groups: list[np.ndarray], blocks: list[np.ndarray], scale: np.ndarray) -> sp.csr_array:
    """Return the sparse matrix with the blocks at their groups, scaled on both sides."""
    none = np.empty(0, dtype=np.intp)
    rows = np.concatenate([none, *(np.repeat(g, len(g)) for g in groups)])
    columns = np.concatenate([none, *(np.tile(g, len(g)) for g in groups)])
    values = np.concatenate([none, *(b.ravel() for b in blocks)]) * (scale[rows] * scale[columns])
    matrix = sp.csr_array((values, (rows, columns)), shape=(len(scale), len(scale)))
    matrix.eliminate_zeros()
    return matrix
