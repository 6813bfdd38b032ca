"""How far a trained network moves when its covariance is stochastically sparsified, by Monte Carlo."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from svnn._types import DataLike, MatrixLike, RandomState
from svnn.functional._array import generator
from svnn.stability.filters._monte_carlo import MonteCarloError, check_draws, summarise
from svnn.stability.networks._network_parts import FittedNetwork


class NetworkMonteCarlo(NamedTuple):
    """Mean squared differences of the node embeddings and of the output, each a :class:`MonteCarloError`."""

    embedding: MonteCarloError
    output: MonteCarloError


def monte_carlo_network(
    model: FittedNetwork,
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
    model : SVNNRegressor or SVNNClassifier
        Fitted. Its filters are the same on every realisation, see :meth:`svnn.SVNNRegressor.on`.
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
    >>> model = SVNNRegressor(covariance="sample", max_epochs=5, blend=False, random_state=0).fit(Z, data.y)
    >>> error = monte_carlo_network(model, ACV().fit(Z), Z, n_draws=10, random_state=0)
    >>> error.output.mean > 0 and error.embedding.standard_error < error.embedding.mean
    True
    """
    check_is_fitted(model)
    if not hasattr(estimator, "sample") or not hasattr(estimator, "covariance_"):
        raise ValueError(
            f"estimator must be a fitted stochastic sparsifier such as ACV or RCV, got {type(estimator).__name__}."
        )
    if model._as_trained("use") == "precision":
        raise ValueError('the model was trained with use="precision"; realisations of a covariance do not replace it.')
    n_draws = check_draws(n_draws)
    rng = generator(random_state)
    base = model if reference is None else model.on(reference)
    embedding, output = base.embed(X), _output(base, X)

    squares = np.empty((2, n_draws))
    for draw in range(n_draws):
        other = model.on(estimator.sample(rng))
        squares[:, draw] = np.square(other.embed(X) - embedding).sum(), np.square(_output(other, X) - output).sum()
    squares /= len(embedding)
    return NetworkMonteCarlo(summarise(squares[0]), summarise(squares[1]))


def _output(model: FittedNetwork, X: DataLike) -> np.ndarray:
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
