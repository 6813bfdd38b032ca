"""One trained network on many covariances: how far its outputs move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from svnn._progress import progress
from svnn._types import ColumnLike, DataLike, Matrix, MatrixLike, RandomState
from svnn.covariance import SampleCovariance, resolve
from svnn.covariance._base import off_diagonal_density
from svnn.functional._array import generator, is_torch, to_numpy, unit_interval
from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import graph_matrix, network_of
from svnn.stability._bounds import frobenius, spectral_norm
from svnn.stability._inputs import check_integer, data
from svnn.stability._records import Records


def stability_curve(
    model: Any,
    X_test: DataLike,
    estimator: str | BaseEstimator,
    X_pool: DataLike,
    sizes: Sequence[int] | None = None,
    *,
    levels: Sequence[float] | None = None,
    dimensions: Sequence[int] | None = None,
    y_test: ColumnLike | None = None,
    reference: MatrixLike | None = None,
    n_samples: int | None = None,
    repeats: int = 10,
    random_state: RandomState = None,
    verbose: bool = False,
) -> Records:
    r"""Measure how far the outputs of a trained network move when its covariance is estimated from other rows.

    Give exactly one of ``sizes``, ``levels`` and ``dimensions``: the axis of the curve.

    Parameters
    ----------
    model : fitted S-VNN or blend
        Or any other model with ``on``, ``embed`` and ``covariance_``. Weights and standardisation stay as they are;
        only the covariance changes. The embeddings of a blend are those of the S-VNN ``model.network_part``.
    X_test : array or data frame of shape (t, N) or (t, N, F)
        Where outputs are compared.
    estimator : covariance estimator or name
        Estimates the covariance of rows of ``X_pool``, on the scale of the standardised features of the model. Its
        ``random_state``, if it has one, is set for every repeat.
    X_pool : array or data frame of shape (T, N) or (T, N, F)
        The rows that samples are drawn from, preferably other rows than those of ``X_test``.
    sizes : sequence of int, optional
        Numbers of rows of the pool, drawn without replacement, from which the covariance is estimated.
    levels : sequence of float in [0, 1], optional
        Sparsification levels. Each is set as the parameter ``density`` or ``p`` of the estimator, which is fitted on
        the whole pool.
    dimensions : sequence of int, optional
        Numbers of features, drawn at random; needs a network with ``readout="mean"``. The covariance is
        estimated from ``n_samples`` rows.
    y_test : array of shape (t,), optional
        Targets or labels of ``X_test``; adds the error of the predictions to the table.
    reference : matrix of shape (N, N), optional
        The covariance to compare with, such as the true one, on the scale of the standardised features. By
        default that of the estimator on the whole pool; with ``levels`` the sample covariance of the pool.
    n_samples : int, optional
        With ``dimensions``, the number of rows to estimate from; by default half of the pool.
    repeats : int, default=10
        Draws for each point. With ``levels`` only a random mask differs between repeats, so an estimator
        without masks is fitted once.
    random_state : int, Generator or None
    verbose : bool, default=False
        Show the progress: a bar on a terminal, lines elsewhere.

    Returns
    -------
    Records
        One record for each point and repeat; ``pandas.DataFrame(table)`` makes a frame of them. ``table["column"]``
        is a column, ``table.mean("n_samples")`` holds the means over repeats. Columns:

        - ``n_samples``, ``n_features``, ``level`` (NaN without ``levels``), ``repeat``, ``seed``;
        - ``embedding_error``: :math:`\|U - U_0\|_F / \|U_0\|_F` of the node embeddings of all test rows, on the
          estimate and on the reference; ``embedding_distance``: the mean over rows of :math:`\|u - u_0\|_F`;
        - ``prediction_change``: the mean absolute change of the predictions, or the share of labels that changed;
        - ``covariance_error``, ``covariance_error_fro``: :math:`\|C - C_0\| / \|C_0\|` in the spectral and the
          Frobenius norm; ``density``: the share of off-diagonal entries that are not zero;
        - with ``y_test``: ``task_error``, the mean absolute error or the share of wrong labels, and
          ``task_change``, the difference to the same error on the reference.

    Notes
    -----
    Both runs apply the same filters: the matrices are divided by the same number before the network sees them,
    see :meth:`svnn.SVNNRegressor.on`. The samples of one repeat are nested, so curves are smooth in n. A reference
    fitted on the pool has seen the rows of every sample, so the difference falls to zero as n comes close to T. Where
    that matters, give the true covariance as reference, or a pool much larger than the sizes.

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=600, n_features=20, random_state=0)
    >>> model = SVNNRegressor(covariance=data.covariance, max_epochs=20, random_state=0)
    >>> model = model.fit(data.X[:200], data.y[:200])
    >>> table = stability_curve(
    ...     model, data.X[200:250], "hard", data.X[250:], sizes=(50, 300), reference=data.covariance,
    ...     repeats=3, random_state=0,
    ... )
    >>> few, many = table.mean("n_samples")["embedding_error"]
    >>> bool(few > many > 0)
    True
    """
    check_is_fitted(model)
    axes = {"sizes": sizes, "levels": levels, "dimensions": dimensions}
    given = [name for name, values in axes.items() if values is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of sizes, levels and dimensions, got {' and '.join(given) or 'none'}.")
    if n_samples is not None and dimensions is None:
        raise ValueError("n_samples is for dimensions only; with sizes and levels the axis sets the number of rows.")
    repeats = check_integer(repeats, "repeats must be an integer >= 1", 1)
    if np.ndim(X_pool) not in (2, 3):
        raise ValueError(f"X_pool must have shape (T, N) or (T, N, F), got {np.shape(X_pool)}.")
    pool = data(X_pool, "stability_curve")
    X_test = to_numpy(X_test) if is_torch(X_test) else X_test  # frames keep their columns, which the model checks
    y = None if y_test is None else to_numpy(y_test)
    if y is not None and len(y) != np.shape(X_test)[0]:
        raise ValueError(f"y_test has {len(y)} rows, X_test has {np.shape(X_test)[0]}; they must agree.")
    rows, features = pool.shape[:2]
    # Without a reference the estimate on the whole pool is the reference: a sample must be smaller than the pool.
    most = rows if reference is not None else rows - 1
    estimator = resolve(estimator)
    base = None if reference is None else numpy_matrix(reference, "reference")
    (values,) = ([*axis] for axis in axes.values() if axis is not None)
    if sizes is not None:
        points = [Point(estimator, n) for n in _counts(values, "sizes", most, "rows of X_pool")]
    elif levels is not None:
        points = [Point(_at_level(estimator, level), rows, level=level) for level in values]
        base = SampleCovariance() if base is None else base
        repeats = repeats if hasattr(estimator, "sample") else 1
    else:
        (n,) = _counts([rows // 2 if n_samples is None else n_samples], "n_samples", most, "rows of X_pool")
        points = [Point(estimator, n, d) for d in _counts(values, "dimensions", features, "features of X_pool")]
    reference = estimator if base is None else base
    seeds = generator(random_state).integers(2**31, size=repeats).tolist()
    whole = None if dimensions is not None else _run(model, reference, seeds[0], pool, X_test)
    table = Records()
    with progress("stability curve", len(points) * len(seeds), verbose) as advance:
        for point in points:
            for repeat, seed in enumerate(seeds):
                before, after = _draw(model, point, reference, whole, seed, pool, X_test)
                n = after.covariance.shape[0]
                place = {"n_samples": point.n_samples, "n_features": n, "level": point.level}
                changes = _changes(before, after, is_classifier(model), y)
                table.append({**place, "repeat": repeat, "seed": seed, **changes})
                advance()
    return table


def _counts(values: Sequence[object], name: str, most: int, what: str) -> list[int]:
    """Return numbers of rows or features, each from 2 to ``most``."""
    return [check_integer(n, f"{name} must hold integers from 2 to {most} ({what})", 2, most) for n in values]


def _at_level(estimator: BaseEstimator, level: float) -> BaseEstimator:
    """Return the estimator with its parameter ``density`` or ``p`` set to ``level``."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    name = next((name for name in ("density", "p") if name in parameters), None)
    if name is None:
        raise ValueError(
            f"levels needs an estimator with a parameter density or p, such as HardThreshold, ACV or RCV; "
            f"{type(estimator).__name__} has none."
        )
    return clone(estimator).set_params(**{name: unit_interval(level, "levels")})


