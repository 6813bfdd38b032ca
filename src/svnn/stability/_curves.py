"""One trained network on many covariances: how far its outputs move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from svnn._progress import progress
from svnn._types import ColumnLike, DataLike, Matrix, MatrixLike, RandomState
from svnn.covariance import SampleCovariance, resolve
from svnn.functional._array import generator, is_torch, to_numpy, unit_interval
from svnn.functional._matrix import numpy_matrix
from svnn.operators import CovarianceOperator
from svnn.stability._inputs import check_integer, data
from svnn.stability._records import Records
from svnn.stability._spectrum import frobenius, spectral_norm


class Movable(Protocol):
    """A fitted model that can be moved to another covariance, such as SVNNRegressor and SVNNClassifier."""

    operator_: CovarianceOperator

    def on(self, covariance: Any, X: DataLike | None = None) -> Movable:
        """Return the model on another covariance, which is fitted on ``X`` where it is not fitted yet."""
        ...

    def embed(self, X: DataLike) -> np.ndarray:
        """Return the node embeddings."""
        ...

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predictions."""
        ...


def stability_curve(
    model: Movable,
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
    r"""Measure how far a trained network moves when its covariance is estimated anew.

    Give exactly one of ``sizes``, ``levels`` and ``dimensions``: the axis of the curve.

    Parameters
    ----------
    model : fitted SVNNRegressor or SVNNClassifier
        Its weights and standardisation stay as they are; only the covariance changes.
    X_test : array or data frame of shape (t, N) or (t, N, F)
        Where outputs are compared.
    estimator : covariance estimator or name
        Estimates the covariance of rows of ``X_pool``, on the scale of the standardised features of the model. Its
        ``random_state``, where it has one, is set anew for every repeat.
    X_pool : array or data frame of shape (T, N) or (T, N, F)
        The rows that samples are drawn from; better not those of ``X_test``.
    sizes : sequence of int, optional
        Numbers of rows. The covariance is estimated from so many rows of the pool, drawn without replacement.
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
    >>> model = SVNNRegressor(covariance="precomputed", shift=data.covariance, max_epochs=20, random_state=0)
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
        raise ValueError("n_samples goes with dimensions only; elsewhere the axis says how many rows there are.")
    repeats = check_integer(repeats, "repeats must be an integer >= 1", 1)
    if np.ndim(X_pool) not in (2, 3):
        raise ValueError(f"X_pool must have shape (T, N) or (T, N, F), got {np.shape(X_pool)}.")
    pool = data(X_pool, "stability_curve")
    X_test = to_numpy(X_test) if is_torch(X_test) else X_test  # a frame stays one: the model knows its columns
    rows, features = pool.shape[:2]
    # Without a reference of its own the whole pool is compared with: a sample must be less than that.
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
    curve = Curve(model, X_test, pool, y_test, estimator if base is None else base)
    seeds = generator(random_state).integers(2**31, size=repeats).tolist()
    table = Records()
    with progress("stability curve", len(points) * len(seeds), verbose) as advance:
        for point in points:
            for repeat, seed in enumerate(seeds):
                table.append(curve.record(point, repeat, seed))
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
    """A point of the axis: the estimator, how many rows it sees and, where not all, how many features."""

    estimator: BaseEstimator
    n_samples: int
    n_features: int | None = None
    level: float = np.nan


class Outputs(NamedTuple):
    """A network on a covariance, that covariance, and what the network makes of the test rows."""

    network: Movable
    shift: Matrix
    embeddings: np.ndarray
    predictions: np.ndarray


class Curve:
    """What all points share: the model, the data, and the reference, which is a matrix or an estimator."""

    def __init__(
        self,
        model: Movable,
        X_test: DataLike,
        X_pool: np.ndarray,
        y_test: ColumnLike | None,
        reference: Matrix | BaseEstimator,
    ) -> None:
        self.model, self.reference = model, reference
        self.X_test, self.X_pool = X_test, X_pool
        self.y_test = None if y_test is None else to_numpy(y_test)
        if self.y_test is not None and len(self.y_test) != np.shape(X_test)[0]:
            raise ValueError(f"y_test has {len(self.y_test)} rows, X_test has {np.shape(X_test)[0]}; they must agree.")
        self._base: Outputs | None = None

    def record(self, point: Point, repeat: int, seed: int) -> dict[str, float]:
        """Draw rows, and features where the point asks for that, and compare with the reference."""
        rng = np.random.default_rng(seed)
        X_test, X_pool, reference = self.X_test, self.X_pool, self.reference
        order = rng.permutation(len(X_pool))
        if point.n_features is None:
            if self._base is None:
                self._base = _run(self.model, reference, seed, X_pool, X_test)
            base = self._base
        else:
            chosen = np.sort(rng.choice(X_pool.shape[1], point.n_features, replace=False))
            X_test, X_pool = np.asarray(X_test)[:, chosen], X_pool[:, chosen]
            reference = reference if hasattr(reference, "fit") else reference[chosen][:, chosen]
            base = _run(self.model, reference, seed, X_pool, X_test)
        # The samples of one seed are nested: each is the first n rows of the same order.
        drawn = X_pool[order[: point.n_samples]]
        # The network moves from the reference, not from the model: both matrices are then divided by the same number.
        moved = _run(base.network, point.estimator, seed, drawn, X_test)
        labels = {
            "n_samples": point.n_samples,
            "n_features": moved.shift.shape[0],
            "level": point.level,
            "repeat": repeat,
            "seed": seed,
        }
        return labels | self._changes(base, moved)

    def _changes(self, base: Outputs, moved: Outputs) -> dict[str, float]:
        change = moved.embeddings - base.embeddings
        difference = moved.shift - base.shift
        changes = {
            "embedding_error": _ratio(frobenius(change), frobenius(base.embeddings)),
            "embedding_distance": float(np.linalg.norm(change, axis=(1, 2)).mean()),
            "prediction_change": self._difference(moved.predictions, base.predictions),
            "covariance_error": _ratio(spectral_norm(difference), spectral_norm(base.shift)),
            "covariance_error_fro": _ratio(frobenius(difference), frobenius(base.shift)),
            "density": _density(moved.shift),
        }
        if self.y_test is not None:
            before, after = (self._difference(o.predictions, self.y_test) for o in (base, moved))
            changes |= {"task_error": after, "task_change": after - before}
        return changes

    def _difference(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the mean absolute difference of numbers, or the share of labels that differ."""
        return float(np.mean(a != b) if is_classifier(self.model) else np.mean(abs(a - b.reshape(a.shape))))


def _run(network: Movable, covariance: Matrix | BaseEstimator, seed: int, X: np.ndarray, X_test: DataLike) -> Outputs:
    """Run a network on a covariance; an estimator gets the seed, and is fitted on ``X``."""
    if hasattr(covariance, "fit"):
        covariance = clone(covariance, safe=False)
        if "random_state" in (covariance.get_params() if hasattr(covariance, "get_params") else {}):
            covariance.set_params(random_state=seed)
    network = network.on(covariance, X=X)
    # The logarithm of a covariance has no zeros; what is compared is the covariance itself.
    logarithm = getattr(network, "_trained_with", {}).get("use") == "log"
    shift = getattr(network, "covariance_" if logarithm else "operator_")
    return Outputs(network, numpy_matrix(shift), network.embed(X_test), network.predict(X_test))


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b > 0 else (0.0 if a == 0 else float("inf"))


def _density(C: Matrix) -> float:
    """Return the share of the off-diagonal entries that are not zero."""
    n = C.shape[0]
    kept = np.count_nonzero(C if isinstance(C, np.ndarray) else C.data)
    return float(kept - np.count_nonzero(C.diagonal())) / max(n * (n - 1), 1)
