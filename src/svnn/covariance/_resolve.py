"""From the name of a covariance to an estimator, and from any estimator to a fitted one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TypeVar, cast

from sklearn.base import BaseEstimator, clone
from sklearn.covariance import OAS, LedoitWolf
from threadpoolctl import threadpool_limits

from svnn._types import AnyArray, ColumnLike, HasCovariance, HasFit, MatrixLike
from svnn.covariance._bands import Banding, Tapering
from svnn.covariance._base import CovarianceEstimator
from svnn.covariance._factor_threshold import FactorThreshold
from svnn.covariance._graphical_lasso import GraphicalLasso
from svnn.covariance._sample_covariance import SampleCovariance
from svnn.covariance._scatter import HuberCovariance, TylerCovariance
from svnn.covariance._significant_edges import SignificantEdges
from svnn.covariance._stochastic import ACV, RCV
from svnn.covariance._thresholds import AdaptiveThreshold, HardThreshold, SoftThreshold
from svnn.functional._matrix import factored_matrix

Estimator = TypeVar("Estimator", bound=HasFit)

#: Features beyond which estimators from elsewhere get a single BLAS thread.
_WIDE = 4096

#: The estimators of this package by name. Names, stored models and the common tests all follow this list.
OURS: dict[str, type[CovarianceEstimator]] = {
    "sample": SampleCovariance,
    "hard": HardThreshold,
    "soft": SoftThreshold,
    "adaptive": AdaptiveThreshold,
    "acv": ACV,
    "rcv": RCV,
    "graphical_lasso": GraphicalLasso,
    "tyler": TylerCovariance,
    "huber": HuberCovariance,
    "factors": FactorThreshold,
    "banding": Banding,
    "tapering": Tapering,
    "significant": SignificantEdges,
}
#: All names that ``covariance=`` takes.
NAMES: dict[str, type[BaseEstimator]] = {**OURS, "ledoit_wolf": LedoitWolf, "oas": OAS}


def resolve(covariance: str | HasFit, seed: int | None = None) -> HasFit:
    """Return an unfitted covariance estimator for a name or an estimator.

    ``seed`` becomes its ``random_state``, unless it has one already or takes none.

    Examples
    --------
    >>> resolve("rcv")
    RCV()
    >>> resolve("banded")
    Traceback (most recent call last):
        ...
    ValueError: covariance='banded' is not known; use 'sample', 'hard', 'soft', 'adaptive', 'acv', \
'rcv', 'graphical_lasso', 'tyler', 'huber', 'factors', 'banding', 'tapering', 'significant', \
'ledoit_wolf', 'oas' or any estimator with fit and covariance_.
    """
    if isinstance(covariance, str):
        if covariance not in NAMES:
            names = ", ".join(map(repr, NAMES))
            raise ValueError(
                f"covariance={covariance!r} is not known; use {names} or any estimator with fit and covariance_."
            )
        estimator: HasFit = NAMES[covariance]()
    elif not hasattr(covariance, "fit") or isinstance(covariance, type):
        raise ValueError(
            f"covariance must be a name or an estimator instance with fit and covariance_, got {covariance!r}."
        )
    else:
        estimator = clone(covariance, safe=False)  # also of classes that are no scikit-learn estimators
    parameters: dict[str, object] = getattr(estimator, "get_params", dict)()
    if seed is not None and parameters.get("random_state", seed) is None:
        cast(BaseEstimator, estimator).set_params(random_state=seed)
    return estimator


def fit_covariance(
    estimator: HasFit, X: AnyArray, sample_weight: ColumnLike | None = None, y: ColumnLike | None = None
) -> HasCovariance:
    """Fit any covariance estimator on (t, N) or (t, N, F) data and return it.

    Estimators of other packages take two dimensions and no weights: they get the F values as further rows, all alike.
    Only those that need the targets ``y``, such as ``WithinClass``, get them.
    """
    if X.ndim == 3 and X.shape[2] == 1:
        X = X[..., 0]
    try:
        tags = getattr(estimator, "__sklearn_tags__", None)
        if tags is not None and tags().target_tags.required:
            estimator.fit(X, y, sample_weight=sample_weight)
        elif isinstance(estimator, CovarianceEstimator):
            estimator.fit(X, sample_weight=sample_weight)
        else:
            # OpenBLAS crashes in the symmetric product of very wide float64 data on several threads.
            with threadpool_limits(1, user_api="blas") if X.shape[1] > _WIDE else nullcontext():
                estimator.fit(X if X.ndim == 2 else X.swapaxes(1, 2).reshape(-1, X.shape[1]))
    except FloatingPointError as error:
        raise ValueError(
            f"{type(estimator).__name__} did not converge on this data: {error}. Use a larger penalty, "
            'more samples, or another covariance such as "hard" or "ledoit_wolf".'
        ) from error
    if not hasattr(estimator, "covariance_"):
        raise ValueError(f"{type(estimator).__name__} has no covariance_ after fit; it cannot be a covariance.")
    return cast(HasCovariance, estimator)


def shift_matrix(estimator: HasCovariance, use: str) -> MatrixLike:
    """Return the fitted estimator's ``covariance_`` or, with ``use="precision"``, its ``precision_``.

    A covariance of factors and a sparse rest comes as these two, the cheaper shift.
    """
    if use != "precision":
        return factored_matrix(estimator) or estimator.covariance_
    precision = getattr(estimator, "precision_", None)
    if precision is None:
        raise ValueError(
            f'use="precision" needs an estimator with precision_, such as "graphical_lasso"; '
            f"{type(estimator).__name__} has none."
        )
    return precision