# -- the points of a curve --------------------------------------------------------------------------


class Point(NamedTuple):
    """A point of the axis: the estimator, its number of rows and, where not all are used, of features."""

    estimator: BaseEstimator
    n_samples: int
    n_features: int | None = None
    level: float = np.nan


class Run(NamedTuple):
    """A model on a covariance, the matrix of its edges, and the embeddings and predictions of the test rows."""

    network: Any
    covariance: Matrix
    embeddings: np.ndarray
    predictions: np.ndarray


def _draw(
    model: Any,
    point: Point,
    reference: Matrix | BaseEstimator,
    whole: Run | None,
    seed: int,
    X_pool: np.ndarray,
    X_test: DataLike,
) -> tuple[Run, Run]:
    """Draw rows, and features where the point has fewer than all; run the network on the reference and the estimate.

    ``whole`` is the run on the reference with all features.
    """
    rng = np.random.default_rng(seed)
    # The samples of one seed are nested: each is the first n rows of the same order.
    rows = rng.permutation(len(X_pool))[: point.n_samples]
    if whole is None:
        chosen = np.sort(rng.choice(X_pool.shape[1], point.n_features, replace=False))
        X_test, X_pool = np.asarray(X_test)[:, chosen], X_pool[:, chosen]
        reference = reference if hasattr(reference, "fit") else reference[chosen][:, chosen]
        whole = _run(model, reference, seed, X_pool, X_test)
    # The network moves from the reference, not from the model: both matrices are then divided by the same number.
    return whole, _run(whole.network, point.estimator, seed, X_pool[rows], X_test)


