"""Expected errors by drawing realisations: of any filter, also on large sparse covariances, and of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from svnn._types import DataLike, Matrix, MatrixLike, RandomState
from svnn.functional._array import generator
from svnn.functional._matrix import numpy_matrix
from svnn.functional.masks import floor_probabilities
from svnn.inspection._fitted import Model, network_of, trained_use
from svnn.stability._inputs import FilterLike, ProbabilityLike, check_integer, dense, same_shape
from svnn.stability._sparsification import Signals, entries, signals_for

#: The largest number of values of dense realisations that are drawn together.
_BATCH_VALUES = 2**20


class MonteCarloError(NamedTuple):
    """The mean of a squared error over ``n_draws`` draws, and the standard error of that mean."""

    mean: float
    standard_error: float
    n_draws: int


class NetworkMonteCarlo(NamedTuple):
    """Mean squared differences of the node embeddings and of the output, each a :class:`MonteCarloError`."""

    embedding: MonteCarloError
    output: MonteCarloError


def monte_carlo_error(
    h: FilterLike,
    C: MatrixLike,
    P: ProbabilityLike,
    x: DataLike | None = None,
    *,
    n_draws: int = 1000,
    random_state: RandomState = None,
    moment: MatrixLike | None = None,
    reference: MatrixLike | None = None,
    shared: bool = False,
    unbiased: bool = False,
) -> MonteCarloError:
    r"""Estimate the expected squared error of a filter whose covariance is stochastically sparsified.

    Parameters
    ----------
    h, C, P, x, moment, reference, shared, unbiased
        As for :func:`svnn.stability.expected_error`, but ``shared`` works for any K. A sparse ``C`` is never made
        dense.
    n_draws : int, default=1000
        At least 2. A draw is a realisation for each of the K shifts, or one for all of them with ``shared=True``.
    random_state : int, Generator or None

    Returns
    -------
    MonteCarloError
        ``mean``, ``standard_error``, ``n_draws``.

    Notes
    -----
    The mean of :math:`\|H(\hat C)x - H(\tilde C)x\|^2` over independent draws is unbiased, and its standard error is
    the standard deviation of the draws over :math:`\sqrt n`. Without ``x`` every draw has another signal,
    :math:`x = Fz` with random signs z and :math:`FF^\top = \mathbb E[xx^\top]`.

    With ``unbiased=True`` entries of small probability are rare and large: the errors then have a heavy tail, and
    the standard error itself needs many draws. :func:`svnn.stability.expected_error` is exact where it applies.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.stability import expected_error
    >>> C = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> error = monte_carlo_error([0.0, 1.0, 1.0], C, 0.75, n_draws=5000, random_state=0)
    >>> exact = expected_error([0.0, 1.0, 1.0], C, 0.75)
    >>> abs(error.mean - exact) < 4 * error.standard_error
    True
    """
    matrix, c, p = entries(numpy_matrix(C), P)
    sparse = sp.issparse(matrix)
    target_matrix = matrix if reference is None else (numpy_matrix if sparse else dense)(reference, "reference")
    same_shape(reference=target_matrix, C=matrix)
    n, n_draws = matrix.shape[0], check_draws(n_draws)
    s = signals_for(matrix, h, x, moment)
    rng = generator(random_state)
    realise, probe = _realisations(matrix, c, p, unbiased, rng), _probes(s, n, rng)

    columns = (1 if s.X is None else s.X.shape[1]) * max(s.W.shape[1:])
    size = 1 if sparse else max(1, _BATCH_VALUES // max(1, n * (n + columns)))
    if s.X is not None:
        signal = s.X.reshape(n, -1)
        target = _filter([target_matrix] * s.order, signal, s.W)
    squares = []
    for start in range(0, n_draws, size):
        batch = min(size, n_draws - start)
        if s.X is None:
            signal = probe(batch)
            target = _filter([target_matrix] * s.order, signal, s.W)
        shifts = [realise(batch) for _ in range(min(s.order, 1) if shared else s.order)]
        difference = _filter(shifts * s.order if shared else shifts, signal, s.W) - target
        squares.append(np.broadcast_to(np.square(difference).sum((-3, -2, -1)), batch))
    return summarise(np.concatenate(squares))


def monte_carlo_network(
    model: Model,
    estimator: BaseEstimator,
    X: DataLike,
    *,
    reference: MatrixLike | None = None,
    n_draws: int = 100,
    random_state: RandomState = None,
) -> NetworkMonteCarlo:
    r"""Estimate how far the embeddings and outputs of a trained network move when its covariance is sparsified.

    Parameters
    ----------
    model : S-VNN or blend
        Fitted. Its filters are the same on every realisation, see :meth:`svnn.SVNNRegressor.on`. The embeddings of a
        blend are those of the S-VNN ``model.network_part``.
    estimator : ACV or RCV
        Fitted, on the scale of the standardised features of the model; its ``sample`` draws the realisations.
    X : array or data frame of shape (t, N) or (t, N, F)
    reference : matrix, operator or fitted estimator, optional
        The covariance to compare with; by default that of the model itself.
    n_draws : int, default=100
        At least 2. A draw is one realisation, used by every shift of every layer.
    random_state : int, Generator or None

    Returns
    -------
    NetworkMonteCarlo
        ``embedding`` and ``output``: means of

        .. math:: \frac1t \sum_{s=1}^t \|\Phi(x_s; \hat C) - \Phi(x_s; \tilde C)\|^2

        over the draws, with standard errors. The output is what ``predict`` returns for a regressor, and the
        probabilities of the classes for a classifier.

    Examples
    --------
    >>> from svnn import ACV, SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=60, n_features=8, random_state=0)
    >>> Z = (data.X - data.X.mean(0)) / data.X.std(0)
    >>> model = SVNNRegressor(covariance="sample", max_epochs=5, shrink=False, random_state=0).fit(Z, data.y)
    >>> error = monte_carlo_network(model, ACV().fit(Z), Z, n_draws=10, random_state=0)
    >>> error.output.mean > 0 and error.embedding.standard_error < error.embedding.mean
    True
    """
    check_is_fitted(model)
    if not hasattr(estimator, "sample") or not hasattr(estimator, "covariance_"):
        raise ValueError(
            f"estimator must be a fitted stochastic sparsifier such as ACV or RCV, got {type(estimator).__name__}."
        )
    if trained_use(model) == "precision":
        raise ValueError('the model was trained with use="precision"; realisations of a covariance do not replace it.')
    n_draws = check_draws(n_draws)
    rng = generator(random_state)
    base = model if reference is None else model.on(reference)
    embedding, output = network_of(base).embed(X), _output(base, X)

    squares = np.empty((2, n_draws))
    for draw in range(n_draws):
        other = model.on(estimator.sample(rng))
        changes = network_of(other).embed(X) - embedding, _output(other, X) - output
        squares[:, draw] = [np.square(change).sum() for change in changes]
    squares /= len(embedding)
    return NetworkMonteCarlo(summarise(squares[0]), summarise(squares[1]))


def check_draws(n_draws: int) -> int:
    """Return the number of draws, at least 2."""
    return check_integer(n_draws, "n_draws must be an integer of at least 2, for a standard error", 2)


def summarise(values: np.ndarray) -> MonteCarloError:
    """Return the mean of independent draws with its standard error."""
    return MonteCarloError(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))), len(values))


def _filter(shifts: Sequence[Matrix], x: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return ``sum_k C_k … C_1 x W_k`` for x of shape (…, N, t * in), of shape (…, N, t, out)."""
    result = x.reshape(*x.shape[:-1], -1, W.shape[1]) @ W[0]
    for C, weight in zip(shifts, W[1:], strict=True):
        x = C @ x
        result = result + x.reshape(*x.shape[:-1], -1, W.shape[1]) @ weight
    return result