def _run(network: Any, covariance: Matrix | BaseEstimator, seed: int, X: np.ndarray, X_test: DataLike) -> Run:
    """Run a network on a covariance; an estimator gets the seed, and is fitted on ``X``."""
    if hasattr(covariance, "fit"):
        covariance = clone(covariance, safe=False)
        if "random_state" in (covariance.get_params() if hasattr(covariance, "get_params") else {}):
            covariance.set_params(random_state=seed)
    network = network.on(covariance, X=X)
    of = network_of(network)
    matrix = graph_matrix(of) if hasattr(of, "shift_") else of.covariance_
    return Run(network, numpy_matrix(matrix), of.embed(X_test), network.predict(X_test))


def _changes(before: Run, after: Run, labels: bool, y: np.ndarray | None) -> dict[str, float]:
    """Return the columns of the table that compare two runs; ``labels`` says whether predictions are classes."""

    def difference(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.mean(a != b) if labels else np.mean(abs(a - b.reshape(a.shape))))

    moved, change = after.embeddings - before.embeddings, after.covariance - before.covariance
    columns = {
        "embedding_error": _ratio(frobenius(moved), frobenius(before.embeddings)),
        "embedding_distance": float(np.linalg.norm(moved, axis=(1, 2)).mean()),
        "prediction_change": difference(after.predictions, before.predictions),
        "covariance_error": _ratio(spectral_norm(change), spectral_norm(before.covariance)),
        "covariance_error_fro": _ratio(frobenius(change), frobenius(before.covariance)),
        "density": off_diagonal_density(after.covariance),
    }
    if y is not None:
        error = difference(after.predictions, y)
        columns |= {"task_error": error, "task_change": error - difference(before.predictions, y)}
    return columns


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b > 0 else (0.0 if a == 0 else float("inf"))