def _realisations(
    C: Matrix, c: np.ndarray, p: np.ndarray, unbiased: bool, rng: np.random.Generator
) -> Callable[[int], Matrix]:
    """Return a function that draws realisations: of shape (batch, N, N), or one csr_array where C is sparse."""
    n = C.shape[0]
    values, p = np.ravel(c), np.ravel(p)
    if isinstance(C, np.ndarray):
        rows, columns = np.divmod(np.arange(n * n), n)
    else:
        rows, columns = np.repeat(np.arange(n), np.diff(C.indptr)), C.indices
    random = (values != 0) & (p < 1)
    upper, lower = np.flatnonzero(random & (rows < columns)), np.flatnonzero(random & (rows > columns))
    lower = lower[np.lexsort((rows[lower], columns[lower]))]  # the mirror images of ``upper``, in its order
    keep = floor_probabilities(p[upper]) if unbiased else p[upper]
    kept = values[upper] / keep if unbiased else values[upper]

    def draw(batch: int) -> Matrix:
        drawn = np.where(rng.random((batch, len(keep))) < keep, kept, 0.0)
        result = np.repeat(values[None], batch, 0)
        result[:, upper] = drawn
        result[:, lower] = drawn
        if isinstance(C, np.ndarray):
            return result.reshape(batch, n, n)
        return sp.csr_array((result[0], C.indices, C.indptr), C.shape)

    return draw


def _probes(s: Signals, n: int, rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """Return a function that draws signals of shape (batch, N, 1), (N, 1) for a single one, of the given moment."""
    factor = None if s.moment is None else _root(s.moment)

    def draw(batch: int) -> np.ndarray:
        signs = 2.0 * rng.integers(2, size=(n, 1) if batch == 1 else (batch, n, 1)) - 1
        return signs if factor is None else factor @ signs

    return draw


def _root(S: np.ndarray) -> np.ndarray:
    """Return F with F Fᵀ = S."""
    values, vectors = np.linalg.eigh(S)
    if values.min() < -1e-8 * abs(values).max():
        raise ValueError(f"moment is not a second moment E[xxᵀ]: it has the negative eigenvalue {values.min():.3g}.")
    return vectors * np.sqrt(values.clip(0))


def _output(model: Model, X: DataLike) -> np.ndarray:
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
